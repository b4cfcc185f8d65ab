"""`tf.contrib.training.HParams`: typed hyper-parameters that a string can override."""

from __future__ import annotations

import json
import numbers
import re
from typing import Any, Callable, Mapping

_ASSIGNMENT = re.compile(
    r"""
    (?P<name>[a-zA-Z][\w\.]*)       # the name
    (\[\s*(?P<index>\d+)\s*\])?     # an index, of one element of a list
    \s*=\s*
    ((?P<value>[^,\[]*)             # one value
     |
     \[(?P<values>[^\]]*)\])        # or a list
    ($|,\s*)""",
    re.VERBOSE,
)


def parse_values(values: str, type_map: Mapping[str, type], ignore_unknown: bool = False) -> dict[str, Any]:
    """
    Parse assignments such as "lr=0.1,sizes=[1,2],names[1]=b".

    Args:
        values: assignments, separated by commas.
        type_map: the type of each hyper-parameter, or of its elements.
        ignore_unknown: skip names that are not in `type_map`.

    Returns:
        A dict from a name to a value, a list of values, or a dict from indices to values.

    Raises:
        ValueError: the text is malformed, a value does not have the type, or a name is unknown or assigned twice.
    """
    found: dict[str, Any] = {}
    position = 0
    while position < len(values):
        match = _ASSIGNMENT.match(values, position)
        if not match:
            raise ValueError(f"parse_values: malformed hyper-parameter: {values[position:]!r}.")
        position = match.end()
        name = match["name"]
        if name in type_map:
            _assign(found, match, type_map[name], values)
        elif not ignore_unknown:
            raise ValueError(f"parse_values: unknown hyper-parameter {name!r} in {values!r}.")
    return found


def _assign(found: dict[str, Any], match: re.Match[str], kind: type, text: str) -> None:
    """Add one assignment to a dict."""
    name, index = match["name"], match["index"]
    parse: Callable[[str], Any] = _parse_bool if kind is bool else kind
    try:
        if match["values"] is None:
            value = parse(match["value"])
        elif index is None:
            value = [parse(element) for element in re.split("[ ,]", match["values"]) if element]
        else:
            raise ValueError("a list is assigned to one element")
    except ValueError as error:
        problem = f"{name!r} is not of type {kind.__name__} in {text!r} ({error})"
        raise ValueError(f"parse_values: {problem}.") from error
    target: Any = found if index is None else found.setdefault(name, {})
    key: Any = name if index is None else int(index)
    if not isinstance(target, dict) or key in target:
        raise ValueError(f"parse_values: {name!r} is assigned twice in {text!r}.")
    target[key] = value


def _parse_bool(text: str) -> bool:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return bool(int(text))


class HParams:
    """
    A set of hyper-parameters, which are attributes of the object.

    The type of a hyper-parameter is that of its first value. `parse` and `set_hparam` convert to it, or raise an error.

    Args:
        hparam_def: must be None; the protocol buffer of TensorFlow 1 no longer exists.
        model_structure: any object, returned by `get_model_structure`.
        kwargs: names and values: int, float, bool, str, None, or a non-empty list of them.

    Raises:
        ValueError: `hparam_def` is given, a name is reserved, or a list is empty.
    """

    def __init__(self, hparam_def: Any = None, model_structure: Any = None, **kwargs: Any) -> None:
        if hparam_def is not None:
            raise ValueError(
                "HParams: hparam_def is not supported, because TensorFlow 2 has no HParamDef. "
                "Pass names and values, or use parse_json."
            )
        self._types: dict[str, tuple[type, bool]] = {}
        self._model_structure = model_structure
        for name, value in kwargs.items():
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: Any) -> None:
        """Add a hyper-parameter; see the class for the errors."""
        if getattr(self, name, None) is not None:
            raise ValueError(f"HParams.add_hparam: the name {name!r} is reserved.")
        is_list = isinstance(value, (list, tuple))
        if is_list and not value:
            raise ValueError(f"HParams.add_hparam: {name!r} is an empty list, which has no type.")
        self._types[name] = (type(value[0] if is_list else value), is_list)
        self.__dict__[name] = value

    def set_hparam(self, name: str, value: Any) -> None:
        """
        Set an existing hyper-parameter.

        Raises:
            KeyError: there is no such hyper-parameter.
            ValueError: the type differs, or only one of the old and new value is a list.
        """
        kind, is_list = self._types[name]
        if isinstance(value, list) != is_list:
            expected = "a list" if is_list else "one value"
            raise ValueError(f"HParams.set_hparam: {name!r}: expected {expected}, got {value!r}.")
        self.__dict__[name] = [_cast(name, kind, v) for v in value] if is_list else _cast(name, kind, value)

    def del_hparam(self, name: str) -> None:
        """Remove a hyper-parameter, if it exists."""
        if self._types.pop(name, None):
            del self.__dict__[name]

    def parse(self, values: str) -> HParams:
        """Override values by a string, see `parse_values`, and return this object."""
        parsed = parse_values(values, {name: kind for name, (kind, _) in self._types.items()})
        for name, value in parsed.items():
            if isinstance(value, dict):  # elements of a list
                parsed[name] = [value.get(i, old) for i, old in enumerate(getattr(self, name))]
        return self.override_from_dict(parsed)

    def override_from_dict(self, values_dict: Mapping[str, Any]) -> HParams:
        """Override values by a dict, see `set_hparam`, and return this object."""
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    set_from_map = override_from_dict

    def set_model_structure(self, model_structure: Any) -> None:
        """Set the object that `get_model_structure` returns."""
        self._model_structure = model_structure

    def get_model_structure(self) -> Any:
        """Return the model structure, or None."""
        return self._model_structure

    def to_json(
        self, indent: int | None = None, separators: tuple[str, str] | None = None, sort_keys: bool = False
    ) -> str:
        """Return all values as JSON; see `json.dumps` for the arguments."""
        return json.dumps(self.values(), indent=indent, separators=separators, sort_keys=sort_keys)

    def parse_json(self, values_json: str) -> HParams:
        """Override values by the JSON text of a dict, and return this object."""
        return self.override_from_dict(json.loads(values_json))

    def values(self) -> dict[str, Any]:
        """Return all names and values."""
        return {name: getattr(self, name) for name in self._types}

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value, or `default` if there is no such hyper-parameter."""
        return getattr(self, key) if key in self._types else default

    def __contains__(self, key: str) -> bool:
        return key in self._types

    def __str__(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self.values().items())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({sorted(self.values().items())})"


def _cast(name: str, kind: type, value: Any) -> Any:
    """Convert a value to the type of a hyper-parameter, without loss."""
    if type(value) is kind or kind is type(None):
        return value
    allowed: Any = {int: numbers.Integral, float: numbers.Number, str: (str, bytes)}.get(kind, kind)
    if not isinstance(value, allowed) or isinstance(value, bool):
        raise ValueError(f"HParams: {name!r}: expected type {kind.__name__}, got {value!r}.")
    return kind(value)
