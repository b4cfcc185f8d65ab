"""Callback for TensorFlow's command-line debugger."""

from __future__ import annotations

from typing import Any, Callable

from ..compat import TF_VERSION
from ..compat.private import debug_hook_class
from ..loop.hooks import HookToCallback


class TFLocalCLIDebugHook(HookToCallback):
    """
    Callback that opens tfdbg, TensorFlow's debugger for the terminal, before and after every run of the session.

    Args:
        args, kwargs: arguments of `tfdbg.LocalCLIDebugHook`, e.g. `ui_type="readline"`, `dump_root="/tmp/dumps"`.

    Raises:
        ImportError: this TensorFlow has no tfdbg. All versions up to 2.21 have it.

    Runs at: setup_graph, before_train, every run, after_train.

    Example:
        >>> hook = TFLocalCLIDebugHook(ui_type="readline")
        >>> hook.add_tensor_filter("huge", lambda datum, tensor: abs(tensor).max() > 1e6)
    """

    _chief_only = True

    def __init__(self, *args: object, **kwargs: object) -> None:
        hook_class = debug_hook_class()
        if hook_class is None:
            raise ImportError(
                f"TFLocalCLIDebugHook: TensorFlow {TF_VERSION[0]}.{TF_VERSION[1]} has no tfdbg. Use TensorPrinter or "
                'TerminateOnNaN, or install an older version: pip install "tensorflow<2.22".'
            )
        super().__init__(hook_class(*args, **kwargs))

    def add_tensor_filter(self, name: str, tensor_filter: Callable[[Any, Any], bool]) -> None:
        """
        Register a condition for the debugger's command `run -f <name>`, which runs until the condition is met.

        Args:
            name: name of the condition.
            tensor_filter: function of a `DebugTensorDatum` and the tensor's value that returns whether to stop.
        """
        self._hook.add_tensor_filter(name, tensor_filter)
