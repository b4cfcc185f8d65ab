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

A new moment also needs its call in train/trainer.py and a row in docs/callbacks.md.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, ContextManager, Iterator, Mapping, Sequence

from ..compat import tfv1 as tf
from ..tfutils.sessinit import SessionInit
from ..utils.errors import describe_got
from .callback import Call, Callback
from .group import Callbacks
from .trainer import LoopTrainer

if TYPE_CHECKING:
    from typing import Protocol
else:
    Protocol = object  # Python 3.7 has none

_TAKEN = ("callbacks", "place", "ranks")  # keys of the state in checkpoints


class ExtendedTrainer(LoopTrainer, Protocol):
    """
    Interface of a `Trainer` for extensions: that for callbacks, and more.

    Attributes:
        extensions: the parts of the training that act around it, in order. Change the list before training.
    """

    extensions: list[Extension]

    @property
    def callbacks(self) -> Callbacks:
        """All callbacks, as one."""

    @property
    def current_call(self) -> Call | None:
        """The call of a callback that is in progress; None if there is none. Any thread may read it."""

    @property
    def is_in_run(self) -> bool:
        """Whether the hooked session is running. Any thread may read it."""

    def register_callback(self, cb: Callback | Sequence[Callback]) -> bool | None:
        """Add callbacks that are called before those of the user; see `Trainer.register_callback`."""

    def initialize(self, session_creator: tf.train.SessionCreator, session_init: SessionInit) -> None:
        """Create the session; see `Trainer.initialize`."""

    def step_to_resume_at(self, session_init: object) -> int:
        """Return the `global_step` at which a training with these initial values continues; 0 from the beginning."""


class Extension:
    """
    Base class of extensions. Its methods do nothing; override those that you need.

    A callback is called around steps and epochs. An extension sees the training from outside: before the callbacks are
    set up, before there is a session, and around everything. Add it to `trainer.extensions` before training. Each method gets
    the trainer; `ExtendedTrainer` lists what it may use. An error in a method ends training.

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

    def around_training(self, trainer: ExtendedTrainer) -> ContextManager[None]:
        """Return a context manager around `Trainer.train`. It is left when the session is closed, or after any error."""
        return nullcontext()

    def before_setup(self, trainer: ExtendedTrainer) -> None:
        """Act when the model's graph is complete and the callbacks are not set up. It may still register callbacks."""

    def after_setup(self, trainer: ExtendedTrainer) -> None:
        """Act when the graph is complete and there is no session. This is the last moment that may add operations."""

    def after_initialize(self, trainer: ExtendedTrainer) -> None:
        """Act when `trainer.sess` exists, with initialized or restored variables, and the graph is finalized."""

    def around_loop(self, trainer: ExtendedTrainer) -> ContextManager[None]:
        """Return a context manager around all epochs, inside which `trainer.sess` is the default session."""
        return nullcontext()

    def before_epochs(self, trainer: ExtendedTrainer) -> None:
        """Act after `before_train` of all callbacks, when the counters of a resumed training are set."""

    def state_dict(self, trainer: ExtendedTrainer) -> Any:
        """Return what checkpoints keep for `load_state_dict`: JSON values and NumPy arrays; None keeps nothing."""
        return None

    def load_state_dict(self, trainer: ExtendedTrainer, state: Any) -> None:
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
            raise TypeError(f"Trainer.extensions: expected a list of Extension, got {describe_got(one)} in it.")
        if one.state_name in names:
            raise ValueError(
                f"Trainer.extensions: the state_name '{one.state_name}' of {type(one).__name__} is taken. Give it another one."
            )
        names.append(one.state_name)


def replace_extensions(extensions: list[Extension], replacements: Sequence[Extension]) -> None:
    """Put each replacement in the place of the extension of the same class. One whose class is not in the list is skipped."""
    by_class = {type(extension): extension for extension in replacements}
    extensions[:] = [by_class.get(type(extension), extension) for extension in extensions]


def states_of(extensions: Sequence[Extension], trainer: ExtendedTrainer) -> dict[str, Any]:
    """Return the states of extensions that have one, by their `state_name`."""
    states = {extension.state_name: extension.state_dict(trainer) for extension in extensions}
    return {name: state for name, state in states.items() if state is not None}


def load_states(extensions: Sequence[Extension], trainer: ExtendedTrainer, states: Mapping[str, Any]) -> None:
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
