"""Training runs in mixed precision: the graph, the accuracy, and exact resume."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.digit_models import ConvNet, Recurrent, digits, train_digits
from fakes.logical_gpus import need_gpus

from tensorpack_lite.callbacks import ModelSaver
from tensorpack_lite.compat import TF_VERSION
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.predict import OfflinePredictor, PredictConfig
from tensorpack_lite.tfutils.sessinit import DictRestore, SmartInit
from tensorpack_lite.train import AutoResumeTrainConfig, SimpleTrainer, launch_train_with_config
from tensorpack_lite.utils import logger
from tensorpack_lite.utils.random_streams import fix_rng_seed

needs_bfloat16 = pytest.mark.skipif(TF_VERSION < (2, 0), reason="TensorFlow 1.15 has no such kernels")
PRECISIONS = ["mixed_float16", pytest.param("mixed_bfloat16", marks=needs_bfloat16)]


class Weights(Callback):
    """Callback that keeps the last values of all variables, and the graph as it was before training."""

    def _before_train(self):
        self.initial = self._values()

    def _setup_graph(self):
        self.graph = tf.get_default_graph().as_graph_def()

    def _after_train(self):
        self.values = self._values()

    def _values(self):
        return self.trainer.sess.run({var.op.name: var for var in tf.global_variables()})


@pytest.mark.slow
def test_nothing_changes_without_it():
    """The graph of a training without the arguments equals that with their defaults, and has no 16 bits and no cluster."""
    graphs = []
    for arguments in ({}, {"precision": "float32", "xla": False}):
        weights = Weights()
        with tf.Graph().as_default():
            train_digits(ConvNet(), 1, [weights], extra_callbacks=[], steps_per_epoch=1, **arguments)
        graphs.append(weights.graph)
    assert graphs[0] == graphs[1]
    text = str(graphs[0])
    assert "DT_HALF" not in text
    assert "DT_BFLOAT16" not in text
    assert "_Xla" not in text


@pytest.mark.slow
@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_step_has_the_gradients_of_float32(precision):
    """After one epoch, the weights differ from those of float32 by the rounding of 16 bits, and are float32."""
    values, initial = [], {}
    for current in ("float32", precision):
        weights = Weights()
        with tf.Graph().as_default():
            train_digits(Recurrent(), 1, [weights], precision=current, session_init=DictRestore(initial))
        initial = weights.initial
        values.append(weights.values)
    for name, expected in values[0].items():
        if name.endswith(("/kernel", "/W")):
            assert np.float32 == values[1][name].dtype
            distance = np.linalg.norm(values[1][name] - expected) / np.linalg.norm(expected)
            assert 1e-7 < distance < 0.05, name


def mean_accuracies(model, epochs, **arguments):
    """Return the mean accuracies of the last five epochs, in float32 and with the arguments, from the same weights."""
    means, initial = [], {}
    for current in ({}, arguments):
        weights = Weights()
        with tf.Graph().as_default():
            trainer = train_digits(model(), epochs, [weights], session_init=DictRestore(initial), **current)
        initial = weights.initial
        history = [value for _, value in trainer.monitors.get_history("validation_accuracy")]
        means.append(np.mean(history[-5:]))
    return means


@pytest.mark.full
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(("model", "epochs"), [(ConvNet, 15), (Recurrent, 40)])
def test_accuracy(precision, model, epochs):
    """A convnet and an LSTM reach the accuracy of float32 within 0.5 %, in the mean of the last epochs."""
    expected, found = mean_accuracies(model, epochs, precision=precision)
    assert expected > 0.95
    assert abs(found - expected) < 0.005


@pytest.mark.gpu
@pytest.mark.parametrize("model", [ConvNet, Recurrent])
@pytest.mark.parametrize("arguments", [{"precision": "mixed_float16"}, {"precision": "mixed_bfloat16"}, {"xla": True}])
def test_accuracy_on_a_gpu(model, arguments):
    """Mixed precision and XLA reach the accuracy of float32 within 1 % after a few epochs."""
    need_gpus(1)
    expected, found = mean_accuracies(model, 20, **arguments)
    assert abs(found - expected) < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("precision", PRECISIONS)
def test_exact_resume(precision, tmp_path):
    """A training that is resumed has the same bytes as one without interruption, the loss scale included."""
    ends = []
    for parts in ([3], [1, 3]):
        directory = tmp_path / str(len(parts))
        for epochs in parts:
            logger.set_logger_dir(str(directory), "k")
            weights = Weights()
            with tf.Graph().as_default():
                tf.set_random_seed(1)
                fix_rng_seed(1)
                config = AutoResumeTrainConfig(
                    model=ConvNet(), dataflow=digits("train"), callbacks=[ModelSaver(), weights], monitors=[],
                    max_epoch=epochs, exact="require", precision=precision,
                )  # fmt: skip
                launch_train_with_config(config, SimpleTrainer())
            logger.reset()
        ends.append(weights.values)
    assert set(ends[0]) == set(ends[1])
    assert ("loss_scale/scale" in ends[0]) == (precision == "mixed_float16")
    for name, value in ends[0].items():
        np.testing.assert_array_equal(value, ends[1][name], err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("precision", PRECISIONS)
def test_checkpoints_and_predictors(precision, tmp_path):
    """A checkpoint of mixed precision is float32, and predictors of both precisions load it and nearly agree."""
    logger.set_logger_dir(str(tmp_path), "d")
    with tf.Graph().as_default():
        train_digits(ConvNet(), 1, [ModelSaver()], precision=precision)
    logger.reset()
    path = tf.train.latest_checkpoint(str(tmp_path))
    kinds = tf.train.NewCheckpointReader(path).get_variable_to_dtype_map()
    assert not {tf.float16, tf.bfloat16} & set(kinds.values())
    image = np.random.RandomState(0).rand(4, 8, 8)
    results = []
    for current in ("float32", precision):
        config = PredictConfig(
            model=ConvNet(), session_init=SmartInit(path), input_names=["image"],
            output_names=["prob", "conv2/output"], precision=current,
        )  # fmt: skip
        results.append(OfflinePredictor(config)(image))
    assert "float32" == results[0][1].dtype.name
    assert precision[len("mixed_") :] == results[1][1].dtype.name
    assert np.float32 == results[1][0].dtype
    np.testing.assert_allclose(results[0][0], results[1][0], atol=0.02)
