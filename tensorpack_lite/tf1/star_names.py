"""The names that `from tensorpack import *` gives a script, for `tensorpack-lite run --check`."""

from __future__ import annotations

import ast
import builtins
import importlib
from typing import Any, Iterator, Sequence

from .removed.guards import guarded_lines
from .removed.rewrite import bound_names
from .removed.table import BUILTINS
from .unsupported import Unsupported, UnsupportedModule

_EVERYWHERE = {*dir(builtins), *BUILTINS, "__file__", "__path__"}
_NAME_ERRORS = frozenset({"BaseException", "Exception", "NameError"})


def star_imports(tree: ast.Module) -> list[tuple[str, int]]:
    """Return the module and the level of each star import of a file."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return [(node.module or "", node.level) for node in nodes if node.names[0].name == "*"]


def find_star_names(tree: ast.Module, roots: Sequence[str], own_names: set[str]) -> Iterator[tuple[int, str, str]]:
    """
    Yield the line, the full name and a sentence for each name that star imports do not give a file, or only a stand-in.

    A name that the file does not bind anywhere comes from its star imports. If one of these is of a module outside `roots`,
    the name may come from there.

    Args:
        tree: the source of a file.
        roots: the packages whose modules are imported to see their names.
        own_names: the names that the file gets from the script's own modules by star imports.
    """
    modules = [module for module, _ in star_imports(tree)]
    known = [module for module in modules if module.split(".")[0] in roots]
    if not known:
        return
    found = {name: (module, value) for module in known for name, value in _star_values(module).items()}
    passed_over = bound_names(tree) | own_names | _EVERYWHERE
    guarded = {id(node) for _, node in guarded_lines(tree, _NAME_ERRORS)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Name) or node.id in passed_over or id(node) in guarded:
            continue
        module, value = found.get(node.id, ("", None))
        if isinstance(value, (Unsupported, UnsupportedModule)):
            yield node.lineno, f"{module}.{node.id}", value.message
        elif not module and len(known) == len(modules):
            stars = " and ".join(f"`from {module} import *`" for module in known)
            yield (
                node.lineno,
                f"{known[-1]}.{node.id}",
                f"the file does not define it, and {stars} does not either.",
            )


def _star_values(module: str) -> dict[str, Any]:
    try:
        found = importlib.import_module(module)
    except ImportError:  # the report lists the module
        return {}
    public = [name for name in dir(found) if not name.startswith("_")]
    return {name: getattr(found, name, None) for name in getattr(found, "__all__", public)}
