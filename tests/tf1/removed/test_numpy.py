"""Under `tensorpack-lite run`, NumPy and SciPy have the names that they have removed."""

from __future__ import annotations

import numpy as np
import pytest
from tf1.command import python, run_quickly

_NUMPY = tuple(int(part) for part in np.__version__.split(".")[:2])
pytestmark = pytest.mark.slow


class TestNames:
    def test_aliases(self, output):
        """Aliases of types and constants have their old meaning, and each use is logged once, with its place."""
        lines, log = output(
            """
            import numpy as np
            for _ in range(2):
                print(np.float is float, np.int is int, np.object is object, np.str is str, np.complex is complex)
            print(np.float_ is np.float64, np.unicode_ is np.str_, np.NaN != np.NaN, np.Inf, np.PINF, np.NINF)
            print(np.zeros(2, np.int).dtype == np.zeros(2, int).dtype, np.bool(1), np.sctypes["float"][1].__name__)
            """
        )
        assert lines == ["True True True True True"] * 2 + [
            "True True True inf inf -inf",
            "True True float32",
        ]
        if _NUMPY >= (2, 0):
            assert log[:2] == [
                "train.py:4: numpy.float, which was removed, is float.",
                "train.py:4: numpy.int, which was removed, is int.",
            ]
        assert len(log) == len(set(log))

    def test_functions(self, output):
        """Functions return what they returned in NumPy 1.18."""
        lines, _ = output(
            """
            import numpy as np
            print(np.asscalar(np.array([3])), np.product([2, 3]), np.cumproduct([2, 3]), np.alltrue([1, 0]))
            print(np.sometrue([1, 0]), np.in1d([1, 2], [2]), np.msort([2, 1]), np.alen(3), np.rank([[1]]))
            print(np.asfarray([1]).dtype, np.cast["float32"](1).dtype, np.trapz([1.0, 2.0]), np.row_stack([[1], [2]]).shape)
            print(np.find_common_type([np.float32], [np.int64, np.float64]), np.issubsctype(np.int8, np.integer))
            print(np.obj2sctype(float), np.sctype2char("f4"), np.maximum_sctype("f4") is np.longdouble, np.issctype(np.int8))
            print(np.math.pi, np.round_(1.6), np.lib.pad([1], 1, "constant"), np.VisibleDeprecationWarning.__name__)
            """
        )
        assert lines == [
            "3 6 [2 6] False",
            "True [False  True] [1 2] 1 2",
            "float64 float32 1.5 (2, 1)",
            "float32 True",
            "<class 'numpy.float64'> f True True",
            "3.141592653589793 2.0 [0 1 0] VisibleDeprecationWarning",
        ]

    def test_present_names_stay(self, output):
        """A name that the installed NumPy has is not changed, and not logged."""
        lines, log = output("import numpy as np\nprint(np.bool_, np.prod([2]), hasattr(np, 'nothing'))\n")
        assert (lines[0].split()[-1], log) == ("False", [])

    def test_string_function(self):
        """set_string_function for `str(array)` says that NumPy 2 has none, and later prints of arrays work."""
        from tensorpack_lite.tf1.removed.numpy_names import set_string_function

        with pytest.raises(NotImplementedError, match="NumPy 2 has no function for str"):
            set_string_function(lambda array: "own", repr=False)
        set_string_function(None, repr=False)
        assert str(np.zeros(1)) == "[0.]"

    def test_installed_package(self, output, write):
        """An installed package gets the names, too; the log names its file."""
        write(
            "site-packages/old_library.py",
            "import numpy as np\nfrom numpy import float\nNAN, KIND = np.NaN, float\n",
        )
        lines, log = output(
            "import sys\nsys.path.append('site-packages')\nimport old_library\nprint(old_library.NAN, old_library.KIND)\n"
        )
        assert lines == ["nan <class 'float'>"]
        if _NUMPY >= (2, 0):
            assert "site-packages/old_library.py:2: numpy.float, which was removed, is float." in " ".join(log)

    def test_plain_import_changes_nothing(self, tmp_path):
        """Without the command, NumPy stays as it is."""
        code = "import tensorpack_lite, numpy, random; print(hasattr(numpy, 'asscalar'), random.sample.__module__)"
        result = python("-W", "ignore", "-c", code, cwd=tmp_path)
        assert result.stdout == f"{hasattr(np, 'asscalar')} random\n"


