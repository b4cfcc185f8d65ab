"""
The protocol between the loop and its guests: what a callback can do, and when.

The moments, in the order of a training:

    trainer.setup_graph(...)                 the user's graph, towers, train_op
    trainer.setup_callbacks(...)             _setup_graph      the graph may still grow
    trainer.initialize(...)                  ------------------ graph final, session made, variables set
    trainer.main_loop(...)                   _before_train
        for epoch in ...:                    _before_epoch
            for step in ...:                 _before_run -> session.run(train_op + your fetches) -> _after_run
                                             _trigger_step
                                             _after_epoch      (cheap things only: the epoch is timed to here)
                                             _trigger_epoch -> _trigger
                                             _after_train      always, after an error too
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Sequence

from ..compat import tfv1 as tf
from ..tfutils.common import get_op_or_tensor_by_name

if TYPE_CHECKING:
    from ..train.base import Trainer

__all__ = ["Callback", "CallbackFactory", "ProxyCallback", "is_overridden", "to_run_args"]


class Callback:
    """
    Something that is called at the moments of a training; override the methods with an underscore.

    A callback has no constructor of its own to call, so that it can be mixed with other base classes.

    Attributes:
        chief_only: whether only the chief process of a distributed training has it; True by default.
        name_scope: the name scope of what `_setup_graph` creates; "" means the class name without underscores.
        trainer: the trainer, from `_setup_graph` on (a weak reference).
        graph: the graph, from `_setup_graph` on.

    Runs at: all moments, see the top of this module.

    tensorpack: same.
    """

    _chief_only = True
    name_scope = ""
    trainer: Any
    graph: Any

    # What a subclass overrides ---------------------------------------------------------------------------------------
    def _setup_graph(self) -> None:
        """Create what is needed in the graph, in this callback's name scope. Nothing may be created later."""

    def _before_train(self) -> None:
        """Called once, when the session is ready and its variables are initialized or restored."""

    def _before_epoch(self) -> None:
        """Called right before the first step of each epoch."""

    def _before_run(self, ctx: Any) -> Any:
        """
        Say what to evaluate along with this run of the hooked session.

        Args:
            ctx: a `SessionRunContext`; `ctx.session` is the raw session, `ctx.request_stop()` ends the loop after this run.

        Returns:
            None, a list of tensors, operations or names, or a `SessionRunArgs`. Returning the same object each time is
            fastest.
        """
        return None

    def _after_run(self, ctx: Any, run_values: Any) -> None:
        """Receive what `_before_run` asked for, as `run_values.results`; called after every run."""

    def _trigger_step(self) -> None:
        """Called after each `run_step()`."""

    def _after_epoch(self) -> None:
        """Called right after the last step of each epoch."""

    def _trigger_epoch(self) -> None:
        """Called after `_after_epoch` of all callbacks; calls `trigger()` unless overridden."""
        self.trigger()

    def _trigger(self) -> None:
        """Called at each epoch, or whenever a scheduler such as `PeriodicTrigger` says so."""

    def _after_train(self) -> None:
        """Called once at the end of training, also after an error."""

    # What the loop calls ---------------------------------------------------------------------------------------------
    def setup_graph(self, trainer: Trainer) -> None:
        """Receive the trainer, then create graph in this callback's name scope."""
        self.trainer = trainer
        self.graph = tf.get_default_graph()
        scope = self.name_scope or type(self).__name__.replace("_", "")
        with tf.name_scope(scope):
            self._setup_graph()

    def before_train(self) -> None:
        """See `_before_train`."""
        self._before_train()

    def before_epoch(self) -> None:
        """See `_before_epoch`."""
        self._before_epoch()

    def before_run(self, ctx: Any) -> Any:
        """See `_before_run`; turns a list of names, tensors and operations into a `SessionRunArgs`."""
        fetches = self._before_run(ctx)
        return fetches if fetches is None else to_run_args(fetches, str(self))

    def after_run(self, ctx: Any, run_values: Any) -> None:
        """See `_after_run`."""
        self._after_run(ctx, run_values)

    def trigger_step(self) -> None:
        """See `_trigger_step`."""
        self._trigger_step()

    def after_epoch(self) -> None:
        """See `_after_epoch`."""
        self._after_epoch()

    def trigger_epoch(self) -> None:
        """See `_trigger_epoch`."""
        self._trigger_epoch()

    def trigger(self) -> None:
        """See `_trigger`."""
        self._trigger()

    def after_train(self) -> None:
        """See `_after_train`."""
        self._after_train()

    def background_error(self) -> BaseException | None:
        """
        Say what went wrong behind this callback, in a thread or in data, when a run of the session has failed.

        Returns:
            The error to raise instead of the session's, or None.
        """
        return None

    def state_dict(self) -> dict[str, Any] | None:
        """
        Return what this callback must keep for a training that continues from a checkpoint; see `ModelSaver`.

        Returns:
            None, the default, if there is nothing to keep. Otherwise a dict with strings as keys, of None, booleans, numbers,
            strings, lists and dicts.
        """
        return None

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """
        Continue from what `state_dict` returned. Called right after this callback's `before_train`, in a resumed training only.

        Args:
            state: what `state_dict` returned when the checkpoint was saved; never None.
        """

    def interrupt(self) -> None:
        """
        Make a run of the session that waits for this callback's data fail: Ctrl-C has come.

        Called in another thread, only while the main thread waits. `background_error` then returns a KeyboardInterrupt.
        """

    # What everybody may ask ------------------------------------------------------------------------------------------
    @property
    def chief_only(self) -> bool:
        """Whether only the chief process of a distributed training has this callback."""
        return self._chief_only

    @chief_only.setter
    def chief_only(self, value: bool) -> None:
        self._chief_only = value

    def set_chief_only(self, v: bool = True) -> Callback:
        """Set `chief_only`; returns this callback, to be used inside an argument list."""
        self._chief_only = v
        return self

    @property
    def epoch_num(self) -> int:
        """The loop's `epoch_num`."""
        return self.trainer.epoch_num

    @property
    def global_step(self) -> int:
        """The loop's `global_step`."""
        return self.trainer.global_step

    @property
    def local_step(self) -> int:
        """The loop's `local_step`."""
        return self.trainer.local_step

    def get_tensors_maybe_in_tower(self, names: Sequence[str]) -> list[Any]:
        """
        Find tensors by name in the graph, or else in the first training tower.

        Args:
            names: names of tensors or operations, without the tower's prefix. The name of an operation means its first
                output; an operation without outputs is returned itself.

        Returns:
            A list of tensors (and operations).

        Raises:
            KeyError: no such name; names the nearest ones.

        tensorpack: same; there the name of an operation means the operation when there is one tower, and its tensor
        when there are more.
        """
        return [self.trainer.find_tensor(name) for name in names]

    def __str__(self) -> str:
        return type(self).__name__


