"""The target and the findings of the commands that run a DataFlow: `data-check` and `resume-check`."""

from __future__ import annotations

import importlib
import os
import sys
import textwrap
from dataclasses import dataclass
from typing import Any, Callable, Sequence

from tabulate import tabulate

from ..diagnostics.data_check.examine import Finding
from .files import check_exists

_WIDTH = 88  # columns for the findings


@dataclass(frozen=True)
class Target:
    """
    The function that `module:function` names. It can be pickled, whatever the function is.

    Attributes:
        name: the module or the path of a script, a colon, and the function.
    """

    name: str

    def __call__(self) -> Any:
        """Call the function."""
        return find_function(self.name)()


def find_function(target: str) -> Callable[[], Any]:
    """
    Import the function that `module:function` names.

    Raises:
        ValueError: the target is not of this form, or the module has no such function.
        OSError, ImportError: the module cannot be imported.
    """
    place, _, name = target.rpartition(":")
    if not place or not name:
        raise ValueError(f"expected module:function, got '{target}'. Example: data-check train:get_data")
    if os.getcwd() not in sys.path:  # the script `tensorpack-lite` does not have it, unlike `python -m`
        sys.path.insert(0, os.getcwd())
    if place.endswith(".py"):
        directory = os.path.dirname(os.path.abspath(check_exists(place)))
        if directory not in sys.path:  # spawned workers import it by name
            sys.path.insert(0, directory)
        place = os.path.splitext(os.path.basename(place))[0]
    function = getattr(importlib.import_module(place), name, None)
    if not callable(function):
        raise ValueError(f"{place} has no function '{name}'.")
    return function


def show_findings(findings: Sequence[Finding]) -> str:
    """Return the findings as a table."""
    rows = [(f.check, f.status, textwrap.fill(f.text, _WIDTH)) for f in findings]
    return tabulate(rows, headers=["check", "result", "finding"])
