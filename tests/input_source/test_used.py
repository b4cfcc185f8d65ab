"""The last used tickets of towers, in the graph, with and without a failed run."""

from __future__ import annotations

import pytest

pytest.importorskip("tensorflow")

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.input_source.used import UsedTickets
from tensorpack_lite.tfutils.collection import CollectionGuard


@pytest.fixture(params=[2])
def run(sess, request):
    """A function that runs two towers with tickets at a global_step, and the UsedTickets; the parameter is a size of batches."""
    step = tf.train.get_or_create_global_step()
    tickets = [tf.placeholder(tf.int64, []) for _ in range(2)]
    used = UsedTickets()
    tensors = [used.count([tf.zeros([request.param])], ticket) for ticket in tickets]
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

    @pytest.mark.parametrize(("run", "size"), [(n, n) for n in (1, 32, 251, 1004)], indirect=["run"])
    def test_several_runs_in_a_step(self, run, size):
        """All runs of the failed step do not count, also if tickets are those of batches of any size."""
        run[0](4, size)
        for number in range(2, 100):
            run[0](5, number * size)
        assert 99 * size == run[1].last(None)
        assert size == run[1].last(5)

    def test_too_many_runs_in_a_step(self, run):
        """If only runs of the failed step are remembered, the last datapoint before it is unknown: an error."""
        for number in range(1, 300):
            run[0](5 if number > 3 else 4, number)
        assert 299 == run[1].last(None)
        with pytest.raises(RuntimeError, match="before global_step 5 is unknown, because at least 251 runs"):
            run[1].last(5)


def test_tickets_of_validation_are_not_logged(log_lines):
    """The tickets of a validation's input are no collection that its tower was not expected to change."""
    with tf.Graph().as_default():
        tf.train.get_or_create_global_step()
        guard = CollectionGuard("val", [])
        UsedTickets().count([tf.zeros([2])], tf.constant(1, tf.int64))
        guard.close(log_changes=True)
    assert not [line for line in log_lines if "Collections that grew" in line]
