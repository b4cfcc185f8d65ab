"""OpenCV, which may be absent."""

from __future__ import annotations

import sys

import pytest

from tensorpack_lite.utils.opencv import load_cv2


def test_the_module():
    """It is the module itself."""
    assert pytest.importorskip("cv2") is load_cv2()


def test_where_it_is_absent(monkeypatch):
    """The command that installs it."""
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(ImportError, match=r'Images need OpenCV: pip install "tensorpack_lite\[image\]"'):
        load_cv2()


def test_nobody_loads_it_on_import(run_script):
    """Neither OpenCV nor matplotlib is touched before they are used."""
    code = """
    import sys
    import tensorpack_lite.utils.viz as viz, tensorpack_lite.utils.palette, numpy as np
    viz.stack_patches(np.zeros([2, 4, 4]), 1, 2)
    print([name for name in ("cv2", "matplotlib") if name in sys.modules])
    """
    assert "[]\n" == run_script(code).stdout