class TestArguments:
    def test_in_files_of_the_script(self, output):
        """Arguments and methods of arrays work in the script's own files."""
        lines, _ = output(
            """
            import numpy as np
            a = np.zeros(3)
            b = np.array(a, copy=False)
            b[0] = 1
            print(a[0], np.array([1, 2], copy=False), np.reshape(a, newshape=(3, 1)).shape)
            print(np.fromstring(b"\\1\\0", np.uint8), np.fromstring("1 2", sep=" "))
            a.itemset(1, 5)
            print(a.ptp(), len(a.tostring()), np.arange(2, dtype="u2").newbyteorder(), np.histogram([1, 2], normed=True)[0][0])
            """
        )
        assert lines[0] == "1.0 [1 2] (3, 1)"
        assert lines[1] == "[1 0] [1. 2.]"
        assert lines[2].startswith("5.0 24 [  0 256] ")

    @pytest.mark.parametrize(
        ("text", "hint"),
        [
            ("np.load('a.npy')", "np.load(..., allow_pickle=True)"),
            ("pickle.load(open('a.pkl', 'rb'))", "pickle.load(file, encoding='latin1')"),
        ],
    )
    def test_errors_name_the_argument(self, write, tmp_path, text, hint):
        """The error for pickled arrays, and for pickles of Python 2, is followed by the argument to pass."""
        np.save(str(tmp_path / "a.npy"), np.array([{}], dtype=object))
        (tmp_path / "a.pkl").write_bytes(b"S'caf\\xe9'\np0\n.")
        write("train.py", f"import numpy as np, pickle\n{text}\n")
        result = run_quickly("train.py", cwd=tmp_path)
        assert result.returncode == 1
        last = result.stderr.splitlines()[-1]
        assert last.startswith("tensorpack-lite run: ")
        assert hint in last

    @pytest.mark.skipif(_NUMPY < (2, 4), reason="older NumPy converts such arrays")
    def test_errors_name_numpy_1(self, write, tmp_path):
        """Code to which NumPy 2 gives another meaning ends with an error that names the older NumPy."""
        write("train.py", "import numpy as np\nfloat(np.array([1.0]))\n")
        assert 'pip install "numpy<2"' in run_quickly("train.py", cwd=tmp_path).stderr.splitlines()[-1]


class TestScipy:
    def test_images(self, output):
        """The functions for images of scipy.misc read, scale, resize and write as they did."""
        pytest.importorskip("scipy")
        pytest.importorskip("PIL")
        lines, _ = output(
            """
            import numpy as np
            from scipy.misc import imread, imsave, imresize, imrotate, bytescale, toimage
            import scipy.ndimage
            image = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
            imsave("a.png", image)
            print((imread("a.png") == image).all(), scipy.ndimage.imread("a.png", mode="L").shape)
            print(imread("a.png", flatten=True).dtype, imresize(image, 50).shape, imresize(image, 2.0).shape)
            print(imresize(image, (2, 6), interp="nearest").shape, imrotate(image, 90)[0, 0], toimage(image).mode)
            print(bytescale(np.array([0.0, 1.0, 2.0])), imresize(np.array([[0.0, 1.0]]), (1, 2), mode="F"))
            """
        )
        assert lines == [
            "True (4, 4)",
            "float32 (2, 2, 3) (8, 8, 3)",
            "(2, 6, 3) [ 9 10 11] RGB",
            "[  0 128 255] [[0. 1.]]",
        ]

    def test_other_names(self, output):
        """interp2d interpolates on a grid and between points; modules and functions have their old addresses."""
        pytest.importorskip("scipy")
        lines, _ = output(
            """
            import numpy as np
            import scipy
            from scipy.interpolate import interp2d
            from scipy.ndimage.filters import gaussian_filter
            from scipy.ndimage.morphology import binary_dilation
            from scipy import ndimage, signal, integrate
            f = interp2d([0, 1, 2], [0, 1], [[0, 1, 2], [3, 4, 5]])
            print(f(0.5, 0.5), f([0.5, 1.5], [0, 1]).tolist(), interp2d([0, 1], [0, 1], [[0, 1], [2, 3]], fill_value=-1)(5, 0))
            print(ndimage.filters.gaussian_filter is gaussian_filter, signal.gaussian(3, 1).shape)
            print(integrate.trapz([1.0, 2.0]), scipy.zeros(2), scipy.sqrt(-1), binary_dilation([True]))
            """
        )
        assert lines == [
            "[2.] [[0.5, 1.5], [3.5, 4.5]] [-1.]",
            "True (3,)",
            "1.5 [0. 0.] 1j [ True]",
        ]

    def test_statistics(self, output):
        """nanmean, nanmedian and nanstd of scipy.stats reduce the first axis; nanstd divides by n - 1 without bias."""
        pytest.importorskip("scipy")
        lines, _ = output(
            """
            from scipy.stats import nanmean, nanmedian, nanstd
            nan = float("nan")
            x = [[1.0, nan], [3.0, 4.0]]
            print(nanmean(x).tolist(), nanmean(x, axis=1).tolist(), nanmedian(x).tolist(), nanmedian(x, None))
            print(nanstd([[1.0, 0.0], [3.0, 4.0], [5.0, nan]], bias=True)[1], nanstd([1.0, 3.0, 5.0, nan]))
            """
        )
        assert lines == ["[2.0, 4.0] [1.0, 3.5] [2.0, 4.0] 3.0", "2.0 2.0"]
