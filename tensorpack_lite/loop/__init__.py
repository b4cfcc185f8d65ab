"""
What a loop and its guests agree on: the moments of a training, the counters, the session with hooks.

**In:** a session on a finished graph, from train.
**Out:** `Callback` and its moments, `TrainLoop`, `Outcome`, `StopTraining`, `HookedSession`.
**Next:** callbacks, the stock of guests; train, the loop that calls them.
"""

from .callback import Callback, CallbackFactory, ProxyCallback
from .group import Callbacks
from .hooks import CallbackToHook, HookToCallback
from .session import HookedSession
from .state import Outcome, StopTraining, TrainLoop

__all__ = [
    "Callback",
    "CallbackFactory",
    "CallbackToHook",
    "Callbacks",
    "HookToCallback",
    "HookedSession",
    "Outcome",
    "ProxyCallback",
    "StopTraining",
    "TrainLoop",
]
