"""
Search for the callback that reports a statistic which another callback has read, and which was not reported until then.

In:  the callbacks of a training, the one that has read, and the name of the statistic.
Out: a callback that may still report it, because it has not been called yet, or that is known to be called too late.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Iterable, Iterator, Sequence

from ..loop.callback import Callback
from ..loop.callback_factory import CallbackFactory
from ..loop.group import Callbacks, innermost
from ..loop.proxy_callback import ProxyCallback
from .best_saver import MinSaver
from .saver import ModelSaver
from .trigger import EnableCallbackIf, PeriodicTrigger

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
        An InferenceRunner that reports this name, but whose data was empty; or a callback of this library that was not
        triggered yet, because it is called only in some epochs; or any callback of the user, unless the name looks like a
        misspelt one. None if there is none.
    """
    callbacks = list(callbacks)
    late = [
        cb
        for cb in walk_callbacks(callbacks)
        if isinstance(cb, (PeriodicTrigger, EnableCallbackIf)) and not cb.was_triggered
    ]
    found: Callback | None = next((cb for cb in late if not isinstance(innermost(cb), _REPORT_NOTHING)), None)
    single = find_single_callbacks(callbacks)
    found = found or next((cb for cb in single if name in _reported_by(cb)), None)
    if found is not None or get_close_matches(name, list(reported), n=1, cutoff=_SIMILAR):
        return found
    return next((cb for cb in single if _is_users(cb)), None)


def advice_on_order(callbacks: Iterable[Callback], reader: Callback, name: str) -> str:
    """
    Return where to put a callback that reads a statistic too early.

    Args:
        callbacks: all callbacks of a training, in order.
        reader: the callback that reads, one of them or inside one of them.
        name: the name of the statistic.

    Returns:
        Two sentences; "" if no callback behind it is known to report the statistic.
    """
    late = find_reporter_behind(find_single_callbacks(callbacks), reader, name)
    if late is None:
        return ""
    behind = " and behind ModelSaver" if isinstance(reader, MinSaver) else ""
    return f"{late} reports '{name}' only after {reader} was called. Put {reader} behind {late}{behind}."


def find_reporter_behind(callbacks: Sequence[Callback], reader: Callback, name: str) -> Callback | None:
    """
    Return the first callback behind another one that is known to report a statistic when it is triggered.

    Args:
        callbacks: all callbacks of a training, in order, without proxies and groups.
        reader: the other one.
        name: the name of the statistic.

    Returns:
        The callback; None if there is none, if one before `reader` reports the statistic, or if `reader` is not in the list.
    """
    found = [cb for cb in callbacks if cb is reader or name in _reported_by(cb)]
    return found[1] if len(found) > 1 and found[0] is reader else None


def _reported_by(callback: Callback) -> Sequence[str]:
    """Return the names that a callback is known to report: the attribute `reported_names` of inference runners."""
    return getattr(callback, "reported_names", ())


def walk_callbacks(callbacks: Iterable[Callback]) -> Iterator[Callback]:
    """Yield callbacks, and those inside proxies and groups."""
    for callback in callbacks:
        yield callback
        if isinstance(callback, ProxyCallback):
            yield from walk_callbacks([callback.cb])
        elif isinstance(callback, Callbacks):
            yield from walk_callbacks(callback.cbs)


def find_single_callbacks(callbacks: Iterable[Callback]) -> list[Callback]:
    """Return the callbacks inside proxies and groups, without these."""
    return [cb for cb in walk_callbacks(callbacks) if not isinstance(cb, (ProxyCallback, Callbacks))]


def _is_users(callback: Callback) -> bool:
    if type(callback).__module__.split(".")[0] != _PACKAGE:
        return True
    return isinstance(callback, CallbackFactory) and callback.is_triggered  # those of inputs are not
