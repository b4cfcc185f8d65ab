"""The rule about methods of a user's callback that nothing calls, because their names are those of other libraries or misspelt."""

from __future__ import annotations

import ast
import re
import sys
import tokenize
from itertools import takewhile
from types import CodeType, FunctionType
from typing import Any, Iterator

from ...loop.callback import Callback
from ...utils.inspection import module_of, mro, origin, static_attribute
from ..data_check.remarks import Remark
from .graph_view import show_place
from .training import ExaminedTraining

_MOMENTS = [name for name in vars(Callback) if re.match("_(setup|before|after|trigger)", name)]

# names in Keras, Lightning, Hugging Face and fastai, by the moment of this library
_ELSEWHERE = {
    "_before_train": "on_train_begin on_train_start on_fit_start before_fit",
    "_before_epoch": "on_epoch_begin on_epoch_start on_train_epoch_start",
    "_before_run": "on_batch_begin on_batch_start on_train_batch_begin on_train_batch_start on_step_begin before_batch",
    "_trigger_step": "on_batch_end on_train_batch_end on_step_end after_batch",
    "_trigger_epoch": "on_epoch_end on_train_epoch_end on_validation_end on_validation_epoch_end on_test_end on_evaluate",
    "_after_train": "on_train_end on_fit_end on_exception after_fit",
    "state_dict": "on_save_checkpoint",
    "load_state_dict": "on_load_checkpoint",
}
_MOMENT_OF = {name: moment for moment, names in _ELSEWHERE.items() for name in names.split()}


def method_that_nothing_calls(training: ExaminedTraining) -> Iterator[Remark]:
    """
    G21: a callback of the user has a method such as `on_epoch_end` or `_trigger_epochs`, and nothing calls it.

    Why: the name is that of another library, or almost that of a moment, so the callback does nothing.

    Does not report a method if the user's code has its name anywhere else, if a class of another library has a method
    of that name, or if the callback also defines the moment. Of misspelt names, reports only those without one letter or
    with one too many, with a wrong letter at the end, two letters in the wrong order, or a letter that is doubled wrongly.

    Source: a new user who came from Keras.
    """
    for kind in dict.fromkeys(map(type, training.callbacks)):
        users = [base for base in mro(kind) if origin(module_of(base)) == "user"]
        defined = {name: value for base in reversed(users) for name, value in vars(base).items()}
        inherited = {name for base in mro(kind) if base not in users for name in vars(base)}
        for name, method in defined.items():
            moment = _find_moment(name)
            if moment is None or type(method) is not FunctionType or name in inherited or moment in defined:
                continue
            functions = [method for method in defined.values() if type(method) is FunctionType]
            if any(_names_itself(method, name) for method in functions) or _is_in_files(name):
                continue
            code = method.__code__
            place = show_place(code.co_filename, code.co_firstlineno)
            yield Remark("G21", kind.__name__, f"`{name}` is never called.", f"Did you mean `{moment}`?", place)


def _find_moment(name: str) -> str | None:
    """Return the moment that a name was meant to be; None if it is a moment, or if nothing is known about it."""
    if name in _MOMENTS or not re.match("_[a-z]", name):
        return _MOMENT_OF.get(name)
    return next((moment for moment in _MOMENTS if _is_slip(name, moment)), None)


def _is_slip(name: str, moment: str) -> bool:
    if _without_doubles(name) == _without_doubles(moment):
        return True
    start = len([*takewhile(lambda pair: pair[0] == pair[1], zip(name, moment))])
    end, right_end = name[start:], moment[start:]
    if end[1:] == right_end or end == right_end[1:]:  # a letter too many, or one is missing
        return True
    return len(end) == len(right_end) == 1 or (end[:2] == right_end[1::-1] and end[2:] == right_end[2:])


def _without_doubles(name: str) -> str:
    return re.sub(r"([a-z])\1", r"\1", name)


def _names_itself(method: FunctionType, name: str) -> bool:
    """Return whether a method has a name in its code; its docstring does not count."""
    return _has_name(method.__code__, name) and method.__doc__ != name


def _has_name(code: CodeType, name: str) -> bool:
    """Return whether a function, or one inside it, has a name as an attribute, variable or string."""
    return (
        name in code.co_names
        or name in code.co_consts
        or any(_has_name(inner, name) for inner in code.co_consts if isinstance(inner, CodeType))
    )


def _is_in_files(name: str) -> bool:
    """Return whether a module of the user has a name as an attribute, variable or string, or cannot be read."""
    for module_name, module in list(sys.modules.items()):
        path: Any = static_attribute(module, "__file__")
        if origin(module_name) != "user" or not isinstance(path, str) or not path.endswith(".py"):
            continue
        try:
            with tokenize.open(path) as file:
                text = file.read()
            if name in text and any(_is_use(node, name) for node in _walk(ast.parse(text))):
                return True
        except (OSError, SyntaxError, ValueError):
            return True
    return False


def _walk(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a tree, without strings that are statements, such as docstrings."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [child for child in ast.iter_child_nodes(node) if not _is_text(child)]


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and type(node.value).__name__ in ("Str", "Constant")


def _is_use(node: ast.AST, name: str) -> bool:
    value = "s" if type(node).__name__ == "Str" else "value"  # Python 3.7 has a class for strings
    return name in [getattr(node, attribute, None) for attribute in ("attr", "id", value)]
