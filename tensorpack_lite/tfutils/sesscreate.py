"""Where a trainer's session comes from: a new one, an existing one, or one that is changed on the way."""

from __future__ import annotations

import os
from typing import Any, Callable

from ..compat import ensure_graph_mode
from ..compat import tfv1 as tf
from ..utils import logger
from ..utils.errors import type_error
from .common import get_default_sess_config
from .dependency import operations_needed

__all__ = ["NewSessionCreator", "ReuseSessionCreator", "SessionCreatorAdapter"]

_BLOCKING_OPERATIONS = ("Dequeue", "Enqueue", "Unstage", "ZMQPull")

# Read by TensorFlow when it first opens a GPU. What is set already stays.
_GPU_ENVIRONMENT = {
    "TF_GPU_THREAD_MODE": "gpu_private",  # threads of its own launch kernels, so that input processing does not delay them
    "TF_GPU_THREAD_COUNT": "2",
    "TF_USE_CUDNN_BATCHNORM_SPATIAL_PERSISTENT": "0",  # the persistent mode is faster and may overflow
}


class NewSessionCreator(tf.train.SessionCreator):
    """
    Make a new session on the default graph, and initialize its variables and tables.

    Args:
        target: the TensorFlow server to connect to; "" means in this process.
        config: a `ConfigProto`; None means `get_default_sess_config()`.

    Attributes:
        target, config: as in effect.
        user_provided_config: whether `config` was given.

    Raises:
        TypeError: `config` is no ConfigProto.

    Note: it neither finalizes the graph nor starts queue runners.

    tensorpack: same; there the environment variables for GPUs are set on import, here before the session.
    """

    def __init__(self, target: str = "", config: Any = None) -> None:
        if config is not None and not isinstance(config, tf.ConfigProto):
            raise type_error("NewSessionCreator", "a tf.ConfigProto as config", config)
        self.target = target
        self.user_provided_config = config is not None
        self.config = get_default_sess_config() if config is None else config
        if self.user_provided_config:
            logger.warning(
                "A session config of your own is in use. GPU options in it (e.g. allow_growth) are ignored by TensorFlow if "
                "something has used a GPU in this process before."
            )

    def create_session(self) -> Any:
        """
        Make the session.

        Returns:
            A `tf.Session` with global variables, local variables and tables initialized, in this order.
        """
        ensure_graph_mode()
        _set_gpu_environment()
        sess = tf.Session(target=self.target, config=self.config)
        try:
            for initializer in (
                tf.global_variables_initializer(),
                tf.local_variables_initializer(),
                tf.tables_initializer(),
            ):
                _warn_if_blocking(initializer)
                sess.run(initializer)
        except BaseException:  # whatever it is, the session does not stay open
            sess.close()
            raise
        logger.info("Global and local variables initialized.")
        return sess


class ReuseSessionCreator(tf.train.SessionCreator):
    """
    Hand out a session that exists already.

    Args:
        sess: an open session whose variables are initialized.

    tensorpack: same.
    """

    def __init__(self, sess: Any) -> None:
        self.sess = sess

    def create_session(self) -> Any:
        """Give the session."""
        return self.sess


class SessionCreatorAdapter(tf.train.SessionCreator):
    """
    Pass the session of another creator through a function.

    Args:
        session_creator: the other creator.
        func: session -> session, e.g. one that wraps it in TensorFlow's command-line debugger.

    Raises:
        TypeError: of another kind.

    Example:
        >>> SessionCreatorAdapter(NewSessionCreator(), lambda sess: LocalCLIDebugWrapperSession(sess))

    tensorpack: same.
    """

    def __init__(self, session_creator: Any, func: Callable[[Any], Any]) -> None:
        if not isinstance(session_creator, tf.train.SessionCreator):
            raise type_error("SessionCreatorAdapter", "a tf.train.SessionCreator", session_creator)
        self._creator = session_creator
        self._func = func

    def create_session(self) -> Any:
        """Give what the function makes of the other creator's session."""
        return self._func(self._creator.create_session())


def _set_gpu_environment() -> None:
    missing = {name: value for name, value in _GPU_ENVIRONMENT.items() if name not in os.environ}
    if missing:
        os.environ.update(missing)
        logger.info("Environment: " + " ".join(f"{name}={value}" for name, value in missing.items()))


def _warn_if_blocking(initializer: Any) -> None:
    for op in operations_needed([initializer]):
        if (
            op.op_def is not None
            and op.op_def.is_stateful
            and any(word in op.type for word in _BLOCKING_OPERATIONS)
        ):
            logger.warning(
                f"The initializer of a variable depends on '{op.name}' ({op.type}), which waits for data that nobody feeds "
                "before training: this may hang. Don't compute initial values from the model's input."
            )
