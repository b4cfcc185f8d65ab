"""Objects by their address in `table.py`."""

from __future__ import annotations

import importlib
import sys
import warnings
from typing import Any

from .table import MODULES, PYTHON_2_MODULES


def resolve(address: str) -> Any:
    """
    Return the object at an address.

    Raises:
        ImportError, AttributeError: it does not exist in the installed version of its library.
    """
    name = f"{__package__}{address}" if address.startswith(".") else address
    module, _, attribute = name.rpartition(".")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as "scipy.misc is deprecated"
        if not module or name in MODULES or name in PYTHON_2_MODULES:
            return _load(name)
        container = _load(module)
        # a module that is not imported yet is not an attribute of its package
        return getattr(container, attribute) if hasattr(container, attribute) else _load(name)


def _load(name: str) -> Any:
    if name not in sys.modules:
        importlib.import_module(name)
    return sys.modules[name]


def describe(address: str) -> str:
    """Return what an address is in a sentence, such as "numpy.inf"."""
    if address.startswith(".") or not address:
        return "provided by tensorpack_lite"
    return address.partition("builtins.")[2] or address
