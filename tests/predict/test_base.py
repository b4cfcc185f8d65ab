"""OnlinePredictor and OfflinePredictor."""

from __future__ import annotations

import threading
from concurrent.futures import Future

import numpy as np
import pytest
from fakes.trainers import ScalingTrainer, run

from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.predict.base import AsyncPredictorBase, OfflinePredictor, OnlinePredictor
from tensorpack_lite.predict.config import PredictConfig
from tensorpack_lite.tfutils.sessinit import DictRestore
from tensorpack_lite.tfutils.tower.func import TowerFunc

SIGNATURE = [TensorSpec([None, 2], tf.float32, "x"), TensorSpec([], tf.int32, "n")]


def scale(x, n):
    """y = x * w * n."""
    weight = tf.get_variable("w", initializer=2.0)
    y = tf.multiply(x * weight, tf.cast(n, tf.float32), name="y")
    tf.add(tf.placeholder_with_default(tf.constant(5.0), [], name="z"), 1.0, name="inside")
    return y


@pytest.fixture
def online(sess):
    """The tensors of a small graph: x, n, y = x * 2 * n, and the variable w."""
    x, n = [tf.placeholder(spec.dtype, spec.shape, spec.name) for spec in SIGNATURE]
    weight = tf.get_variable("w", initializer=2.0, use_resource=True)
    y = tf.multiply(x * weight, tf.cast(n, tf.float32), name="y")
    sess.run(weight.initializer)
    return x, n, y, weight


class TestOnlinePredictor:
    def test_tensors(self, sess, online):
        """A call returns a list with a value for each output."""
        x, n, y, _ = online
        predictor = OnlinePredictor([x, n], [y, n], sess=sess)
        outputs = predictor(np.ones((1, 2), "float32"), np.int32(3))

        assert list is type(outputs)
        np.testing.assert_array_equal([[6, 6]], outputs[0])
        assert 3 == outputs[1]

    def test_names(self, sess, online):
        """Operations and tensors can be named; a variable and its name mean its value."""
        predictor = OnlinePredictor(["x", "n:0"], ["y", "w", "w:0", online[3]], sess=sess)
        y, *weights = predictor(np.ones((1, 2)), 1)

        np.testing.assert_array_equal([[2, 2]], y)
        assert [2, 2, 2] == weights

    def test_converts_as_session_run_does(self, sess, online):
        """Lists, Python numbers and other dtypes are converted."""
        predictor = OnlinePredictor(["x", "n"], ["y"], sess=sess)
        np.testing.assert_array_equal([[3, 6]], predictor([[0.5, 1]], 3)[0])
        np.testing.assert_array_equal([[3, 6]], predictor(np.array([[0.5, 1]], "float64"), np.int64(3))[0])

    def test_return_input(self, sess, online):
        """With return_input, a call returns the datapoint and the outputs."""
        datapoint, outputs = OnlinePredictor(["x", "n"], ["n"], return_input=True, sess=sess)([[1, 2]], 3)
        assert (([[1, 2]], 3), [3]) == (datapoint, outputs)

    def test_without_session(self, sess, online):
        """Without sess, the predictor keeps the default session of the first call."""
        predictor = OnlinePredictor(["x", "n"], ["y"])
        assert predictor.sess is None
        predictor([[1, 1]], 1)
        assert sess is predictor.sess
        with tf.Session().as_default():
            predictor([[1, 1]], 1)
        assert sess is predictor.sess

    def test_no_session_at_all(self):
        """A call without a session raises RuntimeError with advice."""
        x = tf.placeholder(tf.float32)
        with pytest.raises(RuntimeError, match=r"OnlinePredictor: there is no session. Pass sess="):
            OnlinePredictor([x], [x + 1])(1)

    def test_another_session(self, sess, online):
        """A session that is set later is used."""
        predictor = OnlinePredictor([], ["w"], sess=sess)
        with tf.Session() as other:
            other.run(online[3].initializer)
            other.run(online[3].assign(7.0))
            predictor.sess = other
            assert [7] == predictor()

    @pytest.mark.parametrize(
        ("datapoint", "match"),
        [
            ([[[1, 1]]], r"the number of components is wrong \(expected 2: x, n, got 1\)"),
            ([np.ones([3, 3], "float32"), 1], r"'x' has the wrong shape \(expected .*, got float32 \(3, 3\)\)\.$"),
            ([[1, 1], 1], r".*\(2,\)\)\. The first axis, that of the batch, is missing: add it with x\[None\]\.$"),
            ([[[1, 1]], "two"], "'n' cannot be converted to an array: .*got str"),
        ],
        ids=["number", "shape", "missing batch axis", "not an array"],
    )
    def test_wrong_datapoints(self, sess, online, datapoint, match):
        """Wrong components raise ValueError, which names the input and, for a single sample, shows how to add the batch axis."""
        with pytest.raises(ValueError, match=f"Predictor: {match}"):
            OnlinePredictor(["x", "n"], ["y"], sess=sess)(*datapoint)

    def test_unknown_name(self, sess, online):
        """An unknown name raises an error in the constructor, with the nearest names."""
        with pytest.raises(KeyError, match="'yy:0' is not in the graph. The nearest names are"):
            OnlinePredictor(["x", "n"], ["yy"], sess=sess)

    def test_tensor_that_cannot_be_fed(self, sess):
        """A tensor that TensorFlow does not allow to feed raises ValueError."""
        x = tf.identity(tf.zeros([]), name="x")
        x.graph.prevent_feeding(x)
        with pytest.raises(ValueError, match="x:0 cannot be fed"):
            OnlinePredictor([x], [x + 1], sess=sess)

    def test_output_that_is_fed(self, sess, online):
        """An output that is also an input returns the fed value, alone or with others."""
        x, n, y, _ = online
        assert [3] == OnlinePredictor([n], [n], sess=sess)(3)
        outputs = OnlinePredictor([x, n], [n, y, x], sess=sess)([[1, 1]], 2)
        assert [2, [[4, 4]], [[1, 1]]] == [np.asarray(value).tolist() for value in outputs]

    def test_in_a_final_graph(self, sess, online):
        """A predictor adds nothing to the graph, so it can be created during training."""
        sess.graph.finalize()
        assert [2] == OnlinePredictor([], ["w"], sess=sess)()

    def test_many_threads(self, sess, online):
        """Several threads can share a predictor."""
        predictor = OnlinePredictor(["x", "n"], ["y"], sess=sess)
        answers = {}

        def ask(n):
            answers[n] = [float(predictor([[1, 1]], n)[0][0][0]) for _ in range(50)]

        threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {n: [2.0 * n] * 50 for n in range(8)} == answers

    def test_in_training(self):
        """A trainer's predictor sees the current weights, and takes no step and no datapoint."""
        seen = []

        class Asks(Callback):
            def _setup_graph(self):
                self.predictor = self.trainer.get_predictor(["x"], ["y"])

            def _trigger_step(self):
                seen.append(float(self.predictor([1.0])[0][0]))

        assert 4 == run(ScalingTrainer(), [Asks()]).global_step
        assert [2, 3, 4, 5] == seen


