"""The base class of all trainers: the main loop over epochs and steps, and what callbacks may ask it."""

from __future__ import annotations

import time
import weakref
from operator import attrgetter
from typing import Any, Callable, Sequence, TypeVar

from ..callbacks.monitor.base import MonitorBase
from ..callbacks.monitor.monitors import Monitors
from ..callbacks.steps import MaintainStepCounter
from ..compat import ensure_graph_mode
from ..compat import tfv1 as tf
from ..loop.callback import Call, Callback
from ..loop.extension import Extension, all_of, check_extensions, load_states, states_of
from ..loop.group import Callbacks
from ..loop.resume_point import ResumePoint
from ..loop.session import HookedSession
from ..loop.state import Outcome, StopTraining, TrainLoop, check_steps
from ..loop.trainer import LoopMonitors, TrainArguments
from ..ranks.alone import Alone
from ..tfutils.common import find_fetch, get_global_step_value
from ..tfutils.exact.state import exact_mode
from ..tfutils.sesscreate import NewSessionCreator
from ..tfutils.sessinit import JustCurrentSession, SessionInit
from ..utils import logger
from ..utils.argtools import call_only_once
from ..utils.checks import check_type
from ..utils.errors import type_error
from .arguments import refuse_arguments, refuse_config
from .ends import close_session, end_epoch, log_end, log_epoch, log_start, name_checkpoints
from .exact.rank_states import split_state
from .resume import continue_from, find_resume_point, resume_point_of, take_state

_FOREVER = 9999999
_T = TypeVar("_T")


