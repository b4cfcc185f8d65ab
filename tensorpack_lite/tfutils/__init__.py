"""
Helpers on one graph: towers, variables, sessions, summaries, gradients. They know nothing of trainers.

**In:** a graph that is being built, and names from utils.
**Out:** towers and tensors by name, optimizers and gradient processors, checkpoints, sessions.
**Next:** loop, models and graph_builder, which are written with these.
"""

from . import gradproc, optimizer, sesscreate, sessinit, summary, tower, varreplace
from .argscope import (
    argscope,
    enable_argscope_for_function,
    enable_argscope_for_module,
    get_arg_scope,
)
from .common import (
    get_default_sess_config,
    get_global_step_value,
    get_global_step_var,
    get_tf_version_tuple,
)
from .environment import collect_env_info
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

__all__ = [
    "ChainInit",
    "DictRestore",
    "JustCurrentSession",
    "SaverRestore",
    "SaverRestoreRelaxed",
    "SessionInit",
    "SmartInit",
    "TowerContext",
    "argscope",
    "collect_env_info",
    "enable_argscope_for_function",
    "enable_argscope_for_module",
    "get_arg_scope",
    "get_current_tower_context",
    "get_default_sess_config",
    "get_global_step_value",
    "get_global_step_var",
    "get_model_loader",
    "get_tf_version_tuple",
    "gradproc",
    "optimizer",
    "sesscreate",
    "sessinit",
    "summary",
    "tower",
    "varreplace",
]
