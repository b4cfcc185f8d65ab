"""The public API equals the golden file, so every change of the API is visible in review."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path

import pytest

pytest.importorskip("tensorflow")

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def surface() -> list:
    """The lines of the current API."""
    spec = importlib.util.spec_from_file_location("public_api", str(HERE / "public_api.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.lines()


@pytest.mark.slow
def test_public_surface_equals_the_golden_file(surface):
    """Names, modules and arguments are those of the golden file."""
    golden = (HERE / "public_api.txt").read_text(encoding="utf-8").splitlines()
    gone, new = sorted(set(golden) - set(surface)), sorted(set(surface) - set(golden))
    assert ([], []) == (gone, new), "If meant: python tests/api/public_api.py > tests/api/public_api.txt"


def test_star_names_are_in_the_golden_file():
    """The golden file has each name of `from tensorpack_lite import *`."""
    import tensorpack_lite

    golden = (HERE / "public_api.txt").read_text(encoding="utf-8")
    missing = set(tensorpack_lite.__all__) - set(re.findall(r"^\* \S+\.(\w+):", golden, re.MULTILINE))
    assert not missing, f"{missing}: run python tests/api/public_api.py > tests/api/public_api.txt"


def test_every_public_name_has_one_home(surface):
    """Each public name is defined in one module."""
    places = [line[2:].split(":")[0] for line in surface]
    assert len(set(places)) == len(places)


@pytest.mark.skipif("TENSORPACK_LITE_INSTALLED" not in os.environ, reason="only tox tests the installed wheel")
def test_the_installed_wheel_is_tested():
    """In tox, the tests import the library from the wheel, not from the checkout."""
    import tensorpack_lite

    assert "site-packages" in tensorpack_lite.__file__
    assert Path(tensorpack_lite.__file__).with_name("py.typed").exists()
