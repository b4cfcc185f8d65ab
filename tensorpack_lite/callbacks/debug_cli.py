"""TensorFlow's debugger on the command line, as a callback."""

from __future__ import annotations

from typing import Any, Callable

from ..compat import TF_VERSION
from ..compat.private import debug_hook_class
from ..loop.hooks import HookToCallback

__all__ = ["TFLocalCLIDebugHook"]


class TFLocalCLIDebugHook(HookToCallback):
    """
    Stop before and after every run of the session in tfdbg, TensorFlow's debugger on the terminal.

    Args:
        args, kwargs: as for `tfdbg.LocalCLIDebugHook`, e.g. `ui_type="readline"`, `dump_root="/tmp/dumps"`.

    Raises:
        ImportError: this TensorFlow has no tfdbg.

    Runs at: setup_graph, before_train, every run, after_train.

    Example:
        >>> hook = TFLocalCLIDebugHook(ui_type="readline")
        >>> hook.add_tensor_filter("huge", lambda datum, tensor: abs(tensor).max() > 1e6)

    tensorpack: same; there it is found on TF 1 only. All TensorFlows up to 2.21 have it.
    """

    _chief_only = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        hook_class = debug_hook_class()
        if hook_class is None:
            raise ImportError(
                f"TFLocalCLIDebugHook: TensorFlow {TF_VERSION[0]}.{TF_VERSION[1]} has no tfdbg. Use TensorPrinter or "
                'TerminateOnNaN, or an older one: pip install "tensorflow<2.22".'
            )
        super().__init__(hook_class(*args, **kwargs))

    def add_tensor_filter(self, name: str, tensor_filter: Callable[[Any, Any], bool]) -> None:
        """
        Name a condition that the debugger's command `run -f <name>` waits for.

        Args:
            name: its name.
            tensor_filter: from a `DebugTensorDatum` and the tensor's value to whether to stop.
        """
        self._hook.add_tensor_filter(name, tensor_filter)
