"""The base class of all trainers, with the main loop over epochs and steps."""

from __future__ import annotations

import time
import weakref
from typing import Any, Sequence, TypeVar

from ..callbacks.monitor.base import MonitorBase
from ..callbacks.monitor.monitors import Monitors
from ..callbacks.steps import MaintainStepCounter
from ..compat import ensure_graph_mode
from ..compat import tfv1 as tf
from ..loop.callback import Call, Callback
from ..loop.extension import TrainArguments, all_of, check_extensions
from ..loop.group import Callbacks
from ..loop.place import Place
from ..loop.session import HookedSession
from ..loop.state import Outcome, StopTraining, TrainLoop, check_steps
from ..loop.trainer import LoopTrainer
from ..tfutils.common import get_global_step_value
from ..tfutils.model_utils import describe_trainable_vars
from ..tfutils.reads import let_updates_wait
from ..tfutils.sesscreate import NewSessionCreator
from ..tfutils.sessinit import JustCurrentSession, SessionInit
from ..utils import logger
from ..utils.argtools import call_only_once
from ..utils.checks import check_type
from ..utils.errors import type_error
from ..utils.old_names import HasOldInterface
from ..utils.utils import humanize_time_delta
from .defaults import DEFAULT_CALLBACKS, DEFAULT_EXTENSIONS, DEFAULT_MONITORS
from .rank_states import split_state
from .resume import continue_from, end_epoch, find_place, place_of, take_state
from .settings import ExtensionSettings
from .shutdown import end_training

__all__ = ["StopTraining", "Trainer"]

_FOREVER = 9999999
_T = TypeVar("_T")


