"""
Script that tests/train/test_sharded_inference.py runs in each rank: a training that validates on all ranks and on the chief alone.

Arguments: directory, number of datapoints, fault. Each rank writes the values of its monitors to `directory/rank-<r>.json`.
"""

from __future__ import annotations

import json
import os
import sys

import numpy as np
from fakes.rank_script import Net, batches

from tensorpack_lite.callbacks import (
    AUC,
    Accuracy,
    ClassificationError,
    ConfusionMatrix,
    EarlyStopping,
    EMAWeights,
    Inferencer,
    InferenceRunner,
    ObjAttrParam,
    RegressionErrors,
    ScalarStats,
    ShardedInferenceRunner,
    StatMonitorParamSetter,
    SwapEMAWeights,
)
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.raw import DataFromGenerator, DataFromList
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.train.collective import CollectiveTrainer

MEASURES = ["cost", "wrong", "accuracy", "f1", "auc", "r2"]


class Judged(Net):
    """The network, with a tensor that is 1 for each wrongly predicted sample, scores of three classes, and two numbers."""

    def build_graph(self, x, y):
        cost = super().build_graph(x, y)
        tf.identity(tf.cast(tf.not_equal(y, 0), tf.float32), name="wrong")
        tf.identity(x[:, :3], name="scores")
        tf.identity(x[:, 3], name="predicted")
        tf.identity(x[:, 4], name="true")
        return cost


class Numbers(Inferencer):
    """Inferencer that records the first number of each datapoint."""

    def _before_inference(self):
        self.seen = []

    def _get_fetches(self):
        return ["x"]

    def _on_fetches(self, results):
        self.seen.append(round(float(results[0][0, 0]), 3))


class Keep(Callback):
    """Writes the values of the monitors to a file after training."""

    _chief_only = False

    def __init__(self, path, numbers):
        self.path, self.numbers = path, numbers

    def _after_train(self):
        names = [f"{which}_{name}" for which in ("all", "one") for name in MEASURES]
        found = {name: self.trainer.monitors.get_history(name) for name in names}
        with open(self.path, "w", encoding="utf-8") as file:
            rate = getattr(self.trainer, "rate", None)
            json.dump(
                {
                    "steps": self.global_step,
                    "rate": rate,
                    "seen": getattr(self.numbers, "seen", None),
                    **found,
                },
                file,
            )


def validation(count, rng):
    """Return batches of different sizes; the first value of each is its number."""
    data = []
    for i in range(count):
        x = rng.uniform(-1, 1, (1 + i % 3, 5)).astype("float32")
        x[0, 0] = i
        data.append([x, rng.randint(0, 3, 1 + i % 3).astype("int32")])
    return DataFromList(data, shuffle=False)


def runner(kind, prefix, flow, *more):
    """Return a runner whose results have a prefix."""
    stats = [ScalarStats("cost", prefix=prefix), ClassificationError("wrong", f"{prefix}_wrong")]
    stats += [measure("scores", "y", prefix=prefix) for measure in (Accuracy, ConfusionMatrix, AUC)]
    stats += [RegressionErrors("predicted", "true", prefix=prefix)]
    return kind(flow, [*stats, *more], tower_name=prefix)


def main(directory, count, fault=""):
    trainer = CollectiveTrainer(time_limit=30)
    tf.set_random_seed(trainer.rank)
    model, numbers, count = Judged(), Numbers(), int(count)
    trainer.setup_graph(
        model.get_input_signature(),
        FeedInput(DataFromGenerator(lambda: batches([trainer.rank]))),
        model.build_graph,
        model.get_optimizer,
    )
    seed = trainer.rank if fault == "other data" else 0
    flow = validation(count, np.random.RandomState(seed))
    callbacks = [
        runner(ShardedInferenceRunner, "all", flow, numbers),
        runner(InferenceRunner, "one", validation(count, np.random.RandomState(seed))),
        Keep(os.path.join(directory, f"rank-{trainer.rank}.json"), numbers),
    ]
    if fault == "no better":
        ema, trainer.rate = EMAWeights(0.5), 1.0
        callbacks[0] = SwapEMAWeights(callbacks[0], ema)
        rate = StatMonitorParamSetter(
            ObjAttrParam(trainer, "rate"), "one_wrong", lambda rate: rate / 2, 0.0, 1
        )
        callbacks = [ema, *callbacks, rate, EarlyStopping("one_wrong", patience=1)]
    trainer.train_with_defaults(
        callbacks=callbacks, monitors=[], extra_callbacks=[], steps_per_epoch=3, max_epoch=4 if fault else 2
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
