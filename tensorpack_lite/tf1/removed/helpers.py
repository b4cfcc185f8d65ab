"""Functions that the code of a script calls where the script uses something that was removed; see `rewrite.py`."""

from __future__ import annotations

import codecs
import collections.abc
import functools
import inspect
import sys
from typing import Any, Callable, Mapping

from .addresses import resolve
from .said import say


# Methods -----------------------------------------------------------------------------------------------------------------
def _newbyteorder(array: Any) -> Callable[..., Any]:
    return lambda new_order="S": array.view(array.dtype.newbyteorder(new_order))


def _itemset(array: Any) -> Callable[..., None]:
    def itemset(*args: Any) -> None:
        index = args[0] if len(args) == 2 else args[:-1]
        if isinstance(index, int):
            array.flat[index] = args[-1]
        else:
            array[index] = args[-1]

    return itemset


def _ptp(array: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: resolve("numpy.ptp")(array, *args, **kwargs)


def _decode(text: str) -> Callable[..., Any]:
    """Return `text.decode`: the text is decoded already, unless the codec is for escapes, or for data such as hex."""

    def decode(encoding: str = "utf-8", errors: str = "strict") -> Any:
        if encoding.replace("-", "_").lower() == "string_escape":  # which Python 3 has under this name only
            encoding = "unicode_escape"
        codec = codecs.lookup(encoding)
        if codec.name.replace("-", "_").endswith("_escape"):
            return codec.decode(text.encode("latin-1", "backslashreplace"), errors)[0]
        if codec._is_text_encoding:  # type: ignore[attr-defined]
            return text
        data: Any = text if codec.name.startswith("rot") else text.encode("latin-1")
        return codec.decode(data, errors)[0]

    return decode


def _getsize(font: Any) -> Callable[..., tuple[int, int]]:
    """Return `font.getsize` of Pillow 9: the width, and the height below the ascender."""
    getbbox = font.getbbox

    def getsize(*args: object, **kwargs: object) -> tuple[int, int]:
        left, _, right, bottom = getbbox(*args, **kwargs)
        return round(right - left), round(bottom)

    return getsize


def _textsize(draw: Any) -> Callable[..., tuple[int, int]]:
    """Return `draw.textsize` of Pillow 9."""
    textbbox = draw.textbbox

    def textsize(*args: object, **kwargs: object) -> tuple[int, int]:
        left, _, right, bottom = textbbox((0, 0), *args, **kwargs)
        return round(right - left), round(bottom)

    return textsize


# {name: (type, what has the meaning of this attribute, what the log says)}
ATTRIBUTES: Mapping[str, tuple[str, Callable[[Any], Any], str]] = {
    "iteritems": ("", lambda x: lambda: iter(x.items()), "iter(x.items())"),
    "iterkeys": ("", lambda x: lambda: iter(x.keys()), "iter(x.keys())"),
    "itervalues": ("", lambda x: lambda: iter(x.values()), "iter(x.values())"),
    "viewitems": ("", lambda x: x.items, "x.items()"),
    "viewkeys": ("", lambda x: x.keys, "x.keys()"),
    "viewvalues": ("", lambda x: x.values, "x.values()"),
    "has_key": ("", lambda x: x.__contains__, "key in x"),
    "next": ("", lambda x: x.__next__, "next(x)"),
    "func_code": ("", lambda x: x.__code__, "x.__code__"),
    "func_defaults": ("", lambda x: x.__defaults__, "x.__defaults__"),
    "func_name": ("", lambda x: x.__name__, "x.__name__"),
    "im_func": ("", lambda x: x.__func__, "x.__func__"),
    "im_self": ("", lambda x: x.__self__, "x.__self__"),
    "message": ("builtins.BaseException", str, "str(error)"),
    "decode": ("builtins.str", _decode, "the text itself, or bytes for codecs such as hex"),
    "getchildren": ("xml.etree.ElementTree.Element", lambda x: lambda: list(x), "list(x)"),
    "getiterator": ("xml.etree.ElementTree.Element", lambda x: x.iter, "x.iter()"),
    "getsize": ("", _getsize, "computed from x.getbbox()"),
    "textsize": ("", _textsize, "computed from x.textbbox()"),
    "tostring": ("", lambda x: x.tobytes, "x.tobytes()"),
    "fromstring": ("array.array", lambda x: x.frombytes, "x.frombytes()"),
    "newbyteorder": ("numpy.ndarray", _newbyteorder, "x.view(x.dtype.newbyteorder())"),
    "itemset": ("numpy.ndarray", _itemset, "x[...] = value"),
    "ptp": ("numpy.ndarray", _ptp, "numpy.ptp(x)"),
}


def attribute(value: Any, name: str) -> Any:
    """
    Return an attribute of a value, or what an attribute that was removed from its class meant.

    Raises:
        AttributeError: the value has no such attribute, and never had.
    """
    try:
        return getattr(value, name)
    except AttributeError:
        kind, meaning, text = ATTRIBUTES[name]
        if kind and not isinstance(value, resolve(kind)):
            raise
        try:
            found = meaning(value)
        except AttributeError:
            pass
        else:
            say(f".{name}", f".{name}, which {type(value).__name__} does not have any more, is {text}.")
            return found
        raise


# Views -------------------------------------------------------------------------------------------------------------------
_VIEWS = (
    collections.abc.KeysView, collections.abc.ValuesView, collections.abc.ItemsView, filter, map, range, zip,
)  # fmt: skip


def listed(values: Any) -> Any:
    """Return a list for what was a list in Python 2, such as `d.keys()`; other values as they are."""
    if not isinstance(values, _VIEWS):
        return values
    say("listed", f"{type(values).__name__} is a list here, as in Python 2.")
    return list(values)


# Arguments -----------------------------------------------------------------------------------------------------------------
# {argument: {names of functions: the argument's name today; "" if it means nothing}}
ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "newshape": {"reshape": "shape"},
    "encoding": {"load": "", "loads": ""},
    "normed": {"hist": "density", "histogram": "density", "histogram2d": "density", "histogramdd": "density"},
    "warn": {"use": ""},
    "multichannel": dict.fromkeys(
        [
            "denoise_bilateral",
            "denoise_tv_chambolle",
            "denoise_wavelet",
            "gaussian",
            "pyramid_gaussian",
            "rescale",
        ],
        "channel_axis",
    ),
    "copy": {"array": "copy"},
    "cmp": {"sort": "key", "sorted": "key"},
}


