"""ModelExporter: TensorFlow alone serves the exported files, with the same outputs."""

from __future__ import annotations

import os

import numpy as np
import pytest
from fakes.exported import Scale, changed, scale
from fakes.old_scripts import complete_for_old_scripts
from fakes.processes import run_python
from fakes.small_convnet import SmallConvNet, images

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.predict import export
from tensorpack_lite.predict.base import OfflinePredictor
from tensorpack_lite.predict.config import PredictConfig
from tensorpack_lite.predict.export import ModelExporter
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
assert not {"tensorpack", "tensorpack_lite"} & set(sys.modules)
"""

SERVE_SESSION = """
import sys
import numpy as np
import tensorflow as tf
tf = tf.compat.v1
with tf.Graph().as_default(), tf.Session() as sess:
    meta = tf.saved_model.loader.load(sess, ["serve"], sys.argv[1])
    signature = meta.signature_def["prediction_pipeline"]
    assert list(signature.inputs) == ["image"] and list(signature.outputs) == ["prob"]
    np.save(sys.argv[3], sess.run(signature.outputs["prob"].name, {"image:0": np.load(sys.argv[2])}))
assert not {"tensorpack", "tensorpack_lite"} & set(sys.modules)
"""

SERVE_EAGER = """
import sys
import numpy as np
import tensorflow as tf
predict = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
np.save(sys.argv[3], predict(image=tf.constant(np.load(sys.argv[2])))["prob"].numpy())
assert not {"tensorpack", "tensorpack_lite"} & set(sys.modules)
"""


@pytest.fixture(scope="module")
def convnet():
    """The configuration of a trained convnet, and the outputs of its predictor."""
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


def read(path):
    """Return the graph in a file."""
    graph_def = tf.GraphDef()
    graph_def.ParseFromString(path.read_bytes())
    return graph_def


def run(graph_def, fetch, feeds):
    """Evaluate one tensor of a graph with TensorFlow alone."""
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.import_graph_def(graph_def, name="")
        return sess.run(fetch, feeds)


def serve(code, model, tmp_path):
    """Serve a model in a process that cannot import this library. Return the outputs."""
    pictures, outputs = str(tmp_path / "in.npy"), str(tmp_path / "out.npy")
    np.save(pictures, PICTURES)
    # For a convolution with constant weights, oneDNN uses another algorithm, whose results differ by 1e-4.
    run_python("-c", code, model, pictures, outputs, cwd=tmp_path, PYTHONPATH="", TF_ENABLE_ONEDNN_OPTS="0")
    return np.load(outputs)


def signature(path, name):
    """Return the names of inputs and of outputs in a signature of a SavedModel."""
    with tf.Graph().as_default(), tf.Session() as sess:
        found = tf.saved_model.loader.load(sess, ["serve"], str(path)).signature_def[name]
    return sorted(found.inputs), sorted(found.outputs)


class TestServedElsewhere:
    """Exported models in a process that does not import tensorpack_lite."""

    @pytest.mark.slow
    @pytest.mark.parametrize("optimize", [True, False])
    def test_compact(self, convnet, tmp_path, optimize):
        """A frozen graph has the same outputs, optimized or not."""
        config, expected = convnet
        ModelExporter(config).export_compact(str(tmp_path / "model.pb"), optimize=optimize)
        np.testing.assert_allclose(expected, serve(SERVE_COMPACT, tmp_path / "model.pb", tmp_path), rtol=1e-5)

    @pytest.mark.slow
    def test_serving_by_a_session(self, convnet, tmp_path):
        """A SavedModel has the same outputs, under the names of the tensors."""
        config, expected = convnet
        ModelExporter(config).export_serving(str(tmp_path / "model"))
        np.testing.assert_allclose(expected, serve(SERVE_SESSION, tmp_path / "model", tmp_path), rtol=1e-5)

    @pytest.mark.slow
    def test_serving_by_saved_model_load(self, convnet, tmp_path):
        """TF 2 loads a SavedModel without a graph or a session."""
        if not tf.__version__.startswith("2"):
            pytest.skip("tf.saved_model.load without a session needs TF 2")
        config, expected = convnet
        ModelExporter(config).export_serving(str(tmp_path / "model"))
        np.testing.assert_allclose(expected, serve(SERVE_EAGER, tmp_path / "model", tmp_path), rtol=1e-5)


class TestCompact:
    def test_only_what_the_outputs_need(self, tmp_path):
        """A frozen graph has no variables and no unused inputs."""
        scale().export_compact(str(tmp_path / "m.pb"))
        types = {node.name: node.op for node in read(tmp_path / "m.pb").node}
        assert ("Placeholder", "AddV2") == (types["x"], types["y"].replace("Add", "AddV2")[:5])
        assert not {"VarHandleOp", "ReadVariableOp", "HashTableV2"} & set(types.values())
        assert "label" not in types

    @pytest.mark.parametrize(
        ("inputs", "arguments"),
        [(["x"], {}), (["x", "label"], {}), (["x"], {"toco_compatible": True})],
        ids=["values of session_init", "an input that the output does not need", "toco_compatible"],
    )
    def test_values(self, tmp_path, inputs, arguments):
        """The variables have the values of session_init, with unused input_names and with an argument for TensorFlow, too."""
        scale(inputs=inputs).export_compact(str(tmp_path / "m.pb"), **arguments)
        assert [7.0] == run(read(tmp_path / "m.pb"), "y:0", {"x:0": [2.0]}).tolist()

    def test_a_variable_as_output(self, tmp_path):
        """The name of a variable means its value."""
        scale(outputs=["w"]).export_compact(str(tmp_path / "m.pb"), optimize=False)
        name = next(n.name for n in read(tmp_path / "m.pb").node if n.op == "Identity")
        assert 3.0 == run(read(tmp_path / "m.pb"), f"{name}:0", {})

    def test_written_again(self, tmp_path):
        """An exporter can export twice, and the file is replaced."""
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

    def test_toco_compatible_needs_optimize(self, tmp_path):
        """toco_compatible without optimize raises ValueError."""
        with pytest.raises(ValueError, match="toco_compatible=True needs optimize=True"):
            scale().export_compact(str(tmp_path / "m.pb"), optimize=False, toco_compatible=True)


class TestServing:
    def test_signature_and_tags(self, tmp_path):
        """Tags and the name of the signature can be chosen."""
        scale().export_serving(str(tmp_path / "m"), tags=["a", "b"], signature_name="f")
        with tf.Graph().as_default(), tf.Session() as sess:
            meta = tf.saved_model.loader.load(sess, ["a", "b"], str(tmp_path / "m"))
            assert ["f"] == [name for name in meta.signature_def if not name.startswith("__")]
            assert "tensorflow/serving/predict" == meta.signature_def["f"].method_name
            assert [7.0] == sess.run("y:0", {"x:0": [2.0]}).tolist()

    def test_default_signatures(self, tmp_path):
        """By default there are two equal signatures, whose names of tensors are valid names of arguments."""
        scale(outputs=["y", "w", "looked_up"], inputs=["x", "label"]).export_serving(str(tmp_path / "m"))
        with tf.Graph().as_default(), tf.Session() as sess:
            meta = tf.saved_model.loader.load(sess, ["serve"], str(tmp_path / "m"))
        old, default = meta.signature_def["prediction_pipeline"], meta.signature_def["serving_default"]
        assert old == default
        assert ["label", "x"] == sorted(default.inputs)
        assert ["looked_up", "w_Read_ReadVariableOp", "y"] == sorted(default.outputs)

    def test_old_scripts(self, tmp_path, monkeypatch):
        """In scripts of `tensorpack-lite run`, prediction_pipeline has tensorpack's names, with the index."""
        complete_for_old_scripts(monkeypatch, export)
        scale().export_serving(str(tmp_path / "m"))
        with tf.Graph().as_default(), tf.Session() as sess:
            meta = tf.saved_model.loader.load(sess, ["serve"], str(tmp_path / "m"))
        assert ["x:0"] == list(meta.signature_def["prediction_pipeline"].inputs)
        assert ["y"] == list(meta.signature_def["serving_default"].outputs)

    def test_old_scripts_with_their_own_signature(self, tmp_path, monkeypatch):
        """In scripts of `tensorpack-lite run`, a signature that they name has the names with the index."""
        complete_for_old_scripts(monkeypatch, export)
        scale().export_serving(str(tmp_path / "m"), signature_name="f")
        assert (["x:0"], ["y:0"]) == signature(tmp_path / "m", "f")

    def test_names_that_collide(self, tmp_path):
        """Tensors whose names in the signature would be equal keep their names in the graph."""

        def function(x):
            first, second = tf.split(tf.reshape(x, [1, 1]) * tf.ones([1, 4]), 2, axis=1)
            tf.identity(first, "split_1")
            return second

        names = ["split:1", "split_1:0", "y"]
        changed(function, outputs=names, inputs=names).export_serving(str(tmp_path / "m"))
        expected = ["split:1", "split_1:0", "y"]
        assert (expected, expected) == signature(tmp_path / "m", "serving_default")

    def test_names_of_scopes_that_collide(self, tmp_path):
        """A slash and an underscore collide only in a signature."""

        def function(x):
            with tf.name_scope("a/"):
                tf.identity(x, "b")
            tf.identity(x * 2, "a_b")

        changed(function, outputs=["a/b", "a_b", "a_b"]).export_serving(str(tmp_path / "m"))
        assert (["x"], ["a/b:0", "a_b:0"]) == signature(tmp_path / "m", "serving_default")

    @pytest.mark.parametrize("kind", ["vocabulary", "content"])
    def test_files(self, tmp_path, kind):
        """Files that the model reads are exported, so the model works without the original; otherwise it is an error."""
        vocabulary = tmp_path / "words.txt"
        vocabulary.write_text("no\nyes\n")

        def look_up(word):
            if kind == "vocabulary":
                initializer = tf.lookup.TextFileInitializer(
                    str(vocabulary),
                    tf.string,
                    tf.lookup.TextFileIndex.WHOLE_LINE,
                    tf.int64,
                    tf.lookup.TextFileIndex.LINE_NUMBER,
                )
                return tf.identity(tf.lookup.StaticHashTable(initializer, -1).lookup(word), name="y")
            content = tf.read_file(tf.constant(str(vocabulary)))
            return tf.identity(tf.strings.length(tf.strings.join([content, word])), name="y")

        config = PredictConfig(
            tower_func=look_up,
            input_signature=[tf.TensorSpec([], tf.string, "word")],
            input_names=["word"],
            output_names=["y"],
        )
        path = str(tmp_path / "serving")
        if kind == "content":
            with pytest.raises(RuntimeError, match="reads '.*words.txt', which TensorFlow does not export"):
                ModelExporter(config).export_serving(path)
            assert ["words.txt"] == os.listdir(str(tmp_path))
            return
        ModelExporter(config).export_serving(path)
        vocabulary.unlink()
        with tf.Graph().as_default(), tf.Session() as sess:
            tf.saved_model.loader.load(sess, ["serve"], path)
            assert 1 == sess.run("y:0", {"word:0": "yes"})

    def test_tables(self, tmp_path):
        """Lookup tables are initialized when the model is loaded."""
        scale(outputs=["looked_up"], inputs=["label"]).export_serving(str(tmp_path / "m"))
        with tf.Graph().as_default(), tf.Session() as sess:
            meta = tf.saved_model.loader.load(sess, ["serve"], str(tmp_path / "m"))
            (output,) = meta.signature_def["prediction_pipeline"].outputs.values()
            assert [20, -1] == sess.run(output.name, {"label:0": [2, 7]}).tolist()

    def test_tags_as_one_string(self, tmp_path):
        """A string as tags raises TypeError with advice."""
        with pytest.raises(TypeError, match=r"tags: expected a list of strings, got str. Write \['serve'\]"):
            scale().export_serving(str(tmp_path / "m"), tags="serve")


class TestMistakes:
    def test_variables_without_value(self, tmp_path):
        """Variables that session_init does not load raise an error that names them, and nothing is written."""
        with pytest.raises(ValueError, match="session_init does not load these variables: w. Give PredictConfig"):
            scale(DictRestore({})).export_serving(str(tmp_path / "m"))
        assert [] == list(tmp_path.iterdir())

    def test_unknown_output(self, tmp_path):
        """An unknown name raises KeyError with the nearest names."""
        with pytest.raises(KeyError, match="'prediction:0' is not in the graph. The nearest names are"):
            scale(outputs=["prediction"]).export_compact(str(tmp_path / "m.pb"))

    def test_not_a_config(self):
        """Anything but a PredictConfig raises TypeError."""
        with pytest.raises(TypeError, match=r"ModelExporter: config .*expected PredictConfig, got dict"):
            ModelExporter({})
