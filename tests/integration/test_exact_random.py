"""Dropout masks are equal in an uninterrupted and a resumed training (contract of exact resume, test 12)."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.callbacks.graph import ProcessTensors
from tensorpack_lite.callbacks.saver import ModelSaver
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.dataflow.repeat import RepeatedData
from tensorpack_lite.graph_builder.model_desc import ModelDesc
from tensorpack_lite.input_source.queueing import QueueInput
from tensorpack_lite.input_source.staging import StagingInput
from tensorpack_lite.models.fc import FullyConnected
from tensorpack_lite.models.regularize import Dropout
from tensorpack_lite.tfutils import random
from tensorpack_lite.tfutils.varmanip import load_checkpoint_vars
from tensorpack_lite.train.config import AutoResumeTrainConfig
from tensorpack_lite.train.interface import launch_train_with_config
from tensorpack_lite.train.multi_gpu import SyncMultiGPUTrainerReplicated
from tensorpack_lite.train.simple import SimpleTrainer
from tensorpack_lite.utils import logger


class Network(ModelDesc):
    """A model with two dropouts."""

    def inputs(self):
        """Return a batch of vectors."""
        return [tf.TensorSpec([4, 6], tf.float32, "x")]

    def build_graph(self, x):
        """Build two layers whose inputs are dropped out."""
        mask = tf.identity(Dropout(x, rate=0.3), name="mask")
        hidden = FullyConnected("fc0", mask, 16, activation=tf.nn.relu)
        return tf.reduce_mean(FullyConnected("fc1", Dropout(hidden, rate=0.5), 1) ** 2, name="cost")

    def optimizer(self):
        """Return an optimizer with slots."""
        return tf.train.AdamOptimizer(0.05)


TRAINERS = {
    "one tower": (SimpleTrainer, ["mask:0"]),
    "two towers": (
        lambda: SyncMultiGPUTrainerReplicated([0, 1], mode="cpu"),
        ["tower0/mask:0", "tower1/mask:0"],
    ),
}


def train(directory, kind, max_epoch, entropy):
    """Train, and return the masks of each step, the entropy and the checkpoint."""
    logger.set_logger_dir(str(directory), action="k")
    make_trainer, names = TRAINERS[kind]
    masks = []
    with tf.Graph().as_default():
        random.make_exact(entropy)
        tf.set_random_seed(5)  # equal initial values; the library changes this seed when the training resumes
        config = AutoResumeTrainConfig(
            model=Network(),
            data=StagingInput(QueueInput(RepeatedData(DataFromList([[np.ones([4, 6], "float32")]]), -1))),
            callbacks=[ModelSaver(), ProcessTensors(names, lambda *values: masks.append(values))],
            monitors=[],
            steps_per_epoch=3,
            max_epoch=max_epoch,
        )
        launch_train_with_config(config, make_trainer())
        entropy = random.exact_entropy()
    path = logger.get_logger_dir() + "/checkpoint"
    return masks, entropy, load_checkpoint_vars(path)


@pytest.mark.slow
@pytest.mark.any_tensorflow
@pytest.mark.parametrize("kind", list(TRAINERS))
def test_resumed(tmp_path, kind):
    """Masks and weights of a training that is resumed twice are the bytes of an uninterrupted one."""
    through, entropy, expected = train(tmp_path / "through", kind, 3, None)
    parts = []
    for max_epoch in (1, 2, 3):
        masks, entropy, weights = train(tmp_path / "resumed", kind, max_epoch, entropy)
        parts.append(masks)
    assert [3, 3, 3] == [len(masks) for masks in parts]
    assert np.array(through).tobytes() == np.concatenate(parts).tobytes()
    assert {name: value.tobytes() for name, value in expected.items()} == {
        name: value.tobytes() for name, value in weights.items()
    }
    masks = np.array(through).reshape(-1, 24)
    assert len(np.unique(masks, axis=0)) == len(masks) == 9 * len(TRAINERS[kind][1])