def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function with arguments that it may have lost since."""
    name = getattr(function, "__name__", "")
    module = getattr(function, "__module__", None) or ""
    if name == "open" and module in ("_io", "io"):
        return _open(function, args, kwargs)
    if name == "File" and module.startswith("h5py."):
        return _open_h5py(function, args, kwargs)
    compare = _comparison(function, args)
    if compare is not None:
        say(f"{name}(cmp)", f"the argument cmp of {name}, which was removed, is key.")
        return function(*args[:-1], key=functools.cmp_to_key(compare), **kwargs)
    for argument in sorted(set(kwargs) & set(ARGUMENTS)):
        new = ARGUMENTS[argument].get(name)
        if new is not None and _lost(function, argument, kwargs[argument]):
            text = f"which was removed, is {new}" if new else "which was removed, has no effect"
            if new == argument:
                text = "whose meaning has changed, keeps its old one"
            say(f"{name}({argument})", f"the argument {argument} of {name}, {text}.")
            value = kwargs.pop(argument)
            if new:
                kwargs[new] = _VALUES.get(argument, lambda value: value)(value)
    return function(*args, **kwargs)


def _comparison(function: Callable[..., object], args: tuple[object, ...]) -> Any:
    """Return the function that compares for `x.sort(compare)` of a list and `sorted(x, compare)`, which are errors in Python 3."""
    is_sort = len(args) == 1 and isinstance(getattr(function, "__self__", None), list)
    is_sort = is_sort and getattr(function, "__name__", "") == "sort"
    is_sorted = function is sorted and len(args) == 2
    return args[-1] if (is_sort or is_sorted) and callable(args[-1]) else None


_VALUES: Mapping[str, Callable[[Any], Any]] = {
    "cmp": functools.cmp_to_key,
    "copy": lambda value: None,  # copy if it is necessary
    "multichannel": lambda value: -1 if value else None,
}


def _lost(function: Callable[..., Any], argument: str, value: Any) -> bool:
    """Return whether a function does not know an argument, or gives it another meaning."""
    if argument == "copy":
        numpy = sys.modules.get("numpy")
        return numpy is not None and function is numpy.array and numpy.__version__ >= "2" and value is False
    if argument == "cmp":
        return True
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:  # a function in C
        return False
    if argument == "encoding":  # json.loads takes it for its decoder; that of pickle has a meaning
        return (getattr(function, "__module__", None) or "").startswith("json")
    return argument not in parameters and not (argument == "normed" and "density" not in parameters)


def _open(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    mode = args[1] if len(args) > 1 else kwargs.get("mode", "r")
    if sys.version_info >= (3, 11) and isinstance(mode, str) and "U" in mode:
        say("open(U)", f'the mode "{mode}" of open, which was removed, is "{_without_u(mode)}".')
        args, kwargs = args[:1] + args[2:], {**kwargs, "mode": _without_u(mode)}
        if len(args) > 1:  # buffering and so on
            args = (args[0], kwargs.pop("mode"), *args[1:])
    return function(*args, **kwargs)


def _without_u(mode: str) -> str:
    rest = mode.replace("U", "")
    return rest if set(rest) & set("rwax") else f"r{rest}"


def _open_h5py(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    h5py = sys.modules["h5py"]
    if len(args) != 1 or "mode" in kwargs or h5py.__version__.startswith("2."):
        return function(*args, **kwargs)
    say("h5py.File", "h5py.File without a mode, whose meaning has changed, opens the file for reading and writing.")
    return resolve(".h5py_names.open_file")(function, *args, **kwargs)
