"""Lines that show in what two JSON values differ. Objects in them are those of `utils.manifest.describe`."""

from __future__ import annotations

from typing import Any, Iterator

from ...utils.plain_values import STOPPED

_MISSING = object()
_MAX_CHARS = 80


def differences(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """
    Yield a line for each difference of two JSON values.

    Args:
        one, other: descriptions of objects, or any other JSON values.
        path: their place, for the lines.
    """
    if _is_object(one) and _is_object(other) and one.get("type") == other.get("type"):
        path = one["type"]
        one, other = _fields(one), _fields(other)
    if _has_names(one) and _has_names(other):
        for name in [*one, *(name for name in other if name not in one)]:
            inner = f"{path}.{name}" if path else name
            yield from differences(one.get(name, _MISSING), other.get(name, _MISSING), inner)
    elif (_has_objects(one) or _has_settings(one)) and isinstance(other, list) and len(one) == len(other):
        for number, pair in enumerate(zip(one, other)):
            yield from differences(*pair, f"{path}[{number}]")
    elif one != other and STOPPED not in (one, other):  # a description that has stopped says nothing
        yield describe_pair(path, one, other)


def _fields(value: dict[str, Any]) -> dict[str, Any]:
    rest = {name: one for name, one in value.items() if name not in ("type", "arguments")}
    return {**value.get("arguments", {}), **rest}


def _is_object(value: Any) -> bool:
    return isinstance(value, dict) and "type" in value


def _has_names(value: Any) -> bool:
    return isinstance(value, dict) and "type" not in value and "digest" not in value


def _has_objects(value: Any) -> bool:
    return isinstance(value, list) and any(map(_is_object, value))


def _has_settings(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_has_names, value))


def describe_pair(name: str, one: Any, other: Any) -> str:
    """Return a line with two values of the same name."""
    if one is _MISSING or other is _MISSING:
        value, side = (other, "B") if one is _MISSING else (one, "A")
        return f"{name} {_short(value)} in {side} only" if not _is_object(value) else f"{name} in {side} only"
    return f"{name} {_short(one)} in A, {_short(other)} in B"


def _short(value: Any) -> str:
    """Return a value in a few words; of an object, its class and those of the objects inside; of a long list, its digest."""
    if _is_object(value):
        inner = [_short(one) for one in value.get("arguments", {}).values() if _is_object(one)]
        return f"{value['type']}({', '.join(inner)})"
    if isinstance(value, dict) and "digest" in value:
        return f"{value.get('length', value.get('bytes'))} items ({value['digest']})"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}..."
