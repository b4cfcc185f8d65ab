"""The main loop: epochs and steps with callbacks around each, in a session that is closed at the end."""

from __future__ import annotations

import time
import weakref
from typing import Any, Sequence

from ..callbacks.monitor.base import MonitorBase
from ..callbacks.monitor.monitors import Monitors
from ..callbacks.steps import MaintainStepCounter
from ..compat import ensure_graph_mode
from ..compat import tfv1 as tf
from ..loop.callback import Callback
from ..loop.group import Callbacks
from ..loop.interrupt import InterruptWatch
from ..loop.place import Place
from ..loop.session import HookedSession
from ..loop.state import StopTraining, TrainLoop
from ..tfutils.common import find_name, get_global_step_value, get_op_tensor_name, value_of
from ..tfutils.model_utils import describe_trainable_vars
from ..tfutils.reads import let_updates_wait
from ..tfutils.sesscreate import NewSessionCreator
from ..tfutils.sessinit import JustCurrentSession, SessionInit
from ..utils import logger
from ..utils.argtools import call_only_once
from ..utils.errors import type_error
from ..utils.utils import humanize_time_delta
from .defaults import DEFAULT_CALLBACKS, DEFAULT_MONITORS
from .resume import advance_streams, continue_from, find_place, take_state
from .shutdown import Shutdown

__all__ = ["StopTraining", "Trainer"]

_FOREVER = 9999999


