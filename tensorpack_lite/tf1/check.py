"""
The report of `tensorpack-lite run --check`: the names of TensorFlow and tensorpack that a script uses and
that are missing.

The source of the script, and of the modules that it imports from its own folders, is read without running it.
"""

from __future__ import annotations

import ast
import importlib
import os
import sys
import zipfile
from contextlib import suppress
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Iterator, NamedTuple

from ..compat.tf1_behavior import prepare_tf1
from ..utils.unsupported import Unsupported, UnsupportedModule
from .startup.sitecustomize import is_library_file
from .view import view

__all__ = ["Missing", "find_missing"]

_ROOTS = ("tensorflow", "tensorpack")


class Missing(NamedTuple):
    """
    A name that does not exist.

    Attributes:
        file, line: where the script uses it.
        name: its full name, e.g. "tensorflow.contrib.foo".
        reason: the message of the error that the script would get.
    """

    file: str
    line: int
    name: str
    reason: str


def find_missing(file: str) -> list[Missing]:
    """
    Return the missing names that a script and its own modules use, sorted by file and line.

    Args:
        file: the path of the script. Its own modules are searched in `sys.path`.

    Raises:
        SyntaxError: the script is not valid for this version of Python. (Such a module of the script is in the result.)
    """
    found: set[Missing] = set()
    script = os.path.relpath(file)
    queue, seen = [script], {script}
    while queue:
        path = queue.pop()
        try:
            with open(path, "rb") as source:
                tree = ast.parse(source.read(), path)
        except SyntaxError as error:
            if path == script:
                raise
            found.add(Missing(path, error.lineno or 0, "SyntaxError", error.msg))
            continue
        found.update(_missing_names(tree, path))
        modules = {module for name in _imported_modules(tree) for module in _own_files(name, path)} - seen
        seen |= modules
        queue += sorted(modules)
    return sorted(found)


