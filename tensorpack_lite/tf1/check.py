"""
The report of `tensorpack-lite run --check`: the names that a script uses and that are missing, and what libraries
other than TensorFlow have removed and `run` gives back.

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
from importlib.util import decode_source
from types import ModuleType
from typing import Any, Iterator, NamedTuple

from .old_flags import OLD_FLAGS
from .old_orders import ORDERS
from .removed import keras_names
from .removed.python2 import NEEDS_FISSIX, translate
from .removed.relative_imports import make_relative
from .removed.report import LIBRARIES, find_calls, find_changes, find_provided
from .removed.rewrite import bound_names
from .star_names import find_star_names, star_imports
from .startup.sitecustomize import is_library_file
from .tf1_behavior import prepare_tf1
from .unsupported import Unsupported, UnsupportedModule
from .view import import_module, view

_ROOTS = ("tensorflow", "tensorpack")
_RELATIVE = "Python 3 imports modules beside a file only with a dot. Under run, it is imported as in Python 2."
_SEARCHED = (*_ROOTS, "keras", *LIBRARIES)


class Missing(NamedTuple):
    """
    A name that does not exist.

    Attributes:
        file, line: where the script uses it.
        name: its full name, e.g. "tensorflow.contrib.foo".
        reason: the message of the error that the script would get, or what `run` does about the name.
        is_provided: `run` gives the name back, so that the script gets no error.
    """

    file: str
    line: int
    name: str
    reason: str
    is_provided: bool = False


def find_missing(file: str) -> list[Missing]:
    """
    Return the missing and the removed names that a script and its own modules use, sorted by file and line.

    Args:
        file: the path of the script. Its own modules are searched in `sys.path`.

    Raises:
        SyntaxError: the script is valid neither in this version of Python nor in Python 2. (Such a module of the script is
            in the result.)
    """
    found: set[Missing] = set()
    script = os.path.relpath(file)
    queue, seen = [script], {script}
    while queue:
        path = queue.pop()
        with open(path, "rb") as file_object:
            source = file_object.read()
        try:
            tree = ast.parse(source, path)
        except SyntaxError as error:
            translated, reason = _translate(source, path, path == script)
            line = error.lineno or 0
            if translated is None:
                if path == script and not reason:
                    raise
                found.add(Missing(path, line, "SyntaxError", reason or error.msg))
                continue
            found.add(Missing(path, line, "Python 2", reason, is_provided=True))
            tree = translated
        if path != script:
            tree.body = [node for node in tree.body if not _is_main(node)]
        for line, name in make_relative(tree, path) if path != script else ():
            found.add(Missing(path, line, name, _RELATIVE, is_provided=True))
        found.update(_missing_names(tree, path))
        modules = {module for name in _imported_modules(tree) for module in _own_files(name, path)} - seen
        seen |= modules
        queue += sorted(modules)
        found.update(_removed_names(tree, source, path))  # it changes the tree
    return sorted(found)


def _is_main(node: ast.stmt) -> bool:
    """Return whether a statement is `if __name__ == "__main__":`, whose body does not run when the file is imported."""
    test = getattr(node, "test", None)
    return isinstance(node, ast.If) and isinstance(test, ast.Compare) and _dotted(test.left) == "__name__"


def _translate(source: bytes, path: str, is_script: bool) -> tuple[ast.Module | None, str]:
    """Return the syntax tree of a file in Python 2, or None, and what `run` does about it."""
    try:
        text = translate(decode_source(source), path, is_script)
        tree = ast.parse(text, path) if text else None
    except ImportError:
        return None, NEEDS_FISSIX
    except (SyntaxError, UnicodeError):
        return None, ""
    return tree, "the file is in the syntax of Python 2. Under run, its translation runs." if tree else ""


def _removed_names(tree: ast.Module, source: bytes, file: str) -> Iterator[Missing]:
    """Yield what was removed from other libraries and from Python, and `run` gives back."""
    names = [(name, line) for name, line in _used_names(tree) if name]
    for name, line in names:
        sentence = find_provided(name)
        if sentence:
            yield Missing(file, line, name, sentence, is_provided=True)
    aliases = _find_aliases(list(_unguarded(tree)))

    def name_of(node: ast.AST) -> str:
        return _full_name(_dotted(node), aliases)

    for line, name, sentence, is_provided in find_calls(tree, name_of):
        yield Missing(file, line, name, sentence, is_provided=is_provided)
    for name, line in names:
        owner, _, attribute = name.rpartition(".")
        sentence = OLD_FLAGS.get("__flags" if attribute == "__dict__" else attribute, "")
        if sentence and owner.startswith("tensorflow.") and owner.endswith("flags.FLAGS"):
            yield Missing(file, line, name, sentence, is_provided=True)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    for call in calls:
        name = name_of(call.func)
        if _has_old_order(call, name):
            yield Missing(file, call.lineno, name, _OLD_ORDER, is_provided=True)
    for line, name, sentence in find_changes(tree, source, names):
        yield Missing(file, line, name, sentence, is_provided=True)


_OLD_ORDER = "TensorFlow 1.0 changed the order of the arguments. Under run, the one of TensorFlow 0.x works, too."


def _has_old_order(call: ast.Call, name: str) -> bool:
    """Return whether a call of a function of TensorFlow has the order of TensorFlow 0.x, as far as its text tells."""
    path = name.partition("tensorflow.")[2]
    if path not in ORDERS or not call.args:
        return False
    first = getattr(call.args[0], "value", getattr(call.args[0], "n", None))
    return path.endswith("cross_entropy_with_logits") or (path in ("concat", "split") and type(first) is int)


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
    guarded: list[ast.AST] = []
    if isinstance(node, ast.Try):
        kinds = [part for one in node.handlers for part in ast.walk(one.type or one)]
        caught = {part.id for part in kinds if isinstance(part, ast.Name)}
        is_bare = any(one.type is None for one in node.handlers)
        # the script knows that the names of the body, or those of the handlers, are missing
        guarded = [*node.body, *node.handlers] if is_bare or caught & _GUARDS else []
    for child in ast.iter_child_nodes(node):
        if child not in guarded:
            yield from _unguarded(child)


def _tested(node: ast.AST) -> str:
    """Return "a.b" for `hasattr(a, "b")`, `getattr(a, "b", default)` and `"b" in dir(a)`, and "" for other nodes."""
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In):
        listing = node.comparators[0]
        if isinstance(listing, ast.Call) and _dotted(listing.func) == "dir" and listing.args:
            with suppress(ValueError):
                return f"{_dotted(listing.args[0])}.{ast.literal_eval(node.left)}"
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
    nodes = list(_unguarded(tree))
    aliases = _find_aliases(nodes)
    tested = {_full_name(_tested(node), aliases) for node in nodes}
    for name, line in _used_names(tree):
        root = name.split(".")[0]
        if root in _SEARCHED and not find_provided(name):
            yield from (one for one in _look_up(name, file, line) if one.name not in tested)
    for line, name, reason in find_star_names(tree, _ROOTS, _own_star_names(tree, file, {file})):
        yield Missing(file, line, name, reason)


def _own_star_names(tree: ast.Module, file: str, seen: set[str]) -> set[str]:
    """Return the names that a file gets from the script's own modules by star imports, directly or through another one."""
    names: set[str] = set()
    for module in star_imports(tree):
        for path in set(_own_files(module, file)[-1:]) - seen:
            seen.add(path)
            with open(path, "rb") as file_object, suppress(SyntaxError):  # the report names the file
                imported = ast.parse(file_object.read(), path)
                names |= bound_names(imported) | _own_star_names(imported, path, seen)
    return names


