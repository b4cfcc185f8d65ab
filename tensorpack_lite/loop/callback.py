"""
The interface of callbacks.

The moments of a training, in order:

    trainer.setup_graph(...)                 the user's graph: towers, train_op
    trainer.setup_callbacks(...)             _setup_graph      the graph may still grow
    trainer.initialize(...)                  ------------------ session made, variables set, graph finalized
    trainer.main_loop(...)                   _before_train
        for epoch in ...:                    _before_epoch
            for step in ...:                 _before_run -> session.run(train_op + your fetches) -> _after_run
                                             _trigger_step
                                             _after_epoch      (only fast work: the epoch's time includes it)
                                             _trigger_epoch -> _trigger
                                             _after_train      always, also after an error

`moments.py` says more about each, and how to add one.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

from ..compat import tfv1 as tf
from ..compat.value_names import explain_handles
from ..tfutils.common import find_fetch
from ..tfutils.tower.error_hints import explain_mistakes
from .trainer import LoopTrainer


class Callback:
    """
    Base class of callbacks. Override the methods with an underscore; each is called at its moment of the training.

    The class has no constructor, so a subclass need not call one and can have other base classes.

    Attributes:
        chief_only: whether only the chief process of a distributed training has this callback; True by default.
        works_alone: whether the other ranks have nothing to do while this callback is called, as if it were
            `chief_only`. They then wait for it without a time limit.
        name_scope: the name scope of the operations that `_setup_graph` creates; "" means the class name without underscores.
        trainer: the trainer, from `_setup_graph` on. It is a weak reference, which ends with the trainer.
        graph: the `tf.Graph`, from `_setup_graph` on.

    Runs at: all moments; see the top of this module.
    """

    _chief_only = True
    works_alone = False
    name_scope = ""
    trainer: LoopTrainer
    graph: tf.Graph

    # For subclasses to override --------------------------------------------------------------------------------------
    def _setup_graph(self) -> None:
        """Create operations in the graph, in this callback's name scope. Later, the graph is finalized."""

    def _before_train(self) -> None:
        """Called once, when the session is ready and its variables are initialized or restored."""
        self._forward("before_train")

    def _before_epoch(self) -> None:
        """Called right before the first step of each epoch."""
        self._forward("before_epoch")

    def _before_run(
        self, ctx: tf.train.SessionRunContext
    ) -> tf.train.SessionRunArgs | Sequence[tf.Tensor | tf.Operation | str] | None:
        """
        Return fetches to evaluate together with this run of the hooked session.

        Args:
            ctx: a `SessionRunContext`. `ctx.session` is the raw session; `ctx.request_stop()` ends training after this run.

        Returns:
            None, a list of tensors, operations or names, or a `SessionRunArgs`. `"cost"` and `"cost:0"` mean the same
            tensor. Returning the same object each time is fastest.
        """
        return None

    def _after_run(self, ctx: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues) -> None:
        """Called after every run, with the values that `_before_run` requested in `run_values.results`."""

    def _trigger_step(self) -> None:
        """Called after each `run_step()`."""
        self._forward("trigger_step")

    def _after_epoch(self) -> None:
        """Called right after the last step of each epoch."""
        self._forward("after_epoch")

    def _trigger_epoch(self) -> None:
        """Called after `_after_epoch` of all callbacks; calls `trigger()` unless overridden."""
        self.trigger()

    def _trigger(self) -> None:
        """Called at each epoch, or when a wrapper such as `PeriodicTrigger` calls it."""
        self._forward("trigger")

    def _after_train(self) -> None:
        """Called once at the end of training, also after an error."""
        self._forward("after_train")

    # For the loop to call --------------------------------------------------------------------------------------------
    def setup_graph(self, trainer: LoopTrainer) -> None:
        """Set `trainer` and `graph`, then call `_setup_graph` in this callback's name scope."""
        self.trainer = trainer
        self.graph = tf.get_default_graph()
        scope = self.name_scope or type(self).__name__.replace("_", "")
        who = f"{type(self).__name__}._setup_graph"
        with tf.name_scope(scope), explain_mistakes(who), explain_handles(who):
            self._setup_graph()

    def before_train(self) -> None:
        """See `_before_train`."""
        self._before_train()

    def before_epoch(self) -> None:
        """See `_before_epoch`."""
        self._before_epoch()

    def before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        """Return the result of `_before_run`, with a list converted to a `SessionRunArgs`."""
        fetches = self._before_run(ctx)
        return fetches if fetches is None else to_run_args(fetches, str(self))

    def after_run(self, ctx: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues) -> None:
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

    def _forward(self, moment: str) -> None:
        """Call the callbacks inside this one, which a proxy or a group has; `moment` is the name of their method."""

    def background_error(self) -> BaseException | None:
        """
        Return the error of a background thread or of the data that made a run of the session fail.

        Returns:
            The error to raise instead of the session's, or None.
        """
        return None

    def state_dict(self) -> dict[str, Any] | None:
        """
        Return the state that this callback needs to continue from a checkpoint; see `ModelSaver`.

        Returns:
            None, the default, if it needs no state. Otherwise a dict; see `pack_state` for what it may contain.
        """
        return None

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """
        Restore the result of `state_dict`. Called right after this callback's `before_train`, only in a resumed training.

        Args:
            state: the result of `state_dict` when the checkpoint was saved; never None.
        """

    @property
    def state_name(self) -> str:
        """The name of this callback's state in a checkpoint, by default `str(self)`. Equal names are numbered."""
        return str(self)

    def interrupt(self) -> None:
        """
        Handle Ctrl-C, or with `exact` also SIGTERM and SIGUSR1: if a run of the session waits for this callback's data, make
        the run fail.

        Called in another thread, only while the main thread waits. Afterwards `background_error` returns a
        KeyboardInterrupt, which `SaveAtSignal` replaces by Preempted.
        """

    # For everyone ----------------------------------------------------------------------------------------------------
    @property
    def chief_only(self) -> bool:
        """Whether only the chief process of a distributed training has this callback."""
        return self._chief_only

    @chief_only.setter
    def chief_only(self, value: bool) -> None:
        self._chief_only = value

    def set_chief_only(self, v: bool = True) -> Callback:
        """Set `chief_only`, and return this callback, so that the call fits into an argument list."""
        self._chief_only = v
        return self

    @property
    def epoch_num(self) -> int:
        """The trainer's `epoch_num`."""
        return self.trainer.epoch_num

    @property
    def global_step(self) -> int:
        """The trainer's `global_step`."""
        return self.trainer.global_step

    @property
    def local_step(self) -> int:
        """The trainer's `local_step`."""
        return self.trainer.local_step

    def get_tensors_maybe_in_tower(self, names: Sequence[str]) -> list[tf.Tensor | tf.Operation]:
        """
        Find tensors by name in the graph or, failing that, in the first training tower.

        Args:
            names: names of tensors or operations, without the tower's prefix. The name of an operation means its first
                output; an operation without outputs is returned itself.

        Returns:
            A list of tensors (and operations).

        Raises:
            KeyError: no such name; the message names the nearest ones.
        """
        return [self.trainer.find_tensor(name) for name in names]

    def __str__(self) -> str:
        return type(self).__name__