class Trainer:
    """
    A double loop that runs callbacks around `run_step()`. It assumes nothing else: no model, no cost, no gradients.

    To make one of your own, build a graph in the constructor, then either set `self.train_op` or override `run_step`,
    which may call `self.hooked_sess.run(...)` several times. A trainer trains once.

    Attributes:
        is_chief: whether this process writes logs and checkpoints; True unless a distributed trainer says otherwise.
        train_op: what the default `run_step` runs: an operation or tensor.
        loop: the counters, a `TrainLoop`.
        sess: the raw session, from `initialize` to the end of training. What it runs, callbacks don't see.
        hooked_sess: the session of training steps: callbacks take part in everything it runs.
        monitors: where callbacks put scalars and images, from `setup_callbacks` on; can be read after training.

    Raises:
        TypeError: constructed with a TrainConfig, as in tensorpack before 2018.

    Example:
        >>> class MyTrainer(Trainer):
        ...     def __init__(self):
        ...         super().__init__()
        ...         x = tf.get_variable("x", shape=[])
        ...         self.train_op = tf.train.GradientDescentOptimizer(0.1).minimize((x - 3) ** 2)
        >>> MyTrainer().train_with_defaults(steps_per_epoch=10, max_epoch=5)
    """

    is_chief = True
    train_op: Any = None
    sess: Any = None
    hooked_sess: Any = None
    _checkpoint_state: dict[str, Any] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args or kwargs:
            raise TypeError(
                f"{type(self).__name__}: takes no arguments here, got {[*args, *kwargs]}. To train with a TrainConfig, write "
                f"launch_train_with_config(config, {type(self).__name__}(...)); scripts written as Trainer(config).train() "
                "import their trainers from tensorpack_lite.trainv1."
            )
        ensure_graph_mode()
        self._callbacks: Any = []
        self.loop = TrainLoop()

    # What a subclass or user may override ----------------------------------------------------------------------------
    def run_step(self) -> None:
        """
        Do one step of training; the default runs `train_op` in the hooked session.

        Raises:
            NotImplementedError: there is no `train_op`.
        """
        if self.train_op is None:
            raise NotImplementedError(
                f"{type(self).__name__}: has no train_op. Set self.train_op, or override run_step()."
            )
        self.hooked_sess.run(self.train_op)

    @call_only_once
    def initialize_hooks(self) -> None:
        """Make `hooked_sess` from `sess` and the callbacks; starts the graph's queue runners."""
        self.hooked_sess = HookedSession(self.sess, self._callbacks.get_hooks(), start_queue_runners=True)

    # The phases of training, in order --------------------------------------------------------------------------------
    def register_callback(self, cb: Callback | Sequence[Callback]) -> bool | None:
        """
        Add callbacks that come before those of the user.

        Args:
            cb: a callback, or a list of them.

        Returns:
            Whether it was added: on a process that is not the chief, one with `chief_only` is not. None for a list.

        Raises:
            TypeError: not a callback.
            RuntimeError: after `setup_callbacks`.
        """
        if isinstance(cb, (list, tuple)):
            for one in cb:
                self.register_callback(one)
            return None
        if not isinstance(cb, Callback):
            raise type_error("Trainer.register_callback", "a Callback or a list of them", cb)
        if isinstance(self._callbacks, Callbacks):
            raise RuntimeError(f"Trainer.register_callback: {cb} comes too late, the callbacks are set up.")
        if cb.chief_only and not self.is_chief:
            logger.warning(f"Callback {cb} is chief-only and is left out of this process.")
            return False
        self._callbacks.append(cb)
        return True

    _register_callback = register_callback

    @call_only_once
    def setup_callbacks(self, callbacks: list[Callback], monitors: list[MonitorBase]) -> None:
        """
        Fix the list of callbacks and let them create what they need in the graph.

        The order is: those registered before (inputs, the trainer's own), the step counter, `callbacks`, `monitors`, and
        the group of all monitors.

        Args:
            callbacks: the user's and the default ones.
            monitors: where scalars and images go.

        Raises:
            TypeError: not lists, or a monitor among the callbacks.
            OSError: another process trains in the logger's directory; see `logger.lock_dir`.
        """
        _check_list("callbacks", callbacks)
        _check_list("monitors", monitors)
        if self.is_chief:
            logger.lock_dir()
        describe_trainable_vars()
        step_counter = MaintainStepCounter()
        self.register_callback(step_counter)
        self.register_callback(callbacks)
        for cb in self._callbacks:
            if isinstance(cb, MonitorBase):
                raise TypeError(f"Trainer: monitor {cb} is among the callbacks. Pass it in monitors=[...].")
        self.monitors = Monitors([monitor for monitor in monitors if self.register_callback(monitor)])
        self.register_callback(self.monitors)
        self._callbacks = Callbacks(self._callbacks)
        logger.info("Setting up the callbacks' graph ...")
        self._callbacks.setup_graph(weakref.proxy(self))
        step_counter.finish_graph()
        let_updates_wait()

    @call_only_once
    def initialize(self, session_creator: Any, session_init: SessionInit) -> None:
        """
        Create the session, initialize or restore the variables, finalize the graph.

        Args:
            session_creator: makes an initialized session on the default graph.
            session_init: loads values into variables; only the chief does.

        Raises:
            TypeError: of another kind.
        """
        if not isinstance(session_creator, tf.train.SessionCreator):
            raise type_error("Trainer.initialize", "a tf.train.SessionCreator", session_creator)
        if not isinstance(session_init, SessionInit):
            raise type_error("Trainer.initialize", "a SessionInit", session_init, "Use SmartInit(path).")
        self._checkpoint_state = session_init.checkpoint_state if self.is_chief else None
        session_init._setup_graph()
        logger.info("Creating the session ...")
        self.sess = session_creator.create_session()
        try:
            self.initialize_hooks()
            if self.is_chief:
                session_init._run_init(self.sess)
            elif not isinstance(session_init, JustCurrentSession):
                logger.warning("session_init is ignored in a process that is not the chief.")
        except BaseException:  # whatever it is, nothing stays open behind it
            (self.hooked_sess or self.sess).close()
            raise
        self.sess.graph.finalize()
        logger.info("Graph finalized.")

    @call_only_once
    def main_loop(self, steps_per_epoch: int, starting_epoch: int, max_epoch: int) -> None:
        """
        Run the loop: epochs `starting_epoch` to `max_epoch`, `steps_per_epoch` steps each.

        Args:
            steps_per_epoch: steps in an epoch, >= 0.
            starting_epoch: number of the first epoch, from 1.
            max_epoch: number of the last.

        Raises:
            Exception: whatever the data, a callback or a step raised. `StopTraining` and `OutOfRangeError` are no
                errors: they end training.
        """
        watch = InterruptWatch(self._callbacks.interrupt, self.sess.close)
        with self.sess.graph.as_default(), self.sess.as_default(), Shutdown(self), watch:
            self.loop.config(steps_per_epoch, starting_epoch, max_epoch)
            self._read_global_step()
            continue_from(self, self._find_place())
            self._callbacks.before_train()
            self._read_global_step()  # a callback may have changed it
            for epoch in self.loop.epochs():
                logger.info(f"{'Resume' if self.loop.starting_step else 'Start'} epoch {epoch} ...")
                self._callbacks.before_epoch()
                start = time.perf_counter()
                for _ in self.loop.steps():
                    if self.hooked_sess.should_stop():
                        raise StopTraining("a callback or hook asked the session to stop")
                    self.run_step()
                    self._callbacks.trigger_step()
                self._callbacks.after_epoch()
                spent = humanize_time_delta(time.perf_counter() - start)
                if (
                    not 0 < self.loop.starting_step == self.loop.steps_per_epoch
                ):  # resumed for its callbacks only
                    logger.info(f"Epoch {epoch} (global_step {self.global_step}) finished, time: {spent}.")
                self._callbacks.trigger_epoch()
            logger.info("Training has finished!")

    # All of it -------------------------------------------------------------------------------------------------------
    def train(
        self,
        callbacks: list[Callback],
        monitors: list[MonitorBase],
        session_creator: Any,
        session_init: SessionInit,
        steps_per_epoch: int,
        starting_epoch: int = 1,
        max_epoch: int = _FOREVER,
    ) -> None:
        """Train: `setup_callbacks`, `initialize`, `main_loop`; see these for the arguments."""
        with logger.unlock_dir_on_error():
            advance_streams(self, session_init)
            self.setup_callbacks(callbacks, monitors)
            self.initialize(session_creator, session_init)
        self.main_loop(steps_per_epoch, starting_epoch, max_epoch)

    def train_with_defaults(
        self,
        *,
        callbacks: list[Callback] | None = None,
        monitors: list[MonitorBase] | None = None,
        session_creator: Any = None,
        session_init: SessionInit | None = None,
        steps_per_epoch: int | None = None,
        starting_epoch: int = 1,
        max_epoch: int = _FOREVER,
        extra_callbacks: list[Callback] | None = None,
    ) -> None:
        """
        Train, with everything that is not given set to what most trainings want.

        Args:
            callbacks: your callbacks, in order; None for none.
            monitors: None means `DEFAULT_MONITORS()`; `[]` means none.
            session_creator: None means `NewSessionCreator()`.
            session_init: None means that variables keep their initial values.
            steps_per_epoch: steps in an epoch; must be given.
            starting_epoch: number of the first epoch.
            max_epoch: number of the last.
            extra_callbacks: come after `callbacks`; None means `DEFAULT_CALLBACKS()`; `[]` means none.

        Raises:
            ValueError: `steps_per_epoch` is missing.
        """
        if steps_per_epoch is None:
            raise ValueError(
                "Trainer.train_with_defaults: steps_per_epoch is missing. Pass steps_per_epoch=..."
            )
        extra_callbacks = DEFAULT_CALLBACKS() if extra_callbacks is None else extra_callbacks
        self.train(
            [*(callbacks or []), *extra_callbacks],
            DEFAULT_MONITORS() if monitors is None else monitors,
            session_creator or NewSessionCreator(),
            session_init or JustCurrentSession(),
            steps_per_epoch,
            starting_epoch,
            max_epoch,
        )

    # What callbacks ask ----------------------------------------------------------------------------------------------
    def find_tensor(self, name: str) -> Any:
        """
        Find a tensor by name; a trainer with towers also looks into the first one.

        Args:
            name: of a tensor, or of an operation: its first output, or itself if it has none.

        Returns:
            A tensor or operation. A variable's name means its value.

        Raises:
            KeyError: no such name; names the nearest ones.
        """
        graph = tf.get_default_graph() if self.sess is None else self.sess.graph
        op_name, tensor_name = get_op_tensor_name(name)
        if name != tensor_name and not find_name(graph, op_name).outputs:
            return find_name(graph, op_name)
        return value_of(find_name(graph, tensor_name))

    def state_dict(self) -> dict[str, Any]:
        """Return what `ModelSaver` saves beside the variables: the place of the training and the callbacks' states."""
        return take_state(self)

    @property
    def epoch_num(self) -> int:
        """The epoch that runs, from 1; see `TrainLoop`."""
        return self.loop.epoch_num

    @property
    def global_step(self) -> int:
        """How many times the hooked session has run; see `TrainLoop`."""
        return self.loop.global_step

    @property
    def local_step(self) -> int:
        """The number of the step within its epoch, from 0; see `TrainLoop`."""
        return self.loop.local_step

    @property
    def steps_per_epoch(self) -> int:
        """Steps in an epoch; known from `before_train` on."""
        return self.loop.steps_per_epoch

    @property
    def starting_epoch(self) -> int:
        """Number of the first epoch; known from `before_train` on."""
        return self.loop.starting_epoch

    @property
    def max_epoch(self) -> int:
        """Number of the last epoch; known from `before_train` on."""
        return self.loop.max_epoch

    def _read_global_step(self) -> None:
        self.loop.global_step = get_global_step_value()

    def _find_place(self) -> Place | None:
        return find_place(self)

    def _ask_chief(self, name: str, value: Any) -> Any:
        """Return the chief's value; a process that trains alone is the chief."""
        return value


def _check_list(name: str, value: Any) -> None:
    if not isinstance(value, list):
        raise type_error(f"Trainer: {name}", "a list", value)
