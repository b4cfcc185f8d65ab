"""
The interfaces between the training loop and its callbacks: moments, counters, the session with hooks.

The loop itself is `Trainer.main_loop`, in train.

**In:** a session on a finished graph, from train.
**Out:** `Callback` and its moments, `LoopTrainer`, `TrainLoop`, `Outcome`, `StopTraining`, `Preempted`,
`HookedSession`. **Next:** callbacks, for the library's callbacks; train, for the loop that calls them.
"""

from .callback import Call, Callback
from .callback_factory import CallbackFactory
from .extension import ExtendedTrainer, Extension
from .group import Callbacks
from .hooks import CallbackToHook, HookToCallback
from .proxy_callback import ProxyCallback
from .session import HookedSession
from .signals.end_signals import Preempted
from .state import Outcome, StopTraining, TrainLoop
from .trainer import LoopMonitors, LoopTrainer, TrainArguments

__all__ = [
    "Call",
    "Callback",
    "CallbackFactory",
    "CallbackToHook",
    "Callbacks",
    "ExtendedTrainer",
    "Extension",
    "HookToCallback",
    "HookedSession",
    "LoopMonitors",
    "LoopTrainer",
    "Outcome",
    "Preempted",
    "ProxyCallback",
    "StopTraining",
    "TrainArguments",
    "TrainLoop",
]
