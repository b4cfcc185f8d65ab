"""Translate source in the syntax of Python 2 to Python 3, by the fixers of lib2to3."""

from __future__ import annotations

import importlib
import warnings

# Those that keep the number of lines, and that today's names cannot replace (`table.py`)
_FIXERS = [
    "apply",
    "dict",
    "except",
    "exec",
    "filter",
    "funcattrs",
    "has_key",
    "input",
    "isinstance",
    "itertools",
    "itertools_imports",
    "long",
    "map",
    "metaclass",
    "methodattrs",
    "ne",
    "next",
    "nonzero",
    "numliterals",
    "paren",
    "print",
    "raise",
    "repr",
    "standarderror",
    "sys_exc",
    "throw",
    "tuple_params",
    "types",
    "unicode",
    "xrange",
    "xreadlines",
    "zip",
]
NEEDS_FISSIX = "It is in the syntax of Python 2. To translate it, Python 3.13 and later need: pip install fissix"


def translate(text: str, path: str, is_script: bool) -> str | None:
    """
    Return the source in Python 3, with the same line numbers; None if it is not in the syntax of Python 2.

    Args:
        text: the source.
        path: its file, which decides what its relative imports mean.
        is_script: the file is not a module of a package, even if its folder is one.

    Raises:
        ImportError: Python has no lib2to3, and fissix is not installed.
    """
    library = _find_library()
    fixers = _FIXERS if is_script else [*_FIXERS, "import"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # lib2to3 is deprecated
        refactor = importlib.import_module(f"{library}.refactor")
        parse_error = importlib.import_module(f"{library}.pgen2.parse").ParseError
        token_error = importlib.import_module(f"{library}.pgen2.tokenize").TokenError
    tool = refactor.RefactoringTool([f"{library}.fixes.fix_{name}" for name in fixers])
    source = text if text.endswith("\n") else f"{text}\n"
    try:
        result = str(tool.refactor_string(source, path))
    except (parse_error, token_error, IndentationError):
        return None
    return None if result == source else result


def _find_library() -> str:
    for name in ("lib2to3", "fissix"):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                importlib.import_module(f"{name}.refactor")
        except ImportError:
            continue
        return name
    raise ImportError(NEEDS_FISSIX)
