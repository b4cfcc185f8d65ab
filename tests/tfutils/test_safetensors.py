"""Weights in safetensors files: every dtype, loading into a model, damage, and files of other libraries."""

from __future__ import annotations

import json
import os
import sys

import numpy as np
import pytest
from fakes.mutations import mutate

from tensorpack_lite.cli.main import main
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.sessinit import SmartInit
from tensorpack_lite.tfutils.varmanip import (
    dump_session_params,
    get_checkpoint_path,
    load_checkpoint_vars,
    load_parameter_file,
    save_checkpoint_vars,
)
from tensorpack_lite.utils.errors import DamagedFileError

BFLOAT16 = np.dtype(tf.bfloat16.as_numpy_dtype)
KINDS = [*map(np.dtype, ("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16"))]
KINDS += [np.dtype("float32"), np.dtype("float64"), BFLOAT16]


def test_without_the_package(tmp_path, monkeypatch):
    """Without the package, reading and writing raise an ImportError with the command that installs it."""
    for module in ("safetensors", "safetensors.numpy"):
        monkeypatch.setitem(sys.modules, module, None)
    path = str(tmp_path / "w.safetensors")
    advice = r'needs safetensors, .*pip install "tensorpack_lite\[safetensors\]"'
    with pytest.raises(ImportError, match=advice):
        save_checkpoint_vars({"w": np.zeros(1)}, path)
    assert [] == os.listdir(str(tmp_path))
    (tmp_path / "w.safetensors").write_bytes(b"x")
    with pytest.raises(ImportError, match=advice):
        SmartInit(path)


def test_the_list_of_parts(tmp_path):
    """The list of the parts of a large model raises an error with the call that loads them all."""
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": {"a": "2.safetensors", "b": "1.safetensors", "c": "1.safetensors"}}))
    parts = rf"\['{tmp_path}/1.safetensors', '{tmp_path}/2.safetensors'\]"
    for load in (SmartInit, load_checkpoint_vars):
        with pytest.raises(ValueError, match=rf"lists the 2 files .* SmartInit\({parts}\)"):
            load(str(path))
    path.write_text("{}")
    with pytest.raises(DamagedFileError, match="as a list of safetensors files"):
        SmartInit(str(path))


