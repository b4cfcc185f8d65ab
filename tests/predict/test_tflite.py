"""Which models TensorFlow Lite converts: the table in docs/inference_export.md."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.exported import IMAGES, convnet, look_up

from tensorpack_lite.compat import TF_VERSION, TensorSpec, tensorflow
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.predict.config import PredictConfig
from tensorpack_lite.predict.export import ModelExporter
from tensorpack_lite.tfutils.sessinit import SessionInit
from tensorpack_lite.train import ModelDesc

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(TF_VERSION < (2, 0), reason="the page converts with TensorFlow 2"),
    pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated:UserWarning"),
]


def loop(x):
    return tf.while_loop(lambda k, a: k < 4, lambda k, a: (k + 1, a * 0.5 + x), [0, x])[1]


CONVERTED = {
    "layers": convnet,
    "loop": loop,
    "condition": lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: x * 2.0, lambda: x),
    "resize": lambda x: tf.image.resize_bilinear(x[..., tf.newaxis], [16, 16]),
    "top_k": lambda x: tf.nn.top_k(x[:, 0], 2)[0],
    "matmul": lambda x: tf.einsum("bij,bjk->bik", x, x),
    "non_max_suppression": lambda x: tf.image.non_max_suppression(x[0, :, :4], x[0, :, 0], 3),
}
SELECTED = {
    "erf": tf.erf,
    "crop_and_resize": lambda x: tf.image.crop_and_resize(x[..., tf.newaxis], [[0.0, 0.0, 1.0, 1.0]], [0], [4, 4]),
    "float64": lambda x: tf.cast(x, tf.float64) * 2,
    "in_top_k": lambda x: tf.nn.in_top_k(x[:, 0], tf.zeros_like(x[:, 0, 0], tf.int32), 1),
}
REFUSED = {"py_func": lambda x: tf.py_func(np.square, [x], tf.float32), "table": look_up}


class Initialize(SessionInit):
    """Gives variables their initial values."""

    def _run_init(self, sess):
        sess.run(tf.global_variables_initializer())


def converter(tmp_path, function):
    """Export a model with this output; return a converter and the output for IMAGES."""

    class Model(ModelDesc):
        def inputs(self):
            return [TensorSpec([None, 8, 8], tf.float32, "image")]

        def build_graph(self, image):
            tf.identity(function(image), name="y")

    config = PredictConfig(model=Model(), session_init=Initialize(), input_names=["image"], output_names=["y"])
    path = str(tmp_path / "1")
    ModelExporter(config).export_serving(path)
    with tf.Graph().as_default(), tf.Session() as sess:
        signature = tf.saved_model.loader.load(sess, ["serve"], path).signature_def["serving_default"]
        expected = sess.run(signature.outputs["y"].name, {signature.inputs["image"].name: IMAGES})
    return tensorflow.lite.TFLiteConverter.from_saved_model(path), expected


def run(content):
    """Return the output for IMAGES."""
    interpreter = tensorflow.lite.Interpreter(model_content=content)
    image, y = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    interpreter.resize_tensor_input(image["index"], IMAGES.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(image["index"], IMAGES)
    interpreter.invoke()
    return interpreter.get_tensor(y["index"])


@pytest.mark.parametrize("name", CONVERTED)
def test_converted(tmp_path, name):
    """An exported model of these operations is converted, and computes the same."""
    lite, expected = converter(tmp_path, CONVERTED[name])
    np.testing.assert_allclose(expected, run(lite.convert()), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", SELECTED)
def test_converted_with_tensorflow_operations(tmp_path, name):
    """These operations are refused, but converted with SELECT_TF_OPS. Not every interpreter can run the file."""
    lite, _ = converter(tmp_path, SELECTED[name])
    with pytest.raises(Exception, match="neither a custom op nor a flex op"):
        lite.convert()
    ops = tensorflow.lite.OpsSet
    lite.target_spec.supported_ops = [ops.TFLITE_BUILTINS, ops.SELECT_TF_OPS]
    assert lite.convert()[4:8] == b"TFL3"  # the format's mark


@pytest.mark.parametrize("name", REFUSED)
def test_refused(tmp_path, name):
    """These operations do not run in TensorFlow Lite, also with SELECT_TF_OPS."""
    lite, _ = converter(tmp_path, REFUSED[name])
    ops = tensorflow.lite.OpsSet
    lite.target_spec.supported_ops = [ops.TFLITE_BUILTINS, ops.SELECT_TF_OPS]
    with pytest.raises(
        Exception, match=r"neither a custom op nor a flex op|Select TensorFlow op|Table not initialized"
    ):
        run(lite.convert())
