"""Layers of Keras in a tower: an error for those of Keras 3, and advice for the installed version."""

from __future__ import annotations

import importlib
import sys
from contextlib import nullcontext

import pytest

from tensorpack_lite.compat import TF_VERSION, tensorflow
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.graph_builder.data_parallel import DataParallelBuilder
from tensorpack_lite.models import BatchNorm
from tensorpack_lite.tfutils.tower.context import PredictTowerContext, TrainTowerContext

WITH_KERAS_3 = TF_VERSION >= (2, 16)
REFUSED = r"these variables belong to layers of Keras 3: .* Use the layers of tensorpack_lite .* with layers of Keras 2"


@pytest.fixture
def make_keras(tmp_path, monkeypatch):
    """Function that imports a module `keras` of a given version, with a function that creates a variable."""
    # The lazy modules of TensorFlow decide which Keras there is when an attribute is first read, for the whole process.
    for module in (tensorflow.keras, tensorflow.losses, tf.keras, tf.layers, tf.nn.rnn_cell):
        hasattr(module, "no such name")

    def make(version):
        source = (
            f"import tensorflow\n__version__ = {version!r}\n\ndef add(tf, name): return tf.Variable(1.0, name=name)\n"
        )
        (tmp_path / "keras").mkdir()
        (tmp_path / "keras" / "__init__.py").write_text(source, encoding="utf-8")
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, "keras", raising=False)
        keras = importlib.import_module("keras")
        monkeypatch.setitem(sys.modules, "keras", keras)
        return keras

    return make


@pytest.mark.skipif(TF_VERSION < (2, 0), reason="Keras 3 needs TensorFlow 2")
class TestKeras3:
    @pytest.mark.parametrize("outside", [False, True], ids=["in the tower", "before"])
    @pytest.mark.parametrize("context", [TrainTowerContext, PredictTowerContext])
    def test_refused(self, fresh_graph, make_keras, context, outside):
        """A tower whose layers of Keras 3 have variables is an error, also if the layers were created before."""
        keras = make_keras("3.1.0")
        if outside:
            keras.add(tf, "scale")
        with pytest.raises(RuntimeError, match=REFUSED), context(""):
            if not outside:
                keras.add(tf, "scale")

    def test_variables_of_others(self, fresh_graph, make_keras):
        """Variables of this library, of the script and of Keras 2 are none of Keras 3's."""
        make_keras("3.1.0")
        with TrainTowerContext(""):
            tf.Variable(1.0, name="mine")
            BatchNorm("bn", tf.zeros([2, 3]))

    def test_keras_2(self, fresh_graph, make_keras):
        """A package keras of version 2, as on TensorFlow 2.15, is not refused."""
        keras = make_keras("2.15.0")
        with TrainTowerContext(""):
            keras.add(tf, "scale")

    @pytest.mark.slow
    @pytest.mark.skipif(not WITH_KERAS_3, reason="TensorFlow has Keras 2")
    @pytest.mark.parametrize("name", ["BatchNormalization", "Dropout", "Dense", "ReLU"])
    def test_the_real_one(self, fresh_graph, name):
        """Layers with variables are refused, a seed included; a function without state is not."""
        layers = tensorflow.keras.layers
        arguments = {"Dropout": [0.5], "Dense": [2]}.get(name, [])
        training = {"training": True} if name in ("BatchNormalization", "Dropout") else {}
        with nullcontext() if name == "ReLU" else pytest.raises(RuntimeError, match=REFUSED):
            with TrainTowerContext(""):
                getattr(layers, name)(*arguments)(tf.zeros([2, 3]), **training)


def test_advice():
    """Messages about variables of towers name the way that the installed TensorFlow has."""
    text = DataParallelBuilder._describe_raw_variables([])
    assert "tensorpack_lite.contrib.keras.setup_keras_trainer" in text
    assert WITH_KERAS_3 == ("tf_keras" in text)
