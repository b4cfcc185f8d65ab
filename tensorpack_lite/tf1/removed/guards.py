"""Lines of a file for which it has a replacement, such as an import in a `try`."""

from __future__ import annotations

import ast
import linecache
import os
from functools import lru_cache
from types import FrameType
from typing import Any, Iterator

IMPORT_ERRORS = frozenset({"BaseException", "Exception", "ImportError", "ModuleNotFoundError"})


def is_guarded(frame: FrameType | None) -> bool:
    """Return whether the current line of a frame is in a `try` that handles a failed import."""
    if frame is None:
        return False
    file = frame.f_code.co_filename
    return frame.f_lineno in _guarded_lines_of_file(file, os.path.exists(file))


@lru_cache(maxsize=None)
def _guarded_lines_of_file(file: str, exists: bool) -> frozenset[int]:
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:  # the syntax of Python 2: it expects the modules of Python 2
        return frozenset()
    return frozenset(line for line, _ in guarded_lines(tree, IMPORT_ERRORS))


def guarded_lines(tree: Any, errors: frozenset[str]) -> Iterator[tuple[int, ast.AST]]:
    """Yield the line and the node of everything inside a `try` that handles one of some errors."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Try) and _handles(node, errors):
            for statement in node.body:
                for part in ast.walk(statement):
                    if hasattr(part, "lineno"):
                        yield part.lineno, part


def _handles(node: ast.Try, errors: frozenset[str]) -> bool:
    for handler in node.handlers:
        if handler.type is None:
            return True
        kinds = {part.id for part in ast.walk(handler.type) if isinstance(part, ast.Name)}
        if kinds & errors:
            return True
    return False
