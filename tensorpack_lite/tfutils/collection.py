"""Functions that back up, restore and watch the collections of the default graph."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterable, Iterator

from ..compat import tfv1 as tf
from ..utils import logger
from ..utils.naming import CONSUMED_KEY

__all__ = ["backup_collection", "freeze_collection", "restore_collection"]

_NOT_LOGGED = (
    tf.GraphKeys.TRAINABLE_VARIABLES, tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.LOCAL_VARIABLES,
    tf.GraphKeys.QUEUE_RUNNERS, tf.GraphKeys.TABLE_INITIALIZERS, tf.GraphKeys.COND_CONTEXT,
    tf.GraphKeys.WHILE_CONTEXT, tf.GraphKeys.LOSSES, CONSUMED_KEY,
)  # fmt: skip


def backup_collection(keys: Iterable[str] | None = None) -> dict[str, list[Any]]:
    """
    Copy collections of the default graph.

    Args:
        keys: a list, tuple or set of their names. None means all collections.

    Returns:
        `{name: list of members}`.

    Raises:
        TypeError: `keys` is a single string.
    """
    if isinstance(keys, str):
        raise TypeError(
            f"backup_collection: expected a list of collection names, got the string '{keys}'. Write ['{keys}']."
        )
    graph = tf.get_default_graph()
    keys = graph.get_all_collection_keys() if keys is None else keys
    return {key: graph.get_collection(key) for key in keys}


def inside_branch() -> bool:
    """
    Return whether new operations belong to a branch of a condition, the body of a loop, or another function of TensorFlow 2.

    They do not exist outside, so they must not become members of a collection.
    """
    graph = tf.get_default_graph()
    with tf.init_scope():
        return graph is not tf.get_default_graph()


def leave_branch_advice() -> str:
    """Return a sentence on how to use something outside of the condition or loop in which it is created."""
    return (
        "TensorFlow 2 builds the branches of tf.cond and tf.case and the bodies of tf.while_loop and tf.map_fn as separate "
        "functions. Return the tensor from there and use it outside, or call tf.disable_control_flow_v2() before the graph "
        "is built."
    )


def get_collection_to_run(key: str, who: str) -> list[Any]:
    """
    Return the members of a collection of the default graph, which are going to be run.

    Args:
        key: the name of the collection.
        who: the caller, for the error.

    Raises:
        RuntimeError: a member was created inside a condition or loop of TensorFlow 2, and cannot be run outside.
    """
    graph = tf.get_default_graph()
    members = tf.get_collection(key)
    for member in members:
        if getattr(member, "graph", graph) is not graph:
            raise RuntimeError(
                f"{who}: '{member.name}' in the collection '{key}' was created inside a condition or a loop, so it cannot run "
                f"outside. {leave_branch_advice()}"
            )
    return members


def restore_collection(backup: dict[str, list[object]]) -> None:
    """
    Restore the collections in a backup. Other collections are not changed.

    Args:
        backup: a result of `backup_collection`.
    """
    for key, members in backup.items():
        tf.get_collection_ref(key)[:] = members


@contextmanager
def freeze_collection(keys: Iterable[str]) -> Iterator[None]:
    """
    Context that restores collections at its end, also after an error.

    Args:
        keys: a list, tuple or set of names of collections.
    """
    backup = backup_collection(keys)
    try:
        yield
    finally:
        restore_collection(backup)


class CollectionGuard:
    """
    Record of what a tower adds to collections.

    Args:
        name: the tower, for the log.
        freeze_keys: names of collections that `close` restores.
    """

    def __init__(self, name: str, freeze_keys: Iterable[str]) -> None:
        self._name = name
        self._freeze_keys = list(freeze_keys)
        self._graph = tf.get_default_graph()
        self._before = backup_collection()
        self._added_at_close: dict[str, list[Any]] | None = None

    def added(self, key: str) -> list[Any]:
        """Return the members that were added to a collection, in order, until now or until `close`."""
        if self._added_at_close is not None:
            return list(self._added_at_close.get(key, []))
        known = {id(member) for member in self._before.get(key, [])}
        return [member for member in self._graph.get_collection(key) if id(member) not in known]

    def close(self, log_changes: bool) -> None:
        """Record what was added, optionally log it, and restore the frozen collections."""
        added = {key: self.added(key) for key in self._graph.get_all_collection_keys()}
        self._added_at_close = added
        if log_changes:
            not_logged = (*_NOT_LOGGED, *self._freeze_keys)
            changes = [f"{key} (+{len(new)})" for key, new in added.items() if new and key not in not_logged]
            if changes:
                logger.info("Collections that grew in '%s': %s", self._name, ", ".join(sorted(changes)))
        restore_collection({key: self._before.get(key, []) for key in self._freeze_keys})
