"""ModelExporter: TensorFlow alone serves the exported files, with the same outputs."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from fakes.small_convnet import SmallConvNet, images

from tensorpack_lite.compat import TensorSpec, private, tf1_behavior
from tensorpack_lite.compat import tfv1 as tf
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
    assert list(signature.inputs) == ["image"] and list(signature.outputs) == ["prob"]
    np.save(sys.argv[3], sess.run(signature.outputs["prob"].name, {"image:0": np.load(sys.argv[2])}))
assert not any("tensorpack" in name for name in sys.modules)
"""

SERVE_EAGER = """
import sys
import numpy as np
import tensorflow as tf
predict = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
np.save(sys.argv[3], predict(image=tf.constant(np.load(sys.argv[2])))["prob"].numpy())
assert not any("tensorpack" in name for name in sys.modules)
"""


class Scale(SmallConvNet):
    """A model with one variable and a table, whose outputs are easy to predict."""

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


def scale(session_init=None, outputs=("y",), inputs=("x",)):
    """Return an exporter of the small model."""
    return ModelExporter(
        PredictConfig(
            model=Scale(),
            session_init=DictRestore({"w": 3.0}) if session_init is None else session_init,
            input_names=list(inputs),
            output_names=list(outputs),
        )
    )


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
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    # For a convolution with constant weights, oneDNN uses another algorithm, whose results differ by 1e-4.
    done = subprocess.run(
        [sys.executable, "-c", code, str(model), pictures, outputs],
        env=dict(environment, TF_CPP_MIN_LOG_LEVEL="3", TF_ENABLE_ONEDNN_OPTS="0"), cwd=str(tmp_path),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False,
    )  # fmt: skip
    assert 0 == done.returncode, done.stdout.decode()
    return np.load(outputs)


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

    def test_values(self, tmp_path):
        """The variables have the values of session_init."""
        scale().export_compact(str(tmp_path / "m.pb"))
        assert [7.0] == run(read(tmp_path / "m.pb"), "y:0", {"x:0": [2.0]}).tolist()

    def test_unused_inputs_among_the_names(self, tmp_path):
        """input_names may contain inputs that the outputs do not need."""
        scale(inputs=["x", "label"]).export_compact(str(tmp_path / "m.pb"))
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

    def test_toco_compatible(self, tmp_path):
        """toco_compatible is passed to TensorFlow."""
        scale().export_compact(str(tmp_path / "m.pb"), toco_compatible=True)
        assert [7.0] == run(read(tmp_path / "m.pb"), "y:0", {"x:0": [2.0]}).tolist()

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
        monkeypatch.setenv("TENSORPACK_LITE_RUN", "1")
        monkeypatch.setattr(tf1_behavior, "prepare_tf1", lambda: None)  # the process keeps its TensorFlow
        scale().export_serving(str(tmp_path / "m"))
        with tf.Graph().as_default(), tf.Session() as sess:
            meta = tf.saved_model.loader.load(sess, ["serve"], str(tmp_path / "m"))
        assert ["x:0"] == list(meta.signature_def["prediction_pipeline"].inputs)
        assert ["y"] == list(meta.signature_def["serving_default"].outputs)

    def test_tables(self, tmp_path):
        """Lookup tables are initialized when the model is loaded."""
        scale(outputs=["looked_up"], inputs=["label"]).export_serving(str(tmp_path / "m"))
        with tf.Graph().as_default(), tf.Session() as sess:
            meta = tf.saved_model.loader.load(sess, ["serve"], str(tmp_path / "m"))
            (output,) = meta.signature_def["prediction_pipeline"].outputs.values()
            assert [20, -1] == sess.run(output.name, {"label:0": [2, 7]}).tolist()

    def test_existing_directory(self, tmp_path):
        """A directory that is not a SavedModel is never overwritten."""
        (tmp_path / "m").mkdir()
        (tmp_path / "m" / "notes").write_text("mine")
        message = rf"export_serving: {tmp_path}/m exists and is not a SavedModel. Export to {tmp_path}/m/1\.$"
        for overwrite in (False, True):
            with pytest.raises(FileExistsError, match=message):
                scale().export_serving(str(tmp_path / "m"), overwrite=overwrite)
        assert "mine" == (tmp_path / "m" / "notes").read_text()

    def test_existing_file(self, tmp_path):
        """A file is never overwritten."""
        (tmp_path / "m").write_text("mine")
        with pytest.raises(FileExistsError, match=rf"is not a SavedModel. Export to {tmp_path}/1\.$"):
            scale().export_serving(str(tmp_path / "m"), overwrite=True)

    @pytest.mark.parametrize(("name", "advice"), [("2", "7"), ("m", "m/1")])
    def test_existing_saved_model(self, tmp_path, name, advice):
        """The error names the next free version: one more than the largest number."""
        for other in ("1", "6", "notes"):
            (tmp_path / other).mkdir()
        scale().export_serving(str(tmp_path / name))
        message = rf"/{name} exists. Export to {tmp_path}/{advice}, or pass overwrite=True"
        with pytest.raises(FileExistsError, match=message):
            scale().export_serving(f"{tmp_path}/{name}/")

    def test_overwrite(self, tmp_path):
        """overwrite=True replaces a SavedModel, or creates one; files of a killed export are removed."""
        (tmp_path / "m.tmp").mkdir()
        (tmp_path / "m.tmp" / "saved_model.pb").write_text("unfinished")
        for w in (3.0, 4.0):
            scale(DictRestore({"w": w})).export_serving(str(tmp_path / "m"), overwrite=True)
        with tf.Graph().as_default(), tf.Session() as sess:
            tf.saved_model.loader.load(sess, ["serve"], str(tmp_path / "m"))
            assert [9.0] == sess.run("y:0", {"x:0": [2.0]}).tolist()
        assert ["m"] == [path.name for path in tmp_path.iterdir()]

    def test_failed_overwrite(self, tmp_path):
        """An export that fails does not change the old SavedModel."""
        scale().export_serving(str(tmp_path / "m"))
        before = (tmp_path / "m" / "saved_model.pb").read_bytes()
        with pytest.raises(KeyError, match="nearest names"):
            scale(outputs=["prediction"]).export_serving(str(tmp_path / "m"), overwrite=True)
        assert before == (tmp_path / "m" / "saved_model.pb").read_bytes()

    def test_tags_as_one_string(self, tmp_path):
        """A string as tags raises TypeError with advice."""
        with pytest.raises(TypeError, match=r"tags: expected a list of strings, got str. Write \['serve'\]"):
            scale().export_serving(str(tmp_path / "m"), tags="serve")


