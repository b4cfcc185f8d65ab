"""
The interface of extensions: parts of a training with moments that callbacks do not have.

    trainer.train(...)                        around_training   entered
      setup_callbacks                         before_setup      the graph of the model is complete
                                              after_setup       the callbacks have added to the graph
      initialize                              after_initialize  the session has all variables, the graph is finalized
      main_loop                               around_loop       entered
                                              load_state_dict   if training resumes, before `before_train`
                                              before_epochs     after `before_train` of the callbacks
          epochs and steps                    state_dict        whenever a checkpoint is saved
                                              around_loop       left, before `after_train` of the callbacks
                                              around_training   left, when the session is closed

The contexts are entered in the order of `trainer.extensions`, and left in the opposite order.

A new moment also needs its call in train/trainer.py, a forwarding method in `Rehearsal` of diagnostics/rehearsal, and a
row in docs/extensions.md.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any, ContextManager, Iterator, Mapping, NamedTuple, Sequence

from ..compat import tfv1 as tf
from ..tfutils.sessinit import SessionInit
from ..utils.errors import describe_got

__all__ = ["Extension", "TrainArguments"]

_TAKEN = ("callbacks", "place", "ranks")  # keys of the state in checkpoints


class TrainArguments(NamedTuple):
    """
    The arguments of `Trainer.train` besides callbacks and monitors.

    Attributes:
        session_creator, session_init, steps_per_epoch, starting_epoch, max_epoch: see `Trainer.train`.
    """

    session_creator: tf.train.SessionCreator
    session_init: SessionInit
    steps_per_epoch: int
    starting_epoch: int
    max_epoch: int


class Extension:
    """
    Base class of extensions. Its methods do nothing; override those that you need.

    A callback is called around steps and epochs. An extension sees the training from outside: before the callbacks are
    set up, before there is a session, and around everything. Add it to `trainer.extensions` before training. Each method gets
    the trainer. An error in a method ends training.

    Attributes:
        state_name: the key of the result of `state_dict` in checkpoints; the name of the class by default.

    Example:
        >>> class Stopwatch(Extension):
        ...     @contextmanager
        ...     def around_loop(self, trainer):
        ...         begin = time.perf_counter()
        ...         yield
        ...         print(f"All epochs took {time.perf_counter() - begin:.1f} s.")
        >>> trainer.extensions.append(Stopwatch())
    """

    @property
    def state_name(self) -> str:
        """The key of the state in checkpoints."""
        return type(self).__name__

    def around_training(self, trainer: Any) -> ContextManager[None]:
        """Return a context manager around `Trainer.train`. It is left when the session is closed, or after any error."""
        return nullcontext()

    def before_setup(self, trainer: Any) -> None:
        """Act when the model's graph is complete and the callbacks are not set up. It may still register callbacks."""

    def after_setup(self, trainer: Any) -> None:
        """Act when the graph is complete and there is no session. This is the last moment that may add operations."""

    def after_initialize(self, trainer: Any) -> None:
        """Act when `trainer.sess` exists, with initialized or restored variables, and the graph is finalized."""

    def around_loop(self, trainer: Any) -> ContextManager[None]:
        """Return a context manager around all epochs, inside which `trainer.sess` is the default session."""
        return nullcontext()

    def before_epochs(self, trainer: Any) -> None:
        """Act after `before_train` of all callbacks, when the counters of a resumed training are set."""

    def state_dict(self, trainer: Any) -> Any:
        """Return what checkpoints keep for `load_state_dict`: JSON values and NumPy arrays; None keeps nothing."""
        return None

    def load_state_dict(self, trainer: Any, state: Any) -> None:
        """Continue with the result of `state_dict` that was saved in the checkpoint from which training resumes."""


def check_extensions(extensions: Sequence[object]) -> None:
    """
    Check the list of a trainer.

    Raises:
        TypeError: an element is not an Extension.
        ValueError: two extensions have the same `state_name`, or the checkpoint uses that name itself.
    """
    names = list(_TAKEN)
    for one in extensions:
        if not isinstance(one, Extension):
            raise TypeError(
                f"Trainer.extensions: expected a list of Extension, got {describe_got(one)} in it."
            )
        if one.state_name in names:
            raise ValueError(
                f"Trainer.extensions: the state_name '{one.state_name}' of {type(one).__name__} is taken. Give it another one."
            )
        names.append(one.state_name)


def replace_extensions(extensions: list[Extension], replacements: Sequence[Extension]) -> None:
    """Put each replacement in the place of the extension of the same class. One whose class is not in the list is skipped."""
    by_class = {type(extension): extension for extension in replacements}
    extensions[:] = [by_class.get(type(extension), extension) for extension in extensions]


def states_of(extensions: Sequence[Extension], trainer: Any) -> dict[str, Any]:
    """Return the states of extensions that have one, by their `state_name`."""
    states = {extension.state_name: extension.state_dict(trainer) for extension in extensions}
    return {name: state for name, state in states.items() if state is not None}


def load_states(extensions: Sequence[Extension], trainer: Any, states: Mapping[str, Any]) -> None:
    """Let each extension continue with its state, if there is one."""
    for extension in extensions:
        if extension.state_name in states:
            extension.load_state_dict(trainer, states[extension.state_name])


@contextmanager
def all_of(contexts: Sequence[ContextManager[None]]) -> Iterator[None]:
    """Context manager that enters others in order, and leaves them in the opposite order."""
    with ExitStack() as stack:
        for context in contexts:
            stack.enter_context(context)
        yield
