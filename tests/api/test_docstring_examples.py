"""
The examples in docstrings run.

An example that uses a name which it does not define, such as `train_data`, is a snippet for the reader. A snippet is
compiled, but not run. An example that cannot run in a test is marked with `# doctest: +SKIP`.
"""

from __future__ import annotations

import ast
import builtins
import doctest
import importlib
import sys
from pathlib import Path

import pytest

pytest.importorskip("tensorflow")

import tensorpack_lite
from tensorpack_lite.compat import tfv1

LIBRARY = Path(tensorpack_lite.__file__).parent
FILES = sorted(file for file in LIBRARY.rglob("*.py") if ">>>" in file.read_text(encoding="utf-8"))
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
IMPORTS = "from tensorpack_lite import *\nfrom tensorpack_lite import tfv1 as tf\nimport numpy as np\n"


class Checker(doctest.OutputChecker):
    """Accepts any output where the example shows none, such as the repr of a new object."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return not want or super().check_output(want, got, optionflags)


def module_name(file: Path) -> str:
    """The dotted name of a source file of the library."""
    parts = file.relative_to(LIBRARY.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


class Runner(doctest.DocTestRunner):
    """Accepts examples that need a file of the reader's, or an optional package that is not installed."""

    def report_unexpected_exception(self, out, test, example, exc_info) -> None:
        if issubclass(exc_info[0], (FileNotFoundError, ImportError)):
            self.optionflags |= doctest.FAIL_FAST  # the examples after this one need its names
        else:
            super().report_unexpected_exception(out, test, example, exc_info)


def is_complete(test: doctest.DocTest) -> bool:
    """Return whether an example defines or imports every name that it uses."""
    bound = {*dir(builtins), *test.globs}
    for example in test.examples:
        for statement in ast.parse(example.source).body:
            nodes = list(ast.walk(statement))
            used = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
            names = {n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
            names |= {n.name for n in nodes if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
            names |= {
                (alias.asname or alias.name).split(".")[0]
                for n in nodes
                if isinstance(n, (ast.Import, ast.ImportFrom))
                for alias in n.names
            }
            inner = set() if isinstance(statement, (ast.Assign, ast.AugAssign)) else names
            inner |= {n.arg for n in nodes if isinstance(n, ast.arg)}
            inner |= {
                n.id
                for c in nodes
                if isinstance(c, ast.comprehension)
                for n in ast.walk(c.target)
                if isinstance(n, ast.Name)
            }
            if used - bound - inner:
                return False
            is_definition = isinstance(statement, (ast.FunctionDef, ast.ClassDef))
            bound |= {statement.name} if is_definition else names
    return True


@pytest.mark.parametrize("file", FILES, ids=module_name)
def test_examples_run(file, tmp_path, monkeypatch):
    """Each example of a module gives the output that it shows, or is a snippet that compiles."""
    monkeypatch.chdir(tmp_path)
    name = module_name(file)
    module = importlib.import_module(name)
    names = {}
    exec(IMPORTS, names)
    failures = []
    for test in doctest.DocTestFinder().find(sys.modules[name], name, globs={**names, **vars(module)}):
        if is_complete(test):
            with tfv1.Graph().as_default():
                Runner(Checker(), optionflags=OPTIONS).run(test, out=failures.append)
    assert [] == failures, "".join(failures)
