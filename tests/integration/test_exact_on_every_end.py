"""
A training with exact resume continues on another TensorFlow with the same datapoints and random numbers.

The files in tests/data/exact were written by running this file as a script with each TensorFlow:
    PYTHONPATH=. python tests/integration/test_exact_on_every_end.py
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from tensorpack_lite.callbacks.graph import ProcessTensors
from tensorpack_lite.callbacks.saver import ModelSaver
from tensorpack_lite.compat import TF_VERSION, ensure_graph_mode
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.base import RNGDataFlow
from tensorpack_lite.dataflow.batch import BatchData
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.dataflow.shuffle import LocallyShuffleData
from tensorpack_lite.graph_builder.model_desc import ModelDesc
from tensorpack_lite.input_source.queueing import QueueInput
from tensorpack_lite.models.fc import FullyConnected
from tensorpack_lite.train.config import AutoResumeTrainConfig
from tensorpack_lite.train.interface import launch_train_with_config
from tensorpack_lite.train.simple import SimpleTrainer
from tensorpack_lite.utils import logger

DATA = Path(__file__).resolve().parents[1] / "data" / "exact"
ENDS = ["tf1.15", "tf2.21"]
STEPS = 6


class Noise(RNGDataFlow):
    """Adds random numbers to datapoints."""

    def __init__(self, ds):
        self.ds = ds

    def reset_state(self):
        super().reset_state()
        self.ds.reset_state()

    def __iter__(self):
        for (number,) in self.ds:
            yield [np.float32([number, self.rng.rand()])]


class Model(ModelDesc):
    """A linear layer."""

    def inputs(self):
        return [tf.TensorSpec([4, 2], tf.float32, "x")]

    def build_graph(self, x):
        tf.identity(x, name="batch")
        return tf.reduce_mean(FullyConnected("fc", x, 1, use_bias=False) ** 2, name="cost")

    def optimizer(self):
        return tf.train.MomentumOptimizer(1e-4, 0.9)


def train(directory, max_epoch):
    """Train, and return the batches."""
    logger.set_logger_dir(str(directory), action="k")
    batches = []
    flow = LocallyShuffleData(Noise(DataFromList([[n] for n in range(25)], shuffle=True)), 10)
    with tf.Graph().as_default():
        config = AutoResumeTrainConfig(
            model=Model(),
            data=QueueInput(BatchData(flow, 4)),
            callbacks=[ProcessTensors(["batch:0"], batches.append), ModelSaver()],
            extra_callbacks=[],
            monitors=[],
            steps_per_epoch=STEPS,
            max_epoch=max_epoch,
            exact="require",
        )
        launch_train_with_config(config, SimpleTrainer())
    return np.array(batches)


@pytest.mark.parametrize("end", ENDS)
def test_checkpoint_of_every_end(tmp_path, end, log_lines):
    """The batches after the checkpoint are those of the training that went on, and the witnesses say so."""
    for path in (DATA / end).iterdir():
        shutil.copy(str(path), str(tmp_path))
    expected = np.load(str(DATA / end / "batches.npy"))
    assert expected.tobytes() == train(tmp_path, 3).tobytes()
    assert [line for line in log_lines if line.endswith("datapoints are the ones that were due.")]


def write() -> None:
    """Write the checkpoint of the first epoch, and the batches of two more, on the current TensorFlow."""
    ensure_graph_mode()
    directory = DATA / "tf{}.{}".format(*TF_VERSION[:2])
    shutil.rmtree(str(directory), ignore_errors=True)
    directory.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        batches = train(scratch, 3)
        for path in [Path(scratch, "checkpoint"), *Path(scratch).glob(f"model-{STEPS}.*")]:
            shutil.copy(str(path), str(directory))
        logger.reset()
    (directory / "checkpoint").write_text(
        f'model_checkpoint_path: "model-{STEPS}"\nall_model_checkpoint_paths: "model-{STEPS}"\n'
    )
    np.save(str(directory / "batches.npy"), batches[STEPS:])


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    write()
