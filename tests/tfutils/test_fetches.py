"""Fetches that have a value only if a branch of tf.cond was taken, in control flow of TensorFlow 1."""

from __future__ import annotations

import pytest
from fakes.control_flow import control_flow
from fakes.recording import RecordingMonitor
from fakes.trainers import CountingTrainer, run

from tensorpack_lite.callbacks.graph import ProcessTensors
from tensorpack_lite.callbacks.summary import MergeAllSummaries
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop.session import HookedSession
from tensorpack_lite.predict.base import OnlinePredictor
from tensorpack_lite.tfutils.fetches import find_conditional


@pytest.fixture(autouse=True)
def control_flow_v1():
    """Branches and loops belong to the graph itself, as under `tensorpack-lite run` and in TensorFlow 1."""
    with control_flow(is_v2=False):
        yield


class Branches:
    """
    A condition.

    Attributes:
        flag: whether the first branch is taken.
        inside: a tensor of the first branch, and inside_of_second: one of a condition in the first branch.
        outside: a tensor outside that reads `inside`.
        result: what tf.cond returns.
    """

    def __init__(self, flag=None):
        self.flag = tf.placeholder_with_default(False, [], name="flag") if flag is None else flag
        self.x = tf.placeholder_with_default([1.0, 2.0], [None], name="x")
        self.result = tf.cond(self.flag, self._build, lambda: self.x, name="choose")
        self.outside = tf.identity(self.inside, name="outside")

    def _build(self):
        self.inside = tf.multiply(self.x, 2.0, name="inside")
        self.inside_of_second = tf.cond(self.x[0] > 0, lambda: self.x + 1.0, lambda: self.x)
        return self.inside


@pytest.fixture
def branches():
    """A condition whose second branch is taken."""
    return Branches()


class TestHookedSession:
    def test_a_tensor_of_a_branch(self, sess, branches):
        """A tensor or an operation of a branch cannot be fetched, whether or not the branch is taken."""
        session = HookedSession(sess, [])
        for fetch in (branches.inside, branches.inside.op, "choose/inside:0"):
            for flag in (False, True):
                with pytest.raises(ValueError, match="'choose/inside.* cannot be fetched .*Return it from the branch"):
                    session.run(fetch, {branches.flag: flag})

    def test_the_result_of_a_condition(self, sess, branches):
        """The results of conditions and loops can be fetched. They depend on no branch, so that their steps stay fast."""
        loop = tf.while_loop(lambda i: i < 3, lambda i: i + 1, [tf.constant(0)])
        values, count = HookedSession(sess, []).run([branches.result, loop])
        assert ([1.0, 2.0], 3) == (values.tolist(), count)
        assert [] == find_conditional([branches.x, branches.result + 1.0, loop * 2])

    @pytest.mark.parametrize("kind", ["input", "nested", "control input", "switch"])
    def test_a_tensor_that_depends_on_a_branch(self, sess, branches, kind):
        """A tensor outside, which depends on a branch, has a value if the branch is taken, and otherwise an error names both."""
        with tf.control_dependencies([branches.inside.op]):
            after = tf.constant([7.0])
        tensor, name = {
            "input": (branches.outside, "choose/inside"),
            "nested": (tf.identity(branches.inside_of_second), "choose/cond/Merge"),
            "control input": (after, "choose/inside"),
            "switch": (tf.raw_ops.Switch(data=branches.x, pred=branches.flag)[1], "Switch"),
        }[kind]
        session = HookedSession(sess, [])
        assert tensor.dtype == session.run(tensor, {branches.flag: True}).dtype
        with pytest.raises(
            ValueError,
            match=f"'{tensor.name}' has no value in this run, .*'{name}'.*Return it from the branch",
        ):
            session.run([tensor, branches.result], {branches.flag: False})

    def test_other_errors_keep_their_type(self, sess, branches):
        """An error of an operation in the same run is raised as it is."""
        bad = tf.debugging.check_numerics(branches.outside / 0.0, "it is infinite")
        with pytest.raises(tf.errors.InvalidArgumentError, match="it is infinite"):
            HookedSession(sess, []).run(bad, {branches.flag: True})


class TestCallers:
    def test_predictor(self, sess, branches):
        """A predictor refuses a tensor of a branch, and raises an error if an output has no value."""
        with pytest.raises(ValueError, match="Predictor: 'choose/inside:0' cannot be fetched"):
            OnlinePredictor(["x"], ["choose/inside"], sess=sess)
        predictor = OnlinePredictor(["flag", "x"], ["outside"], sess=sess)
        assert [2.0] == predictor(True, [1.0])[0].tolist()
        with pytest.raises(ValueError, match="Predictor: 'outside:0' has no value in this run"):
            predictor(False, [1.0])

    def test_process_tensors(self):
        """ProcessTensors never receives an invented value."""
        trainer = CountingTrainer()
        Branches()
        seen = []
        with pytest.raises(ValueError, match="'outside:0' has no value in this run"):
            run(trainer, [ProcessTensors(["outside:0"], seen.append)], [], 1, 1)
        assert [] == seen

    def test_summary_in_a_branch(self):
        """A summary in a branch that is taken in the last step of an epoch is written; otherwise an error explains how to move it."""
        trainer = CountingTrainer()
        cost = tf.get_default_graph().get_tensor_by_name("cost:0")
        tf.cond(cost < 60.0, lambda: [tf.summary.scalar("s", cost), cost][1], lambda: cost, name="choose")
        with pytest.raises(
            ValueError,
            match=r"MergeSummary:0' has no value .*'choose/s'.* call tf.summary after tf.cond",
        ):
            run(trainer, [MergeAllSummaries()], [RecordingMonitor()], 3, 9)
        assert [(3, 20.0), (6, 50.0)] == trainer.monitors.get_history("choose/s")


class TestFindConditional:
    def test_a_loop_in_a_branch(self, branches):
        """The result of a loop in a branch depends on the branch."""
        kept = []

        def loop():
            kept.append(tf.while_loop(lambda i: i < 3, lambda i: i + 1, [tf.constant(0)], name="loop"))
            return kept[0]

        tf.cond(branches.flag, loop, lambda: tf.constant(0), name="second")
        assert ["Exit"] == [op.type for op in find_conditional([tf.identity(kept[0])])]

    def test_an_imported_graph(self, branches):
        """In an imported graph, which does not record the branches, they are found by their switches."""
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(branches.x.graph.as_graph_def(), name="")
            find = graph.get_tensor_by_name
            assert [] == find_conditional([find(branches.result.name)])
            assert {"Switch"} == {op.type for op in find_conditional([find("outside:0")])}