class Trainer(HasOldInterface, ExtensionSettings, LoopTrainer):
    """
    A loop over epochs and steps that calls callbacks around `run_step()`. It does not know the model, cost or
    gradients.

    To write a trainer, build a graph in the constructor, then set `self.train_op` or override `run_step`,
    which may call `self.hooked_sess.run(...)` several times. A trainer trains once.

    Attributes:
        train_op: the operation or tensor that the default `run_step` runs.
        extensions: see LoopTrainer; `DEFAULT_EXTENSIONS()` at first.

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

    _checkpoint_state: dict[str, Any] | None = None

    def __init__(self, *args: object, **kwargs: object) -> None:
        if args or kwargs:
            raise TypeError(
                f"{type(self).__name__}: expected no arguments, got {[*args, *kwargs]}. To train with a TrainConfig, call "
                f"launch_train_with_config(config, {type(self).__name__}(...)). A script that calls Trainer(config).train() "
                "imports its trainers from tensorpack_lite.trainv1."
            )
        ensure_graph_mode()
        self.loop = TrainLoop()
        self.extensions = DEFAULT_EXTENSIONS()
        self._callbacks = Callbacks([])
        self._is_set_up = False

    # To override -----------------------------------------------------------------------------------------------------
    def run_step(self) -> None:
        """
        Run one step of training. The default runs `train_op` in the hooked session.

        Raises:
            NotImplementedError: `train_op` is not set.
        """
        if self.train_op is None:
            name = type(self).__name__
            raise NotImplementedError(f"{name}: has no train_op. Set self.train_op, or override run_step().")
        self.hooked_sess.run(self.train_op)

    @call_only_once
    def initialize_hooks(self) -> None:
        """Create `hooked_sess` from `sess` and the callbacks, and start the graph's queue runners."""
        self.hooked_sess = HookedSession(self.sess, self._callbacks.get_hooks(), start_queue_runners=True)

    # The phases of training, in order --------------------------------------------------------------------------------
    def register_callback(self, cb: Callback | Sequence[Callback]) -> bool | None:
        """
        Add callbacks that are called before those of the user.

        Args:
            cb: a callback, or a list of them.

        Returns:
            Whether the callback was added; a process that is not the chief leaves out callbacks that are
            `chief_only`. None for a list.

        Raises:
            TypeError: not a callback.
            RuntimeError: called after `setup_callbacks`.
        """
        if isinstance(cb, (list, tuple)):
            for one in cb:
                self.register_callback(one)
            return None
        if not isinstance(cb, Callback):
            raise type_error("Trainer.register_callback", "a Callback or a list of them", cb)
        if self._is_set_up:
            raise RuntimeError(f"Trainer.register_callback: {cb} comes too late, after setup_callbacks.")
        if cb.chief_only and not self.is_chief and not self._takes_part(cb):
            logger.debug(f"Callback {cb} is chief-only and is left out of this process.")
            return False
        self._callbacks.append(cb)
        return True

    _register_callback = register_callback

    @call_only_once
    def setup_callbacks(self, callbacks: list[Callback], monitors: list[MonitorBase]) -> None:
        """
        Complete the list of callbacks, and let them create their operations in the graph.

        The order is: registered callbacks (of inputs and of the trainer), the step counter, `callbacks`,
        `monitors`, and `self.monitors`.

        Args:
            callbacks: the user's and the default callbacks.
            monitors: the monitors that receive scalars and images.

        Raises:
            TypeError: an argument is not a list, or a monitor is among the callbacks.
            OSError: another process trains in the logger's directory; see `logger.lock_dir`.
        """
        for name, given in (("callbacks", callbacks), ("monitors", monitors)):
            check_type(f"Trainer: {name}", given, list, "a list")
        for extension in self.extensions:
            extension.before_setup(self)
        describe_trainable_vars()
        step_counter = MaintainStepCounter()
        self.register_callback(step_counter)
        self.register_callback(callbacks)
        for monitor in self.find_callbacks(MonitorBase):
            raise TypeError(f"Trainer: monitor {monitor} is among the callbacks. Pass it in monitors=[...].")
        self.monitors = Monitors([monitor for monitor in monitors if self.register_callback(monitor)])
        self.register_callback(self.monitors)
        self._is_set_up = True
        logger.info("Setting up the callbacks' graph ...")
        self._callbacks.setup_graph(weakref.proxy(self))
        step_counter.finish_graph()
        let_updates_wait()
        for extension in self.extensions:
            extension.after_setup(self)

    @call_only_once
    def initialize(self, session_creator: tf.train.SessionCreator, session_init: SessionInit) -> None:
        """
        Create the session, initialize or restore the variables, and finalize the graph.

        Args:
            session_creator: a `tf.train.SessionCreator`; creates an initialized session on the default graph.
            session_init: loads values into variables; only the chief uses it.

        Raises:
            TypeError: an argument of the wrong type.
        """
        if not isinstance(session_creator, tf.train.SessionCreator):
            raise type_error("Trainer.initialize", "a tf.train.SessionCreator", session_creator)
        if not isinstance(session_init, SessionInit):
            raise type_error("Trainer.initialize", "a SessionInit", session_init, "Use SmartInit(path).")
        if self.is_chief:
            self._checkpoint_state = session_init.checkpoint_state
        session_init._setup_graph()
        logger.info("Creating the session ...")
        self.sess = session_creator.create_session()
        try:
            self.initialize_hooks()
            if self.is_chief:
                session_init._run_init(self.sess)
            elif not isinstance(session_init, JustCurrentSession):
                logger.debug("session_init is ignored in a process that is not the chief.")
        except BaseException:  # close the session after any error
            (self.hooked_sess or self.sess).close()
            raise
        self.sess.graph.finalize()
        logger.info("Graph finalized.")
        for extension in self.extensions:
            extension.after_initialize(self)

    @call_only_once
    def main_loop(self, steps_per_epoch: int, starting_epoch: int, max_epoch: int) -> None:
        """
        Run the loop: epochs `starting_epoch` to `max_epoch`, with `steps_per_epoch` steps each.

        Args:
            steps_per_epoch: the number of steps in an epoch, >= 0. With 0, only callbacks are called.
            starting_epoch: the number of the first epoch, from 1.
            max_epoch: the number of the last epoch.

        Raises:
            Exception: any error of the data, a callback or a step. `StopTraining` and `OutOfRangeError` are not errors:
                they end training.
            Preempted: see `train`.
        """
        loop, callbacks = self.loop, self._callbacks
        with self.sess.graph.as_default(), self.sess.as_default():
            try:
                with all_of([extension.around_loop(self) for extension in self.extensions]):
                    loop.config(steps_per_epoch, starting_epoch, max_epoch)
                    self._before_epochs()
                    for epoch in loop.epochs():
                        logger.info(f"{'Resume' if loop.starting_step else 'Start'} epoch {epoch} ...")
                        callbacks.before_epoch()
                        start = time.perf_counter()
                        for _ in loop.steps():
                            if self.hooked_sess.should_stop():
                                raise StopTraining("a callback or hook asked the session to stop")
                            self.run_step()
                            callbacks.trigger_step()
                        callbacks.after_epoch()
                        self._log_epoch(time.perf_counter() - start)
                        callbacks.trigger_epoch()
                        end_epoch(callbacks)
                    logger.info("Training has finished.")
                loop.end(None)
            except BaseException as error:  # any end, which may be no error
                if loop.end(error) is not Outcome.STOPPED:
                    raise
            finally:
                end_training(loop, callbacks, self.hooked_sess, self.sess.graph)  # which calls `after_train`

    def _log_epoch(self, seconds: float) -> None:
        if not 0 < self.loop.starting_step == self.steps_per_epoch:  # else resumed only for its callbacks
            epoch, step, spent = self.epoch_num, self.global_step, humanize_time_delta(seconds)
            logger.info(f"Epoch {epoch} (global_step {step}) finished, time: {spent}.")

    def _before_epochs(self) -> None:
        loop, callbacks = self.loop, self._callbacks
        loop.global_step = get_global_step_value()
        continue_from(self._find_place(), loop, callbacks, self._checkpoint_state)
        states = self._checkpoint_state if loop.is_resumed and self._checkpoint_state is not None else {}
        for extension in self.extensions:
            if extension.state_name in states:
                extension.load_state_dict(self, states[extension.state_name])
        callbacks.before_train()
        loop.global_step = get_global_step_value()  # a callback may have changed it
        for extension in self.extensions:
            extension.before_epochs(self)

    # All phases ------------------------------------------------------------------------------------------------------
    def train(
        self,
        callbacks: list[Callback],
        monitors: list[MonitorBase],
        session_creator: tf.train.SessionCreator,
        session_init: SessionInit,
        steps_per_epoch: int,
        starting_epoch: int = 1,
        max_epoch: int = _FOREVER,
    ) -> None:
        """
        Train: call `setup_callbacks`, `initialize` and `main_loop`, which document the arguments.

        Raises:
            ValueError: `steps_per_epoch` is 0 or not whole, except under `tensorpack-lite run`; two extensions have one name.
            RuntimeError: with `lint = "error"`, lint has found a mistake.
            Preempted: with `exact`, after SIGTERM or SIGUSR1. A checkpoint was saved if at least one step was done, and
                `after_train` was called.
            KeyboardInterrupt: after Ctrl-C. With `exact`, a `ModelSaver` and one rank, a checkpoint was saved, unless Ctrl-C came twice.
            OSError: that checkpoint could not be written; earlier ones are intact.
        """
        steps = check_steps("Trainer: steps_per_epoch", steps_per_epoch)
        check_extensions(self.extensions)
        self.arguments = TrainArguments(session_creator, session_init, steps, starting_epoch, max_epoch)
        with all_of([extension.around_training(self) for extension in self.extensions]):
            self.setup_callbacks(callbacks, monitors)
            self.initialize(*self.arguments[:2])  # which an extension may have changed
            self.main_loop(*self.arguments[2:])

    def train_with_defaults(
        self,
        *,
        callbacks: list[Callback] | None = None,
        monitors: list[MonitorBase] | None = None,
        session_creator: tf.train.SessionCreator | None = None,
        session_init: SessionInit | None = None,
        steps_per_epoch: int | None = None,
        starting_epoch: int = 1,
        max_epoch: int = _FOREVER,
        extra_callbacks: list[Callback] | None = None,
    ) -> None:
        """
        Train, with a default for every argument except `steps_per_epoch`.

        Args:
            callbacks: your callbacks, in order; None means none.
            monitors: None means `DEFAULT_MONITORS()`; `[]` means none.
            session_creator: None means `NewSessionCreator()`.
            session_init: None means that variables keep their initial values.
            steps_per_epoch: the number of steps in an epoch.
            starting_epoch: the number of the first epoch.
            max_epoch: the number of the last epoch.
            extra_callbacks: called after `callbacks`; None means `DEFAULT_CALLBACKS()`; `[]` means none.

        Raises:
            ValueError: `steps_per_epoch` is missing, or see `train`.
        """
        if steps_per_epoch is None:
            raise ValueError("Trainer.train_with_defaults: steps_per_epoch is missing. Pass a number.")
        self.train(
            [*(callbacks or []), *(DEFAULT_CALLBACKS() if extra_callbacks is None else extra_callbacks)],
            DEFAULT_MONITORS() if monitors is None else monitors,
            session_creator or NewSessionCreator(),
            session_init or JustCurrentSession(),
            steps_per_epoch,
            starting_epoch,
            max_epoch,
        )

    # For callbacks, and other threads --------------------------------------------------------------------------------
    def find_callbacks(self, kind: type[_T]) -> list[_T]:
        """
        Return all callbacks of a class, in the order in which they are called.

        Args:
            kind: a class; instances of subclasses are included.
        """
        return [cb for cb in self._callbacks.cbs if isinstance(cb, kind)]

    def state_dict(self) -> dict[str, Any]:
        """Return the state that `ModelSaver` saves: the place of the training and the callbacks' states."""
        state = take_state(self.loop, self._callbacks, self._checkpoint_state)
        if state is self._checkpoint_state:  # nothing has happened since
            return state
        states = {one.state_name: one.state_dict(self) for one in self.extensions}
        return {**state, **{name: found for name, found in states.items() if found is not None}}

    @property
    def callbacks(self) -> Callbacks:
        """All callbacks, as one."""
        return self._callbacks

    def end_if_preempted(self) -> None:
        """End training if a signal was received; see `LoopTrainer.end_if_preempted`."""
        self.loop.num_parts += 1
        if self._callbacks.check is not None:
            self._callbacks.check()

    @property
    def current_call(self) -> Call | None:
        """The call of a callback that is in progress; None if there is none. Any thread may read it."""
        session = self.hooked_sess
        in_run = session.current_call if isinstance(session, HookedSession) else None
        return self._callbacks.current_call or in_run

    @property
    def is_in_run(self) -> bool:
        """Whether the hooked session is running. Any thread may read it."""
        return isinstance(self.hooked_sess, HookedSession) and self.hooked_sess.is_running

    @property
    def epoch_seconds(self) -> list[tuple[str, float]]:
        """The callbacks that the last `trigger_epoch` has called, and how many seconds each of them took."""
        return self._callbacks.epoch_seconds

    # Resuming --------------------------------------------------------------------------------------------------------
    def _find_place(self) -> Place | None:
        return find_place(self.loop, self._callbacks, self._checkpoint_state)

    def state_to_resume(self, state: dict[str, Any] | None) -> tuple[dict[str, Any] | None, str]:
        """Return the chief's part of the state; see `LoopTrainer.state_to_resume`."""
        parts, not_exact = split_state(state, 1)
        return parts[0], not_exact

    def _takes_part(self, cb: Callback) -> bool:
        """Return whether a process that is not the chief has this callback although it is `chief_only`."""
        return False

    def step_to_resume_at(self, session_init: SessionInit) -> int:
        """Return the `global_step` at which a training with these initial values continues, the chief's on each rank; 0 from the beginning."""
        place = place_of(session_init)
        return int(self._ask_chief("the step to resume at", 0 if place is None else place.global_step))

    def _ask_chief(self, name: str, value: Any) -> Any:
        return value  # a process that trains alone is the chief
