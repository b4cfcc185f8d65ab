"""ModelExporter.export_onnx: what is converted computes the same in onnxruntime; what is not raises an error."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from fakes.exported import IMAGES, changed, convnet, look_up

from tensorpack_lite.compat import TF_VERSION, TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.models import (
    LSTM,
    MultiHeadAttention,
)
from tensorpack_lite.predict.base import OfflinePredictor
from tensorpack_lite.predict.config import PredictConfig
from tensorpack_lite.predict.export import ModelExporter
from tensorpack_lite.tfutils.sessinit import SmartInit
from tensorpack_lite.tfutils.tower.context import TowerContext
from tensorpack_lite.tfutils.varmanip import save_checkpoint_vars
from tensorpack_lite.train import ModelDesc


def attention(x):
    y = MultiHeadAttention("self", x, 2, causal=True)
    return MultiHeadAttention("cross", y, 2, value=x, key_mask=tf.reduce_any(x > 0.5, 2))


CONVERTED = {
    "convnet": convnet,
    "attention": attention,
    "lstm": lambda x: LSTM("rnn", x, 3)[0],
    "top_k": lambda x: tf.nn.top_k(x[:, 0], 2)[1],
    "resize": lambda x: tf.image.resize_bilinear(x[..., tf.newaxis], [16, 16]),
}


class Model(ModelDesc):
    """A model whose output is a function of images, and that has an input which the output does not need."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def inputs(self):
        return [TensorSpec([None, 8, 8], tf.float32, "image"), TensorSpec([None], tf.int32, "label")]

    def build_graph(self, image, label):
        with tf.variable_scope("model"):
            tf.identity(self.function(image), name="answer")


def config_of(function, tmp_path):
    """Return the configuration of a predictor with random weights from a file."""
    with tf.Graph().as_default(), tf.Session() as sess, TowerContext("", is_training=False):
        model = Model(function)
        model.build_graph(*[tf.placeholder(spec.dtype, spec.shape, spec.name) for spec in model.inputs()])
        rng, variables = np.random.RandomState(1), tf.global_variables()
        values = {var.op.name: rng.uniform(0.1, 1, var.shape.as_list()).astype("float32") for var in variables}
        del sess
    init = None
    if values:
        save_checkpoint_vars(values, str(tmp_path / "weights.npz"))
        init = SmartInit(str(tmp_path / "weights.npz"))
    return PredictConfig(
        model=Model(function), session_init=init, input_names=["image", "label"], output_names=["model/answer"]
    )


def test_without_the_packages(tmp_path, monkeypatch):
    """Without tf2onnx or onnxruntime, an ImportError has the command that installs them."""
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match=r'export_onnx: needs onnxruntime, .*pip install "tensorpack_lite\[onnx\]"'):
        changed(lambda x: x * 2.0).export_onnx(str(tmp_path / "m.onnx"))


@pytest.mark.slow
class TestWithThePackages:
    @pytest.fixture(autouse=True)
    def packages(self):
        for package in ("tf2onnx", "onnxruntime"):
            pytest.importorskip(package, reason=f"{package} is not installed")

    @pytest.mark.parametrize("name", CONVERTED)
    def test_converted(self, tmp_path, name):
        """In onnxruntime, the file computes what the predictor computes, also for batches of another size than the check's."""
        import onnxruntime

        config, path = config_of(CONVERTED[name], tmp_path), str(tmp_path / "m.onnx")
        ModelExporter(config).export_onnx(path)
        with tf.Graph().as_default():
            (expected,) = OfflinePredictor(config)(IMAGES, np.zeros(3, "int32"))
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        assert ["model_answer"] == [place.name for place in session.get_outputs()]
        feeds = {
            place.name: {"image": IMAGES, "label": np.zeros(3, "int32")}[place.name] for place in session.get_inputs()
        }
        (found,) = session.run(["model_answer"], feeds)
        assert (expected.shape, expected.dtype) == (found.shape, found.dtype)
        assert np.ptp(expected) > 1e-3
        np.testing.assert_allclose(expected, found, rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize(
        ("function", "match"),
        [
            (lambda x: tf.py_func(lambda x: x * x, [x], tf.float32), r"PyFunc.*Choose outputs before these operations"),
            (look_up, "(HashTable|Table).*Choose outputs before"),
            (lambda x: tf.lbeta(tf.nn.softmax(x)), "Lgamma"),
        ],
        ids=["py_func", "table", "lgamma"],
    )
    def test_what_cannot_be_converted(self, tmp_path, function, match):
        """An operation that tf2onnx cannot convert raises a RuntimeError that names it, and an existing file stays."""
        path = tmp_path / "m.onnx"
        path.write_bytes(b"old")
        with pytest.raises(RuntimeError, match=match):
            ModelExporter(config_of(function, tmp_path)).export_onnx(str(path))
        assert b"old" == path.read_bytes()
        assert {"m.onnx"} >= {entry.name for entry in tmp_path.iterdir()} - {"weights.npz"}

    def test_other_values(self, tmp_path, monkeypatch):
        """A converted model that computes something else raises an error with both values, and writes nothing."""
        import tf2onnx

        original = tf2onnx.convert.from_graph_def

        def wrong(graph_def, **kwargs):
            for node in graph_def.node:
                if node.name == "w":
                    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(4.0))
            return original(graph_def, **kwargs)

        monkeypatch.setattr(tf2onnx.convert, "from_graph_def", wrong)
        exporter = changed(lambda x: x * tf.get_variable("w", [], use_resource=False) + 1.0)
        with pytest.raises(RuntimeError, match=r"the output 'y' .* differs .*expected 2\.\d+, got 3\.\d+"):
            exporter.export_onnx(str(tmp_path / "m.onnx"))
        assert [] == list(tmp_path.iterdir())
        assert TF_VERSION >= (1, 15)
