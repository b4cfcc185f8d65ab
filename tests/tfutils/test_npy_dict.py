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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (np.zeros(3), "expected a dictionary .*, got an array of float64"),
        ([1, 2], "expected a dictionary .*, got a list"),
        (b"hello, this is text", "magic string"),
    ],
)
def test_other_files(tmp_path, content, message):
    """An array, a list, or a file in another format raises a DamagedFileError."""
    path = tmp_path / "a.npy"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, list):
        box = np.empty([], dtype=object)
        box[()] = content
        np.save(str(path), box)
    else:
        np.save(str(path), content)
    with pytest.raises(DamagedFileError, match=message):
        load_npy_dict(str(path))
