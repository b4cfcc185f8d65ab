"""Tests of tfutils/collection.py: backing up and restoring collections."""

from __future__ import annotations

import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.collection import backup_collection, freeze_collection, restore_collection


def test_backup_is_a_copy():
    """A backup does not change with the graph."""
    tf.add_to_collection("a", 1)
    backup = backup_collection(["a", "b"])
    tf.add_to_collection("a", 2)
    assert {"a": [1], "b": []} == backup


def test_backup_all():
    """Without keys, all collections are copied."""
    tf.add_to_collection("a", 1)
    tf.add_to_collection("b", 2)
    assert {"a": [1], "b": [2]} == backup_collection()


def test_backup_of_a_string():
    """A string instead of a list raises a TypeError."""
    with pytest.raises(TypeError, match=r"got the string 'a'. Write \['a'\]"):
        backup_collection("a")


def test_restore_leaves_others():
    """Collections that are not in the backup do not change."""
    backup = backup_collection(["a"])
    tf.add_to_collection("a", 1)
    tf.add_to_collection("b", 2)
    restore_collection(backup)
    assert ([], [2]) == (tf.get_collection("a"), tf.get_collection("b"))


def test_restore_in_place():
    """A collection is restored in place, in the same list object."""
    held = tf.get_collection_ref("a")
    backup = backup_collection(["a"])
    held.append(1)
    restore_collection(backup)
    assert [] == held


def test_freeze():
    """Members added in the block are removed after it."""
    with freeze_collection(["a"]):
        tf.add_to_collection("a", 1)
        assert [1] == tf.get_collection("a")
    assert [] == tf.get_collection("a")


def test_freeze_after_error():
    """Members added in the block are also removed after an error."""
    with pytest.raises(ZeroDivisionError), freeze_collection(["a"]):
        tf.add_to_collection("a", 1)
        1 / 0  # noqa: B018
    assert [] == tf.get_collection("a")
