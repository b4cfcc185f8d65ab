"""Names, collections and files of one training, compared with those of tensorpack."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace

import numpy as np
import pytest
from fakes.models import Golden

from tensorpack_lite.callbacks import InferenceRunner, ModelSaver, ScalarStats
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.input_source.queueing import QueueInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.tfutils.varmanip import load_checkpoint_vars
from tensorpack_lite.train import SimpleTrainer, TrainConfig, launch_train_with_config
from tensorpack_lite.utils import logger

pytestmark = pytest.mark.slow

WEIGHTS = ["fc/W", "fc/b", "bn/gamma", "bn/beta"]


def data(size=10):
    rng = np.random.RandomState(0)
    return DataFromList(
        [[rng.rand(4, 3).astype("float32"), rng.randint(2, size=4).astype("int32")] for _ in range(size)],
        shuffle=False,
    )


class Predictors(Callback):
    def _setup_graph(self):
        self.predictors = [self.trainer.get_predictor(["x"], ["bn/output"], device) for device in (-1, 0, 1, 5)]


@pytest.fixture(scope="module")
def trained(seeded_graphs, tmp_path_factory):
    """The graph of the reference model after a training, its directory, its trainer and its callback."""
    log_dir, trainer, predictors = (
        str(tmp_path_factory.mktemp("golden") / "log"),
        SimpleTrainer(),
        Predictors(),
    )
    logger.set_logger_dir(log_dir)
    with tf.Graph().as_default() as graph:
        runners = [
            InferenceRunner(data(5), ScalarStats(["cost", "total"])),
            InferenceRunner(QueueInput(data(5)), ScalarStats(["cost"], prefix="queued"), tower_name="QTower"),
        ]
        callbacks = [ModelSaver(), predictors, *runners]
        config = TrainConfig(model=Golden(), dataflow=data(), callbacks=callbacks, steps_per_epoch=2, max_epoch=2)
        launch_train_with_config(config, trainer)
    logger.reset()
    return SimpleNamespace(graph=graph, log_dir=log_dir, trainer=trainer, predictors=predictors)


@pytest.fixture(autouse=True)
def graph_of_training(trained):
    with trained.graph.as_default():
        yield


def names(key):
    return sorted(item.op.name for item in tf.get_collection(key))


def test_tower(trained):
    """The training tower has no name scope, inference towers have one, and all share the placeholder."""
    predictors, tower = trained.predictors, trained.trainer.towers.training()[0]
    assert ("", ["x:0", "y:0"]) == (tower.ns_name, [tensor.name for tensor in tower.inputs])
    outputs = [predictor.output_tensors[0].name for predictor in predictors.predictors]
    expected = [f"tower-pred-{device}/bn/output:0" for device in ("cpu", 0, 1, 5)]
    assert expected == outputs
    assert {"x:0"} == {predictor.input_tensors[0].name for predictor in predictors.predictors}


def test_summaries(trained):
    """Only the summaries of the training tower are collected."""
    expected = ["InferenceRunner_1/QueueInput/queue_size-summary", "cost-summary"]
    expected += ["param-summary/fc/W-histogram", "param-summary/fc/W-rms", "rawcost"]
    assert sorted(expected) == names(tf.GraphKeys.SUMMARIES)


def test_variables(trained):
    """Global variables are those of the model, its slots and counters. Moving averages are local."""
    model = [*WEIGHTS, "bn/mean/EMA", "bn/variance/EMA"]
    expected = [*model, "learning_rate", "global_step", *[f"{name}/Momentum" for name in WEIGHTS]]
    assert sorted(expected) == names(tf.GraphKeys.GLOBAL_VARIABLES)
    averaged = ["cost", "InferenceRunner_1/QueueInput/queue_size"]
    expected = [f"EMA/{name}{part}" for name in averaged for part in ("", "/biased", "/local_step")]
    assert sorted(expected) == names(tf.GraphKeys.LOCAL_VARIABLES)
    assert ["bn/mean/EMA", "bn/variance/EMA"] == names(tf.GraphKeys.MODEL_VARIABLES)
    assert sorted(WEIGHTS) == names(tf.GraphKeys.TRAINABLE_VARIABLES)


def test_operations(trained):
    """Two update operations are in the scope of BatchNorm, and train_op is in its collection."""
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    assert 2 == len(updates)
    assert all(update.name.startswith("bn/") for update in updates)
    assert ["train_op"] == [op.name for op in tf.get_collection(tf.GraphKeys.TRAIN_OP)]


def test_stats(trained):
    """stats.json has one entry for each epoch with exactly these keys, epoch and step last."""
    with open(os.path.join(trained.log_dir, "stats.json")) as f:
        stats = json.load(f)
    keys = {"cost", "param-summary/fc/W-rms", "rawcost", "validation_cost", "validation_total", "queued_cost"}
    keys |= {"InferenceRunner_1/QueueInput/queue_size", "epoch_num", "global_step"}
    assert [keys, keys] == [set(element) for element in stats]
    assert [(1, 2), (2, 4)] == [(element["epoch_num"], element["global_step"]) for element in stats]
    assert ["epoch_num", "global_step"] == list(stats[0])[-2:]


def test_files(trained):
    """The directory contains the checkpoints, their index with relative names, a meta graph, an event file and the log."""
    files = sorted(os.listdir(trained.log_dir))
    steps = [f"model-{step}.{suffix}" for step in (2, 4) for suffix in ("data-00000-of-00001", "index")]
    assert set(steps) | {"checkpoint", "stats.json", "log.log"} <= set(files)
    assert 1 == len([name for name in files if name.startswith("graph-") and name.endswith(".meta")])
    assert 1 == len([name for name in files if name.startswith("events.out.tfevents.")])
    state = tf.train.get_checkpoint_state(trained.log_dir)
    with open(os.path.join(trained.log_dir, "checkpoint")) as f:
        assert trained.log_dir not in f.read()
    assert ["model-2", "model-4"] == [os.path.basename(path) for path in state.all_model_checkpoint_paths]


def test_checkpoint_keys(trained):
    """A checkpoint contains the global variables only."""
    saved = load_checkpoint_vars(os.path.join(trained.log_dir, "model-4"))
    assert set(names(tf.GraphKeys.GLOBAL_VARIABLES)) == set(saved)
    assert 4 == saved["global_step"]
