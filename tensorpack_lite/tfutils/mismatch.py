"""Variables that a graph and a file do not have in common: other names for them, and messages."""

from __future__ import annotations

import re
from typing import Iterable

from ..compat import tfv1 as tf
from ..utils import logger
from .checkpoint_reader import CheckpointReader
from .common import get_op_tensor_name
from .partitions import name_in_files
from .varmanip import is_training_name


def names_with_other_trainers(name: str) -> list[str]:
    """Return the names, with `:0`, of a power of Adam with other trainers; an empty list for other variables."""
    found = re.fullmatch(r"((?:async_)?apply_gradients/)?(.*_power(?:_\d+)?)(?::0)?", name)
    if found is None:
        return []
    scopes = ("", "apply_gradients/", "async_apply_gradients/")
    return [f"{scope}{found.group(2)}:0" for scope in scopes if scope != (found.group(1) or "")]


def op_names(names: Iterable[str]) -> list[str]:
    """Return the names without `:0`, sorted."""
    return sorted(get_op_tensor_name(name)[0] for name in names)


def warn_of_mismatch(where: str, not_where: str, names: Iterable[str]) -> None:
    """Log the names of variables that only one side has, except those that matter only for training."""
    missing = [name for name in op_names(names) if not is_training_name(name)]
    if missing:
        logger.warning(
            f"The following variables are in the {where}, but not found in the {not_where}: {', '.join(missing)}"
        )


def why_none_match(checkpoint: CheckpointReader, prefix: str | None) -> str:
    """Return a sentence for an error: why the graph may have no variable of the checkpoint."""
    for variable in tf.global_variables():
        own_name = name_in_files(variable)
        name = re.sub(r"_\d+(?=/)", "", own_name)
        if name != own_name and checkpoint.key_of(name) is not None:
            return (
                f"The checkpoint has '{name}', the graph '{own_name}': layers without a name are numbered, and Keras "
                "numbers those of all models in a process. Name the layers."
            )
    return (
        f"Does the model use other names{'' if prefix is None else f', or another prefix than {prefix!r}'}?"
    )
