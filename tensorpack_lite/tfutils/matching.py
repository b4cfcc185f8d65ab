"""Variables of a graph and their keys in a checkpoint."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

from ..compat import tfv1 as tf
from .checkpoint_reader import CheckpointReader
from .partitions import cut_part, names_in_files, whole_shape
from .varmanip import SessionUpdate


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
