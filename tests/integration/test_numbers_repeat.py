"""The same seed gives bitwise equal weights, with every input and every source of random numbers."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.callbacks.inference import ScalarStats
from tensorpack_lite.callbacks.inference_runner import InferenceRunner
from tensorpack_lite.callbacks.saver import ModelSaver
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.batch import BatchData
from tensorpack_lite.dataflow.mix import RandomMixData
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.dataflow.shuffle import LocallyShuffleData
from tensorpack_lite.graph_builder.model_desc import ModelDesc
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.input_source.queueing import BatchQueueInput, QueueInput
from tensorpack_lite.input_source.tfdata import TFDatasetInput
from tensorpack_lite.models.batch_norm import BatchNorm
from tensorpack_lite.models.fc import FullyConnected
from tensorpack_lite.models.regularize import Dropout
from tensorpack_lite.tfutils.summary import add_param_summary
from tensorpack_lite.tfutils.varmanip import load_checkpoint_vars
from tensorpack_lite.train.config import TrainConfig
from tensorpack_lite.train.interface import launch_train_with_config
from tensorpack_lite.train.simple import SimpleTrainer
from tensorpack_lite.utils.utils import fix_rng_seed

BATCH = 4
INPUTS = {
    "FeedInput": lambda samples: FeedInput(BatchData(samples, BATCH)),
    "QueueInput": lambda samples: QueueInput(BatchData(samples, BATCH)),
    "BatchQueueInput": lambda samples: BatchQueueInput(samples, BATCH),
    "TFDatasetInput": lambda samples: TFDatasetInput(BatchData(samples, BATCH)),
}


class Network(ModelDesc):
    """A model with random initial values, dropout, BatchNorm and slots."""

    def inputs(self):
        """Return batches of vectors and numbers."""
        return [tf.TensorSpec([BATCH, 6], tf.float32, "x"), tf.TensorSpec([BATCH], tf.float32, "y")]

    def build_graph(self, x, y):
        """Build two layers."""
        hidden = FullyConnected("fc0", x, 16, activation=tf.nn.relu)
        hidden = Dropout(BatchNorm("bn", hidden), rate=0.3)
        add_param_summary((".*/W", ["rms"]))
        return tf.reduce_mean((FullyConnected("fc1", hidden, 1)[:, 0] - y) ** 2, name="cost")

    def optimizer(self):
        """Return an optimizer with slots that read the weights."""
        return tf.train.MomentumOptimizer(0.05, 0.9)


def samples():
    """Return a DataFlow that is shuffled and mixed at random."""
    rng = np.random.RandomState(0)
    parts = [[[rng.rand(6).astype("float32"), np.float32(i)] for i in range(12)] for _ in range(2)]
    return LocallyShuffleData(RandomMixData([DataFromList(part) for part in parts]), 8)


def train(directory, source, seed):
    """Train two epochs and return the checkpoint as a dictionary."""
    fix_rng_seed(seed)
    with tf.Graph().as_default():
        tf.set_random_seed(seed)
        validation = DataFromList([[np.ones([BATCH, 6], "float32"), np.ones([BATCH], "float32")]] * 2)
        config = TrainConfig(
            model=Network(),
            data=INPUTS[source](samples()),
            callbacks=[
                ModelSaver(checkpoint_dir=directory),
                InferenceRunner(validation, ScalarStats("cost")),
            ],
            monitors=[],
            steps_per_epoch=10,
            max_epoch=2,
        )
        launch_train_with_config(config, SimpleTrainer())
    return load_checkpoint_vars(f"{directory}/model-20")


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.parametrize("source", INPUTS)
def test_same_seed_same_weights(tmp_path, source):
    """Two training runs with one seed have equal weights, and another seed has different ones."""
    first, again, other = [
        train(str(tmp_path / name), source, seed) for name, seed in [("first", 1), ("again", 1), ("other", 2)]
    ]
    assert set(first) == set(again)
    for name, value in first.items():
        np.testing.assert_array_equal(again[name], value, err_msg=name)
    assert not np.array_equal(first["fc0/W"], other["fc0/W"])
