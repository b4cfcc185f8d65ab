"""Tests of reading dictionaries from `.npy` files without executing code."""

from __future__ import annotations

import os

import numpy as np
import pytest

from tensorpack_lite.tfutils.variable_files import load_npy_dict
from tensorpack_lite.utils.errors import DamagedFileError


class Evil:
    """A pickle that would run a command."""

    def __reduce__(self):
        return os.mkdir, ("pwned",)


def test_reads_arrays_and_scalars(tmp_path):
    """Arrays and scalars, as in old model files of tensorpack, are read."""
    wanted = {"conv0/W": np.arange(6, dtype="float32").reshape(2, 3), "step": np.int64(3), "lr": 0.5}
    np.save(str(tmp_path / "m.npy"), wanted)
    got = load_npy_dict(str(tmp_path / "m.npy"))
    assert sorted(wanted) == sorted(got)
    np.testing.assert_array_equal(wanted["conv0/W"], got["conv0/W"])
    assert (3, 0.5) == (got["step"], got["lr"])


def test_never_runs_code(tmp_path, monkeypatch):
    """A pickle that references a function is refused before the function is called."""
    monkeypatch.chdir(tmp_path)
    np.save("m.npy", {"w": Evil()})
    with pytest.raises(
        DamagedFileError, match=r"^m\.npy cannot be read as .*: it names (posix|nt)\.mkdir, which was not run"
    ):
        load_npy_dict("m.npy")
    assert not os.path.exists("pwned")


def test_refuses_plain_arrays(tmp_path):
    """A plain array raises a DamagedFileError."""
    np.save(str(tmp_path / "a.npy"), np.zeros(3))
    with pytest.raises(DamagedFileError, match="expected a dictionary .*, got an array of float64"):
        load_npy_dict(str(tmp_path / "a.npy"))


def test_refuses_other_objects(tmp_path):
    """A list raises a DamagedFileError."""
    box = np.empty([], dtype=object)
    box[()] = [1, 2]
    np.save(str(tmp_path / "a.npy"), box)
    with pytest.raises(DamagedFileError, match="expected a dictionary .*, got a list"):
        load_npy_dict(str(tmp_path / "a.npy"))


def test_refuses_other_files(tmp_path):
    """A file in another format raises a DamagedFileError."""
    (tmp_path / "a.npy").write_bytes(b"hello, this is text")
    with pytest.raises(DamagedFileError, match="magic string"):
        load_npy_dict(str(tmp_path / "a.npy"))
