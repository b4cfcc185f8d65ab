"""tf1/contrib: modules and names of `tf.contrib`, and the errors for those that do not exist."""

from __future__ import annotations

import difflib
import sys

import pytest

from tensorpack_lite.compat import TF_VERSION

if TF_VERSION < (2, 0):
    pytest.skip("TensorFlow 1.15 has its own tf.contrib", allow_module_level=True)

from tensorpack_lite.tf1 import contrib
from tensorpack_lite.tf1.contrib import _lookup, _slim


class TestFindModule:
    @pytest.mark.parametrize("name", contrib.MODULES)
    def test_each_module(self, name):
        """`find_module` and attribute access return the same module."""
        assert getattr(contrib, name) is contrib.find_module(name)
        assert f"tensorpack_lite.tf1.contrib.{name}" == contrib.find_module(name).__name__

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("layers.python.layers", "layers"),
            ("layers.python.layers.initializers", "layers"),
            ("framework.python.ops", "framework"),
            ("rnn.python.ops.core_rnn_cell", "rnn"),
            ("image.python.ops.image_ops", "image"),
            ("training.python.training.hparam", "_hparams"),
            ("tfprof.model_analyzer", "_model_analyzer"),
        ],
    )
    def test_deep_names(self, name, expected):
        """A module below `python` that does not exist is the module that contains it."""
        assert f"tensorpack_lite.tf1.contrib.{expected}" == contrib.find_module(name).__name__

    def test_moved_modules(self):
        """Modules that TensorFlow 2 has elsewhere are found there."""
        from tensorpack_lite.compat import tfv1

        assert contrib.find_module("signal") is tfv1.signal

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("cudnn_rnn", "No module named tensorflow.contrib.cudnn_rnn.*Use tf.nn.rnn_cell.LSTMCell"),
            ("quantize", "Remove the call"),
            ("crf.python.ops", "tensorflow_addons"),
            ("layres", r"Similar names: layers\."),
            ("training.HParams", "tensorflow.contrib.training.HParams is not a module"),
        ],
    )
    def test_errors(self, name, message):
        """An unknown module is an ImportError that names a replacement."""
        with pytest.raises(ImportError, match=message):
            contrib.find_module(name)


class TestMissingNames:
    def test_a_known_replacement(self):
        """A well-known name has its replacement in the error."""
        with pytest.raises(
            AttributeError, match=r"tf.contrib.training.resample_at_rate does not exist in TensorFlow 2"
        ):
            contrib.training.resample_at_rate  # noqa: B018

    def test_similar_names(self):
        """Otherwise the error lists similar names that exist."""
        error = _lookup.missing("tf.contrib.image", "rotated", contrib.image.__dir__)
        assert "Similar names: rotate." in str(error)

    def test_nothing_near(self):
        """Without a near name, the error names TensorFlow 1.15."""
        assert "Run the script on TensorFlow 1.15" in str(
            _lookup.missing("tf.contrib.image", "xyz", contrib.image.__dir__)
        )

    def test_slim_uses_the_sentences_of_layers(self):
        """A name of tf.contrib.layers that a script uses through slim has the same replacement."""
        error = _lookup.missing("tf.contrib.slim", "real_valued_column", list)
        assert "tf.feature_column.numeric_column" in str(error)

    def test_hasattr(self, monkeypatch):
        """Similar names are searched once, even if a script asks again and again."""
        searches = []
        monkeypatch.setattr(difflib, "get_close_matches", lambda *args: searches.append(args) or [])
        for _ in range(3):
            assert not hasattr(contrib, "nothing_at_all")
            assert not hasattr(contrib.image, "nothing_at_all")
        assert 2 == len(searches)

    def test_private_names(self):
        """Python's look-ups of special names fail without importing anything."""
        assert not hasattr(contrib, "__wrapped__")
        assert not hasattr(contrib.slim, "__wrapped__")


class TestMissingPackages:
    def test_tf_slim(self, monkeypatch):
        """Without tf_slim, the error has the command that installs it."""
        monkeypatch.setattr(_slim, "require_keras_2", lambda who: None)
        monkeypatch.setitem(sys.modules, "tf_slim", None)
        _slim.import_tf_slim.cache_clear()
        with pytest.raises(ImportError, match=r'needs tf_slim.*pip install "tensorpack_lite\[tf1\]"'):
            contrib.slim.conv2d  # noqa: B018

    @pytest.mark.skipif(TF_VERSION < (2, 16), reason="TensorFlow up to 2.15 has Keras 2")
    def test_keras_3(self, monkeypatch):
        """Without TF_USE_LEGACY_KERAS, the error names the command that sets it."""
        pytest.importorskip("tf_keras")
        monkeypatch.delenv("TF_USE_LEGACY_KERAS", raising=False)
        with pytest.raises(ImportError, match="tensorpack-lite run"):
            contrib.rnn.GRUCell  # noqa: B018