class ProxyCallback(Callback):
    """
    A callback around another one: it passes every moment on. Made to be inherited from.

    Args:
        cb: the inner callback; `chief_only` is copied from it.

    Runs at: whatever the inner one does.

    Raises:
        TypeError: `cb` is no callback.

    tensorpack: same.
    """

    def __init__(self, cb: Callback) -> None:
        if not isinstance(cb, Callback):
            raise TypeError(f"{type(self).__name__}: takes a Callback, got {type(cb).__name__}.")
        self.chief_only = cb.chief_only
        self.cb = cb

    def setup_graph(self, trainer: Trainer) -> None:
        """Pass on; the inner callback opens its own name scope."""
        self.trainer = trainer
        self.graph = tf.get_default_graph()
        with tf.name_scope(None):
            self._setup_graph()

    def _setup_graph(self) -> None:
        self.cb.setup_graph(self.trainer)

    def _before_train(self) -> None:
        self.cb.before_train()

    def _before_epoch(self) -> None:
        self.cb.before_epoch()

    def _before_run(self, ctx: Any) -> Any:
        return self.cb.before_run(ctx)

    def _after_run(self, ctx: Any, run_values: Any) -> None:
        self.cb.after_run(ctx, run_values)

    def _trigger_step(self) -> None:
        self.cb.trigger_step()

    def _after_epoch(self) -> None:
        self.cb.after_epoch()

    def _trigger_epoch(self) -> None:
        self.cb.trigger_epoch()

    def _trigger(self) -> None:
        self.cb.trigger()

    def _after_train(self) -> None:
        self.cb.after_train()

    def background_error(self) -> BaseException | None:
        """Ask the inner callback."""
        return self.cb.background_error()

    def state_dict(self) -> dict[str, Any] | None:
        """Return the inner callback's state."""
        return self.cb.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Hand the state to the inner callback."""
        self.cb.load_state_dict(state)

    def interrupt(self) -> None:
        """Pass on."""
        self.cb.interrupt()

    def __str__(self) -> str:
        return f"Proxy-{self.cb}"


class CallbackFactory(Callback):
    """
    A callback made of functions.

    Args:
        setup_graph, before_train, trigger, after_train: functions of one argument, this callback; None does nothing.

    Runs at: the moments that were given.

    Example:
        >>> CallbackFactory(trigger=lambda self: print(self.trainer.monitors.get_latest("cost")))

    tensorpack: same.
    """

    def __init__(
        self,
        setup_graph: Callable[[Any], None] | None = None,
        before_train: Callable[[Any], None] | None = None,
        trigger: Callable[[Any], None] | None = None,
        after_train: Callable[[Any], None] | None = None,
    ) -> None:
        self._functions = (setup_graph, before_train, trigger, after_train)

    def _call(self, index: int) -> None:
        function = self._functions[index]
        if function is not None:
            function(self)

    def _setup_graph(self) -> None:
        self._call(0)

    def _before_train(self) -> None:
        self._call(1)

    def _trigger(self) -> None:
        self._call(2)

    def _after_train(self) -> None:
        self._call(3)

    def __str__(self) -> str:
        return "CallbackFactory"


def to_run_args(fetches: Any, who: str = "A callback") -> Any:
    """
    Turn what `_before_run` returned into a `SessionRunArgs`.

    Args:
        fetches: a list of tensors, operations and names, or a `SessionRunArgs`, which is returned.
        who: whose it is, for the error.

    Raises:
        TypeError: something else.
        KeyError: a name is not in the graph.
    """
    if isinstance(fetches, tf.train.SessionRunArgs):
        return fetches
    if not isinstance(fetches, list):
        raise TypeError(
            f"{who}: _before_run returned {type(fetches).__name__}, wanted None, a list of tensors, operations or "
            "names, or a SessionRunArgs."
        )
    return tf.train.SessionRunArgs(
        [get_op_or_tensor_by_name(f) if isinstance(f, str) else f for f in fetches]
    )


def is_overridden(callback: Callback, method: str) -> bool:
    """Tell whether a method is another than Callback's own, by class or on the instance."""
    return getattr(type(callback), method) is not getattr(Callback, method) or method in vars(callback)
