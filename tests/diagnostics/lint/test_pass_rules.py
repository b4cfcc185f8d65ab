"""Rules of lint about the length of an epoch and of a pass over the data."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.linted import Classifier
from fakes.trainers import CountingTrainer

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.batch import BatchData
from tensorpack_lite.dataflow.raw import DataFromGenerator, DataFromList
from tensorpack_lite.dataflow.shuffle import LocallyShuffleData
from tensorpack_lite.diagnostics.lint.callback_rules import length_of_epoch
from tensorpack_lite.diagnostics.lint.training import ExaminedTraining
from tensorpack_lite.input_source.queueing import BatchQueueInput, QueueInput
from tensorpack_lite.models import FullyConnected
from tensorpack_lite.tfutils.sessinit import JustCurrentSession
from tensorpack_lite.train.multi_gpu import SyncMultiGPUTrainerParameterServer
from tensorpack_lite.train.simple import SimpleTrainer


def samples(number=40):
    """Return images without a batch axis."""
    return DataFromList([[np.ones((8, 8, 3), "float32"), k % 10] for k in range(number)])


def find(source, steps, num_towers=1):
    """Return the remarks about a training with these steps in an epoch."""
    with tf.Graph().as_default():
        several = num_towers > 1
        trainer = SyncMultiGPUTrainerParameterServer(range(num_towers)) if several else SimpleTrainer()
        model = Classifier(lambda image, label: tf.reduce_mean(FullyConnected("fc", image, 1)))
        trainer.setup_graph(model.get_input_signature(), source, model.build_graph, model.get_optimizer)
        trainer.setup_callbacks([], [])
        return list(length_of_epoch(ExaminedTraining(trainer, JustCurrentSession(), steps)))


@pytest.mark.slow
def test_as_many_steps_as_datapoints():
    """With two towers and as many steps as datapoints, an epoch is two passes; with half of them, it is one."""
    (remark,) = find(QueueInput(BatchData(samples(), 4)), 10, num_towers=2)
    assert ("G15", "BatchData") == (remark.rule, remark.name)
    assert "steps_per_epoch is 10, the number of datapoints" in remark.text
    assert "an epoch is 2 passes" in remark.text
    assert "For one pass, use steps_per_epoch=5." == remark.advice
    for steps in (5, 11):
        assert [] == find(QueueInput(BatchData(samples(), 4)), steps, num_towers=2)
    assert [] == find(QueueInput(BatchData(samples(), 4)), 10)


@pytest.mark.slow
def test_as_many_steps_as_samples():
    """If an epoch has as many steps as there are samples, a remark names the right number of steps."""
    (remark,) = find(QueueInput(BatchData(samples(), 4)), 40)
    assert "steps_per_epoch is 40, the number of samples, but each step takes a batch of 4." == remark.text
    assert "For one pass in an epoch, use steps_per_epoch=10." == remark.advice
    for steps in (10, 20, 39, 41):
        assert [] == find(QueueInput(BatchData(samples(), 4)), steps)


@pytest.mark.slow
def test_batch_of_one_sample():
    """With batches of one sample, the steps are the samples."""
    assert [] == find(QueueInput(BatchData(samples(), 1)), 40)


@pytest.mark.slow
def test_large_buffer():
    """A shuffle buffer has a remark if it is twice as large as the data."""

    def with_buffer(size):
        return find(QueueInput(BatchData(LocallyShuffleData(samples(), size), 4)), 10)

    (remark,) = with_buffer(80)
    assert ("G15", "LocallyShuffleData") == (remark.rule, remark.name)
    assert "its buffer of 80 is filled with 2.0 passes of 40 datapoints" in remark.text
    assert [] == with_buffer(79)


@pytest.mark.parametrize("make", [QueueInput, lambda data: BatchQueueInput(data, 4)])
def test_unknown_length(make):
    """Data without a length has no remark."""
    endless = DataFromGenerator(lambda: iter([[np.ones((8, 8, 3), "float32"), 1]]))
    data = endless if make is not QueueInput else BatchData(LocallyShuffleData(endless, 500), 4)
    assert [] == find(make(data), 10, num_towers=2)


def test_trainer_without_data():
    """A trainer without towers and inputs has no remark."""
    trainer = CountingTrainer()
    trainer.setup_callbacks([], [])
    assert [] == list(length_of_epoch(ExaminedTraining(trainer, JustCurrentSession(), 10)))
