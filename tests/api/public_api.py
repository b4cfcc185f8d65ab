"""
Print the public API: one line per name with its module, kind and signature.

After an intended change of the API, regenerate the golden file, so that the change is visible in review:

    python tests/api/public_api.py > tests/api/public_api.txt

The text is the same on every TensorFlow and Python: it omits annotations, and shows a default that is not a plain value
by its type.
"""

from __future__ import annotations

import ast
import csv
import enum
import importlib
import inspect
import types
from pathlib import Path

UPSTREAM_NAMES = Path(__file__).with_name("upstream_names.tsv")
PLAIN = (type(None), bool, int, float, str)


def public_places(package) -> dict:
    """Return `{dotted name of a module: public names in it}`: its `__all__`, and tensorpack's names at this address."""
    root = Path(package.__file__).parent
    found: dict = {}
    for file in sorted(root.rglob("*.py")):
        parts = file.relative_to(root).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if not parts or any(part.startswith("_") for part in parts):
            continue
        for statement in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(statement, ast.Assign) and getattr(statement.targets[0], "id", "") == "__all__":
                found[".".join([package.__name__, *parts])] = set(ast.literal_eval(statement.value))
    with UPSTREAM_NAMES.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            if row["here"] == "same" and row["upstream module"].startswith("tensorpack.") and "." not in row["name"]:
                place = row["upstream module"].replace("tensorpack", package.__name__, 1)
                found.setdefault(place, set()).add(row["name"])
    return found


def plain(value: object) -> str:
    """Return a default as text that does not depend on the platform."""
    if isinstance(value, PLAIN):
        return repr(value)
    if isinstance(value, (tuple, list)) and all(isinstance(v, PLAIN) for v in value):
        return repr(value)
    if isinstance(value, type) or inspect.isroutine(value):
        return f"<{value.__name__}>"
    return f"<{type(value).__name__}>"


def signature(thing: object) -> str:
    """Return the signature, such as `(ds, batch_size, remainder=False)`, or "" if the object is not callable."""
    if not callable(thing):
        return ""
    if isinstance(thing, enum.EnumMeta):  # its constructor differs between versions of Python
        return f"({', '.join(member.name for member in thing)})"
    try:
        parameters = inspect.signature(thing).parameters.values()
        # On Python 3.7, inspect.signature would return the signature of an inherited `__new__`.
        if isinstance(thing, type) and isinstance(vars(thing).get("__init__"), types.FunctionType):
            parameters = list(inspect.signature(thing.__init__).parameters.values())[1:]
    except (TypeError, ValueError):
        return "(...)"
    words, starred = [], False
    for p in parameters:
        if p.kind is p.VAR_POSITIONAL:
            words, starred = [*words, f"*{p.name}"], True
        elif p.kind is p.VAR_KEYWORD:
            words.append(f"**{p.name}")
        else:
            if p.kind is p.KEYWORD_ONLY and not starred:
                words, starred = [*words, "*"], True
            words.append(p.name if p.default is p.empty else f"{p.name}={plain(p.default)}")
    return f"({', '.join(words)})"


def kind(thing: object) -> str:
    """Return the kind of an object: module, class, function or value."""
    if isinstance(thing, types.ModuleType):
        return "module"
    if type(thing).__module__ == "typing":
        return "value"  # an alias, whose parts differ between versions of Python
    if isinstance(thing, type):
        return "class"
    return "function" if callable(thing) else "value"


def definitions() -> dict:
    """Return `{(module, name): object}` of each public name, at its definition if that can be found."""
    import tensorpack_lite

    found: dict = {}
    for place, names in sorted(public_places(tensorpack_lite).items()):
        module = importlib.import_module(place)
        for name in sorted(names):
            thing = getattr(module, name)
            home = getattr(thing, "__module__", None) or place
            is_here = home.startswith(tensorpack_lite.__name__ + ".") and name in vars(importlib.import_module(home))
            if kind(thing) != "module" and not any(
                known is thing for (_, other), known in found.items() if other == name
            ):
                found[home if is_here else place, name] = thing
    return found


def lines() -> list:
    """Return the lines of the public API. A star marks the names of `from tensorpack_lite import *`."""
    import tensorpack_lite

    star = set(tensorpack_lite.__all__)
    found = [
        f"* tensorpack_lite.{name}: module" for name in sorted(star) if kind(getattr(tensorpack_lite, name)) == "module"
    ]
    for (module, name), thing in sorted(definitions().items()):
        mark = "*" if name in star and getattr(tensorpack_lite, name) is thing else " "
        text = "" if kind(thing) == "value" else signature(thing)
        found.append(f"{mark} {module}.{name}: {kind(thing)} {text}".rstrip())
    return found


if __name__ == "__main__":
    import os
    import sys

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    sys.stdout.write("\n".join(lines()) + "\n")
