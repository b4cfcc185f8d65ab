"""
Under `tensorpack-lite run`, other libraries have the names that they have removed.

yaml, librosa and pyarrow are stand-ins of the same shape, because the environments of the tests do not have them.
"""

from __future__ import annotations

import pytest
from tf1.command import run_quickly

pytestmark = pytest.mark.slow


def test_pil_and_cv2(output):
    """PIL's filters and OpenCV's old constants have the values of today's names."""
    pytest.importorskip("PIL")
    pytest.importorskip("cv2")
    lines, _ = output(
        """
        from PIL import Image
        import cv2, cv2.cv
        print(Image.ANTIALIAS == Image.LANCZOS, Image.LINEAR == Image.BILINEAR, Image.new("L", (4, 4)).resize((2, 2), Image.CUBIC).size)
        print(cv2.CV_AA == cv2.LINE_AA, cv2.cv.CV_CAP_PROP_FPS == cv2.CAP_PROP_FPS, cv2.cv.CV_BGR2GRAY == cv2.COLOR_BGR2GRAY)
        print(cv2.CV_LOAD_IMAGE_COLOR == cv2.IMREAD_COLOR, hasattr(cv2, "CV_NOTHING"), hasattr(cv2.cv, "nothing"))
        """
    )
    assert lines == ["True True (2, 2)", "True True True", "True False False"]


def test_matplotlib(output):
    """Color maps are found by `get_cmap`, and the pixels of a figure by `tostring_rgb`."""
    pytest.importorskip("matplotlib")
    lines, _ = output(
        """
        import matplotlib
        matplotlib.use("Agg", warn=False)
        import matplotlib.pyplot as plt
        from matplotlib import cm
        plt.hold(True)
        figure = plt.figure(figsize=(1, 2), dpi=10)
        plt.hist([1, 2], normed=True)
        figure.canvas.draw()
        print(cm.get_cmap("jet").name, cm.get_cmap("jet", 3).N, plt.cm.get_cmap().name, len(figure.canvas.tostring_rgb()))
        """
    )
    assert lines == ["jet 3 viridis 600"]


def test_skimage_and_sklearn(output):
    """Measures of images, watershed, joblib and the modules of model selection have their old addresses."""
    pytest.importorskip("skimage")
    pytest.importorskip("sklearn")
    lines, _ = output(
        """
        import numpy as np
        from skimage.measure import compare_ssim, compare_psnr, compare_mse
        from skimage.morphology import watershed
        from sklearn.externals import joblib
        from sklearn.cross_validation import train_test_split
        from sklearn.utils.linear_assignment_ import linear_assignment
        a = np.arange(3 * 64, dtype=np.uint8).reshape(8, 8, 3)
        print(compare_ssim(a, a, multichannel=True), compare_mse(a, a), round(compare_psnr(a, 255 - a), 1))
        print(watershed(np.zeros((2, 2)), np.ones((2, 2), int)).tolist(), joblib.__name__, train_test_split.__name__)
        print(linear_assignment(np.array([[2.0, 1.0], [1.0, 2.0]])).tolist())
        """
    )
    assert lines == ["1.0 0.0 6.0", "[[1, 1], [1, 1]] joblib train_test_split", "[[0, 1], [1, 0]]"]


def test_h5py(output):
    """`dataset.value` is all values; a file without a mode is opened for writing, and kept if it exists."""
    pytest.importorskip("h5py")
    lines, _ = output(
        """
        import h5py
        with h5py.File("a.h5") as f:
            f["x"] = [1, 2]
        with h5py.File("a.h5") as f:
            f["y"] = 3
            print(f["x"].value, f["y"].value, sorted(f.keys())[0])
        """
    )
    assert lines == ["[1 2] 3 x"]


def test_yaml(output, write):
    """`yaml.load` without a Loader uses FullLoader, and does not override a Loader."""
    write(
        "site-packages/yaml.py",
        """
        FullLoader = "full"
        def load(stream, Loader):
            return stream, Loader
        def load_all(stream, Loader):
            return [stream, Loader]
        """,
    )
    lines, log = output(
        """
        import sys
        sys.path.insert(0, "site-packages")
        import yaml
        print(yaml.load("a"), yaml.load("a", Loader="mine"), yaml.load_all("a"))
        """
    )
    assert lines == ["('a', 'full') ('a', 'mine') ['a', 'full']"]
    assert log[0] == "train.py:5: yaml.load without a Loader, which was removed, uses yaml.FullLoader."


