"""Imports of a package's own modules without a dot, as in Python 2."""

from __future__ import annotations

import ast
import os
import sys
from importlib.machinery import PathFinder

from .modules import LostModules


def make_relative(tree: ast.Module, path: str) -> list[tuple[int, str]]:
    """
    Change imports of modules beside a file of a package, which Python 3 does not find, into relative ones.

    Args:
        tree: the syntax tree of the file, which is changed.
        path: the file.

    Returns:
        The lines of the imports, and the names of the modules.
    """
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.exists(os.path.join(folder, "__init__.py")):
        return []
    changer = _Changer(folder)
    changer.visit(tree)
    ast.fix_missing_locations(tree)
    return changer.found


class _Changer(ast.NodeTransformer):
    def __init__(self, folder: str) -> None:
        self.found: list[tuple[int, str]] = []
        self._folder = folder

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        if not node.level and self._is_beside(node.module or ""):
            self.found.append((node.lineno, node.module or ""))
            node.level = 1
        return node

    def visit_Import(self, node: ast.Import) -> ast.AST | list[ast.AST]:
        """Let `import a.b, c` import `a` and `c` from the package, and `a.b` before."""
        beside = [alias for alias in node.names if self._is_beside(alias.name)]
        others = [alias for alias in node.names if alias not in beside]
        if not beside:
            return node
        changed: list[ast.AST] = [ast.Import(names=others)] if others else []
        for alias in beside:
            self.found.append((node.lineno, alias.name))
            parent, _, name = alias.name.rpartition(".")
            if parent:  # the module has a name here, because `from .a.b import c` is the only relative form
                bound = alias.asname or f"_tensorpack_lite_{name}"
                changed.append(ast.ImportFrom(parent, [ast.alias(name, bound)], 1))
            if not (parent and alias.asname):
                changed.append(ast.ImportFrom(None, [ast.alias(alias.name.split(".")[0], alias.asname)], 1))
        return [ast.copy_location(one, node) for one in changed]

    def _is_beside(self, name: str) -> bool:
        root = name.split(".")[0]
        spec = PathFinder.find_spec(root, [self._folder]) if root else None
        return spec is not None and spec.origin is not None and not _is_elsewhere(root)


def _is_elsewhere(name: str) -> bool:
    """Return whether Python finds a module, other than a folder without `__init__.py`, which Python 2 did not import."""
    finds = [getattr(finder, "find_spec", None) for finder in sys.meta_path if finder is not LostModules]
    specs = [find(name, None) for find in finds if find]
    return any(spec is not None and spec.origin is not None for spec in specs)
