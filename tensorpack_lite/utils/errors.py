"""
The sentences of the library's errors.

An error says what is wrong (name, wanted, got) and what to do about it.
"""

from __future__ import annotations

__all__ = ["rebuild_error", "type_error"]


def type_error(who: str, wanted: str, got: object, advice: str = "") -> TypeError:
    """
    Build the TypeError for an argument of the wrong kind; the caller raises it.

    Args:
        who: the class or function that complains, with the argument where it is not obvious.
        wanted: what it takes, e.g. "a DataFlow".
        got: the object that came; its type is named.
        advice: one sentence of what to do, or "".

    Example:
        >>> str(type_error("QueueInput", "a DataFlow", [1], "Wrap it: QueueInput(DataFromList(data))."))
        'QueueInput: takes a DataFlow, got list. Wrap it: QueueInput(DataFromList(data)).'
    """
    return TypeError(f"{who}: takes {wanted}, got {type(got).__name__}. {advice}".rstrip())


def rebuild_error(error: BaseException, where: str) -> BaseException:
    """
    Give an error of a background stage the name of that stage, and keep its type.

    The caller raises the result `from error`, so that the traceback of the stage is its cause.

    Args:
        error: what was raised in a thread, a worker or a callee.
        where: the stage, e.g. "QueueInput: the DataFlow MapData failed".

    Returns:
        A new error of the same type with the text `"<where>: <text of error>"`; the error itself when its
        type holds more than one text (`OSError(errno, ...)`, `UnicodeDecodeError`, classes with a
        constructor of their own).
    """
    if len(error.args) > 1 or not all(isinstance(arg, str) for arg in error.args):
        return error
    try:
        named = type(error)(f"{where}: {error.args[0] if error.args else type(error).__name__}")
    except TypeError:  # a constructor of its own, with other arguments
        return error
    return named if type(named) is type(error) else error