def _used_names(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield the full name and the line of each name of a module that a file imports or uses."""
    nodes = list(_unguarded(tree))
    aliases = _find_aliases(nodes)
    rebound = {name for node in nodes for name in _rebound(node)}
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module, node.lineno
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names if alias.name != "*")
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            root = _dotted(node).split(".")[0]
            if root not in rebound and root in aliases:
                yield _full_name(_dotted(node), aliases), node.lineno


def _find_aliases(nodes: list[ast.AST]) -> dict[str, str]:
    """Return the full names of the modules and values that a file gives names to, e.g. {"tf": "tensorflow"}."""
    aliases: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.split(".")[0]
                aliases.update({alias.asname: alias.name} if alias.asname else {root: root})
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            aliases.update({name: full for name, full in names.items() if name != "*"})
    for node in nodes:  # such as `slim = tf.contrib.slim`
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and _dotted(node.value):
            aliases.setdefault(node.targets[0].id, _full_name(_dotted(node.value), aliases))
    return aliases


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
    keras = keras_names.find_keras() if root == "keras" else None
    try:
        module = view() if root == "tensorflow" else keras or importlib.import_module(root)
    except ImportError:  # a library that is not installed
        return
    for i, part in enumerate(parts):
        path = ".".join([root, *parts[: i + 1]])
        try:
            value = getattr(module, part)
        except (AttributeError, ImportError, NotImplementedError) as error:
            try:
                value = _import(path, keras)
            except ImportError as import_error:
                plain = str(import_error).startswith("No module named")
                yield Missing(file, line, path, str(error if plain else import_error))
                return
        has_modules = isinstance(value, ModuleType) and any(isinstance(one, ModuleType) for one in vars(value).values())
        if isinstance(value, Unsupported) or (isinstance(value, UnsupportedModule) and not has_modules):
            yield Missing(file, line, path, value.message)
            return
        if not isinstance(value, ModuleType):
            return
        module = value


def _import(path: str, keras: Any) -> Any:
    """Import a module as the script would."""
    if path.startswith("tensorflow."):
        return import_module(path, ("*",))
    return keras_names.load_module(keras, path.split(".")[1:]) if keras else importlib.import_module(path)


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
    names = len({one.name for one in missing if not one.is_provided})
    provided = len({one.name for one in missing if one.is_provided})
    end = f", {provided} removed {_plural(provided)} that run provides" if provided else ""
    sys.stdout.write(f"{script}: {names} missing {_plural(names)}{end}\n")
    return 1 if names else 0


def _plural(number: int) -> str:
    return "name" if number == 1 else "names"


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
