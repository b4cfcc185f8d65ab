"""The placeholder for tensorpack's Caffe reader."""

from __future__ import annotations

import pytest

from tensorpack_lite.utils import loadcaffe


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("load_caffe", r"Convert the model once.*SmartInit\('weights.npz'\)"),
        ("get_caffe_pb", r"Compile caffe.proto yourself: pip install grpcio-tools"),
    ],
)
def test_dropped_names(name, advice):
    """The names raise an ImportError that names the alternative."""
    with pytest.raises(ImportError, match=f"{name} is not in tensorpack_lite: Caffe has had no release.*{advice}"):
        getattr(loadcaffe, name)


def test_the_import_line_of_a_script():
    """`from ... import load_caffe` raises the same ImportError."""
    with pytest.raises(ImportError, match="load_caffe is not in tensorpack_lite"):
        from tensorpack_lite.utils.loadcaffe import load_caffe  # noqa: F401


def test_other_names():
    """Any other name raises an AttributeError."""
    assert not hasattr(loadcaffe, "something")
