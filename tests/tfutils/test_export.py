"""tfutils/export.py: what is exported is served by TensorFlow alone, with the same outputs."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from fakes.small_convnet import SmallConvNet, images

from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.predict.base import OfflinePredictor
from tensorpack_lite.predict.config import PredictConfig
from tensorpack_lite.tfutils.export import ModelExporter
from tensorpack_lite.tfutils.sessinit import DictRestore
from tensorpack_lite.tfutils.varmanip import load_checkpoint_vars

PICTURES = images(5, seed=3)[0]
ENDS = os.path.join(os.path.dirname(__file__), "..", "data", "ends")

SERVE_COMPACT = """
import sys
import numpy as np
import tensorflow as tf
tf = tf.compat.v1
graph_def = tf.GraphDef()
with open(sys.argv[1], "rb") as file:
    graph_def.ParseFromString(file.read())
with tf.Graph().as_default(), tf.Session() as sess:
    tf.import_graph_def(graph_def, name="")
    np.save(sys.argv[3], sess.run("prob:0", {"image:0": np.load(sys.argv[2])}))
assert not any("tensorpack" in name for name in sys.modules)
"""

SERVE_SESSION = """
import sys
import numpy as np
import tensorflow as tf
tf = tf.compat.v1
with tf.Graph().as_default(), tf.Session() as sess:
    meta = tf.saved_model.loader.load(sess, ["serve"], sys.argv[1])
    signature = meta.signature_def["prediction_pipeline"]
    assert list(signature.inputs) == ["image:0"] and list(signature.outputs) == ["prob:0"]
    np.save(sys.argv[3], sess.run(signature.outputs["prob:0"].name, {"image:0": np.load(sys.argv[2])}))