def _imported_modules(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield the dotted name and the level of each module that a file imports; also of names that may be modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            yield base, node.level
            yield from ((f"{base}.{alias.name}".lstrip("."), node.level) for alias in node.names)


def _own_files(module: tuple[str, int], importer: str) -> list[str]:
    """Return the files of the script's own module, and of the packages that contain it; [] for an installed module."""
    name, level = module
    if not name or name.split(".")[0] in _ROOTS:
        return []
    folders = sys.path
    if level:
        folders = [os.path.normpath(os.path.join(os.path.dirname(importer), *[os.pardir] * (level - 1)))]
    files = []
    for part in name.split("."):
        spec = PathFinder.find_spec(part, folders)
        if spec is None:
            break
        if spec.origin and spec.origin.endswith(".py") and not is_library_file(spec.origin):
            files.append(os.path.relpath(spec.origin))
        folders = list(spec.submodule_search_locations or ())
    return files


# Names ---------------------------------------------------------------------------------------------------------------
_GUARDS = {"AttributeError", "Exception", "ImportError", "ModuleNotFoundError"}


def _unguarded(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a tree without those inside `try`, if the script handles missing names there."""
    yield node
    guarded: list[ast.stmt] = []
    if isinstance(node, ast.Try):
        kinds = [part for one in node.handlers for part in ast.walk(one.type or one)]
        caught = {part.id for part in kinds if isinstance(part, ast.Name)}
        is_bare = any(one.type is None for one in node.handlers)
        guarded = node.body if is_bare or caught & _GUARDS else []
    for child in ast.iter_child_nodes(node):
        if child not in guarded:
            yield from _unguarded(child)


def _tested(node: ast.AST) -> str:
    """Return "a.b" for `hasattr(a, "b")` and `getattr(a, "b", default)`, and "" for other nodes."""
    if isinstance(node, ast.Call) and _dotted(node.func) in ("hasattr", "getattr") and len(node.args) > 1:
        with suppress(ValueError):  # the script computes the name
            return f"{_dotted(node.args[0])}.{ast.literal_eval(node.args[1])}"
    return ""


def _rebound(node: ast.AST) -> list[str]:
    """Return the names that a node binds to values that are not modules, such as parameters and loop variables."""
    if isinstance(node, ast.arg):
        return [node.arg]
    if isinstance(node, ast.Assign) and _dotted(node.value):
        return []
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    targets += [getattr(node, "optional_vars", None)]
    parts = [part for target in targets if target is not None for part in ast.walk(target)]
    return [part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)]


def _missing_names(tree: ast.Module, file: str) -> Iterator[Missing]:
    used: list[tuple[str, int]] = []
    aliases: dict[str, str] = {}
    nodes = list(_unguarded(tree))
    for node in nodes:
        if isinstance(node, ast.Import):
            used += [(alias.name, node.lineno) for alias in node.names]
            for alias in node.names:
                root = alias.name.split(".")[0]
                aliases.update({alias.asname: alias.name} if alias.asname else {root: root})
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = {alias: f"{node.module}.{alias.name}" for alias in node.names if alias.name != "*"}
            used += [(name, node.lineno) for name in (node.module, *names.values())]
            aliases.update({alias.asname or alias.name: name for alias, name in names.items()})
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            used.append((_dotted(node), node.lineno))
    for node in nodes:  # such as `slim = tf.contrib.slim`
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and _dotted(node.value):
            aliases.setdefault(node.targets[0].id, _full_name(_dotted(node.value), aliases))
    rebound = {name for node in nodes for name in _rebound(node)}
    tested = {_full_name(_tested(node), aliases) for node in nodes}
    for name, line in used:
        full_name = _full_name(name, aliases)
        if name.split(".")[0] not in rebound and full_name.split(".")[0] in _ROOTS:
            yield from (one for one in _look_up(full_name, file, line) if one.name not in tested)


def _dotted(node: ast.AST) -> str:
    """Return "a.b.c" for such an expression, and "" for others."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _full_name(name: str, aliases: dict[str, str]) -> str:
    root, dot, rest = name.partition(".")
    return aliases.get(root, root) + dot + rest


def _look_up(name: str, file: str, line: int) -> Iterator[Missing]:
    """Look a name up as the script would. Attributes of classes, functions and values are not looked up."""
    root, *parts = name.split(".")
    module = view() if root == "tensorflow" else importlib.import_module(root)
    for i, part in enumerate(parts):
        path = ".".join([root, *parts[: i + 1]])
        try:
            value = getattr(module, part)
        except AttributeError as error:
            try:
                value = importlib.import_module(path)
            except ImportError as import_error:
                plain = str(import_error).startswith("No module named")
                yield Missing(file, line, path, str(error if plain else import_error))
                return
        if isinstance(value, (Unsupported, UnsupportedModule)):
            yield Missing(file, line, path, value.message)
            return
        if not isinstance(value, ModuleType):
            return
        module = value


# Program -------------------------------------------------------------------------------------------------------------
def _main(arguments: list[str]) -> int:
    """Print the report for a script, or for `-m` and a module. Return 1 if a name is missing, and 2 after an error."""
    try:
        script = _find_script(arguments)
        prepare_tf1()
        missing = find_missing(script)
    except (ImportError, OSError, SyntaxError, ValueError) as error:
        sys.stderr.write(f"tensorpack-lite run --check: {error}\n")
        return 2
    for one in missing:
        sys.stdout.write(f"{one.file}:{one.line}: {one.name}: {one.reason}\n")
    names = len({one.name for one in missing})
    sys.stdout.write(f"{script}: {names} missing {'name' if names == 1 else 'names'}\n")
    return 1 if missing else 0


def _find_script(arguments: list[str]) -> str:
    """Return the file that Python would run. The folder of a script becomes the first in `sys.path`."""
    if arguments[0] == "-m":
        module = arguments[1]
        files = [*_own_files((module, 0), ""), *_own_files((f"{module}.__main__", 0), "")]
        if not files:
            raise ModuleNotFoundError(f"{module} is not a module in the folders of the script")
        return files[-1]
    script = arguments[0]
    if os.path.isdir(script):
        script = os.path.join(script, "__main__.py")
    elif zipfile.is_zipfile(script):
        raise ValueError(f"{script} is a zip file. Unpack it, and check the folder.")
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    return script


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
