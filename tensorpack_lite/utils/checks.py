"""
Checks of arguments: number, type, choice.

Each returns the value, or raises an error that names the argument, the expected value and the given one. `name` is the
class or function and its argument, e.g. "EarlyStopping: patience".
"""

from __future__ import annotations

from typing import Any, Callable, Collection, Iterable, Mapping, TypeVar

from .errors import advice_on_keras_model, describe_got

T = TypeVar("T")


def check_at_least(name: str, value: T, minimum: float) -> T:
    """
    Return a number that is not smaller than a minimum.

    Args:
        name: the class or function and its argument.
        value: the number to check.
        minimum: the smallest valid number.

    Raises:
        ValueError: `value` is smaller, or NaN.
        TypeError: `value` is not a number.

    Example:
        >>> check_at_least("EarlyStopping: patience", 0, 1)
        Traceback (most recent call last):
        ValueError: EarlyStopping: patience is too small (expected at least 1, got 0).
    """
    return _check_number(name, value, lambda x: x >= minimum, "too small", f"at least {minimum}")


def check_count(name: str, value: object, minimum: int = 0) -> int:
    """
    Return a number of steps or epochs as an integer.

    Args:
        name: the class or function and its argument.
        value: any whole number, also a float such as 22.0, or a string with an integer.
        minimum: the smallest valid number.

    Raises:
        ValueError: `value` is not whole, or too small.
        TypeError: `value` is not a number.

    Example:
        >>> check_count("TrainConfig: steps_per_epoch", 22.45)
        Traceback (most recent call last):
        ValueError: TrainConfig: steps_per_epoch is not whole (expected an integer, got 22.45). Divide with //, or round it.
    """
    try:
        number: int = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{name}: expected an integer, got {value!r}.") from error
    if not isinstance(value, str) and number != value:
        raise ValueError(f"{name} is not whole (expected an integer, got {value}). Divide with //, or round it.")
    return check_at_least(name, number, minimum)


def check_positive(name: str, value: T) -> T:
    """Return a number > 0; errors as in `check_at_least`."""
    return _check_number(name, value, lambda x: x > 0, "not positive", "more than 0")


def check_between(name: str, value: T, low: float, high: float) -> T:
    """Return a number in [low, high]; errors as in `check_at_least`."""
    return _check_number(name, value, lambda x: low <= x <= high, "out of range", f"{low} to {high}")


def check_fraction(name: str, value: T) -> T:
    """Return a number in [0, 1), e.g. the decay of a moving average; errors as in `check_at_least`."""
    return _check_number(name, value, lambda x: 0 <= x < 1, "out of range", "0 <= x < 1")


def check_choice(name: str, value: T, choices: Collection[object]) -> T:
    """
    Return a value that is one of a few.

    Args:
        name: the class or function and its argument.
        value: the value to check.
        choices: the valid values.

    Raises:
        ValueError: `value` is none of them.

    Example:
        >>> check_choice("EarlyStopping: mode", "mean", ["min", "max"])
        Traceback (most recent call last):
        ValueError: EarlyStopping: mode is unknown (expected 'min' or 'max', got 'mean').
    """
    if value not in choices:
        raise ValueError(f"{name} is unknown (expected {_join(map(repr, choices))}, got {value!r}).")
    return value


def check_type(name: str, value: T, types: type | tuple[type, ...], expected: str = "", advice: str = "") -> T:
    """
    Return an object of one of the given types.

    Args:
        name: the class or function and its argument.
        value: the object to check.
        types: a type, or a tuple of types.
        expected: words for the types. Default: their names.
        advice: a sentence with the remedy.

    Raises:
        TypeError: `value` has another type.

    Example:
        >>> check_type("HDF5Data: data_paths", "images", (list, tuple), advice="Write ['images'].")
        Traceback (most recent call last):
        TypeError: HDF5Data: data_paths has the wrong type (expected list or tuple, got str). Write ['images'].
    """
    if not isinstance(value, types):
        names = [kind.__name__ for kind in (types if isinstance(types, tuple) else (types,))]
        raise _wrong_type(name, value, expected or _join(names), advice)
    return value


def check_callable(name: str, value: T, expected: str = "a function", advice: str = "") -> T:
    """Return a callable; other objects raise the TypeError of `check_type`."""
    if not callable(value):
        raise _wrong_type(name, value, expected, advice)
    return value


def check_pickled(name: str, state: Mapping[str, object], attribute: str) -> None:
    """
    Raise an error if the state in a pickle lacks an attribute, because tensorpack has written the pickle.

    Raises:
        ValueError: it does.
    """
    if attribute not in state:
        raise ValueError(
            f"{name}: cannot load this pickle, which has no attribute '{attribute}' (expected a pickle of "
            "tensorpack_lite). Run the code that creates the object, and pickle it again."
        )


def _check_number(name: str, value: T, is_valid: Callable[[Any], bool], problem: str, expected: str) -> T:
    try:
        valid = is_valid(value)
    except TypeError as error:
        raise _wrong_type(name, value, "a number") from error
    if not valid:
        raise ValueError(f"{name} is {problem} (expected {expected}, got {value}).")
    return value


def _wrong_type(name: str, value: object, expected: str, advice: str = "") -> TypeError:
    advice = advice or advice_on_keras_model(value)
    sentence = f"{name} has the wrong type (expected {expected}, got {describe_got(value)}). {advice}"
    return TypeError(sentence.rstrip())


def _join(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last
