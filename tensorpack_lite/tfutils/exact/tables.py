"""The contents of mutable tables, which no variable holds."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np

from ...compat import tfv1 as tf

MAX_TABLE_BYTES = 32 << 20

_KINDS = ("MutableHashTableV2", "MutableHashTableOfTensorsV2", "MutableDenseHashTableV2")

State = Dict[str, Any]


class SavedTables:
    """
    Contents of all mutable tables of the default graph, for a checkpoint. Create it before the graph is finalized.

    Attributes:
        names: the names of the operations of the tables.
    """

    def __init__(self) -> None:
        operations = tf.get_default_graph().get_operations()
        tables = [op for op in operations if op.type in _KINDS and op.get_attr("value_dtype") != tf.variant]
        self.names = [op.name for op in tables]
        with tf.name_scope("exact_tables"), tf.device("/cpu:0"):
            self._exports = {op.name: _export(op) for op in tables}
            self._imports = {op.name: _import(op) for op in tables}

    def state(self) -> tuple[Dict[str, State], list[str]]:
        """
        Return the contents. Needs a default session; call it between two runs.

        Returns:
            The contents by name, and the names of the tables for which `MAX_TABLE_BYTES` are not enough.
        """
        kept: Dict[str, State] = {}
        num_bytes = 0
        for name, (keys, values) in tf.get_default_session().run(self._exports).items():
            packed = {"keys": _pack(keys), "values": _pack(values)}
            size = sum(map(_size, packed.values()))
            if num_bytes + size <= MAX_TABLE_BYTES:
                kept[name] = packed
                num_bytes += size
        return kept, [name for name in self.names if name not in kept]

    def restore(self, state: Dict[str, State]) -> None:
        """Replace the contents of tables by those that `state` returned. Needs a default session."""
        session = tf.get_default_session()
        for name in set(self.names) & set(state):
            operation, keys, values = self._imports[name]
            feeds = {keys: _unpack(state[name]["keys"]), values: _unpack(state[name]["values"])}
            session.run(operation, feeds)


def _export(table: tf.Operation) -> Any:
    keys, values = table.get_attr("key_dtype"), table.get_attr("value_dtype")
    with tf.colocate_with(table, ignore_existing=True):
        return tuple(tf.raw_ops.LookupTableExportV2(table_handle=table.outputs[0], Tkeys=keys, Tvalues=values))


def _import(table: tf.Operation) -> tuple[tf.Operation, tf.Tensor, tf.Tensor]:
    keys = tf.placeholder(table.get_attr("key_dtype"))
    values = tf.placeholder(table.get_attr("value_dtype"))
    with tf.colocate_with(table, ignore_existing=True):
        handle = table.outputs[0]
        return tf.raw_ops.LookupTableImportV2(table_handle=handle, keys=keys, values=values), keys, values


def _pack(array: np.ndarray) -> Any:
    """Return an array that a state file can hold. One of strings becomes its bytes, their lengths and its shape."""
    if array.dtype != object:
        return array
    texts = [bytes(text) for text in array.ravel().tolist()]
    return {
        "bytes": np.frombuffer(b"".join(texts), np.uint8),
        "lengths": np.array([len(text) for text in texts], np.int64).reshape(array.shape),
    }


def _size(packed: Any) -> int:
    return sum(map(_size, packed.values())) if isinstance(packed, dict) else int(packed.nbytes)


def _unpack(packed: Any) -> np.ndarray:
    if not isinstance(packed, dict):
        return packed  # type: ignore[no-any-return]
    content, lengths = packed["bytes"].tobytes(), packed["lengths"]
    ends = np.cumsum(lengths.ravel()).tolist()
    texts = np.empty(lengths.size, object)
    texts[:] = [content[start:end] for start, end in zip([0, *ends], ends)]
    return texts.reshape(lengths.shape)
