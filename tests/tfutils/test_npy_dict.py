"""Dictionaries in `.npy` files, read without running code."""

from __future__ import annotations

import os

import numpy as np
import pytest

from tensorpack_lite.tfutils.npy_dict import load_npy_dict
from tensorpack_lite.utils.errors import DamagedFileError


class Evil:
    """A pickle that would run a command."""

    def __reduce__(self):
        return os.mkdir, ("pwned",)


def test_reads_arrays_and_scalars(tmp_path):
    """What tensorpack's old model files hold."""
    wanted = {"conv0/W": np.arange(6, dtype="float32").reshape(2, 3), "step": np.int64(3), "lr": 0.5}
    np.save(str(tmp_path / "m.npy"), wanted)
    got = load_npy_dict(str(tmp_path / "m.npy"))
    assert sorted(wanted) == sorted(got)
    np.testing.assert_array_equal(wanted["conv0/W"], got["conv0/W"])
    assert (3, 0.5) == (got["step"], got["lr"])


def test_never_runs_code(tmp_path, monkeypatch):
    """A pickle that names a function is refused before it is called."""
    monkeypatch.chdir(tmp_path)
    np.save("m.npy", {"w": Evil()})
    with pytest.raises(
        DamagedFileError, match=r"^m\.npy cannot be read as .*: it names (posix|nt)\.mkdir, which was not run"
    ):
        load_npy_dict("m.npy")
    assert not os.path.exists("pwned")


def test_refuses_plain_arrays(tmp_path):
    """An array has no names."""
    np.save(str(tmp_path / "a.npy"), np.zeros(3))
    with pytest.raises(DamagedFileError, match="holds an array of float64, expected a dictionary"):
        load_npy_dict(str(tmp_path / "a.npy"))


def test_refuses_other_objects(tmp_path):
    """Nor has a list."""
    box = np.empty([], dtype=object)
    box[()] = [1, 2]
    np.save(str(tmp_path / "a.npy"), box)
    with pytest.raises(DamagedFileError, match="holds a list, expected a dictionary"):
        load_npy_dict(str(tmp_path / "a.npy"))


def test_refuses_other_files(tmp_path):
    """A file that is no npy at all is an error too."""
    (tmp_path / "a.npy").write_bytes(b"hello, this is text")
    with pytest.raises(DamagedFileError, match="magic string"):
        load_npy_dict(str(tmp_path / "a.npy"))
