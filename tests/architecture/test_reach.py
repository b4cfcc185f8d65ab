"""Bounds on what a reader must know to change the loop or to write a trainer."""

from __future__ import annotations

import ast
import sys

import pytest

GROUND = ("compat", "utils", "tfutils")  # read when needed


def reached(source, start: str) -> list:
    """Return the modules that a module imports, directly or not, with itself and without those of GROUND."""
    seen, waiting = {}, [start]
    while waiting:
        module = source.get(waiting.pop())
        if module is None or module.name in seen or module.is_package or module.room in GROUND:
            continue
        seen[module.name] = module
        for imported in module.imports:
            waiting += [imported.target, *(f"{imported.target}.{name}" for name in imported.names)]
    return list(seen.values())


def num_lines(module) -> int:
    """Return the number of lines of a module that are neither empty, nor comments, nor docstrings."""
    documented = set()
    for node in ast.walk(module.syntax):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            documented.update(range(body[0].lineno, body[0].end_lineno + 1))
    lines = enumerate(module.source.splitlines(), 1)
    return sum(1 for number, line in lines if line.strip()[:1] not in ("", "#") and number not in documented)


@pytest.mark.skipif(sys.version_info < (3, 8), reason="Python 3.7 does not tell where a docstring ends")
def test_the_trainer_reaches_little(source):
    """`Trainer` can be read without the features around it: at most 70 files with 7,000 lines of code."""
    modules = reached(source, "tensorpack_lite.train.trainer")
    assert "tensorpack_lite.loop.session" in [module.name for module in modules]
    assert len(modules) <= 70
    assert sum(map(num_lines, modules)) <= 7000


def test_a_trainer_is_few_classes(source):
    """A SimpleTrainer is made of at most 5 classes of the library, in 4 files."""
    places = {
        node.name: (module.path, [getattr(base, "id", "") for base in node.bases])
        for module in source
        if module.room in ("loop", "train", "utils")
        for node in module.syntax.body
        if isinstance(node, ast.ClassDef)
    }
    classes, waiting = {}, ["SimpleTrainer"]
    while waiting:
        name = waiting.pop()
        if name in places and name not in classes:
            classes[name] = places[name][0]
            waiting += places[name][1]
    assert "Trainer" in classes
    assert len(classes) <= 5
    assert len(set(classes.values())) <= 4
