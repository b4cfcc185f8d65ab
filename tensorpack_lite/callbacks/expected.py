"""
Search for misspelt statistics at the end of an epoch.

In:  a statistic that a callback has read, and that has never been reported.
Out: whether something may still report it, because it has not been called yet.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Iterable, Iterator

from ..loop.callback import Callback
from ..loop.callback_factory import CallbackFactory
from ..loop.group import Callbacks, innermost
from .best_saver import MinSaver
from .saver import ModelSaver
from .trigger import EnableCallbackIf, PeriodicTrigger

__all__ = ["find_late_reporter"]

_PACKAGE = __name__.split(".")[0]
_REPORT_NOTHING = (ModelSaver, MinSaver)
_SIMILAR = 0.8  # of a misspelt name


def find_late_reporter(callbacks: Iterable[Callback], name: str, reported: Iterable[str]) -> Callback | None:
    """
    Return a callback that may report a statistic in a later epoch.

    Args:
        callbacks: all callbacks of a training, at the end of an epoch.
        name: the name of the statistic, which has never been reported.
        reported: the names of the statistics that have been.

    Returns:
        A callback of this library that was not triggered yet, because it is called only in some epochs; or any callback of
        the user, unless the name looks like a misspelt one. None if there is none.
    """
    flat = list(_flatten(callbacks))
    late = [cb for cb in flat if isinstance(cb, (PeriodicTrigger, EnableCallbackIf)) and not cb.was_triggered]
    found = next((cb for cb in late if not isinstance(innermost(cb), _REPORT_NOTHING)), None)
    if found is not None or get_close_matches(name, list(reported), n=1, cutoff=_SIMILAR):
        return found
    return next((cb for cb in map(innermost, flat) if _is_users(cb)), None)


def _flatten(callbacks: Iterable[Callback]) -> Iterator[Callback]:
    for callback in callbacks:
        inner = innermost(callback)
        if isinstance(inner, Callbacks):
            yield from _flatten(inner.cbs)
        yield callback


def _is_users(callback: Callback) -> bool:
    if type(callback).__module__.split(".")[0] != _PACKAGE:
        return True
    return isinstance(callback, CallbackFactory) and callback.is_triggered  # those of inputs are not
