"""Tests of gradient processors against NumPy, with dense gradients, slices and None."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.gradproc import (
    CheckGradient,
    FilterNoneGrad,
    MapGradient,
    PrintGradient,
    ScaleGradient,
    SummaryGradient,
)
from tensorpack_lite.tfutils.varreplace import freeze_variables

A, B = np.array([3.0, -4.0], dtype="float32"), np.array([[12.0]], dtype="float32")


@pytest.fixture
def grads():
    """Two variables with known gradients, and one without a gradient."""
    return [
        (tf.constant(A), tf.get_variable("fc/W", shape=[2])),
        (tf.constant([[12.0]]), tf.get_variable("fc/b", shape=[1, 1])),
        (None, tf.get_variable("unused", shape=[])),
    ]


def slices(values=(1.0, 2.0)):
    """Return an IndexedSlices with rows 0 and 2 of a [4] variable."""
    return tf.IndexedSlices(tf.constant(values), tf.constant([0, 2]), tf.constant([4]))


def names(grads) -> list:
    """Return the names of the variables."""
    return [var.op.name for _, var in grads]


class TestGradientProcessor:
    def test_each_graph_has_its_own_scope(self):
        """A processor used in a second graph creates its name scope there."""
        processor = MapGradient(lambda grad: tf.identity(grad, name="x"))
        seen = []
        for outer in ("a", "b"):
            with tf.Graph().as_default(), tf.name_scope(outer):
                grad = (tf.constant(1.0), tf.get_variable("w", shape=[]))
                seen.append(processor.process([grad])[0][0].op.name)
        assert ["a/MapGradient/x", "b/MapGradient/x"] == seen

    @pytest.mark.slow
    def test_keeps_no_graph_alive(self):
        """The cached name scopes do not keep a graph alive."""
        processor = SummaryGradient()
        with tf.Graph().as_default() as graph:
            processor.process([(tf.constant(1.0), tf.get_variable("w", shape=[]))])
        ghost = weakref.ref(graph)
        del graph
        gc.collect()
        assert ghost() is None


class TestFilterNoneGrad:
    def test_the_warning(self, grads, capsys):
        """A warning names the variables whose pairs are dropped, unless verbose is False."""
        FilterNoneGrad(verbose=False).process(grads)
        assert "" == capsys.readouterr().out
        FilterNoneGrad().process(grads)
        assert "No gradient w.r.t 1 trainable variables: unused" in capsys.readouterr().out

    @pytest.mark.parametrize("skip_collection", [False, True])
    def test_frozen(self, capsys, skip_collection):
        """Variables of `freeze_variables`, which have no gradient on purpose, are not in the warning."""
        with freeze_variables(skip_collection=skip_collection):
            frozen = tf.get_variable("frozen", [2], use_resource=True)
        trained = tf.get_variable("trained", [2], use_resource=True)
        variables = tf.trainable_variables()
        pairs = list(zip(tf.gradients(tf.reduce_sum(frozen * trained), variables), variables))
        assert ["trained"] == names(FilterNoneGrad().process(pairs))
        assert "No gradient" not in capsys.readouterr().out


class TestMapGradient:
    def test_two_arguments(self, grads):
        """func(grad, var) gets the variable as well; only required arguments of func are counted."""
        seen = []
        MapGradient(lambda grad, var: seen.append(var.op.name)).process(grads)
        assert ["fc/W", "fc/b", "unused"] == seen
        assert 3 == len(MapGradient(lambda grad, scale=3: tf.zeros([])).process(grads))

    def test_warns_when_nothing_matches(self, grads, capsys):
        """A regex that matches no whole name logs a warning."""
        MapGradient(lambda grad: grad, regex="fc").process(grads)
        assert "MapGradient: 'fc' matches no variable" in capsys.readouterr().out


class TestSummaryGradient:
    def test_histogram_and_rms(self, sess, grads):
        """Gradients do not change, None is dropped, and the average of the rms starts with the rms."""
        assert grads[:2] == SummaryGradient().process(grads)
        wanted = ["fc/W-grad", "fc/W/rms-summary", "fc/b-grad", "fc/b/rms-summary"]
        assert [f"SummaryGradient/{name}" for name in wanted] == [
            tensor.op.name for tensor in tf.get_collection(tf.GraphKeys.SUMMARIES)
        ]
        sess.run(tf.local_variables_initializer())
        got = sess.run(tf.get_collection("MOVING_SUMMARY_OPS"))
        np.testing.assert_allclose([np.sqrt(12.5), 12.0], got, rtol=1e-6)

    def test_once_for_each_variable(self, grads):
        """A second instance and copies in other towers add no summaries for the same variable."""
        replica = (tf.constant(A), tf.get_variable("tower1/fc/W", shape=[2]))
        SummaryGradient().process(grads)
        SummaryGradient().process([*grads, replica])
        assert 4 == len(tf.get_collection(tf.GraphKeys.SUMMARIES))

    def test_once_for_each_graph(self, grads):
        """A second graph of the process has its own summaries."""
        SummaryGradient().process(grads)
        with tf.Graph().as_default():
            SummaryGradient().process([(tf.constant(1.0), tf.get_variable("fc/W", shape=[]))])
            assert 2 == len(tf.get_collection(tf.GraphKeys.SUMMARIES))


class TestPrintGradient:
    def test_prints(self, sess, grads, capfd):
        """The name and values are printed to stderr, once per variable."""
        printed = PrintGradient("fc/W").process(grads)
        np.testing.assert_array_equal(A, sess.run(printed[0][0]))
        assert "fc/W-grad shape: [2] mean: -0.5" in capfd.readouterr().err
        again = PrintGradient("fc/W").process(grads)
        assert again[0][0] is grads[0][0]

    def test_once_for_each_graph(self):
        """A second graph of the process prints its variables too."""
        processor = PrintGradient()
        for _ in range(2):
            with tf.Graph().as_default():
                var = tf.get_variable("w", initializer=1.0)
                grad = tf.constant(2.0)
                ((printed, _),) = processor.process([(grad, var)])
                assert printed is not grad


class TestCheckGradient:
    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_bad_gradients_fail(self, sess, bad):
        """A gradient with NaN or infinity raises an error that names the variable."""
        var = tf.get_variable("fc/W", shape=[2])
        for grad in (tf.constant([1.0, bad]), slices([1.0, bad])):
            ((checked, _),) = CheckGradient().process([(grad, var)])
            with pytest.raises(tf.errors.InvalidArgumentError, match="CheckGradient/fc/W"):
                sess.run(checked)


class TestScaleGradient:
    def test_first_match_counts(self, sess, grads, capsys):
        """The first regex that matches a whole name counts, other gradients do not change, and each scaling is logged."""
        scaled = ScaleGradient([("fc/W", 0.5), ("fc/.*", 3.0)]).process(grads[:2])
        got = sess.run([grad for grad, _ in scaled])
        assert ([1.5, -2.0], [[36.0]]) == (got[0].tolist(), got[1].tolist())
        assert "Gradient of 'fc/W' is multiplied by 0.5" in capsys.readouterr().out

    def test_zero_drops(self, grads, capsys):
        """A variable with factor 0 is not updated, not even by momentum."""
        assert ["fc/b"] == names(ScaleGradient(("fc/W", 0), verbose=False).process(grads[:2]))
        assert "" == capsys.readouterr().out
