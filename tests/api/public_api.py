"""
Print the public surface: one line a name, its place, its kind and its signature.

Regenerate the golden file after a change of API that is meant, and let the review see it:

    python tests/api/public_api.py > tests/api/public_api.txt

The text is the same on every TensorFlow and Python: annotations are left out, and a default that is not a plain
value is shown by its type.
"""

from __future__ import annotations

import ast
import enum
import importlib
import inspect
import types
from pathlib import Path
from typing import Generic

PLAIN = (type(None), bool, int, float, str)


def public_modules(package) -> dict:
    """Literal `__all__` of every module whose name has no underscore: `{dotted name: [names]}`."""
    root = Path(package.__file__).parent
    found = {}
    for file in sorted(root.rglob("*.py")):
        parts = file.relative_to(root).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if not parts or any(part.startswith("_") for part in parts):
            continue
        for statement in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(statement, ast.Assign) and getattr(statement.targets[0], "id", "") == "__all__":
                found[".".join([package.__name__, *parts])] = ast.literal_eval(statement.value)
    return found


def plain(value: object) -> str:
    """A default as text that is the same everywhere."""
    if isinstance(value, PLAIN):
        return repr(value)
    if isinstance(value, (tuple, list)) and all(isinstance(v, PLAIN) for v in value):
        return repr(value)
    if isinstance(value, type) or inspect.isroutine(value):
        return f"<{value.__name__}>"
    return f"<{type(value).__name__}>"


def signature(thing: object) -> str:
    """`(ds, batch_size, remainder=False)`; "" for what cannot be called."""
    if not callable(thing):
        return ""
    if isinstance(thing, enum.EnumMeta):  # its constructor differs between Pythons
        return f"({', '.join(member.name for member in thing)})"
    try:
        parameters = inspect.signature(thing).parameters.values()
        if Generic in getattr(thing, "__mro__", ()) and isinstance(
            thing.__init__, types.FunctionType
        ):  # on Python 3.7 that is Generic's own
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
    """What a name stands for."""
    if isinstance(thing, types.ModuleType):
        return "module"
    if type(thing).__module__ == "typing":
        return "value"  # an alias; what it is made of differs between Pythons
    if isinstance(thing, type):
        return "class"
    return "function" if callable(thing) else "value"


def lines() -> list:
    """The public surface; names that `from tensorpack_lite import *` brings are marked with a star."""
    import tensorpack_lite

    modules = public_modules(tensorpack_lite)
    star = set(tensorpack_lite.__all__)
    found = [
        f"* tensorpack_lite.{name}: module"
        for name in sorted(star)
        if kind(getattr(tensorpack_lite, name)) == "module"
    ]
    for name in sorted(modules):
        module = importlib.import_module(name)
        below = {n for other, names in modules.items() if other.startswith(name + ".") for n in names}
        for word in sorted(set(modules[name]) - below):
            thing = getattr(module, word)
            home = getattr(thing, "__module__", name) or name
            if kind(thing) == "module" or (home != name and home in modules):
                continue  # gathered by a package or an address; it has its line where it is defined
            mark = "*" if word in star and getattr(tensorpack_lite, word) is thing else " "
            text = "" if kind(thing) == "value" else signature(thing)
            found.append(f"{mark} {name}.{word}: {kind(thing)} {text}".rstrip())
    return found


if __name__ == "__main__":
    import os
    import sys

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    sys.stdout.write("\n".join(lines()) + "\n")
