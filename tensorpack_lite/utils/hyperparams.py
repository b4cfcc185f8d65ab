"""The hyper-parameters of a training, from its manifest."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, Iterable, Iterator, List, Tuple, Union

from .plain_values import STOPPED

Value = Union[bool, int, float, str]

ADDED = "hyperparameters"
"""The entry of the manifest with those that the user has added, see `RecordHyperParams`."""
INITIALLY = ", initially "
"""The pattern between a variable and its value in the inputs of an optimizer, see `tfutils/graph_description.py`."""

_SEED = re.compile(r"(^|[^a-z])seed(s|$|[^a-z])", re.I)
_SECRET = re.compile(r"(^|[^a-z])(key|token|password|passwd|secret|credentials?)$", re.I)
_PLACE = re.compile("dir|path|folder|log|out|name", re.I)
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$", re.I)
_UPDATE = re.compile("(Resource)?(Sparse)?Apply(Keras)?")
_RATES = ("alpha", "lr")  # inputs of the operations of optimizers
_SLOT = re.compile("beta[12]_power")
_RECORDS = ["argparse.Namespace", "types.SimpleNamespace"]
_NOT_ARGUMENTS = ("rng", "queue")
_MAX_CHARS = 200  # of a list in one value
_MAX_DEPTH = 16


def hyperparams_of(manifest: Dict[str, Any]) -> Dict[str, Value]:
    """
    Return the hyper-parameters of a training.

    Args:
        manifest: the content of `manifest.json`; parts may be missing or damaged.

    Returns:
        Numbers, strings and booleans by name: what the user has added and the arguments of the script, by their own names;
        arguments of constructors, as `Model.rate` or `BatchData.batch_size`; the constants of the optimizer; the length;
        the seed. If a name occurs twice, the first value counts.
    """
    settings, length = _dict(manifest.get("settings")), _dict(manifest.get("length"))
    found = flatten(manifest.get(ADDED))
    sources = [
        parse_arguments(_list(_dict(manifest.get("code")).get("arguments"))),
        _optimizer(_dict(_dict(manifest.get("graph")).get("optimizer"))),
        {f"config.{name}": length[name] for name in ("steps_per_epoch", "max_epoch") if name in length},
        {"trainer": settings.get("trainer"), "ranks": settings.get("ranks")},
        _constructor_arguments([settings.get("model"), manifest.get("data"), manifest.get("schedules")]),
        {"seed": _dict(manifest.get("seeds")).get("fix_rng_seed")},
    ]
    for source in sources:
        for name, value in source.items():
            if isinstance(value, (bool, int, float, str)):
                found.setdefault(name, value)
    return {name: "<hidden>" if isinstance(v, str) and _SECRET.search(name) else v for name, v in found.items()}


def is_seed(name: str) -> bool:
    """Return whether a hyper-parameter is a seed, by its name."""
    return bool(_SEED.search(name))


def is_own_place(name: str, value: object, directory: str) -> bool:
    """
    Return whether a hyper-parameter names the directory of its training, or a part of its path.

    Args:
        name, value: the hyper-parameter.
        directory: the absolute path of the directory.
    """
    if not isinstance(value, str) or not value or not (os.sep in value or _PLACE.search(name)):
        return False
    parts, own = os.path.normpath(value).strip(os.sep).split(os.sep), directory.strip(os.sep).split(os.sep)
    return parts[: len(own)] == own or parts == own[-len(parts) :]


def without_directory(value: Any, directory: str) -> Any:
    """
    Replace the path of a training's own directory, which differs between any two training runs, by `<log>`.

    Args:
        value: a JSON value.
        directory: the path.
    """
    if isinstance(value, str):
        is_inside = value == directory or value.startswith(directory + os.sep)
        return f"<log>{value[len(directory) :]}" if is_inside else value
    if isinstance(value, list):
        return [without_directory(item, directory) for item in value]
    if isinstance(value, dict):
        return {name: without_directory(item, directory) for name, item in value.items()}
    return value


def parse_arguments(words: List[Any]) -> Dict[str, Value]:
    """
    Parse the arguments of a script of which the parser is not known.

    Args:
        words: without the name of the script.

    Returns:
        The value of `--name value`, `--name=value`, `-n value` and `name=value`, as a number if it is one; True for an option
        without a value. `-` inside a name becomes `_`. Other words are `argument 1` and so on. Values of a repeated option are
        joined by a comma.
    """
    found: Dict[str, List[str]] = {}
    name, num_others = "", 0
    for word in map(str, words):
        if re.match("--?[A-Za-z]", word):
            name, has_value, value = word.lstrip("-").partition("=")
            name = name.replace("-", "_")
            found.setdefault(name, []).extend([value] if has_value else [])
            name = "" if has_value else name
        elif re.match(r"\+{0,2}[A-Za-z_][\w.]*=", word):
            key, _, value = word.lstrip("+").partition("=")
            found.setdefault(key, []).append(value)
        elif name:
            found[name].append(word)
            name = ""
        elif word != "--":
            num_others += 1
            found[f"argument {num_others}"] = [word]
    return {name: _parsed(", ".join(values)) if values else True for name, values in found.items()}


def _parsed(text: str) -> Value:
    if not _NUMBER.match(text):
        return text
    return int(text) if re.match(r"[-+]?\d+$", text) else float(text)


def optimizer_names(updates: Iterable[str]) -> List[str]:
    """Return the names of the optimizers whose operations update variables."""
    return sorted({_UPDATE.sub("", name) for name in updates})


def _optimizer(updates: Dict[str, Any]) -> Dict[str, Any]:
    """Return the name of the optimizer and its constants, from the operations that update variables."""
    names = ", ".join(optimizer_names(updates))
    found: Dict[str, Any] = {"optimizer": names} if names else {}
    for operation, inputs in updates.items():
        for number, values in enumerate(_list(inputs), 1):
            for name, value in _dict(values).items():
                value = _parsed(value.rpartition(INITIALLY)[2]) if isinstance(value, str) else value
                if not isinstance(value, str) and not _SLOT.match(name):
                    group = f" {number}" if number > 1 else ""
                    shown = "learning_rate" if name in _RATES else name
                    found[f"{_UPDATE.sub('', operation)}{group}.{shown}"] = value
    return found


def _constructor_arguments(descriptions: List[Any]) -> Dict[str, Value]:
    """Return the arguments of all described objects that are plain values, as `Class.argument`; equal classes are numbered."""
    found: Dict[str, Value] = {}
    counts: Dict[str, int] = {}
    for kind, arguments in _objects(descriptions, 0):
        flat = flatten({name: value for name, value in arguments.items() if name not in _NOT_ARGUMENTS})
        if flat:
            counts[kind] = counts.get(kind, 0) + 1
            number = f"#{counts[kind]}" if counts[kind] > 1 else ""
            found.update({f"{kind}{number}.{name}": value for name, value in flat.items()})
    return found


def _objects(value: Any, depth: int) -> Iterator[Tuple[str, Dict[str, Any]]]:
    """Yield the class and the arguments of each object in a description, the outermost first."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, dict):
        arguments = _dict(value.get("arguments"))
        if "type" in value and arguments and value["type"] not in _RECORDS:
            yield str(value["type"]).rpartition(".")[2], arguments
        value = list((arguments if "type" in value else value).values())
    for item in _list(value):
        yield from _objects(item, depth + 1)


def flatten(values: Any, prefix: str = "") -> Dict[str, Value]:
    """Return the plain values in a dict of a description, with dots between the names, and lists as text; without objects."""
    found: Dict[str, Value] = {}
    for name, value in _dict(values).items():
        if isinstance(value, dict) and value.get("type") in _RECORDS:
            value = _dict(value.get("arguments"))
        if isinstance(value, dict):
            is_object = bool({"type", "function", "class", "array", "digest", "partial", "module"} & set(value))
            found.update({} if is_object else flatten(value, f"{prefix}{name}."))
        elif isinstance(value, list):
            text = str(value)
            if len(text) <= _MAX_CHARS and not any(isinstance(item, dict) for item in value):
                found[f"{prefix}{name}"] = text
        elif isinstance(value, (bool, int, float, str)) and value != STOPPED:
            found[f"{prefix}{name}"] = value
    return found


def _dict(value: Any) -> Dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> List[Any]:
    return value if isinstance(value, list) else []
