"""`tensorflow` as a script sees it."""

from __future__ import annotations

import difflib
import importlib.machinery
import importlib.util
import json
import operator
import os
import textwrap
from pathlib import Path

import pytest
from tf1.command import PACKAGES, python, run, run_quickly

from tensorpack_lite.compat import TF_VERSION, tfv1
from tensorpack_lite.tf1 import view
from tensorpack_lite.tf1.startup import sitecustomize

VIEW_SCRIPT = """
    import json, sys
    import installed
    import tensorflow as tf
    from tensorflow.python.framework import ops
    from tensorflow.keras.layers import Dense
    import tensorflow.contrib
    import tensorflow.compat.v1 as v1
    from tensorflow import train
    from tensorpack.compat import tensorflow as real

    executed = {}
    exec("import tensorflow as tf", executed)

    def error_of(statement):
        try:
            exec(statement)
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    def replaces():
        before, tf.get_variable = tf.get_variable, lambda *args, **kwargs: "replaced"
        try:
            return real.compat.v1.get_variable is tf.get_variable or tf is real  # TF 1.15 has two functions
        finally:
            tf.get_variable = before

    x = tf.placeholder(tf.float32, (None, 3), "x")
    facts = dict(
        same=installed.tensorflow is real and sys.modules["tensorflow"] is real,
        module=tensorflow.contrib is tf.contrib and tensorflow is tf,
        graph=not tf.executing_eagerly() and not v1.executing_eagerly(),
        dimension=x.shape[1].value,
        variable=type(tf.get_variable("v", [2])).__name__,
        op=isinstance(x, tf.Tensor) and x.op.graph is ops.get_default_graph() is tf.get_default_graph(),
        executed=executed["tf"] is tf,
        train=train.AdamOptimizer is tf.train.AdamOptimizer,
        version=tf.__version__ == real.__version__,
        layer=tf.layers.dense(x, 4, name="fc").shape.as_list(),
        names=[v.op.name for v in tf.trainable_variables()],
        cell=tf.nn.rnn_cell.GRUCell(3).state_size,
        dunder_import=__import__("tensorflow") is tf,
        replaced=replaces(),
        wrong_attribute=error_of("tf.placeholer"),
        wrong_name=error_of("from tensorflow import placeholer"),
        wrong_module=error_of("import tensorflow.nothing"),
    )
    print(json.dumps(facts))
    """


@pytest.fixture(scope="module")
def facts(tmp_path_factory):
    """The facts that a script prints, which imports an installed package, TensorFlow and tensorpack."""
    require_keras_2()
    folder = tmp_path_factory.mktemp("script")
    (folder / "train.py").write_text(textwrap.dedent(VIEW_SCRIPT), encoding="utf-8")
    base = str(folder / "base")
    user_site = python("-m", "site", "--user-site", cwd=folder, PYTHONUSERBASE=base).stdout.strip()
    os.makedirs(user_site)
    (Path(user_site) / "installed.py").write_text("import tensorflow\n", encoding="utf-8")
    result = run("train.py", cwd=folder, path=[PACKAGES, user_site], PYTHONUSERBASE=base)
    assert result.returncode == 0, result.stderr
    assert "deprecated" not in result.stderr
    return json.loads(result.stdout.splitlines()[-1])


def require_keras_2():
    """Skip the test if TensorFlow has Keras 3 and `tf_keras` is not installed."""
    if TF_VERSION >= (2, 16):
        pytest.importorskip("tf_keras")


@pytest.mark.skipif(TF_VERSION < (2, 0), reason="TensorFlow 1.15 has its own tf.layers")
class TestWithoutKeras:
    """On TensorFlow 2.16 and later without tf_keras, its names are errors that say what to install."""

    @pytest.fixture(autouse=True)
    def _no_keras(self, monkeypatch):
        monkeypatch.setattr(view, "_HAS_KERAS_2", False)

    @pytest.mark.parametrize("path", ["layers", "nn.rnn_cell", "keras"])
    def test_attribute(self, path):
        """An attribute is an AttributeError; other names still work."""
        tf = view.TF1View("tensorflow", [tfv1])
        with pytest.raises(AttributeError, match=rf"tf.{path} needs tf_keras.*tensorpack_lite\[tf1\]"):
            operator.attrgetter(path)(tf)
        assert tf.nn.relu is tfv1.nn.relu

    @pytest.mark.parametrize("name", ["tensorflow.keras.layers", "tensorflow.layers", "tensorflow.keras"])
    def test_import(self, monkeypatch, name):
        """An import is an ImportError, whichever part of the statement names the module."""
        monkeypatch.setattr(view, "prepare_tf1", lambda: None)
        with pytest.raises(ImportError, match="needs tf_keras"):
            view.import_module(name, ["anything"])
        package, _, item = name.rpartition(".")
        with pytest.raises(ImportError, match="needs tf_keras"):
            view.import_module(package, [item])


