"""Tests of tfutils/collection.py: backing up and restoring collections."""

from __future__ import annotations

import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.collection import backup_collection, freeze_collection, restore_collection


def test_backup():
    """A backup of some or all collections does not change with the graph."""
    tf.add_to_collection("a", 1)
    backup = backup_collection(["a", "b"])
    tf.add_to_collection("a", 2)
    tf.add_to_collection("b", 3)
    assert {"a": [1], "b": []} == backup
    assert {"a": [1, 2], "b": [3]} == backup_collection()


def test_restore():
    """A collection is restored in place, in the same list object. Collections that are not in the backup do not change."""
    held = tf.get_collection_ref("a")
    backup = backup_collection(["a"])
    held.append(1)
    tf.add_to_collection("b", 2)
    restore_collection(backup)
    assert ([], [], [2]) == (held, tf.get_collection("a"), tf.get_collection("b"))


def test_freeze_after_error():
    """Members added in the block are removed after it, also after an error."""
    with freeze_collection(["a"]):
        tf.add_to_collection("a", 1)
        assert [1] == tf.get_collection("a")
    assert [] == tf.get_collection("a")
    with pytest.raises(ZeroDivisionError), freeze_collection(["a"]):
        tf.add_to_collection("a", 1)
        1 / 0  # noqa: B018
    assert [] == tf.get_collection("a")
