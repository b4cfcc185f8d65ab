"""Backing up, restoring and watching the collections of the default graph."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterable, Iterator

from ..compat import tfv1 as tf
from ..utils import logger

__all__ = ["CollectionGuard", "backup_collection", "freeze_collection", "restore_collection"]


def backup_collection(keys: Iterable[str] | None = None) -> dict[str, list[Any]]:
    """
    Copy collections of the default graph.

    Args:
        keys: their names, a list, tuple or set; None means all.

    Returns:
        `{name: list of members}`.

    Raises:
        TypeError: `keys` is a single string.

    tensorpack: same.
    """
    if isinstance(keys, str):
        raise TypeError(
            f"backup_collection: takes a list of collection names, got the string '{keys}'. Write ['{keys}']."
        )
    graph = tf.get_default_graph()
    return {
        key: list(graph.get_collection(key))
        for key in (graph.get_all_collection_keys() if keys is None else keys)
    }


def restore_collection(backup: dict[str, list[Any]]) -> None:
    """
    Make the collections named in `backup` hold what they held; others are not touched.

    Args:
        backup: what `backup_collection` returned.

    tensorpack: same.
    """
    for key, members in backup.items():
        tf.get_collection_ref(key)[:] = members


@contextmanager
def freeze_collection(keys: Iterable[str]) -> Iterator[None]:
    """
    Undo at the end of the block, also after an error, whatever was added to these collections.

    Args:
        keys: names of collections, a list, tuple or set.

    tensorpack: same; there nothing is restored after an error.
    """
    backup = backup_collection(keys)
    try:
        yield
    finally:
        restore_collection(backup)


class CollectionGuard:
    """
    Watch what a tower adds to collections; take some of it back at the end.

    Args:
        name: the tower, for the log.
        freeze_keys: collections that `close` restores.
    """

    _NOT_LOGGED = frozenset(
        [
            tf.GraphKeys.TRAINABLE_VARIABLES,
            tf.GraphKeys.GLOBAL_VARIABLES,
            tf.GraphKeys.LOCAL_VARIABLES,
            tf.GraphKeys.QUEUE_RUNNERS,
            tf.GraphKeys.COND_CONTEXT,
            tf.GraphKeys.WHILE_CONTEXT,
            tf.GraphKeys.LOSSES,
        ]
    )

    def __init__(self, name: str, freeze_keys: Iterable[str]) -> None:
        self._name = name
        self._freeze_keys = list(freeze_keys)
        self._graph = tf.get_default_graph()
        self._before = backup_collection()
        self._added_at_close: dict[str, list[Any]] | None = None

    def added(self, key: str) -> list[Any]:
        """Give the members of a collection that came since the start, in order; up to `close` if that has happened."""
        if self._added_at_close is not None:
            return list(self._added_at_close.get(key, []))
        known = {id(member) for member in self._before.get(key, [])}
        return [member for member in self._graph.get_collection(key) if id(member) not in known]

    def close(self, log_changes: bool) -> None:
        """Remember what was added, log it if asked to, and restore the frozen collections."""
        added = {key: self.added(key) for key in self._graph.get_all_collection_keys()}
        self._added_at_close = added
        if log_changes:
            self._log(added)
        restore_collection({key: self._before.get(key, []) for key in self._freeze_keys})

    def _log(self, added: dict[str, list[Any]]) -> None:
        kept = {
            k: len(v)
            for k, v in added.items()
            if v and k not in self._NOT_LOGGED and k not in self._freeze_keys
        }
        if kept:
            changes = ", ".join(f"{key} (+{count})" for key, count in sorted(kept.items(), key=str))
            logger.info(f"Collections that grew in '{self._name}': {changes}")
