"""contrib.keras: the numbers of validation are those of Keras 2, to 1e-6, also over batches of different sizes."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from fakes import keras_cases
from fakes.keras_cases import BATCH, CASES, ENTROPY, FEATURES, TARGETS, make_layers
from fakes.keras_models import keras, quiet

from tensorpack_lite.compat import TF_VERSION
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.contrib.keras import KerasModel
from tensorpack_lite.dataflow import DataFromList
from tensorpack_lite.input_source import FeedInput


def spec(array, name):
    return tf.TensorSpec([None, *array.shape[1:]], array.dtype, name)


def validate(case, is_built_on_inputs=False):
    """Train with a learning rate of 0; return the numbers of validation by Keras's names."""
    x, target, weight, loss, metrics = CASES[case]
    arrays = [array for array in (x, target, weight) if array is not None]
    batches = [[array[i : i + BATCH] for array in arrays] for i in range(0, len(x), BATCH)]
    flow = DataFromList(batches, shuffle=False)

    def build(tensor):
        source = {"input_tensor": tensor} if is_built_on_inputs else {"input_shape": x.shape[1:]}
        return keras.models.Sequential([keras.layers.InputLayer(**source), *make_layers(keras, case)])

    weights = None if weight is None else [spec(weight, "weight")]
    model = KerasModel(build, [spec(x, "x")], [spec(target, "y")], FeedInput(flow), weight_signature=weights)
    model.compile(tf.train.GradientDescentOptimizer(0.0), loss, metrics)
    model.fit(flow, callbacks=[], **quiet(max_epoch=1))
    latest = model.trainer.monitors.get_latest
    return {
        "loss": latest("validation_total_loss"), **{name: latest(f"validation_{name}") for name in metrics},
    }, latest(f"validation_{loss}")  # fmt: skip


@pytest.mark.parametrize("case", ["plain", "vector"])
def test_batches_of_different_sizes(fresh_graph, case):
    """Each sample has the same weight. Targets [N] are those of outputs [N, 1]."""
    found, _ = validate(case)
    kernel = np.random.RandomState(1).randn(3, 1).astype("float32")
    error = (FEATURES.dot(kernel)[:, 0] - TARGETS).astype("float64")
    assert found == pytest.approx({"loss": np.mean(error**2), "mae": np.abs(error).mean()}, rel=1e-6)


@pytest.mark.slow
@pytest.mark.skipif(TF_VERSION < (2, 0), reason="the Keras of TensorFlow 1.15 divides masked losses by all steps")
@pytest.mark.parametrize("is_built_on_inputs", [False, True], ids=["called", "built"])
def test_the_numbers_of_keras(is_built_on_inputs):
    """Loss and metrics are those that Keras evaluates: masks, weights of samples, regularizers and a smaller last batch."""
    script = [sys.executable, keras_cases.__file__]
    printed = subprocess.run(script, check=True, capture_output=True, text=True, timeout=300).stdout
    expected = json.loads(printed.splitlines()[-1])
    for case, numbers in expected.items():
        with tf.Graph().as_default():
            found, loss = validate(case, is_built_on_inputs)
        assert found == pytest.approx(numbers, rel=1e-6), case
        assert case == "regularized" or loss == pytest.approx(numbers["loss"], rel=1e-6)


def test_numbers_of_weights():
    """Weights are one tensor for each output."""
    specs = [tf.TensorSpec([None], tf.float32, name) for name in "abc"]
    model = KerasModel(lambda x: x, specs[:1], specs[:1], FeedInput(DataFromList([[1]])), weight_signature=specs)
    with pytest.raises(ValueError, match="expected weights for each of the 1 losses, got 3"):
        model.compile(tf.train.GradientDescentOptimizer(0.0), ENTROPY)


def test_a_model_without_regularizer(fresh_graph):
    """A Keras model without a regularizer adds no cost of 0, so lint rule G09 has nothing to remark."""
    validate("plain")
    assert not any("empty_regularize_cost" in op.name for op in tf.get_default_graph().get_operations())
