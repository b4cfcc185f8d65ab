"""LossSpike: the batch of a step whose loss is far above the usual is written."""

from __future__ import annotations

import errno
import os
from unittest.mock import Mock

import numpy as np
import pytest
from fakes.trainers import run

from tensorpack_lite import FeedInput, SimpleTrainer
from tensorpack_lite.callbacks import LossSpike
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow import DataFromList
from tensorpack_lite.diagnostics.nan import spike
from tensorpack_lite.utils import logger
from tensorpack_lite.utils.notes import read_notes


def train(values, callback):
    """Train with a loss that has these values."""
    trainer = SimpleTrainer()

    def model(x):
        w = tf.get_variable("w", initializer=1.0)
        return tf.reduce_mean(x + 0.0 * w, name="cost")

    trainer.setup_graph(
        [tf.TensorSpec([2], tf.float32, "x")],
        FeedInput(DataFromList([[np.full(2, value, "float32")] for value in values], shuffle=False)),
        model,
        lambda: tf.train.GradientDescentOptimizer(0.1),
    )
    run(trainer, [callback], steps=len(values), epochs=1)


def test_spikes(tmp_path):
    """Losses above the limit are written, at most as many as allowed; early ones and others are not."""
    log = str(tmp_path / "log")
    logger.set_logger_dir(log, "d")
    values = np.ones(160)
    values[[20, 119, 130, 140, 150]] = (
        100,
        399,
        501,
        502,
        503,
    )  # the limit is 5 x the quantile of 19 x 1 and 100

    train(values, LossSpike(max_spikes=2))

    limit = 5 * np.percentile(values[:100], 99.9)
    assert 399 < limit < 501
    assert ["spike-131", "spike-141"] == sorted(name for name in os.listdir(log) if name.startswith("spike"))
    with np.load(os.path.join(log, "spike-131", "batch.npz")) as batch:
        np.testing.assert_array_equal([501, 501], batch["tower0/x"])
    notes = read_notes(log)
    assert [("spike", 131, [131]), ("spike", 141, [141])] == [(n["kind"], n["step"], n["datapoints"]) for n in notes]
    with open(os.path.join(log, "spike-131", "report.txt"), encoding="utf-8") as file:
        report = file.read()
    assert "cost = 501 at global_step=131" in report
    assert "tower 0, sample 1: x is 501" in report
    logger._directory.close()


def test_a_full_disk(tmp_path, monkeypatch):
    """A batch that cannot be written does not end training; the note has the error."""
    log = str(tmp_path / "log")
    logger.set_logger_dir(log, "d")
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(spike, "write_batches", Mock(side_effect=full))
    train([1.0] * 101 + [9.0] * 50, LossSpike(max_spikes=1))
    logger._directory.close()
    (note,) = read_notes(log)
    assert note["text"].endswith("The batch cannot be written: [Errno 28] No space left on device")


def test_wrong_arguments():
    """A factor of 1 and a missing loss are errors."""
    with pytest.raises(ValueError, match="factor is too small"):
        LossSpike(factor=1)
    with pytest.raises(KeyError):
        train([1.0], LossSpike(name="los"))