@pytest.mark.slow
class TestTensorflow:
    """`tensorflow` is TensorFlow 1 for the script, and the real one for installed packages."""

    @pytest.mark.matrix
    @pytest.mark.parametrize(
        "fact", ["same", "module", "graph", "op", "executed", "dunder_import", "replaced", "train", "version"]
    )
    def test_modules(self, facts, fact):
        """An installed package gets the real module; the script gets one view of it, in graph mode."""
        assert facts[fact] is True

    def test_behavior(self, facts):
        """Shapes have dimensions, variables are those of TensorFlow 1, and `tf.layers` and `rnn_cell` exist."""
        assert facts["dimension"] == 3
        assert facts["variable"] == "RefVariable"
        assert facts["layer"] == [None, 4]
        assert facts["names"] == ["v", "fc/kernel", "fc/bias"]
        assert facts["cell"] == 3

    def test_errors(self, facts):
        """A name that does not exist is an error of the same type as in TensorFlow 1, which names similar ones."""
        assert facts["wrong_attribute"].startswith("AttributeError")
        assert facts["wrong_name"].startswith("ImportError")
        assert facts["wrong_module"].startswith("ModuleNotFoundError")
        if TF_VERSION >= (2, 0):
            assert "Similar names: placeholder" in facts["wrong_attribute"]
            assert "Similar names: placeholder" in facts["wrong_name"]


@pytest.mark.slow
def test_tf_slim(tmp_path):
    """A script that imports tf_slim itself gets normalization layers that work."""
    require_keras_2()
    if importlib.util.find_spec("tf_slim") is None:
        pytest.skip("tf_slim is not installed")
    (tmp_path / "train.py").write_text(SLIM_SCRIPT, encoding="utf-8")
    result = run("train.py", cwd=tmp_path)
    assert result.stdout.split() == ["bn/beta", "bn/moving_mean", "bn/moving_variance"], result.stderr


SLIM_SCRIPT = """
from tf_slim import batch_norm
import tensorflow as tf
batch_norm(tf.placeholder(tf.float32, [None, 8]), scope="bn")
print(*[v.op.name for v in tf.global_variables()])
"""


@pytest.mark.skipif(TF_VERSION < (2, 0), reason="TensorFlow 1.15 has its own namespace")
def test_hasattr(monkeypatch):
    """Similar names are searched once, even if a script asks for a name again and again."""
    searches = []
    monkeypatch.setattr(difflib, "get_close_matches", lambda *args: searches.append(args) or [])
    tf = view.TF1View("tensorflow", [tfv1])
    assert not any(hasattr(tf, "nothing_at_all") for _ in range(3))
    assert 1 == len(searches)


def test_importer(monkeypatch):
    """Only the statements that import TensorFlow, and imports that are not recognized, call the function of the importer."""
    monkeypatch.setattr(sitecustomize, "_import", lambda name, *others: f"imported {name}")
    names = {"__builtins__": {"__import__": sitecustomize._Importer()}}
    exec("import json, tensorflow.train, tf_slim; called = __import__('json')", names)
    exec("\n".join(f"name{i} = 0" for i in range(300)) + "\nimport tensorflow as late", names)
    assert names["json"] is json
    assert "imported json" == names["called"]
    assert "imported tf_slim" == names["tf_slim"]
    assert "imported tensorflow" == names["late"]


class TestIsLibraryFile:
    """The file that imports decides what it gets."""

    def test_folders(self, tmp_path, monkeypatch):
        """Packages are recognized in site-packages, and TensorFlow in any folder of `sys.path`; scripts are not packages."""
        sitecustomize.is_library_file.cache_clear()
        sitecustomize._library_folders.cache_clear()
        package = tmp_path / "libs" / "tf_slim"
        package.mkdir(parents=True)
        spec = importlib.machinery.ModuleSpec("tf_slim", None, origin=str(package / "__init__.py"))
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec if name == "tf_slim" else None)
        try:
            assert sitecustomize.is_library_file("/elsewhere/site-packages/package/module.py")
            assert sitecustomize.is_library_file(str(package / "layers.py"))
            assert sitecustomize.is_library_file(json.__file__)
            assert not sitecustomize.is_library_file(str(tmp_path / "libs" / "train.py"))
        finally:
            sitecustomize.is_library_file.cache_clear()
            sitecustomize._library_folders.cache_clear()


LOST_SCRIPT = """
import tensorflow as tf
import tensorflow.contrib.slim
import tensorflow.contrib.tensorrt as trt
import tensorflow.contrib.ctc as ctc_module
from tensorflow.contrib import tensorrt, ffmpeg, ctc
from tensorflow.nn import seq2seq

def error_of(function):
    try:
        function()
    except (AttributeError, NotImplementedError) as error:
        return str(error)

print(error_of(lambda: tf.nn.seq2seq))
print(error_of(lambda: tf.learn))
print(error_of(lambda: tf.contrib.ctc))
print(error_of(lambda: ctc.ctc_loss(1)))
print(error_of(lambda: ctc_module.ctc_loss(1)))
print(error_of(lambda: tf.contrib.nothing))
"""


@pytest.mark.slow
def test_lost_modules(tmp_path):
    """Modules that TensorFlow has lost can be imported, also after others of `tf.contrib`. Their use names the replacement."""
    require_keras_2()
    (tmp_path / "train.py").write_text(LOST_SCRIPT, encoding="utf-8")
    result = run_quickly("train.py", cwd=tmp_path)
    seq2seq, learn, *ctc, nothing = result.stdout.splitlines() or pytest.fail(result.stderr)
    assert seq2seq.endswith("Use tf.contrib.legacy_seq2seq.")
    assert "Use tensorpack's trainers" in learn
    assert len(ctc) == 3
    assert all(line.startswith("tf.contrib.ctc does not exist") and "Use tf.nn.ctc_loss" in line for line in ctc)
    assert "contrib" in nothing
    assert "Use " not in nothing
