"""
Source files of the script, changed before they run where they need it.

A file that uses removed syntax, methods, arguments or built-in names is changed in memory before it runs. All other files
are left to Python. No file is written: the changed code is not cached either.
"""

from __future__ import annotations

import os
import re
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import decode_source
from types import CodeType
from typing import Any

from ..startup.sitecustomize import replacement
from .addresses import resolve
from .own_files import own_path
from .said import say, short_path
from .table import BUILTINS, WORDS

_ONLY_TREE = 0x400  # ast.PyCF_ONLY_AST; most processes do not need the module `ast`
_SUSPECT = re.compile(rb"\b(?:%s)\b|U[\"']" % b"|".join(word.encode("ascii") for word in (*WORDS, *BUILTINS)))
_IMPORTS = re.compile(rb"^[ \t]*(?:from|import)[ \t]+(.+)", re.MULTILINE)
_plain_get_code = SourceFileLoader.get_code


def install() -> None:
    """Read the files of the script from now on, its main file too."""
    replacement.add(SourceFileLoader, "get_code", _get_code)
    sys.path_hooks.insert(0, Script)


def _get_code(self: SourceFileLoader, fullname: str) -> CodeType | None:
    """`SourceFileLoader.get_code`, which changes files of the script."""
    path = self.get_filename(fullname)
    code = own_code(path, is_script=False) if own_path(path) else None
    return _plain_get_code(self, fullname) if code is None else code


def own_code(path: str, is_script: bool) -> CodeType | None:
    """
    Return the changed code of a file; None if it needs no changes, or cannot be read.

    Args:
        path: the file.
        is_script: the file is the one that Python runs, and not a module.

    """
    try:
        with open(path, "rb") as file:
            source = file.read()
        tree = compile(source, path, "exec", _ONLY_TREE, dont_inherit=True)
    except (OSError, UnicodeError, ValueError):  # Python reports the error
        return None
    except SyntaxError:
        return _translated_code(source, path, is_script)
    is_changed = not is_script and _make_relative(tree, source, path)
    if not is_changed and not _SUSPECT.search(source):
        return None
    code = resolve(".rewrite.changed_code")(tree, source, path, is_script)
    return compile(tree, path, "exec", dont_inherit=True) if code is None and is_changed else code


def _make_relative(tree: Any, source: bytes, path: str) -> bool:
    """Change imports of a module's neighbors into relative ones. Return whether there are any."""
    neighbors = {name.partition(".")[0] for name in os.listdir(os.path.dirname(path) or ".")}
    names = re.findall(rb"\w+", b" ".join(_IMPORTS.findall(source)))
    if "__init__" not in neighbors or neighbors.isdisjoint(map(os.fsdecode, names)):
        return False
    found = resolve(".relative_imports.make_relative")(tree, path)
    for line, name in found:
        text = f"the import of {name} is relative to its package, as in Python 2."
        say(f"relative {path} {name}", text, f"{short_path(path)}:{line}")
    return bool(found)


def _translated_code(source: bytes, path: str, is_script: bool) -> CodeType | None:
    """Return the code of a file in the syntax of Python 2; None if its syntax is wrong in Python 2 as well."""
    try:
        text = resolve(".python2.translate")(decode_source(source), path, is_script)
        tree = compile(text, path, "exec", _ONLY_TREE, dont_inherit=True) if text else None
    except ImportError as error:
        say(path, str(error), short_path(path))
        return None
    except (SyntaxError, UnicodeError, ValueError):
        return None
    if tree is None:
        return None
    text = "the file is in the syntax of Python 2. Its translation runs; the file itself is not changed."
    say(path, text, short_path(path))
    return resolve(".rewrite.changed_code")(tree, source, path, is_script, is_translated=True)


class Script(SourceFileLoader):
    """
    Path hook for the main file of a script, which finds its changed code as `__main__`, as for a folder or a zip file.

    Args:
        path: an entry of `sys.path`, or the file that Python is to run.

    Raises:
        ImportError: it is not a file that needs changes, so Python does what it would have done.
    """

    def __init__(self, path: str) -> None:
        code = own_code(path, is_script=True) if _is_source(path) else None
        if code is None:
            raise ImportError("not a script that needs changes", path=path)
        super().__init__("__main__", path)
        self._code = code

    def find_spec(self, fullname: str, target: Any = None) -> ModuleSpec | None:
        """Find the module `__main__`."""
        loader: Any = self
        return ModuleSpec("__main__", loader, origin=self.path) if fullname == "__main__" else None

    def get_code(self, fullname: str) -> CodeType:
        """Return the code. `sys.path` gets the folder of the script in the place of the script."""
        if sys.path and sys.path[0] == self.path:
            sys.path[0] = os.path.dirname(os.path.abspath(self.path))
        return self._code


def _is_source(path: str) -> bool:
    if not os.path.isfile(path) or not own_path(path):
        return False
    with open(path, "rb") as file:
        return file.read(4) != b"PK\3\4"  # a zip file
