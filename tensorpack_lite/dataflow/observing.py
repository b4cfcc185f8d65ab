"""
Observers of the stages of a pipeline: they see the resets and the passes of each stage.

`observe` wraps `reset_state`, `__iter__` and `get_data` of a DataFlow class, the user's included. At its reset, a stage gets
its observers, at most one of each kind, and its passes go through them. Observers of different kinds do not know each other.
This module also knows the stages whose `reset_state` is running, so that observers form a tree as these calls do.
"""

from __future__ import annotations

import functools
import threading
from contextlib import ExitStack, contextmanager
from typing import Any, Callable, Iterator, Sequence

Begin = Callable[[], Iterator[Any]]  # begins a pass


class Observer:
    """Base class for observers of one stage, in one process, from its `reset_state` on."""

    __slots__ = ()

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()  # a copy of the stage has None until it is reset

    @contextmanager
    def resetting(self) -> Iterator[None]:
        """Surround the stage's own `reset_state`."""
        yield

    def one_pass(self, begin: Begin) -> Iterator[Any]:
        """
        Return the datapoints of a pass.

        Args:
            begin: begins the pass of the stage, or that of another observer.
        """
        raise NotImplementedError


Kind = Callable[[Any, Any], "Observer | None"]  # takes a stage, and the stage that resets it or None


def observe(cls: Any, kinds: Sequence[Kind]) -> None:
    """
    Let the resets and passes of a class have observers.

    The methods are those that the class defines, or that it inherits from a class which is not a DataFlow.

    Args:
        cls: a DataFlow class, whose objects have the attribute `_observers`.
        kinds: return the observers of a stage that is being reset. A pass goes through the first one first.
    """
    reset_state, passes = _not_observed(cls, "reset_state"), _not_observed(cls, "__iter__")
    if reset_state is not None:
        cls.reset_state = _observed_reset(kinds, reset_state)
    if passes is not None:
        observed = _observed_passes(passes)
        if cls.__dict__.get("get_data") is passes:
            cls.get_data = observed
        cls.__iter__ = observed


def _not_observed(cls: Any, name: str) -> Any:
    """Return a method of a class; None if the class has none, or inherits one that is observed."""
    owner = next((base for base in cls.__mro__ if name in base.__dict__), None)
    is_new = owner is cls or (owner is not None and not hasattr(owner, "_observers"))
    return owner.__dict__[name] if is_new else None


def _observed_reset(kinds: Sequence[Kind], reset: Callable[[Any], None]) -> Callable[[Any], None]:
    @functools.wraps(reset)
    def reset_state(self: Any) -> None:
        if type(self).reset_state is not reset_state:  # a call through super()
            return reset(self)
        above = _resetting.stages[-1] if _resetting.stages else None
        self._observers = [make(self, above) for make in kinds]
        with ExitStack() as contexts:
            for observer in filter(None, self._observers):
                contexts.enter_context(observer.resetting())
            _resetting.stages.append(self)
            try:
                reset(self)
            finally:
                _resetting.stages.pop()

    return reset_state


def _observed_passes(iterate: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    @functools.wraps(iterate)
    def __iter__(self: Any, *arguments: Any) -> Iterator[Any]:  # noqa: N807 (it replaces this method)
        if type(self).__iter__ is not __iter__:  # a call through super()
            return iterate(self, *arguments)
        begin: Begin = functools.partial(iterate, self, *arguments)
        for observer in self._observers:
            if observer is not None:
                begin = functools.partial(observer.one_pass, begin)
        return begin()

    return __iter__


def unobserved_pass(stage: Any) -> Begin:
    """Return what begins a pass that no observer of the stage sees."""
    return functools.partial(type(stage).__iter__.__wrapped__, stage)


# The stages whose `reset_state` is running ---------------------------------------------------------------------------
class _Resetting(threading.local):
    """
    The stages whose `reset_state` is running in this thread.

    Attributes:
        stages: from the outermost on.
        host: inside `separate_pipelines`: the stage that starts workers.
    """

    def __init__(self) -> None:
        self.stages: list[Any] = []
        self.host: Any = None


_resetting = _Resetting()


def current_stage() -> Any:
    """Return the innermost stage whose `reset_state` is running in this thread, or None."""
    return _resetting.stages[-1] if _resetting.stages else _resetting.host


@contextmanager
def separate_pipelines() -> Iterator[None]:
    """
    Reset other DataFlows inside the block as separate pipelines, which no stage above them reads.

    Their meters hang below the stage whose `reset_state` is running, as parts of its worker threads. Their positions are
    not recorded, unless they call `set_state`.
    """
    before = _resetting.stages, _resetting.host
    _resetting.stages, _resetting.host = [], current_stage()
    try:
        yield
    finally:
        _resetting.stages, _resetting.host = before


def forget_stages() -> None:
    """Forget the stages that are being reset. A worker process calls it, because a fork inherits those of its parent."""
    _resetting.stages, _resetting.host = [], None
