"""
The export of a script in a rehearsal: after the short training, the script continues until its exports are done.

In:  the calls of `ModelExporter` in the files of the script.
Out: exports in a temporary directory, and the seconds that each of them took.
"""

from __future__ import annotations

import functools
import os
import re
import time
from typing import Callable

from ...compat.replacement import replace
from ...predict.export import ModelExporter
from ...utils.redirection import redirect
from ..manifest.code import own_files
from .request import end_probe

_METHODS = ("export_compact", "export_serving")
_CALL = re.compile(rf"\.(?:{'|'.join(_METHODS)})\s*\(")


def count_exports() -> int:
    """Return the number of calls of `export_compact` and `export_serving` in the script and the modules in its directory."""
    num = 0
    for path in own_files():
        with open(path, encoding="utf-8", errors="replace") as file:
            num += len(_CALL.findall(file.read()))
    return num


def rehearse_exports(num: int, report: Callable[[str, float, str], None]) -> None:
    """
    Let `ModelExporter` write to a temporary directory from now on, and end the process after the last export.

    Args:
        num: the number of exports.
        report: called after each export with its name, its seconds, and its error, or "".
    """
    left = [num]

    def reported(what: str, seconds: float, error: str) -> None:
        report(what, seconds, error)
        left[0] -= 1
        if not left[0] and not error:
            end_probe(0)

    for name in _METHODS:
        replace(ModelExporter, name, _rehearsed(getattr(ModelExporter, name), reported))


def _rehearsed(export: Callable[..., None], report: Callable[[str, float, str], None]) -> Callable[..., None]:
    @functools.wraps(export)
    def rehearsed(self: ModelExporter, filename: str, *args: object, **kwargs: object) -> None:
        target, began = os.path.abspath(filename), time.perf_counter()
        path, what = redirect(target), f"{export.__name__} to {os.fspath(filename)}"
        if os.path.isdir(os.path.dirname(target)):  # otherwise the export fails, as in the training
            os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            export(self, path, *args, **kwargs)
        except Exception as error:  # reported, and raised again
            report(what, time.perf_counter() - began, f"{type(error).__name__}: {error}")
            raise
        report(what, time.perf_counter() - began, "")

    return rehearsed
