"""The package's names and imports."""

from __future__ import annotations

import pkgutil

import pytest

from tensorpack_lite import utils

MODULES = sorted(module.name for module in pkgutil.iter_modules(utils.__path__))


def test_public_names():
    """`from tensorpack_lite.utils import *` imports tensorpack's seven names."""
    assert [
        "change_env",
        "execute_only_once",
        "fix_rng_seed",
        "get_rng",
        "get_tqdm",
        "humanize_time_delta",
        "logger",
    ] == sorted(utils.__all__)
    assert all(hasattr(utils, name) for name in utils.__all__)


@pytest.mark.slow
def test_no_module_imports_tensorflow(run_script):
    """Every module can be imported without TensorFlow, and importing changes no environment variable."""
    imports = "; ".join(f"import tensorpack_lite.utils.{name}" for name in MODULES)
    done = run_script(f"import os; before = dict(os.environ); {imports}; print(before == dict(os.environ))")

    assert "True\n" == done.stdout, done.stderr
