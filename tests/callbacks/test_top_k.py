"""TopKSaver: the k best checkpoints, each complete."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from fakes.recording import PutValues
from fakes.trainers import CountingTrainer, run

from tensorpack_lite.callbacks.saver import ModelSaver
from tensorpack_lite.callbacks.top_k import TopKSaver
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.sessinit import DictRestore


def train(directory, values, step=0, **arguments):
    """One step an epoch, one epoch a value; returns the callback."""
    top = TopKSaver("val/error", checkpoint_dir=str(directory), **arguments)
    init = DictRestore({"global_step": np.int64(step), "x": np.float32(step)})
    with tf.Graph().as_default():
        callbacks = [PutValues("val/error", values), ModelSaver(checkpoint_dir=str(directory)), top]
        run(CountingTrainer(), callbacks, (), 1, len(values), 1, init)
    return top


def copies(directory):
    """The steps of the copies that are there, by their indices."""
    return sorted(
        int(f[len("top-val-error-") : -len(".index")])
        for f in os.listdir(directory)
        if f.startswith("top-") and f.endswith(".index")
    )


@pytest.mark.parametrize(
    ("values", "arguments", "kept"),
    [
        ([5, 2, 9, 1, 4], {"k": 2, "mode": "min"}, [(4, 1.0), (2, 2.0)]),
        ([5, 2, 9, 1, 4], {"k": 2, "mode": "max"}, [(3, 9.0), (1, 5.0)]),
        ([float("nan"), 3], {"k": 2}, [(2, 3.0)]),
        ([3, 3], {"k": 1}, [(1, 3.0)]),  # a value equal to the worst kept one does not replace it
    ],
)
def test_the_best_are_kept(tmp_path, values, arguments, kept):
    """The smallest or largest values are kept, the best first, but never NaN; the other files are removed."""
    top = train(tmp_path, values, **arguments)

    assert (kept, kept[0]) == (top.kept, top.best)
    assert sorted(step for step, _ in kept) == copies(tmp_path)
    assert not [f for f in os.listdir(tmp_path) if f.startswith("top-val-error-5.")]


def test_the_values(tmp_path):
    """A copy holds the variables of its step."""
    train(tmp_path, [5, 2, 9], k=1)

    reader = tf.train.NewCheckpointReader(str(tmp_path / "top-val-error-2"))
    assert (2.0, 2) == (reader.get_tensor("x"), reader.get_tensor("global_step"))


def test_the_record(tmp_path):
    """The JSON record lists the copies."""
    train(tmp_path, [5, 2, 9], k=2)

    record = json.loads((tmp_path / "top-val-error.json").read_text())
    assert {
        "stat": "val/error",
        "kept": [{"step": 2, "value": 2.0}, {"step": 1, "value": 5.0}],
        "unlisted": [],
    } == record


def test_a_training_that_resumes_goes_on_from_them(tmp_path):
    """A resumed training continues with the earlier copies whose files still exist."""
    train(tmp_path, [5, 2, 9], k=3)
    for file in os.listdir(tmp_path):
        if file.startswith("top-val-error-1."):
            (tmp_path / file).unlink()

    assert [(2, 2.0), (4, 3.0), (3, 9.0)] == train(tmp_path, [3], step=3, k=3).kept
    assert [(2, 2.0), (4, 1.5)] == sorted(train(tmp_path, [1.5], step=3, k=2).kept)  # the same step again


def test_a_training_that_starts_anew_does_not(tmp_path, log_lines):
    """A training that starts at step 0 ignores an earlier record."""
    train(tmp_path, [1], k=3)

    assert [(1, 7.0)] == train(tmp_path, [7], k=3).kept
    assert ["TopKSaver: training starts at step 0, the copies of an earlier training are ignored."] == [
        line for line in log_lines if "starts at step 0" in line
    ]


def test_unlisted_copies_are_removed(tmp_path):
    """Copies that the record lists as `unlisted` are removed at the next start; others stay."""
    for step in (0, 3):
        train(tmp_path, [5, 2, 9], k=3)
        record = json.loads((tmp_path / "top-val-error.json").read_text())
        record.update(kept=record["kept"][:1], unlisted=[1, 2])  # 2 is kept: a list of both keeps it
        (tmp_path / "top-val-error.json").write_text(json.dumps(record))
        train(tmp_path, [], step=step, k=3)

        assert [2, 3] == copies(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b'{"kept": 1}',
        b'{"kept": [{"step": 1}]}',
        b"[]",
        b'{"kept": [{"step": Infinity, "value": 1}]}',
        b'{"kept": "\xff"}',
        b"[" * 100000,
    ],
    ids=range(7),
)
def test_a_broken_record_is_not_used(tmp_path, log_lines, content):
    """A damaged record logs one warning, and training continues."""
    (tmp_path / "top-val-error.json").write_bytes(content)

    assert [(4, 7.0)] == train(tmp_path, [7], step=3).kept
    assert 1 == len([line for line in log_lines if "cannot be read" in line])


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"k": 0}, "k is too small .expected at least 1, got 0"),
        ({"mode": "auto"}, "mode is unknown .expected 'min' or 'max', got 'auto'"),
        ({"filename": "a/b"}, r"filename is a path \(expected a name inside checkpoint_dir, got 'a/b'\)"),
    ],
)
def test_wrong_arguments(arguments, match):
    """Each wrong argument raises an error that names what is expected."""
    with pytest.raises(ValueError, match=match):
        TopKSaver("error", **arguments)