class Call(NamedTuple):
    """
    A call of a callback that is in progress.

    Attributes:
        callback: the callback in the trainer's list, not one that it wraps.
        moment: the name of the method, with an underscore.
    """

    callback: Callback
    moment: str


def to_run_args(fetches: object, who: str = "A callback") -> tf.train.SessionRunArgs:
    """
    Convert the result of `_before_run` to a `SessionRunArgs`.

    Args:
        fetches: a list of tensors, operations and names, or a `SessionRunArgs`, which is returned unchanged.
        who: the callback's name, for the error message.

    Raises:
        TypeError: `fetches` is something else.
        KeyError: a name is not in the graph.
    """
    if isinstance(fetches, tf.train.SessionRunArgs):
        return fetches
    if not isinstance(fetches, list):
        raise TypeError(
            f"{who}: _before_run returned {type(fetches).__name__}, expected None, a list of tensors, operations or "
            "names, or a SessionRunArgs."
        )
    graph = tf.get_default_graph()
    found = [find_fetch(graph, f) if isinstance(f, str) else f for f in fetches]
    return tf.train.SessionRunArgs(found)


def is_overridden(callback: Callback, method: str) -> bool:
    """Return whether a callback overrides a method of `Callback`, in its class or on the instance, or forwards it."""
    kind = type(callback)
    is_own = getattr(kind, method) is not getattr(Callback, method) or method in vars(callback)
    return is_own or (method.startswith("_") and kind._forward is not Callback._forward)