class Trainer:
    """
    A loop over epochs and steps that calls callbacks around `run_step()`. It does not know the model, cost or gradients.

    To write a trainer, build a graph in the constructor, then set `self.train_op` or override `run_step`, which may call
    `self.hooked_sess.run(...)` several times. A trainer trains once. `LoopTrainer` lists what callbacks may use.

    Attributes:
        train_op: the operation or tensor that the default `run_step` runs.
        step_ops: the operations and tensors that `run_step` may run; set it if it runs others than `train_op`.
        extensions: the parts of the training that act around it, in order; `default_extensions()` at first.
        default_extensions, default_callbacks, default_monitors: functions that return new lists; `train/__init__.py` sets them.

    Example:
        >>> class MyTrainer(Trainer):
        ...     def __init__(self):
        ...         super().__init__()
        ...         x = tf.get_variable("x", shape=[])
        ...         self.train_op = tf.train.GradientDescentOptimizer(0.1).minimize((x - 3) ** 2)
        >>> MyTrainer().train_with_defaults(steps_per_epoch=10, max_epoch=5)
    """

    default_extensions: Callable[[], list[Extension]] = staticmethod(list)
    default_callbacks: Callable[[], list[Callback]] = staticmethod(list)
    default_monitors: Callable[[], list[MonitorBase]] = staticmethod(list)

    is_chief = True
    rank, size, local_rank, local_size = 0, 1, 0, 1
    ranks: Alone = Alone()
    cost: tf.Tensor | None = None
    train_op: tf.Operation | tf.Tensor = None
    step_ops: Sequence[tf.Operation | tf.Tensor] = ()
    updates_together, not_repeatable, steps_per_update = True, "", 1
    sess: tf.Session = None
    hooked_sess: Any = None
    monitors: LoopMonitors
    model: Any = None
    tower_func: Any = None
    arguments: TrainArguments | None = None
    _checkpoint_state: dict[str, Any] | None = None

    def __init__(self, *args: object, **kwargs: object) -> None:
        refuse_arguments(type(self).__name__, [*args, *kwargs])
        ensure_graph_mode()
        self.loop = TrainLoop()
        self.extensions = self.default_extensions()
        self._callbacks, self._is_set_up = Callbacks([]), False

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
            cb: a callback, a list of them, or a `Callbacks`, whose callbacks are added.

        Returns:
            Whether the callback was added: a process that is not the chief skips callbacks that are `chief_only`. None for a list.
        """
        several = cb.cbs if type(cb) is Callbacks else cb  # a checkpoint tells which of them were called
        if isinstance(several, (list, tuple)):
            for callback in several:
                self.register_callback(callback)
            return None
        if not isinstance(cb, Callback):
            raise type_error("Trainer.register_callback", "a Callback or a list of them", cb)
        if self._is_set_up:
            raise RuntimeError(f"Trainer.register_callback: {cb} comes too late, after setup_callbacks.")
        if cb.chief_only and not self.is_chief and not self._takes_part(cb):
            logger.debug(f"Callback {cb} is chief-only and is skipped in this process.")
            return False
        self._callbacks.append(cb)
        return True

    _register_callback = register_callback

    @call_only_once
    def setup_callbacks(self, callbacks: list[Callback], monitors: list[MonitorBase]) -> None:
        """
        Complete the list of callbacks, and let them create their operations in the graph.

        Args:
            callbacks: the user's and the default callbacks. Registered callbacks and the step counter come before them,
                `monitors` and `self.monitors` after them.
            monitors: the monitors that receive scalars and images.

        Raises:
            TypeError: an argument is not a list, or a monitor is among the callbacks.
        """
        for name, given in (("callbacks", callbacks), ("monitors", monitors)):
            check_type(f"Trainer: {name}", given, list, "a list")
        for extension in self.extensions:
            extension.before_setup(self)
        step_counter = MaintainStepCounter()
        self.register_callback([step_counter, *callbacks])
        for monitor in self.find_callbacks(MonitorBase):
            raise TypeError(f"Trainer: monitor {monitor} is among the callbacks. Pass it in monitors=[...].")
        self.monitors = Monitors([monitor for monitor in monitors if self.register_callback(monitor)])
        self.register_callback(self.monitors)
        self._is_set_up = True
        logger.info("Setting up the callbacks' graph ...")
        self._callbacks.setup_graph(weakref.proxy(self))
        step_counter.finish_graph()
        for extension in self.extensions:
            extension.after_setup(self)

    @call_only_once
    def initialize(self, session_creator: tf.train.SessionCreator, session_init: SessionInit) -> None:
        """
        Create the session, initialize or restore the variables, and finalize the graph.

        Args:
            session_creator: creates an initialized session on the default graph.
            session_init: loads values into variables; only the chief uses it.
        """
        check_type("Trainer.initialize: session_creator", session_creator, tf.train.SessionCreator)
        check_type("Trainer.initialize: session_init", session_init, SessionInit, advice="See SmartInit.")
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
            Exception: any error of the data, a callback or a step. `StopTraining` and `OutOfRangeError` end training without one.
        """
        loop, callbacks = self.loop, self._callbacks
        with self.sess.graph.as_default(), self.sess.as_default():
            try:
                with all_of([extension.around_loop(self) for extension in self.extensions]):
                    loop.config(steps_per_epoch, starting_epoch, max_epoch)
                    self._restore_progress()
                    callbacks.before_train()
                    self._notify_epochs_begin()
                    for _ in loop.epochs():
                        log_start(loop)
                        callbacks.before_epoch()
                        start = time.perf_counter()
                        for _ in loop.steps():
                            if self.hooked_sess.should_stop():
                                raise StopTraining("a callback or hook asked the session to stop")
                            self.run_step()
                            loop.num_done += 1
                            callbacks.trigger_step()
                        callbacks.after_epoch()
                        log_epoch(loop, time.perf_counter() - start)
                        callbacks.trigger_epoch()
                        end_epoch(callbacks)
                    logger.info("Training has finished.")
                loop.end(None)
            except BaseException as error:  # any end, which may be no error
                if loop.end(error) is not Outcome.STOPPED:
                    raise
            finally:
                with close_session(loop, self.hooked_sess, self.sess.graph):
                    log_end(loop)
                    callbacks.after_train()
                    name_checkpoints(loop, callbacks)

    @refuse_config
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
            ValueError: `steps_per_epoch` is 0 or not whole; two extensions have one name.
            RuntimeError: an extension has found a mistake.
            Preempted: with `exact`, after SIGTERM or SIGUSR1. A checkpoint was saved if at least one step was done.
            KeyboardInterrupt: after Ctrl-C. With `exact` and a `ModelSaver`, a checkpoint was saved, unless Ctrl-C came twice.
            OSError: another process trains in the logger's directory; or that checkpoint could not be written.
        """
        steps = check_steps("Trainer: steps_per_epoch", steps_per_epoch)
        check_extensions(self.extensions)
        self.arguments = TrainArguments(session_creator, session_init, steps, starting_epoch, max_epoch)
        with all_of([extension.around_training(self) for extension in self.extensions]):
            self.setup_callbacks(callbacks, monitors)
            arguments = self.arguments  # which an extension may have changed
            self.initialize(arguments.session_creator, arguments.session_init)
            self.main_loop(arguments.steps_per_epoch, arguments.starting_epoch, arguments.max_epoch)

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
        Train, with a default for every argument except `steps_per_epoch`; see `train`.

        Args:
            callbacks: your callbacks, in order; None means none.
            monitors, session_creator, session_init: by default `default_monitors()`, `NewSessionCreator()`, `JustCurrentSession()`.
            extra_callbacks: called after `callbacks`; None means `default_callbacks()`; `[]` means none.

        Raises:
            ValueError: `steps_per_epoch` is missing.
        """
        if steps_per_epoch is None:
            raise ValueError("Trainer.train_with_defaults: steps_per_epoch is missing. Pass a number.")
        self.train(
            [*(callbacks or []), *(self.default_callbacks() if extra_callbacks is None else extra_callbacks)],
            self.default_monitors() if monitors is None else monitors,
            session_creator or NewSessionCreator(),
            session_init or JustCurrentSession(),
            steps_per_epoch,
            starting_epoch,
            max_epoch,
        )

    # The place in the training, and checkpoints ----------------------------------------------------------------------
    def state_dict(self) -> dict[str, Any]:
        """Return the state that `ModelSaver` saves: the place of the training and the callbacks' states."""
        state = take_state(self.loop, self._callbacks, self._checkpoint_state)
        if state is self._checkpoint_state:  # nothing has happened since
            return state
        return {**state, **states_of(self.extensions, self)}

    def state_to_resume(self, state: dict[str, Any] | None) -> tuple[dict[str, Any] | None, str]:
        """Return the chief's part of the state; see `LoopTrainer.state_to_resume`."""
        parts, not_exact = split_state(state, 1)
        return parts[0], not_exact

    def step_to_resume_at(self, session_init: object) -> int:
        """Return the `global_step` at which a training with these initial values continues, the chief's on each rank; 0 from the beginning."""
        place = resume_point_of(session_init)
        return int(self._ask_chief("the step to resume at", 0 if place is None else place.global_step))

    def _restore_progress(self) -> None:
        """Move the loop, the callbacks and the extensions to the place of the checkpoint. Call it before `before_train`."""
        self.loop.global_step = get_global_step_value()
        state = self._checkpoint_state
        continue_from(self._find_resume_point(), self.loop, self._callbacks, state)
        if self.loop.is_resumed and state is not None:
            load_states(self.extensions, self, state)

    def _notify_epochs_begin(self) -> None:
        """Call the extensions after `before_train` of the callbacks, one of which may have changed the counter."""
        self.loop.global_step = get_global_step_value()
        for extension in self.extensions:
            extension.before_epochs(self)

    def end_if_preempted(self) -> None:
        """End training if a signal was received; see `LoopTrainer.end_if_preempted`."""
        self.loop.heartbeats += 1
        if self._callbacks.check is not None:
            self._callbacks.check()

    # Questions of callbacks and other threads -------------------------------------------------------------------------
    epoch_num = property(attrgetter("loop.epoch_num"), doc="The current epoch, from 1; see `TrainLoop`.")
    global_step = property(attrgetter("loop.global_step"), doc="The number of runs of the hooked session.")
    local_step = property(attrgetter("loop.local_step"), doc="The number of the step in its epoch, from 0.")
    steps_per_epoch = property(attrgetter("loop.steps_per_epoch"), doc="The number of steps in an epoch.")
    starting_epoch = property(attrgetter("loop.starting_epoch"), doc="The number of the first epoch.")
    max_epoch = property(attrgetter("loop.max_epoch"), doc="The number of the last epoch.")
    exact = property(lambda _: exact_mode(), doc='True or "require" after `begin_exact_resume`, or False.')

    @property
    def callbacks(self) -> Callbacks:
        """All callbacks, as one."""
        return self._callbacks

    def find_callbacks(self, kind: type[_T]) -> list[_T]:
        """Return all callbacks of a class; see `LoopTrainer.find_callbacks`."""
        return [cb for cb in self._callbacks.cbs if isinstance(cb, kind)]

    def find_extension(self, kind: type[_T]) -> _T | None:
        """Return the first extension of a class; see `LoopTrainer.find_extension`."""
        return next((extension for extension in self.extensions if isinstance(extension, kind)), None)

    @property
    def current_call(self) -> Call | None:
        """The call of a callback that is in progress; None if there is none. Any thread may read it."""
        return self._callbacks.current_call or getattr(self.hooked_sess, "current_call", None)

    @property
    def is_in_run(self) -> bool:
        """Whether the hooked session is running. Any thread may read it."""
        return getattr(self.hooked_sess, "is_running", False)

    def find_tensor(self, name: str) -> tf.Tensor | tf.Operation:
        """Find a tensor by name; see `LoopTrainer.find_tensor`."""
        return find_fetch(tf.get_default_graph() if self.sess is None else self.sess.graph, name)

    # For trainers with towers or ranks -------------------------------------------------------------------------------
    def get_predictor(
        self, input_names: Sequence[str], output_names: Sequence[str], device: int = 0
    ) -> Callable[..., Any]:
        """Raise an error: the trainer has no tower function; see `TowerTrainer.get_predictor`."""
        name = type(self).__name__
        raise RuntimeError(f"{name}.get_predictor: the trainer has no tower function. Use a TowerTrainer.")

    def vs_name_for_predictor(self, device: int) -> str:
        """Return the variable scope of a tower for inference; see `TowerTrainer.vs_name_for_predictor`."""
        return ""

    def _takes_part(self, cb: Callback) -> bool:
        """Return whether a process that is not the chief has this callback although it is `chief_only`."""
        return False

    def _find_resume_point(self) -> ResumePoint | None:
        return find_resume_point(self.loop, self._callbacks, self._checkpoint_state)

    def _ask_chief(self, name: str, value: Any) -> Any:
        return value  # a process that trains alone is the chief
