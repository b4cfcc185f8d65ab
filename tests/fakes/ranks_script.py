"""
Training runs of several ranks, which the launcher starts: `ranks_script.py CASE ARGUMENTS`. Each case is a function of this file.

For faults in a training that is compared with one process, see `rank_script.py`; for exact resume, `exact_ranks.py`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time

import numpy as np
from fakes.hanging_script import FOREVER, files, numbers, read_and_crop
from fakes.hanging_script import Model as OneWeight
from fakes.models import Mean, threes
from fakes.rank_script import ENGINES, Net, batches

from tensorpack_lite import (
    AUC,
    Accuracy,
    AutoResumeTrainConfig,
    Callback,
    CallbackFactory,
    ClassificationError,
    ConfusionMatrix,
    DataFromGenerator,
    DataFromList,
    EarlyStopping,
    EMAWeights,
    FeedInput,
    Inferencer,
    InferenceRunner,
    MapData,
    MaxSaver,
    ModelDesc,
    ModelSaver,
    ObjAttrParam,
    PeriodicTrigger,
    QueueInput,
    RegressionErrors,
    RepeatedData,
    ScalarStats,
    StatMonitorParamSetter,
    SwapEMAWeights,
    TrainConfig,
    launch_train_with_config,
    logger,
)
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.callbacks import ShardedInferenceRunner, TerminateOnNaN
from tensorpack_lite.dataflow import MultiProcessMapData
from tensorpack_lite.diagnostics.hangs import detector
from tensorpack_lite.diagnostics.speed.speed import Speed
from tensorpack_lite.ranks.cluster import Cluster, parse_address
from tensorpack_lite.train.collective import CollectiveTrainer
from tensorpack_lite.utils import fix_rng_seed

QUIET = {"monitors": [], "extra_callbacks": []}


class Cost(ModelDesc):
    """A model whose cost is a function of one weight, `w`, and of x."""

    def __init__(self, cost, rate, initial=0.0, shape=()):
        self.cost, self.rate, self.initial, self.shape = cost, rate, initial, shape

    def inputs(self):
        return [tf.TensorSpec(self.shape, tf.float32, "x")]

    def build_graph(self, x):
        return tf.identity(self.cost(tf.get_variable("w", initializer=self.initial), x), name="cost")

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(self.rate)


class Each(Callback):
    """Calls functions with itself at the moments that they are named after, on every rank."""

    _chief_only = False

    def __init__(self, **functions):
        for moment, function in functions.items():
            setattr(self, f"_{moment}", lambda *args, function=function: function(self, *args))

    @property
    def w(self):
        """The weight."""
        return float(self.trainer.sess.run(self.trainer.find_tensor("w")))


def train(trainer, model, data, callbacks, kind=TrainConfig, **options):
    launch_train_with_config(kind(model=model, data=data, callbacks=callbacks, **options), trainer)


def write(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file)


def log_to(directory, trainer):
    """Let each rank log to a separate directory."""
    logger.set_logger_dir(os.path.join(directory, str(trainer.rank)), action="d")


def ones():
    return RepeatedData(DataFromList([[np.float32(1)]]), -1)


def ctrl_c(moment, kind):
    """Each rank prints READY at a moment, "graph", "setup" or "step", and trains without end. Checkpoints are in `log/`."""

    def wait_at(place):
        if place == moment:
            print("READY", flush=True)
            time.sleep(300)

    def cost(w, x):
        wait_at("graph")
        return tf.reduce_mean((w - x) ** 2)

    def at_step(callback):
        if moment == "step" and callback.global_step == 13:
            print("READY", flush=True)

    ready = Each(
        setup_graph=lambda callback: wait_at("setup"),
        trigger_step=at_step,
        after_train=lambda callback: print("AFTER_TRAIN", flush=True),
    )
    trainer = CollectiveTrainer(time_limit=120)
    if trainer.is_chief:
        logger.set_logger_dir("log", action="k")
    data = QueueInput(RepeatedData(DataFromList([[np.ones([4], "float32")]]), -1))
    savers = [PeriodicTrigger(ModelSaver(), every_k_steps=10)]
    options = {"exact": kind == "exact", "steps_per_epoch": 10**6, "max_epoch": 1, **QUIET}
    train(trainer, Cost(cost, 0.1, shape=[4]), data, [*savers, ready], AutoResumeTrainConfig, **options)
    print("RETURNED", flush=True)


def resumed(directory, end):
    """Fails after the `global_step` that is `end`, and is resumed. Each rank writes its steps to `rank-<r>.json`."""
    notes = []

    def note(callback, ctx, values):
        notes.append([callback.epoch_num, callback.local_step, float(values.results[0])])

    def fail(callback):
        if callback.global_step == int(end):
            raise RuntimeError("planted")

    def keep(callback):
        write(f"{directory}/rank-{trainer.rank}.json", {"notes": notes, "weight": callback.w})

    fix_rng_seed(3)
    trainer = CollectiveTrainer(time_limit=60)
    if trainer.is_chief:
        logger.set_logger_dir(f"{directory}/log", action="k")
    saver = PeriodicTrigger(ModelSaver(), every_k_steps=4) if trainer.is_chief else Callback()
    noting = Each(before_run=lambda callback, ctx: ["x:0"], after_run=note, trigger_step=fail, after_train=keep)
    model = Cost(lambda w, x: w * tf.cast(tf.not_equal(x, -1.0), tf.float32), 1.0)
    data = FeedInput(RepeatedData(DataFromList([[np.float32(i)] for i in range(20)], shuffle=True), -1))
    train(trainer, model, data, [saver, noting], AutoResumeTrainConfig, steps_per_epoch=6, max_epoch=3)


class Stops(Callback):
    """Stops the process of rank 1."""

    _chief_only = False

    def _trigger_step(self):
        if self.trainer.rank == 1 and self.global_step == 20:
            time.sleep(2)  # rank 0 receives the status
            os.kill(os.getpid(), signal.SIGSTOP)


class Gathers(Callback):
    """Gathers values, which rank 0 does too late."""

    _chief_only = False

    def _trigger_step(self):
        if self.global_step == 20:
            if self.trainer.rank == 0:
                time.sleep(FOREVER)
            self.trainer.ranks.channel.all_gather("the planted values", 0)


def hanging(directory, case, time_limit, watch_limit, on_hang):
    """Rank 1 hangs: in a function of a worker ("map"), stopped ("stop"), or waiting for rank 0 ("ahead")."""
    detector._POLL_SECONDS = 0.25
    detector._STEP_SECONDS = detector._FIRST_SECONDS = float(watch_limit)
    trainer = CollectiveTrainer(time_limit=float(time_limit))
    log_to(directory, trainer)
    flow = RepeatedData(numbers(), -1)
    if case == "map":
        flow = MultiProcessMapData(files(), 1, read_and_crop, buffer_size=8) if trainer.rank == 1 else ones()
    callbacks = {"map": [], "stop": [Stops()], "ahead": [Gathers()]}[case]
    options = {"steps_per_epoch": 100, "max_epoch": 1, "on_hang": on_hang}
    train(trainer, OneWeight(), QueueInput(flow), callbacks, **options)


def wait_30ms(datapoint):
    time.sleep(0.030)
    return datapoint


def slow(directory):
    """The data of rank 1 is slow."""
    trainer = CollectiveTrainer(time_limit=60.0)
    log_to(directory, trainer)
    data = QueueInput(MapData(ones(), wait_30ms) if trainer.rank == 1 else ones())
    speed = [Speed(after=1.0)]
    train(trainer, OneWeight(), data, [], extra_callbacks=speed, steps_per_epoch=40, max_epoch=4)


NAN_BATCH, NAN_RATE = 8, 0.1
NAN_COSTS = {  # NaN if an x is negative; with a gradient that is NaN for x = 0
    "loss": lambda w, x: tf.reduce_mean(w * x * tf.sqrt(tf.sign(x), name="root")),
    "gradient": lambda w, x: tf.reduce_mean(tf.sqrt(w * x)),
}


def nan_batches(rank):
    """Twelve batches [x] of a rank, all positive."""
    rngs = [np.random.RandomState(100 * rank + i) for i in range(12)]
    return [[rng.uniform(0.5, 1, NAN_BATCH).astype("float32")] for rng in rngs]


def nan(directory, kind):
    """Sample 3 of the fifth batch of rank 1 is bad. Each rank writes its last weight to `<r>.npz`."""
    trainer = CollectiveTrainer(time_limit=30)
    log_to(directory, trainer)
    data = nan_batches(trainer.rank)
    if trainer.rank == 1:
        data[4][0][3] = -1 if kind == "loss" else 0
    keep = Each(after_train=lambda it: np.savez(os.path.join(directory, f"{trainer.rank}.npz"), w=it.w))
    model = Cost(NAN_COSTS[kind], NAN_RATE, 1.0, [None])
    source = FeedInput(DataFromList(data, shuffle=False))
    train(trainer, model, source, [TerminateOnNaN(), keep], steps_per_epoch=10, max_epoch=1, **QUIET)


def sums(engine, directory, mode):
    """
    The cost is w * (rank + 1), for two epochs of four steps. Each rank writes w after each epoch to `w-<r>.json`. In the
    second step, rank 1 adds 1 to its w if the mode starts with "drift". In the mode "best", the chief ends with the
    largest w of an epoch.
    """

    def drift(callback):
        if mode.startswith("drift") and trainer.rank == 1 and callback.global_step == 2:
            weight = next(var for var in tf.trainable_variables() if var.op.name == "w")
            weight.load(callback.w + 1, trainer.sess)

    def keep(callback):
        if mode == "best":
            seen.append(callback.w)
        write(os.path.join(directory, f"w-{trainer.rank}.json"), seen)

    def report(callback):
        callback.trainer.monitors.put_scalar("w", float(trainer.sess.run(trainer.find_tensor("w"))))

    trainer, seen = ENGINES[engine](average=mode != "sum", time_limit=30), []
    trainer.BROADCAST_EVERY_EPOCH = mode != "drift, left"
    if trainer.is_chief:
        logger.set_logger_dir(os.path.join(directory, "log"), action="d")
    data = DataFromGenerator(lambda: iter(lambda: [np.float32(trainer.rank + 1)], None))
    keeping = Each(trigger_step=drift, trigger_epoch=lambda it: seen.append(it.w), after_train=keep)
    best = [ModelSaver(), CallbackFactory(trigger=report), MaxSaver("w", restore_best=True)]
    callbacks = [*(best if mode == "best" else []), keeping]
    model = Cost(lambda w, x: w * x, 1.0, 100.0)
    train(trainer, model, FeedInput(data), callbacks, steps_per_epoch=4, max_epoch=2)


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


class FirstNumbers(Inferencer):
    """Inferencer that records the first number of each datapoint."""

    def _before_inference(self):
        self.seen = []

    def _get_fetches(self):
        return ["x"]

    def _on_fetches(self, results):
        self.seen.append(round(float(results[0][0, 0]), 3))


def validation(count, seed):
    """Return batches of different sizes; the first value of each is its number."""
    data, rng = [], np.random.RandomState(seed)
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


def sharded(directory, count, fault=""):
    """Validates on all ranks and on the chief alone. Each rank writes the values of its monitors to `rank-<r>.json`."""
    trainer = CollectiveTrainer(time_limit=30)
    tf.set_random_seed(trainer.rank)
    first, count = FirstNumbers(), int(count)
    seed = trainer.rank if fault == "other data" else 0

    def keep(callback):
        names = [f"{which}_{name}" for which in ("all", "one") for name in MEASURES]
        found = {name: trainer.monitors.get_history(name) for name in names}
        more = {"rate": getattr(trainer, "rate", None), "seen": getattr(first, "seen", None)}
        write(
            os.path.join(directory, f"rank-{trainer.rank}.json"),
            {"steps": callback.global_step, **more, **found},
        )

    callbacks = [
        runner(ShardedInferenceRunner, "all", validation(count, seed), first),
        runner(InferenceRunner, "one", validation(count, seed)),
        Each(after_train=keep),
    ]
    if fault == "no better":
        ema, trainer.rate = EMAWeights(0.5), 1.0
        callbacks[0] = SwapEMAWeights(callbacks[0], ema)
        rate = StatMonitorParamSetter(ObjAttrParam(trainer, "rate"), "one_wrong", lambda rate: rate / 2, 0.0, 1)
        callbacks = [ema, *callbacks, rate, EarlyStopping("one_wrong", patience=1)]
    data = FeedInput(DataFromGenerator(lambda: batches([trainer.rank])))
    train(trainer, Judged(), data, callbacks, steps_per_epoch=3, max_epoch=4 if fault else 2, **QUIET)


def serving():
    """Prints `port N NAME` for the TensorFlow server and for a plain server of this rank, then waits to be terminated."""

    def print_ports(callback):
        address = Cluster.from_environment().addresses[trainer.rank]
        with socket.socket() as server:
            server.bind(("0.0.0.0", 0))
            server.listen(5)
            print(f"port {parse_address(address)[1]} tensorflow-{trainer.rank}", flush=True)
            print(f"port {server.getsockname()[1]} plain-{trainer.rank}", flush=True)
            signal.pause()

    trainer = CollectiveTrainer()
    callbacks = [Each(trigger_step=print_ports)]
    train(trainer, Mean(), FeedInput(threes()), callbacks, steps_per_epoch=2, max_epoch=1, **QUIET)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