assert not any("tensorpack" in name for name in sys.modules)
"""

SERVE_EAGER = """
import sys
import numpy as np
import tensorflow as tf
predict = tf.saved_model.load(sys.argv[1]).signatures["prediction_pipeline"]
np.save(sys.argv[3], predict(**{"image:0": tf.constant(np.load(sys.argv[2]))})["prob:0"].numpy())
assert not any("tensorpack" in name for name in sys.modules)
"""


class Scale(SmallConvNet):
    """One variable and a table, so that what is wrong is seen at once."""

    def inputs(self):
        return [TensorSpec([None], tf.float32, "x"), TensorSpec([None], tf.int64, "label")]

    def build_graph(self, x, label):
        w = tf.get_variable("w", [], initializer=tf.constant_initializer(1.0))
        keys = tf.range(3, dtype=tf.int64)
        initializer = tf.lookup.KeyValueTensorInitializer(keys, keys * 10)
        tf.identity(tf.lookup.StaticHashTable(initializer, -1).lookup(label), name="looked_up")
        tf.add(w * x, 1.0, name="y")


@pytest.fixture(scope="module")
def convnet():
    """A trained convnet and its outputs here."""
    config = PredictConfig(
        model=SmallConvNet(),
        session_init=DictRestore(load_checkpoint_vars(os.path.join(ENDS, "tf1.15", "model-6"))),
        input_names=["image"],
        output_names=["prob"],
    )
    predictor = OfflinePredictor(config)
    (expected,) = predictor(PICTURES)
    predictor.sess.close()
    return config, expected


def scale(session_init=None, outputs=("y",), inputs=("x",)):
    """An exporter of the small model."""
    return ModelExporter(
        PredictConfig(
            model=Scale(),
            session_init=DictRestore({"w": 3.0}) if session_init is None else session_init,
            input_names=list(inputs),
            output_names=list(outputs),
        )
    )


def read(path):
    """The graph in a file."""
    graph_def = tf.GraphDef()
    graph_def.ParseFromString(path.read_bytes())
    return graph_def


def run(graph_def, fetch, feeds):
    """Evaluate one tensor of a graph, with nothing else but TensorFlow."""
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.import_graph_def(graph_def, name="")
        return sess.run(fetch, feeds)


def serve(code, model, tmp_path):
    """Serve a model in a process of its own, which does not even find this library."""
    pictures, outputs = str(tmp_path / "in.npy"), str(tmp_path / "out.npy")
    np.save(pictures, PICTURES)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    # oneDNN takes another algorithm, 1e-4 away, for a convolution whose weights are constants: not what is tested here
    done = subprocess.run(
        [sys.executable, "-c", code, str(model), pictures, outputs],
        env=dict(environment, TF_CPP_MIN_LOG_LEVEL="3", TF_ENABLE_ONEDNN_OPTS="0"), cwd=str(tmp_path),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False,
    )  # fmt: skip
    assert 0 == done.returncode, done.stdout.decode()
    return np.load(outputs)


class TestServedElsewhere:
    """In a process that does not import tensorpack_lite."""

    @pytest.mark.slow
    @pytest.mark.parametrize("optimize", [True, False])
    def test_compact(self, convnet, tmp_path, optimize):
        """A frozen graph gives the same outputs, optimized or not."""
        config, expected = convnet
        ModelExporter(config).export_compact(str(tmp_path / "model.pb"), optimize=optimize)
        np.testing.assert_allclose(expected, serve(SERVE_COMPACT, tmp_path / "model.pb", tmp_path), rtol=1e-5)

    @pytest.mark.slow
    def test_serving_by_a_session(self, convnet, tmp_path):
        """A SavedModel gives the same outputs, under the names of the tensors."""
        config, expected = convnet
        ModelExporter(config).export_serving(str(tmp_path / "model"))
        np.testing.assert_allclose(expected, serve(SERVE_SESSION, tmp_path / "model", tmp_path), rtol=1e-5)

    @pytest.mark.slow
    def test_serving_by_saved_model_load(self, convnet, tmp_path):
        """TF 2 loads it without a graph or a session."""
        if not tf.__version__.startswith("2"):
            pytest.skip("tf.saved_model.load without a session is TF 2's")
        config, expected = convnet
        ModelExporter(config).export_serving(str(tmp_path / "model"))
        np.testing.assert_allclose(expected, serve(SERVE_EAGER, tmp_path / "model", tmp_path), rtol=1e-5)


class TestCompact:
    def test_only_what_the_outputs_need(self, tmp_path):
        """No variable, no unused input is left."""
        scale().export_compact(str(tmp_path / "m.pb"))
        types = {node.name: node.op for node in read(tmp_path / "m.pb").node}
        assert ("Placeholder", "AddV2") == (types["x"], types["y"].replace("Add", "AddV2")[:5])
        assert not {"VarHandleOp", "ReadVariableOp", "HashTableV2"} & set(types.values())
        assert "label" not in types

    def test_values(self, tmp_path):
        """The variables are those of session_init."""
        scale().export_compact(str(tmp_path / "m.pb"))
        assert [7.0] == run(read(tmp_path / "m.pb"), "y:0", {"x:0": [2.0]}).tolist()

    def test_unused_inputs_among_the_names(self, tmp_path):
        """An input that the outputs do not need does no harm."""
        scale(inputs=["x", "label"]).export_compact(str(tmp_path / "m.pb"))
        assert [7.0] == run(read(tmp_path / "m.pb"), "y:0", {"x:0": [2.0]}).tolist()

    def test_a_variable_as_output(self, tmp_path):
        """The name of a variable means its value."""
        scale(outputs=["w"]).export_compact(str(tmp_path / "m.pb"), optimize=False)
        name = next(n.name for n in read(tmp_path / "m.pb").node if n.op == "Identity")
        assert 3.0 == run(read(tmp_path / "m.pb"), f"{name}:0", {})

    def test_written_again(self, tmp_path):
        """The same exporter exports twice; the file is replaced."""
        exporter = scale()
        exporter.export_compact(str(tmp_path / "m.pb"))
        first = (tmp_path / "m.pb").read_bytes()
        exporter.export_compact(str(tmp_path / "m.pb"))
        assert first == (tmp_path / "m.pb").read_bytes()

    @pytest.mark.parametrize("optimize", [True, False])
    def test_a_loop(self, tmp_path, optimize):
        """A loop is exported together with its body, which is a function of the graph in TensorFlow 2."""

        class Loop(Scale):
            def build_graph(self, x, label):
                w = tf.get_variable("w", []) + 0.0
                tf.identity(tf.while_loop(lambda y: tf.reduce_sum(y) < 50, lambda y: y * w, [x]), name="y")

        config = PredictConfig(
            model=Loop(), session_init=DictRestore({"w": 3.0}), input_names=["x"], output_names=["y"]
        )
        ModelExporter(config).export_compact(str(tmp_path / "m.pb"), optimize=optimize)
        assert [54.0] == run(read(tmp_path / "m.pb"), "y:0", {"x:0": [2.0]}).tolist()

    def test_toco_compatible(self, tmp_path):
        """It is passed on to TensorFlow."""
        scale().export_compact(str(tmp_path / "m.pb"), toco_compatible=True)
        assert [7.0] == run(read(tmp_path / "m.pb"), "y:0", {"x:0": [2.0]}).tolist()

    def test_toco_compatible_needs_optimize(self, tmp_path):
        """One is part of the other."""
        with pytest.raises(ValueError, match="toco_compatible=True needs optimize=True"):
            scale().export_compact(str(tmp_path / "m.pb"), optimize=False, toco_compatible=True)


class TestServing:
    def test_signature_and_tags(self, tmp_path):
        """Tags and the name of the signature are the user's."""
        scale().export_serving(str(tmp_path / "m"), tags=["a", "b"], signature_name="f")
        with tf.Graph().as_default(), tf.Session() as sess:
            meta = tf.saved_model.loader.load(sess, ["a", "b"], str(tmp_path / "m"))
            assert ["f"] == [name for name in meta.signature_def if not name.startswith("__")]
            assert "tensorflow/serving/predict" == meta.signature_def["f"].method_name
            assert [7.0] == sess.run("y:0", {"x:0": [2.0]}).tolist()

    def test_tables(self, tmp_path):
        """Lookup tables are filled where the model is served."""
        scale(outputs=["looked_up"], inputs=["label"]).export_serving(str(tmp_path / "m"))
        with tf.Graph().as_default(), tf.Session() as sess:
            meta = tf.saved_model.loader.load(sess, ["serve"], str(tmp_path / "m"))
            (output,) = meta.signature_def["prediction_pipeline"].outputs.values()
            assert [20, -1] == sess.run(output.name, {"label:0": [2, 7]}).tolist()

    def test_existing_directory(self, tmp_path):
        """Nothing is overwritten."""
        with pytest.raises(FileExistsError, match="exists. Remove it, or export next to it"):
            scale().export_serving(str(tmp_path))

    def test_tags_as_one_string(self, tmp_path):
        """A string would be taken as a list of letters."""
        with pytest.raises(TypeError, match=r"tags: takes a list of strings, got str. Write \['serve'\]"):
            scale().export_serving(str(tmp_path / "m"), tags="serve")


class TestMistakes:
    def test_variables_without_value(self, tmp_path):
        """They are named, and nothing is written."""
        with pytest.raises(ValueError, match="leaves these variables without a value: w. Give PredictConfig"):
            scale(DictRestore({})).export_serving(str(tmp_path / "m"))
        assert [] == list(tmp_path.iterdir())

    def test_unknown_output(self, tmp_path):
        """A wrong name is answered with the nearest ones."""
        with pytest.raises(KeyError, match="'prediction:0' is not in the graph. The nearest names are"):
            scale(outputs=["prediction"]).export_compact(str(tmp_path / "m.pb"))

    def test_no_config(self):
        """Only a PredictConfig knows enough."""
        with pytest.raises(TypeError, match="ModelExporter: takes a PredictConfig, got dict"):
            ModelExporter({})
