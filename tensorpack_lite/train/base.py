"""The base class of all trainers, with the main loop over epochs and steps."""

from __future__ import annotations

import time
import weakref
from typing import Sequence

from ..callbacks.monitor.base import MonitorBase
from ..callbacks.monitor.monitors import Monitors
from ..callbacks.steps import MaintainStepCounter
from ..compat import ensure_graph_mode
from ..compat import tfv1 as tf
from ..loop.callback import Callback
from ..loop.extension import TrainArguments, all_of, check_extensions
from ..loop.group import Callbacks
from ..loop.session import HookedSession
from ..loop.state import Outcome, StopTraining, TrainLoop, check_steps
from ..tfutils.sesscreate import NewSessionCreator
from ..tfutils.sessinit import JustCurrentSession, SessionInit
from ..utils import logger
from ..utils.argtools import call_only_once
from ..utils.checks import check_type
from ..utils.errors import type_error
from .defaults import DEFAULT_CALLBACKS, DEFAULT_EXTENSIONS, DEFAULT_MONITORS, ExtensionSettings
from .ends import end_epoch, end_training, log_epoch
from .state import TrainerState

__all__ = ["StopTraining", "Trainer"]

_FOREVER = 9999999


class Trainer(ExtensionSettings, TrainerState):
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

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
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
                    self._continue()
                    callbacks.before_train()
                    self._begin_epochs()
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
                        log_epoch(loop, time.perf_counter() - start)
                        callbacks.trigger_epoch()
                        end_epoch(callbacks)
                    logger.info("Training has finished.")
                loop.end(None)
            except BaseException as error:  # any end, which may be no error
                if loop.end(error, callbacks.phase == "before_epoch") is not Outcome.STOPPED:
                    raise
            finally:
                end_training(loop, callbacks, self.hooked_sess, self.sess.graph)  # which calls `after_train`

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
            KeyboardInterrupt: after Ctrl-C. With `exact` and a `ModelSaver`, a checkpoint was saved, unless Ctrl-C came twice.
            OSError: that checkpoint could not be written; earlier ones are intact.
        """
        steps = check_steps("Trainer: steps_per_epoch", steps_per_epoch)
        check_extensions(self.extensions)
        self.arguments = TrainArguments(session_creator, session_init, steps, starting_epoch, max_epoch)
        with all_of([extension.around_training(self) for extension in self.extensions]):
            self.setup_callbacks(callbacks, monitors)
            arguments = self.arguments  # which an extension may have changed, such as `ShortTraining`
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
