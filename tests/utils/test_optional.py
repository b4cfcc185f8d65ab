"""Optional packages."""

from __future__ import annotations

import re
import sys
import xml.sax
from pathlib import Path

import pytest

from tensorpack_lite.utils import optional
from tensorpack_lite.utils.optional import load_optional, require_optional


@pytest.fixture
def without(monkeypatch):
    """Function that simulates a missing module."""
    return lambda module: monkeypatch.setitem(sys.modules, module, None)


class TestLoad:
    def test_the_module(self):
        """The module is returned, also one inside a package."""
        assert xml.sax is load_optional("xml.sax", "f")

    @pytest.mark.parametrize(
        ("module", "sentence"),
        [
            ("cv2", 'f: needs OpenCV, which is not installed. Run: pip install "tensorpack_lite[image]"'),
            (
                "scipy.io",
                'f: needs SciPy, which is not installed. Run: pip install "tensorpack_lite[datasets]"',
            ),
            ("zmq", "f: needs ZMQ, which is not installed. Run: pip install pyzmq"),
        ],
    )
    def test_where_it_is_absent(self, module, sentence, without):
        """The error has the caller, the package, and the command that installs it, quoted if a shell needs that."""
        without(module)
        with pytest.raises(ImportError) as info:
            load_optional(module, "f")
        assert sentence == str(info.value)
        assert isinstance(info.value.__cause__, ImportError)

    def test_advice(self, without):
        """An alternative is appended to the command."""
        without("IPython")
        with pytest.raises(ImportError, match="Run: pip install ipython, or use shell='pdb'$"):
            load_optional("IPython", "f", ", or use shell='pdb'")


class TestRequire:
    def test_nothing_is_imported(self, run_script):
        """`require_optional` does not import the module."""
        code = """
        import sys
        from tensorpack_lite.utils.optional import require_optional
        require_optional("wsgiref", "f")
        print("wsgiref" in sys.modules)
        """
        assert "False\n" == run_script(code).stdout

    def test_where_it_is_absent(self, without):
        """`require_optional` raises the same error."""
        without("cv2")
        with pytest.raises(ImportError, match="^f: needs OpenCV, which is not installed. Run: pip install"):
            require_optional("cv2", "f")


def test_the_extras_exist():
    """Each extra in an error is in setup.py."""
    setup = (Path(__file__).parents[2] / "setup.py").read_text(encoding="utf-8")
    extras = {name for _, install in optional._PACKAGES.values() for name in re.findall(r"\[(.*)\]", install)}
    assert {"image", "plot"} <= extras
    assert set() == {name for name in extras if f'    "{name}": [' not in setup}


def test_importing_the_library_imports_none(run_script):
    """Importing the library does not import OpenCV or matplotlib."""
    code = """
    import sys
    import tensorpack_lite.utils.viz as viz, tensorpack_lite.utils.palette, numpy as np
    viz.stack_patches(np.zeros([2, 4, 4]), 1, 2)
    print([name for name in ("cv2", "matplotlib") if name in sys.modules])
    """
    assert "[]\n" == run_script(code).stdout
