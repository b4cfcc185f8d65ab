"""Lines that show in what two JSON values differ. Objects in them are those of `utils.manifest.describe`."""

from __future__ import annotations

from typing import Any, Iterator

from ...utils.plain_values import STOPPED

_MISSING = object()
_MAX_CHARS = 80


def differences(a: Any, b: Any, path: str = "") -> Iterator[str]:
    """
    Yield a line for each difference of two JSON values.

    Args:
        a, b: descriptions of objects, or any other JSON values.
        path: their place, for the lines.
    """
    if _is_object(a) and _is_object(b) and a.get("type") == b.get("type"):
        path = a["type"]
        a, b = _fields(a), _fields(b)
    if _has_names(a) and _has_names(b):
        for name in [*a, *(name for name in b if name not in a)]:
            inner = f"{path}.{name}" if path else name
            yield from differences(a.get(name, _MISSING), b.get(name, _MISSING), inner)
    elif (_has_objects(a) or _has_settings(a)) and isinstance(b, list) and len(a) == len(b):
        for number, pair in enumerate(zip(a, b)):
            yield from differences(*pair, f"{path}[{number}]")
    elif a != b and STOPPED not in (a, b):  # a description that has stopped says nothing
        yield describe_pair(path, a, b)


def _fields(value: dict[str, Any]) -> dict[str, Any]:
    fields = {name: content for name, content in value.items() if name not in ("type", "arguments")}
    return {**value.get("arguments", {}), **fields}


def _is_object(value: Any) -> bool:
    return isinstance(value, dict) and "type" in value


def _has_names(value: Any) -> bool:
    return isinstance(value, dict) and "type" not in value and "digest" not in value


def _has_objects(value: Any) -> bool:
    return isinstance(value, list) and any(map(_is_object, value))


def _has_settings(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_has_names, value))


def describe_pair(name: str, a: Any, b: Any) -> str:
    """Return a line with two values of the same name."""
    if a is _MISSING or b is _MISSING:
        value, side = (b, "B") if a is _MISSING else (a, "A")
        return f"{name} {_short(value)} in {side} only" if not _is_object(value) else f"{name} in {side} only"
    return f"{name} {_short(a)} in A, {_short(b)} in B"


def _short(value: Any) -> str:
    """Return a value in a few words; of an object, its class and those of the objects inside; of a long list, its digest."""
    if _is_object(value):
        inner = [_short(argument) for argument in value.get("arguments", {}).values() if _is_object(argument)]
        return f"{value['type']}({', '.join(inner)})"
    if isinstance(value, dict) and "digest" in value:
        return f"{value.get('length', value.get('bytes'))} items ({value['digest']})"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}..."
