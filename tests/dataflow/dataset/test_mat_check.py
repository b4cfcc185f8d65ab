"""Tests of the check of MATLAB files whose damage would crash SciPy."""

from __future__ import annotations

import glob
import os
import struct

import numpy as np
import pytest

from tensorpack_lite.dataflow.dataset.mat_check import check_mat
from tensorpack_lite.dataflow.dataset.readers import read_mat
from tensorpack_lite.utils.errors import DamagedFileError

scipy_io = pytest.importorskip("scipy.io")


@pytest.fixture
def written(tmp_path):
    """Write a file with a numeric matrix; return its path and its content."""
    path = tmp_path / "a.mat"
    scipy_io.savemat(str(path), {"X": np.arange(12.0).reshape(3, 4)})
    return path, path.read_bytes()


@pytest.mark.parametrize("compressed", [False, True])
def test_every_kind_of_value(tmp_path, compressed):
    """Numbers, strings, cells, structs and sparse matrices pass the check."""
    sparse = pytest.importorskip("scipy.sparse")
    cell = np.empty(3, dtype=object)
    cell[:] = [np.ones(3), "x", {"q": 1}]
    values = {
        "numbers": np.arange(5),
        "complex": np.array([1 + 2j]),
        "small": np.uint8(3),
        "texts": np.array(["ab", "cd"]),
        "cell": cell,
        "struct": {"f": 1, "g": {"h": "zz"}},
        "sparse": sparse.eye(5).tocsc(),
        "empty": np.zeros((0, 0)),
    }
    path = str(tmp_path / "a.mat")
    scipy_io.savemat(path, values, do_compression=compressed)
    with open(path, "rb") as file:
        check_mat(file.read())


def test_files_of_matlab_itself():
    """All files written by MATLAB in SciPy's tests that SciPy can read pass the check."""
    matlab = pytest.importorskip("scipy.io.matlab")
    paths = glob.glob(os.path.join(os.path.dirname(matlab.__file__), "tests", "data", "*.mat"))
    if not paths:
        pytest.skip("SciPy is installed without its tests")
    for path in paths:
        if is_readable(path):
            with open(path, "rb") as file:
                check_mat(file.read())


def is_readable(path):
    try:
        scipy_io.loadmat(path)
    except Exception:  # noqa: BLE001 (SciPy's tests have broken files as well)
        return False
    return True


@pytest.mark.filterwarnings("ignore")
def test_a_file_of_version_4(tmp_path):
    """A version 4 file, which has no tags, passes."""
    path = str(tmp_path / "a.mat")
    scipy_io.savemat(path, {"X": np.arange(3)}, format="4")
    assert [[0, 1, 2]] == read_mat(path, "X")[0].tolist()


@pytest.mark.parametrize(
    ("place", "value", "match"),
    [
        (128, 77, "the element at byte 128 has the type 77"),
        (132, 1 << 30, "the element at byte 128 is longer than its container"),
        (136, 9, "the array at byte 136 does not start with its flags"),
        (144, 200, "the array at byte 136 has the class 200"),
        (152, 99, "the element at byte 152 has the type 99"),
        (156, 4000, "the element at byte 152 is longer than its container"),
        (176, 14, "the element at byte 176 has the type 14"),
    ],
)
def test_damaged_tags(written, place, value, match):
    """An invalid type, size or class that would crash SciPy raises an error, which names the file."""
    path, content = written
    damaged = bytearray(content)
    struct.pack_into("<I", damaged, place, value)
    path.write_bytes(bytes(damaged))
    with pytest.raises(DamagedFileError, match=f"a.mat cannot be read as a MATLAB file: {match}"):
        read_mat(str(path), "X")
