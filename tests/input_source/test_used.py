"""The last used tickets of towers, in the graph, with and without a failed run."""

from __future__ import annotations

import pytest

pytest.importorskip("tensorflow")

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.input_source.used import UsedTickets
from tensorpack_lite.tfutils.collection import CollectionGuard


@pytest.fixture
def run(sess):
    """A function that runs two towers with tickets at a global_step, and the UsedTickets."""
    step = tf.train.get_or_create_global_step()
    tickets = [tf.placeholder(tf.int64, []) for _ in range(2)]
    used = UsedTickets()
    tensors = [used.count([tf.zeros([2])], ticket) for ticket in tickets]
    sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])

    def run_towers(at, *numbers):
        step.load(at, sess)
        sess.run(tensors[: len(numbers)], dict(zip(tickets, numbers)))

    return run_towers, used


class TestLast:
    def test_before_the_first_run(self, run):
        """Before the first run the last ticket is 0; without tensors there is none."""
        assert 0 == run[1].last(None)
        assert UsedTickets().last(None) is None

    def test_of_all_towers(self, run):
        """The last ticket is the largest of all towers, and needs not be that of the last one."""
        run[0](0, 2, 1)
        run[0](1, 3, 4)
        run[0](2, 6, 5)
        assert 6 == run[1].last(None)

    @pytest.mark.parametrize("step", [1, 2, 7])
    def test_a_failed_run_does_not_count(self, run, step):
        """The tickets of a failed run do not count, however far global_step moves between two runs."""
        run[0](0, 1, 2)
        run[0](step, 3, 4)
        assert 2 == run[1].last(step)
        assert 4 == run[1].last(None)

    def test_several_runs_in_a_step(self, run):
        """All runs of the failed step do not count, however many there are."""
        run[0](4, 1)
        for number in range(2, 1500):
            run[0](5, number)
        assert 1499 == run[1].last(None)
        assert 1 == run[1].last(5)

    @pytest.mark.parametrize("period", [1, 2, 256, 1000])
    def test_many_steps(self, run, period):
        """A failed run does not count after many steps, only some of which take a datapoint."""
        for number in range(1, 1500):
            run[0](number * period, number)
        assert 1498 == run[1].last(1499 * period)
        assert [1499, 0] == run[1].of_last_run()


def test_tickets_of_validation_are_not_logged(log_lines):
    """The tickets of a validation's input are not logged as a collection that grew by surprise."""
    with tf.Graph().as_default():
        tf.train.get_or_create_global_step()
        guard = CollectionGuard("val", [])
        UsedTickets().count([tf.zeros([2])], tf.constant(1, tf.int64))
        guard.close(log_changes=True)
    assert not [line for line in log_lines if "Collections that grew" in line]
