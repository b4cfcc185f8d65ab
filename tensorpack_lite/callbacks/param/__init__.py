"""
Hyper-parameters that change during training.

**In:** a variable of the graph or an attribute of an object, and a rule.
**Out:** the parameter's value, set before training and at triggers.
**Next:** the user.
"""

from __future__ import annotations

from .finder import LearningRateFinder
from .hyperparam import GraphVarParam, HyperParam, ObjAttrParam
from .schedule import ScheduledHyperParamSetter
from .setter import HumanHyperParamSetter, HyperParamSetter, HyperParamSetterWithFunc, PlannedHyperParamSetter
from .statistic import StatMonitorParamSetter

__all__ = [
    "GraphVarParam", "HumanHyperParamSetter", "HyperParam", "HyperParamSetter", "HyperParamSetterWithFunc",
    "LearningRateFinder", "ObjAttrParam", "PlannedHyperParamSetter", "ScheduledHyperParamSetter",
    "StatMonitorParamSetter",
]  # fmt: skip
