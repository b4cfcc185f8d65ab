"""Session creators: for a new session, an existing one, or one that a function wraps."""

from __future__ import annotations

import os
import re
from typing import Callable

from ..compat import ensure_graph_mode
from ..compat import tfv1 as tf
from ..compat.session import Session
from ..utils import logger
from ..utils.checks import check_type
from ..utils.gpu import get_num_gpu
from .common import get_default_sess_config
from .dependency import operations_needed

__all__ = ["NewSessionCreator", "ReuseSessionCreator", "SessionCreatorAdapter"]

_BLOCKING = re.compile("Dequeue|Enqueue|Unstage|StagePeek|ZMQPull")

# TensorFlow reads these variables when it first opens a GPU. Variables that are already set are not changed.
_GPU_ENVIRONMENT = {
    "TF_GPU_THREAD_MODE": "gpu_private",  # dedicated threads launch kernels, so that input processing does not delay them
    "TF_GPU_THREAD_COUNT": "2",
    "TF_USE_CUDNN_BATCHNORM_SPATIAL_PERSISTENT": "0",  # the persistent mode is faster, but may overflow
}


class NewSessionCreator(tf.train.SessionCreator):
    """
    Creator of a new session on the default graph, with initialized variables and tables.

    Args:
        target: the TensorFlow server to connect to. "" means this process.
        config: a `ConfigProto`. None means `get_default_sess_config()`.

    Attributes:
        target, config: the values in effect.
        user_provided_config: whether `config` was given.

    Raises:
        TypeError: `config` is not a ConfigProto.

    Note: it neither finalizes the graph nor starts queue runners.

    Difference from tensorpack: tensorpack 0.11 sets environment variables for GPUs when it is imported. This
    library sets them before it creates the first session, if there is a GPU.
    """

    chosen_threads = 1  # for each operation; what the config says unless the user changes it

    def __init__(self, target: str = "", config: tf.ConfigProto | None = None) -> None:
        self.target = target
        self.user_provided_config = config is not None
        self.config = get_default_sess_config() if config is None else config
        if self.user_provided_config:
            check_type("NewSessionCreator: config", config, tf.ConfigProto, "a tf.ConfigProto")
            logger.warning(
                "Using a custom session config. TensorFlow ignores its GPU options (e.g. allow_growth) if this process has "
                "already used a GPU."
            )

    def _set_threads(self, number: int) -> None:
        self.chosen_threads = self.config.intra_op_parallelism_threads = number

    def create_session(self) -> tf.Session:
        """
        Create the session.

        Returns:
            A `tf.Session` with global variables, local variables and tables initialized, in this order.
        """
        ensure_graph_mode()
        _set_environment()
        sess = Session(target=self.target, config=self.config)
        try:
            for initializer in (
                tf.global_variables_initializer(),
                tf.local_variables_initializer(),
                tf.tables_initializer(),
            ):
                _warn_if_blocking(initializer)
                sess.run(initializer)
        except BaseException:  # also after an interrupt
            sess.close()
            raise
        logger.info("Global and local variables initialized.")
        return sess


class ReuseSessionCreator(tf.train.SessionCreator):
    """
    Creator that returns an existing session.

    Args:
        sess: an open session whose variables are initialized.
    """

    def __init__(self, sess: tf.Session) -> None:
        self.sess = sess

    def create_session(self) -> tf.Session:
        """Return the session."""
        return self.sess


class SessionCreatorAdapter(tf.train.SessionCreator):
    """
    Creator that passes the session of another creator through a function.

    Args:
        session_creator: the other creator.
        func: session -> session, e.g. a function that wraps the session in TensorFlow's command-line debugger.

    Raises:
        TypeError: `session_creator` is not a session creator.

    Example:
        >>> SessionCreatorAdapter(NewSessionCreator(), lambda sess: LocalCLIDebugWrapperSession(sess))
    """

    def __init__(self, session_creator: tf.train.SessionCreator, func: Callable[[tf.Session], tf.Session]) -> None:
        self._creator = check_type("SessionCreatorAdapter: session_creator", session_creator, tf.train.SessionCreator)
        self._func = func

    def create_session(self) -> tf.Session:
        """Create the other creator's session, and return the function's result for it."""
        return self._func(self._creator.create_session())


def _set_environment() -> None:
    if get_num_gpu() == 0:
        return
    missing = {name: value for name, value in _GPU_ENVIRONMENT.items() if name not in os.environ}
    if missing:
        os.environ.update(missing)
        logger.info("Set environment variables: " + " ".join(f"{k}={v}" for k, v in missing.items()))


def _warn_if_blocking(initializer: tf.Operation) -> None:
    for op in operations_needed([initializer]):
        if _BLOCKING.search(op.type) and op.op_def is not None and op.op_def.is_stateful:
            logger.warning(
                f"The initializer of a variable depends on '{op.name}' ({op.type}), which waits for data. The data starts only "
                "after the initialization, so this may hang. Do not compute initial values from the model's input."
            )
