"""
Helpers for one graph: towers, variables, sessions, summaries and gradients. They do not depend on trainers.

**In:** a graph under construction, and names from utils.
**Out:** towers and tensors by name, optimizers and gradient processors, checkpoints, sessions.
**Next:** loop, models and graph_builder, which use these helpers.
"""

from typing import TYPE_CHECKING

from ..utils.missing_names import explain_missing_names
from . import gradproc, optimizer, sesscreate, sessinit, summary, tower, varreplace
from .argscope import argscope, enable_argscope_for_function, enable_argscope_for_module, get_arg_scope
from .common import get_default_sess_config, get_global_step_value, get_global_step_var, get_tf_version_tuple
from .environment import collect_env_info
from .precision import precision_scope, with_precision
from .recompute import recompute_grad
from .sessinit import (
    ChainInit,
    DictRestore,
    JustCurrentSession,
    SaverRestore,
    SaverRestoreRelaxed,
    SessionInit,
    SmartInit,
    get_model_loader,
)
from .tower.context import TowerContext, get_current_tower_context
from .xla import with_xla

__all__ = [
    "ChainInit", "DictRestore", "JustCurrentSession", "SaverRestore", "SaverRestoreRelaxed", "SessionInit",
    "SmartInit", "TowerContext", "argscope", "collect_env_info", "enable_argscope_for_function",
    "enable_argscope_for_module", "get_arg_scope", "get_current_tower_context", "get_default_sess_config",
    "get_global_step_value", "get_global_step_var", "get_model_loader", "get_tf_version_tuple", "gradproc",
    "optimizer", "precision_scope", "recompute_grad", "sesscreate", "sessinit", "summary", "tower",
    "varreplace", "with_precision", "with_xla",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = explain_missing_names(__name__)