class TestWithThePackage:
    @pytest.fixture(autouse=True)
    def package(self):
        return pytest.importorskip("safetensors", reason="safetensors is not installed")

    @pytest.mark.parametrize("dtype", KINDS, ids=str)
    def test_dtypes(self, tmp_path, dtype):
        """Arrays of every dtype, scalars, empty and transposed arrays are the same after writing and reading."""
        path, values = str(tmp_path / "w.safetensors"), np.array([[0, 1, 1], [1, 1, 0]]).astype(dtype)
        arrays = {"a/W:0": values, "b": values.T, "c": values[0, 1], "d": values[:, :0], "e": values[:, ::2]}
        save_checkpoint_vars(arrays, path)
        loaded = load_parameter_file(path)
        assert ["a/W", "b", "c", "d", "e"] == list(loaded)
        for name, array in arrays.items():
            other = loaded[name.split(":", 1)[0]]
            assert (dtype, array.shape, True) == (other.dtype, other.shape, other.flags.writeable)
            np.testing.assert_array_equal(np.asarray(array, "float64"), np.asarray(other, "float64"))
        assert ["w.safetensors"] == os.listdir(str(tmp_path))

    def test_files_of_the_package(self, tmp_path, package):
        """A file is one that the package itself reads, and the other way round."""
        from safetensors.numpy import load_file, save_file

        path, values = str(tmp_path / "w.safetensors"), np.arange(6, dtype="float32").reshape(2, 3)
        save_checkpoint_vars({"w": values}, path)
        np.testing.assert_array_equal(values, load_file(path)["w"])
        save_file({"v": values}, path, metadata={"format": "pt"})
        np.testing.assert_array_equal(values, load_checkpoint_vars(path)["v"])

    @pytest.mark.parametrize("dtype", [tf.float32, tf.float16, tf.bfloat16])
    def test_a_model(self, tmp_path, sess, dtype):
        """SmartInit sets the variables to the values that were written, in their dtype, without a cast."""
        path = str(tmp_path / "w.safetensors")
        value = tf.cast([[1.5, -2.0]], dtype)
        var = tf.get_variable("fc/W", initializer=value, use_resource=True)
        sess.run(tf.global_variables_initializer())
        dump_session_params(path)
        sess.run(var.assign(tf.zeros_like(value)))
        SmartInit(path).init(sess)
        assert [[1.5, -2.0]] == sess.run(tf.cast(var, tf.float32)).tolist()

    def test_a_dtype_that_fits(self, tmp_path, sess, capsys):
        """A bfloat16 value initializes a float32 variable, with a line in the log."""
        path = str(tmp_path / "w.safetensors")
        save_checkpoint_vars({"w": np.array([1.5, 3.0]).astype(BFLOAT16)}, path)
        var = tf.get_variable("w", [2])
        sess.run(tf.global_variables_initializer())
        SmartInit(path).init(sess)
        assert [1.5, 3.0] == sess.run(var).tolist()
        assert "cast from bfloat16 to float32" in capsys.readouterr().out

    def test_names_of_another_library(self, tmp_path, sess):
        """If no name fits, an error shows names of both sides, instead of a training from random values."""
        path = str(tmp_path / "w.safetensors")
        save_checkpoint_vars({"encoder.layer.0.weight": np.zeros(2)}, path)
        tf.get_variable("fc/W", [2])
        with pytest.raises(ValueError, match=r"the file has encoder.layer.0.weight; the graph has fc/W\).*PyTorch"):
            SmartInit(path).init(sess)

    @pytest.mark.parametrize(
        ("values", "match"),
        [
            ({"w": np.zeros(2, "complex128")}, r"does not have the dtype of w \(complex128\). Use the suffix .npz"),
            ({"w": np.array(["a"])}, r"does not have the dtype of w \(<U1\)"),
            ({"w": np.zeros(2), "w:0": np.ones(2)}, "two names mean the same variable"),
        ],
    )
    def test_values_that_cannot_be_written(self, tmp_path, values, match):
        """A dtype without a name in the format, and a name that occurs twice, raise a ValueError. An older file stays."""
        path = tmp_path / "w.safetensors"
        path.write_bytes(b"old")
        with pytest.raises(ValueError, match=match):
            save_checkpoint_vars(values, str(path))
        assert (b"old", ["w.safetensors"]) == (path.read_bytes(), os.listdir(str(tmp_path)))

    def test_a_dtype_of_8_bits(self, tmp_path):
        """A file with a dtype that NumPy does not have raises a ValueError with the name of the array."""
        header = json.dumps({"w": {"dtype": "F8_E4M3", "shape": [2], "data_offsets": [0, 2]}}).encode()
        path = tmp_path / "w.safetensors"
        path.write_bytes(len(header).to_bytes(8, "little") + header + b"ab")
        with pytest.raises(ValueError, match=r"dtypes that NumPy does not have: w \(F8_E4M3\)"):
            SmartInit(str(path))

    def test_damaged_files(self, tmp_path):
        """A file of another kind, a header that promises terabytes and any cut raise a DamagedFileError with the path."""
        path = tmp_path / "w.safetensors"
        save_checkpoint_vars({"w": np.arange(20.0), "b": np.zeros(3, "float16")}, str(path))
        whole = path.read_bytes()
        huge = json.dumps({"w": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}).encode()
        cuts = [whole[:size] for size in (0, 7, 8, 50, len(whole) - 1)]
        for content in (b"hello", b"\xff" * 8, len(huge).to_bytes(8, "little") + huge, whole + b"x", *cuts):
            path.write_bytes(content)
            with pytest.raises(DamagedFileError, match="w.safetensors cannot be read as a safetensors file"):
                SmartInit(str(path))
        messages = []
        for seed in range(200):  # in some, only an array is damaged, which remains unnoticed
            path.write_bytes(mutate(whole, seed)[1])
            try:
                load_parameter_file(str(path))
            except ValueError as error:
                messages.append(str(error))
        assert len(messages) > 50
        assert all("w.safetensors" in message for message in messages)

    def test_paths(self, tmp_path):
        """A missing file raises FileNotFoundError; functions for checkpoints say what loads such a file."""
        path = tmp_path / "w.safetensors"
        with pytest.raises(FileNotFoundError, match="no parameter file"):
            SmartInit(str(path))
        path.write_bytes(b"x")
        with pytest.raises(ValueError, match="a file of safetensors.*SmartInit"):
            get_checkpoint_path(str(path))

    def test_commands(self, tmp_path, capsys):
        """`dump-params` writes such a file, `ls-checkpoint` lists it, and `checkpoint-diff` compares it with a checkpoint."""
        model, path = str(tmp_path / "model"), str(tmp_path / "w.safetensors")
        save_checkpoint_vars({"fc/W": np.float32([[1, 2]]), "fc/W/Adam": np.float32([[0, 0]])}, model)
        assert 0 == main(["dump-params", model, path])
        assert "1 of 2 variables written" in capsys.readouterr().out
        assert 0 == main(["ls-checkpoint", path])
        assert "1 variables, 2 elements" in capsys.readouterr().out
        assert 0 == main(["checkpoint-diff", model, path, "--match", "W$"])
