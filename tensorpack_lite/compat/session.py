"""
Sessions, and their prepared steps, that raise an error in a fork instead of waiting forever.

TensorFlow's threads serve all sessions of a process. They do not exist in a process that was forked after the first session
was created, so a run of any session there never ends, also of a new one.
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from typing import Any, Callable

from tensorflow.core.protobuf.config_pb2 import CallableOptions
from tensorflow.python.client import session as client

from . import give_sessions_threads
from . import tfv1 as tf

_run_callable = client.tf_session.TF_SessionRunCallable


class Session(tf.Session):
    """A `tf.Session` whose runs raise RuntimeError in a fork. Its arguments are those of `tf.Session`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        give_sessions_threads()
        super().__init__(*args, **kwargs)
        _owner_of_sessions()

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Run as `tf.Session.run` does."""
        require_own_process("Session.run")
        return super().run(*args, **kwargs)

    def make_callable(self, *args: Any, **kwargs: Any) -> Callable[..., Any]:
        """Prepare a step as `tf.Session.make_callable` does."""
        require_own_process("Session.make_callable")
        call = super().make_callable(*args, **kwargs)

        def call_here(*values: Any, **options: Any) -> Any:
            require_own_process("Session.make_callable")
            return call(*values, **options)

        return call_here


class PreparedStep(tf.Session._Callable):
    """
    A step of a session as a function of the values of its feeds; TensorFlow's `_Callable`, which hangs in a fork and fails when
    Python exits. In a fork, calling it raises RuntimeError.

    Why private: see `private.make_callable`. Tried on 1.15, 2.15, 2.21.

    Args:
        session: an open `tf.Session`.
        options: fetches, targets, feeds and options of the step.
    """

    def __init__(self, session: tf.Session, options: CallableOptions) -> None:
        self._handle = None  # for __del__, if the next line raises
        require_own_process("Session")
        self._owner = _owner_of_sessions()
        session._extend_graph()  # with operations that were created since the last run
        super().__init__(session, options)

    def __call__(self, *args: Any, run_metadata: tf.RunMetadata | None = None) -> Any:
        """Run the step as TensorFlow's `__call__` does; without metadata, by the function that it calls: 0.5 of 17 us less."""
        if self._owner.is_fork:  # asking for the process in each step would take 2 of 20 us
            require_own_process("Session.run")
        if run_metadata is not None:
            return super().__call__(*args, run_metadata=run_metadata)
        return _run_callable(self._session._session, self._handle, args, None)

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # At the end of Python, the functions that the base class calls may be gone, and the memory is freed anyway.
        if not is_finalizing():
            super().__del__()


def require_own_process(who: str) -> None:
    """
    Require that sessions can run in this process.

    Args:
        who: the function that needs a session, for the message.

    Raises:
        RuntimeError: this process was forked from one that has had a session.
    """
    owner, process = _owner_of_sessions().process, os.getpid()
    if process != owner:
        raise RuntimeError(
            f"{who}: process {process} was forked from process {owner}, which has had a session. TensorFlow's threads do not "
            "exist in a fork, so a run would wait forever (expected a run in the process of the session). Use threads, such as "
            "MultiThreadMapData instead of MultiProcessMapData; or start the processes with "
            "multiprocessing.set_start_method('spawn'), and create the predictor or session in each of them."
        )


class _Owner:
    """
    The process that had the first session.

    Attributes:
        process: its number.
        is_fork: whether this process is a fork of it.
    """

    def __init__(self) -> None:
        self.process, self.is_fork = os.getpid(), False
        os.register_at_fork(after_in_child=self._note_fork)

    def _note_fork(self) -> None:
        self.is_fork = True


@lru_cache(maxsize=None)
def _owner_of_sessions() -> _Owner:
    """Return the process that has called this first. Forks inherit the answer."""
    return _Owner()