def test_librosa(output, write):
    """Functions with keyword-only arguments take them by position, in the order of the signature; `dct` is a matrix."""
    basis = [[0.5, 0.5, 0.5, 0.5], [0.653, 0.271, -0.271, -0.653]]
    write("site-packages/librosa/__init__.py", "from . import filters\n")
    write(
        "site-packages/librosa/filters.py",
        "def mel(*, sr, n_fft, n_mels=128):\n    return sr, n_fft, n_mels\n",
    )
    lines, log = output(
        """
        import sys
        sys.path.insert(0, "site-packages")
        import librosa
        print(librosa.filters.mel(16000, 512), librosa.filters.mel(16000, 512, n_mels=40), librosa.filters.mel(sr=1, n_fft=2))
        print(librosa.filters.dct(2, 4).round(3).tolist())
        """
    )
    assert lines == ["(16000, 512, 128) (16000, 512, 40) (1, 2, 128)", str(basis)]
    assert log == [
        "train.py:5: positional arguments of librosa.filters.mel, which were removed, are sr, n_fft.",
        "train.py:6: librosa.filters.dct, which was removed, is provided by tensorpack_lite.",
    ]


def test_pyarrow(output, write):
    """The bytes that `pyarrow.serialize` returns can be read again; other bytes are an error that names the old pyarrow."""
    write("site-packages/pyarrow.py", "def py_buffer(data):\n    return memoryview(data)\n")
    lines, _ = output(
        """
        import sys
        sys.path.insert(0, "site-packages")
        import numpy as np
        import pyarrow as pa
        print(pa.deserialize(pa.serialize([1, "a", np.arange(2)]).to_buffer()))
        try:
            pa.deserialize(b"wrong")
        except ValueError as error:
            print("pyarrow<12" in str(error))
        """
    )
    assert lines == ["[1, 'a', array([0, 1])]", "True"]


def test_distutils(write, tmp_path):
    """Where Python has no distutils, the error names setuptools."""
    write(
        "train.py",
        """
        import sys
        finder = [one for one in sys.meta_path if getattr(one, "__name__", "") == "LostModules"][0]
        finder.find_spec("distutils")
        """,
    )
    error = run_quickly("train.py", cwd=tmp_path).stderr.splitlines()[-2:]
    assert "was removed from Python 3.12. Run: pip install setuptools" in " ".join(error)


def test_words():
    """Files are searched for all names that are changed in them."""
    from tensorpack_lite.tf1.removed import helpers, table

    assert {*helpers.ATTRIBUTES, *helpers.ARGUMENTS} <= set(table.WORDS)


def test_addresses():
    """Each address in this package exists, and no name is listed for two reasons."""
    from tensorpack_lite.tf1.removed import addresses, table

    optional = ("matplotlib", "skimage", "sklearn", "h5py", "yaml", "keras", "cv")
    for names in (*table.NAMES.values(), *table.PYTHON_2_NAMES.values(), table.BUILTINS):
        for address in names.values():
            if address.startswith(".") and not address[1:].startswith(optional):
                addresses.resolve(address)
    assert not set(table.MODULES) & set(table.PYTHON_2_MODULES)


def test_sizes_of_texts(output):
    """Pillow's fonts and drawings have the methods that compute the size of a text; the size of a file is not changed."""
    pytest.importorskip("PIL")
    lines, _ = output(
        """
        import os
        from PIL import Image, ImageDraw, ImageFont
        width, height = ImageFont.load_default().getsize("abc")
        print(5 < width < 40, 5 < height < 40, os.path.getsize(__file__) > 9)
        print(ImageDraw.Draw(Image.new("L", (9, 9))).textsize("abc") == (width, height))
        """
    )
    assert lines == ["True True True", "True"]
