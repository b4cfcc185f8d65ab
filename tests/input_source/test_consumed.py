"""The number of datapoints that runs have used, which an operation next to each dequeue counts."""

from __future__ import annotations

import pytest

pytest.importorskip("tensorflow")

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.input_source.exact.consumed import ConsumedCounter
from tensorpack_lite.loop.session import HookedSession
from tensorpack_lite.tfutils.collection import CollectionGuard
from tensorpack_lite.tfutils.varmanip import kept_variables


@pytest.fixture
def towers(sess):
    """Two towers that take one and three elements of a queue, the second after the first, and their counter."""
    queue = tf.FIFOQueue(20, [tf.float32], [[]])
    used, tensors = ConsumedCounter(5), []
    for num in (1, 3):
        with tf.control_dependencies(tensors[-1:]), tf.control_dependencies([used.count(num)]):
            tensors.append(queue.dequeue_many(num))
    sess.run([queue.enqueue_many([tf.zeros([12])]), tf.tables_initializer()])
    return tensors, used, queue


class TestNumber:
    def test_before_the_first_run(self, sess, towers):
        """Before the first run, and without towers, the number is that of the begin."""
        assert 5 == towers[1].number()
        assert 7 == ConsumedCounter(7).number()

    def test_who_runs_does_not_matter(self, sess, towers):
        """Runs of a hooked and of the raw session count what they take, and runs that take nothing do not count."""
        (one, three), used, queue = towers
        HookedSession(sess, []).run([one, three])
        sess.run(one)
        sess.run(queue.size())
        assert 5 + 4 + 1 == used.number()

    def test_several_fetches_of_a_tower(self, sess, towers):
        """A run takes one datapoint for a tower, however many of its tensors it fetches."""
        one = towers[0][0]
        sess.run([one, one + 1, tf.identity(one)])
        assert 6 == towers[1].number()

    def test_assign(self, sess, towers):
        """A number that was assigned replaces the old one, and counting continues there."""
        sess.run(towers[0][0])
        towers[1].assign(100)
        assert 100 == towers[1].number()
        sess.run(towers[0][0])
        assert 101 == towers[1].number()

    def test_what_puts_variables_back(self, sess, towers):
        """Neither the initializer of local variables nor `kept_variables` changes the number."""
        with kept_variables(sess):
            sess.run(towers[0][0])
        sess.run(tf.local_variables_initializer())
        assert 6 == towers[1].number()

    @pytest.mark.parametrize("takes", [True, False])
    def test_in_a_branch(self, sess, takes):
        """A datapoint that is taken inside a branch counts only if the branch is taken."""
        queue, used = tf.FIFOQueue(20, [tf.float32], [[]]), ConsumedCounter(0)

        def take():
            with tf.control_dependencies([used.count(1)]):
                return queue.dequeue()

        condition = tf.placeholder(tf.bool, [])
        result = tf.cond(condition, take, lambda: tf.constant(-1.0))
        sess.run([queue.enqueue_many([tf.zeros([5])]), tf.tables_initializer()])
        sess.run(result, {condition: takes})
        assert (1 if takes else 0) == used.number()
        assert (4 if takes else 5) == sess.run(queue.size())

    def test_in_a_loop(self, sess):
        """Datapoints that are taken inside a loop count in each iteration."""
        queue, used = tf.FIFOQueue(20, [tf.float32], [[]]), ConsumedCounter(0)

        def take(number, total):
            with tf.control_dependencies([used.count(1)]):
                return number + 1, total + queue.dequeue()

        result = tf.while_loop(lambda number, _: number < 3, take, [0, 0.0])
        sess.run([queue.enqueue_many([tf.ones([5])]), tf.tables_initializer()])
        assert (3, 3.0) == tuple(sess.run(result))
        assert 3 == used.number()


class TestTowers:
    def test_last_numbers(self, sess, towers):
        """The towers take their datapoints in order, so the last number of each one is known."""
        sess.run(towers[0])
        assert [6, 9] == towers[1].of_towers()
        assert [] == ConsumedCounter(3).of_towers()

    @pytest.mark.slow
    def test_a_run_that_waits(self, sess, towers):
        """While the first tower waits for its data, the run has counted for both, which `num_in` subtracts."""
        (one, three), used, _ = towers
        hooked = HookedSession(sess, [])
        for _ in range(3):
            hooked.run([one, three])
        assert 17 == used.number()
        for fetches, num in (([one, three], 4), ([one], 1)):
            with pytest.raises(tf.errors.DeadlineExceededError):
                hooked.run(fetches, options=tf.RunOptions(timeout_in_ms=500))
            assert num == used.num_in(hooked.failed)
            assert 17 == used.number() - num
            used.assign(17)


def test_counting_in_validation_is_not_logged(log_lines):
    """The variable of a validation's input is not logged as a collection that grew by surprise."""
    with tf.Graph().as_default():
        guard = CollectionGuard("val", [])
        ConsumedCounter(0).count(1)
        guard.close(log_changes=True)
    assert not [line for line in log_lines if "Collections that grew" in line]
