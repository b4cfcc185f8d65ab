"""
Print `tensorpack_lite/models/__init__.pyi`: the layers as scripts call them, with the name first.

The decorators that turn a function into a layer hide this from editors. After a change of a layer's arguments, run

    python tests/api/layer_stubs.py > tensorpack_lite/models/__init__.pyi

All arguments after the inputs are optional in the stub, because argscope can supply them.
"""

from __future__ import annotations

import inspect

HEADER = '''"""Layers as scripts call them, for type checkers and editors. `tests/api/layer_stubs.py` writes this file."""

from typing import Any, Callable, Sequence

import numpy as np

from ..compat.stubs import tfv1 as tf
'''
PLAIN = (type(None), bool, int, float, str, tuple)


def show(parameter: inspect.Parameter) -> str:
    """Return a parameter of a stub."""
    default = repr(parameter.default).replace("'", '"') if isinstance(parameter.default, PLAIN) else "..."
    star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind)
    if star:
        return f"{star}{parameter.name}: {parameter.annotation}"
    return f"{parameter.name}: {parameter.annotation} = {default}"


def stub(layer) -> str:
    """Return the definition of a layer in the stub."""
    signature = inspect.signature(layer)
    name, inputs, *others = signature.parameters.values()
    arguments = [f"{name.name}: str", f"{inputs.name}: {inputs.annotation}", *map(show, others)]
    if not any(one.kind is one.VAR_KEYWORD for one in others):
        arguments.append("**old_names: Any")
    lines = ",\n".join(f"    {argument}" for argument in arguments)
    return f"def {layer.__name__}(\n{lines},\n) -> {signature.return_annotation}: ..."


def stubs() -> str:
    """Return the text of the stub."""
    from tensorpack_lite import models

    found, second_names, imports = [], [], []
    for name in models.__all__:
        value = getattr(models, name)
        if getattr(value, "use_scope", None) is True and value.__name__ == name:
            found.append(stub(value))
        elif getattr(value, "use_scope", None) is True:
            second_names.append(f"{name} = {value.__name__}")
        else:
            imports.append(f"from .{value.__module__.rsplit('.', 1)[1]} import {name} as {name}")
    blocks = ["\n".join(sorted(lines)) for lines in (imports, found, second_names)]
    blocks.append("\n".join(["__all__ = [", *(f'    "{name}",' for name in models.__all__), "]"]))
    return HEADER + "\n\n".join(blocks) + "\n"


if __name__ == "__main__":
    print(stubs(), end="")