class Changed(Scale):
    """A model whose output is given by a function."""

    def __init__(self, function):
        self.function = function

    def build_graph(self, x, label):
        tf.identity(self.function(x), name="y")


def changed(function):
    """Return an exporter of the model whose output a function makes from x, a vector."""
    config = PredictConfig(
        model=Changed(function), session_init=DictRestore({"w": 3.0}), input_names=["x"], output_names=["y"]
    )
    return ModelExporter(config)


def assign_in_a_branch(x):
    """Update a variable if all of x is positive."""
    w = tf.get_variable("w", [], trainable=False)

    def update():
        with tf.control_dependencies([w.assign_add(1.0)]):
            return x * 2.0

    return tf.cond(tf.reduce_all(x >= 0), update, lambda: x * w)


@pytest.fixture
def control_flow_v1():
    """Branches belong to the graph itself, as in TensorFlow 1."""
    was_v2 = tf.control_flow_v2_enabled()
    tf.disable_control_flow_v2()
    yield
    if was_v2:
        tf.enable_control_flow_v2()


class TestIsChecked:
    """An export counts only if TensorFlow reads it, and it computes the same."""

    def test_a_graph_that_cannot_be_imported(self, tmp_path, control_flow_v1):
        """A frozen graph that TensorFlow cannot import raises an error, and an existing file stays."""
        (tmp_path / "m.pb").write_text("old")
        with pytest.raises(
            RuntimeError,
            match="cannot import the frozen graph: .* variable in a branch of tf.cond.*Use export_serving",
        ):
            changed(assign_in_a_branch).export_compact(str(tmp_path / "m.pb"))
        assert ["old"] == [path.read_text() for path in tmp_path.iterdir()]
        changed(assign_in_a_branch).export_serving(str(tmp_path / "m"))

    def test_other_values(self, tmp_path, monkeypatch):
        """A frozen graph that computes something else raises an error with both values, and no file is left."""

        def scaled(graph_def, *args):
            for node in graph_def.node:
                if node.name == "w":
                    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(4.0))
            return graph_def

        monkeypatch.setattr(private, "optimize_for_inference", scaled)
        with pytest.raises(
            RuntimeError,
            match=r"the output 'y:0' .* differs .*expected float32 \[1\], .*, got .*optimize=False",
        ):
            scale().export_compact(str(tmp_path / "m.pb"))
        assert [] == list(tmp_path.iterdir())

    @pytest.mark.parametrize("kind", ["compact", "serving"])
    def test_an_input_that_does_not_fit(self, tmp_path, log_lines, kind):
        """A model that does not run on the input of the check is exported, and the log says so."""
        exporter = changed(lambda x: tf.reshape(x, [-1, 2]))
        getattr(exporter, f"export_{kind}")(str(tmp_path / "m"))
        (line,) = [line for line in log_lines if "not compared" in line]
        assert "because the model does not run on x:0 [1]: " in line
        assert ["m"] == [path.name for path in tmp_path.iterdir()]

    def test_random_outputs(self, tmp_path, log_lines):
        """A model whose outputs are random is exported, and the log says that it was not compared."""
        changed(lambda x: x + tf.random_uniform([])).export_compact(str(tmp_path / "m.pb"))
        assert 1 == len([line for line in log_lines if "the outputs of the model are random" in line])

    def test_variables_are_saved_before_the_check(self, tmp_path):
        """The check, which runs the model, does not change the variables in a SavedModel."""

        def count(x):
            w = tf.get_variable("w", [], trainable=False)
            return x * w.assign_add(1.0)

        changed(count).export_serving(str(tmp_path / "m"))
        with tf.Graph().as_default(), tf.Session() as sess:
            tf.saved_model.loader.load(sess, ["serve"], str(tmp_path / "m"))
            assert [8.0] == sess.run("y:0", {"x:0": [2.0]}).tolist()


class TestMistakes:
    def test_variables_without_value(self, tmp_path):
        """Variables that session_init does not load raise an error that names them, and nothing is written."""
        with pytest.raises(
            ValueError, match="session_init does not load these variables: w. Give PredictConfig"
        ):
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
