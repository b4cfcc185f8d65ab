"""Address: `Trainer` lives in `trainer`, StopTraining in `loop/state.py`."""

from ..loop.state import StopTraining
from .trainer import Trainer

__all__ = ["StopTraining", "Trainer"]