class TestOfflinePredictor:
    def make(self, **arguments):
        arguments = {"tower_func": TowerFunc(scale, SIGNATURE), "output_names": ["y"], **arguments}
        return OfflinePredictor(PredictConfig(**arguments))

    def test_names_are_those_of_training(self):
        """The tower has no name, and the default graph stays empty."""
        with self.make().sess as sess:
            names = {op.name for op in sess.graph.get_operations()}
        assert {"x", "n", "y", "w"} <= names
        assert [] == tf.get_default_graph().get_operations()

    def test_loads_variables(self):
        """Variables are loaded by their names in training."""
        predictor = self.make(session_init=DictRestore({"w": np.float32(3)}))
        with predictor.sess:
            np.testing.assert_array_equal([[6, 12]], predictor([[1, 2]], 2)[0])

    def test_any_tensor_is_input_and_output(self):
        """A tensor inside the model can be an input, and a placeholder with a default need not be fed."""
        predictor = self.make(input_names=["z"], output_names=["inside"])
        default = self.make(input_names=[], output_names=["inside", "w"])
        with predictor.sess, default.sess:
            assert [4] == predictor(3)
            assert [6, 2] == default()

    def test_unknown_name(self):
        """An unknown name raises an error with the nearest names."""
        with pytest.raises(KeyError, match="'probability:0' is not in the graph"):
            self.make(output_names=["probability"])

    def test_two_from_one_config(self):
        """Two predictors of one config have separate graphs and variables."""
        config = PredictConfig(tower_func=scale, input_signature=SIGNATURE, output_names=["y"])
        one, other = OfflinePredictor(config), OfflinePredictor(config)
        with one.sess, other.sess:
            with one.graph.as_default():
                one.sess.run(tf.assign(one.graph.get_collection("variables")[0], 10.0))
            assert one.graph is not other.graph
            assert (10, 2) == tuple(p([[1, 1]], 1)[0][0][0] for p in (one, other))

    def test_in_the_default_graph(self, fresh_graph):
        """With create_graph=False, the predictor uses the default graph."""
        predictor = self.make(create_graph=False)
        predictor.sess.close()
        assert fresh_graph is predictor.graph

    def test_return_input(self):
        """With return_input, a call returns the datapoint and the outputs."""
        predictor = self.make(return_input=True)
        with predictor.sess:
            datapoint, outputs = predictor([[1, 1]], 1)
        assert ([[1, 1]], 1) == datapoint
        assert 1 == len(outputs)


def test_async_predictor_waits_for_its_future():
    """A plain call of an asynchronous predictor waits for its future."""

    class Doubles(AsyncPredictorBase):
        def put_task(self, dp, callback=None):
            future = Future()
            future.set_result([2 * dp[0]])
            return future

        def start(self):
            raise AssertionError("not needed")

    assert [6] == Doubles()(3)
