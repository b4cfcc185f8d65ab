"""Variables of a graph and their keys in a checkpoint, and messages about those that only one of them has."""

from __future__ import annotations

import re
from typing import Any, Iterable, NamedTuple, Sequence

from ..compat import tfv1 as tf
from ..utils import logger
from .checkpoint_reader import CheckpointReader
from .common import get_op_tensor_name
from .partitions import cut_part, name_in_files, names_in_files, whole_shape
from .varmanip import SessionUpdate, is_training_name


class Match(NamedTuple):
    """A variable of the graph, and its key in a checkpoint, which may have the whole of which the variable is a part."""

    key: str
    variable: Any
    is_part: bool

    @property
    def shape(self) -> tf.TensorShape:
        """The shape that the array in the checkpoint must have."""
        return whole_shape(self.variable) if self.is_part else tf.TensorShape(self.variable.shape)

    def is_like(self, checkpoint: CheckpointReader) -> bool:
        """Return whether a `tf.train.Saver` would have saved the variable so."""
        is_saved_so = self.is_part or len(names_in_files(self.variable)) == 1
        return is_saved_so and bool(self.variable.dtype.base_dtype == checkpoint.dtypes[self.key])


def by_key(matched: Sequence[Match]) -> dict[str, Any]:
    """Return what to give a `tf.train.Saver`: a variable, or a list of parts, for each key."""
    found: dict[str, Any] = {}
    for match in matched:
        if match.is_part:
            found.setdefault(match.key, []).append(match.variable)
        else:
            found[match.key] = match.variable
    return found


def set_from_checkpoint(
    sess: tf.Session, checkpoint: CheckpointReader, matched: Sequence[Match], ignore_mismatch: bool = False
) -> None:
    """Set variables to the values in a checkpoint, which are converted."""
    arrays = {key: checkpoint.read(key) for key in {match.key for match in matched}}
    values = {
        match.variable.name: cut_part(arrays[match.key], match.variable, ignore_mismatch)
        if match.is_part
        else arrays[match.key]
        for match in matched
    }
    update = SessionUpdate(sess, [match.variable for match in matched], ignore_mismatch)
    update.update({name: value for name, value in values.items() if value is not None})


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
    return f"Does the model use other names{'' if prefix is None else f', or another prefix than {prefix!r}'}?"
