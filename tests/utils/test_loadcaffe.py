"""What an import of upstream's Caffe reader gives."""

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
    """They say why they are not here and what to do instead."""
    with pytest.raises(
        ImportError, match=f"{name} is not in tensorpack_lite: Caffe has had no release.*{advice}"
    ):
        getattr(loadcaffe, name)


def test_the_import_line_of_a_script():
    """The sentence is what `from .. import ..` shows."""
    with pytest.raises(ImportError, match="load_caffe is not in tensorpack_lite"):
        from tensorpack_lite.utils.loadcaffe import load_caffe  # noqa: F401


def test_other_names():
    """Any other name is absent as in every module."""
    assert not hasattr(loadcaffe, "something")
