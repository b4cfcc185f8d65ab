"""
Training script with exact resume that a test ends in many ways and restarts until the training is complete.

`exact.json` in the working directory contains the options. `pipeline` and `trainer` are names from PIPELINES and TRAINERS. `epochs` is
`max_epoch`. One of these ends the process early:

- `signal` and `after`: a signal, "GROUP" for SIGTERM to the whole process group, and the seconds to wait for; from the start of the process
  if `early`, otherwise from the start of training.
- `at`: [callback, moment, number of the step or None for any, how], with a signal, "STOP" for StopTraining, or "DISK" for a full disk.
- `file_change`: the number of the file change before which SIGKILL comes.
- `made`: the number of the training datapoint after which SIGKILL comes. In a resumed training, the first ones are replayed.

With `seeds` false, no seed is set. The training's files are in `log/`. `batches.txt` has a line for each run that takes data: step, number
of the run, checksums of the batches.
"""

from __future__ import annotations

import atexit
import json
import os
import resource
import signal
import subprocess
import zlib

import numpy as np
from fakes.resumed_script import kill_at

from tensorpack_lite import (
    AugmentImageComponent,
    AutoResumeTrainConfig,
    BatchData,
    BatchNorm,
    BatchQueueInput,
    CacheData,
    Callback,
    ConcatData,
    DataFromList,
    Dropout,
    EMAWeights,
    FeedInput,
    FullyConnected,
    InferenceRunner,
    JoinData,
    JSONWriter,
    LocallyShuffleData,
    MapData,
    MapDataComponent,
    MergeAllSummaries,
    ModelDesc,
    ModelSaver,
    MovingAverageSummary,
    PeriodicTrigger,
    QueueInput,
    RandomChooseData,
    RNGDataFlow,
    ScalarStats,
    SimpleTrainer,
    StagingInput,
    StopTraining,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
    TowerContext,
    TowerTrainer,
    imgaug,
    launch_train_with_config,
    logger,
)
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.dataflow.exact import numbered_source
from tensorpack_lite.input_source.exact import data_position
from tensorpack_lite.tfutils.summary import add_moving_summary
from tensorpack_lite.tfutils.tower import TowerFunc
from tensorpack_lite.train import begin_exact_resume
from tensorpack_lite.utils import fix_rng_seed

STEPS = 24
SAVED_EVERY = 10
BATCH = 8
DISK_BYTES = 1 << 15  # less than a checkpoint, more than the logs


# The data ---------------------------------------------------------------------------------------------------------------
class Noise(RNGDataFlow):
    """A user's stage, with random numbers and a counter."""

    state_attributes = ("count",)

    def __init__(self, ds):
        self.ds, self.count = ds, 0

    def __len__(self):
        return len(self.ds)

    def reset_state(self):
        super().reset_state()
        self.ds.reset_state()

    def __iter__(self):
        for x, y in self.ds:
            self.count += 1
            yield [x + self.rng.randn(*x.shape).astype("float32") * 0.01, (y + self.count) % 3]


def samples(number=103, seed=0):
    rng = np.random.RandomState(seed)
    xs, ys = rng.randn(number, 36).astype("float32"), rng.randint(0, 3, number).astype("int32")
    return DataFromList(list(map(list, zip(xs, ys))), shuffle=True)


def images(number=103, seed=0):
    rng = np.random.RandomState(seed)
    labels = rng.randint(0, 3, number).astype("int32")
    ds = DataFromList([[rng.randint(0, 255, (9, 9, 3)).astype("uint8"), y] for y in labels], shuffle=True)
    ds = AugmentImageComponent(ds, [imgaug.RandomCrop(6), imgaug.Flip(horiz=True), imgaug.Brightness(20)])
    return MapDataComponent(ds, lambda image: image.mean(axis=2).reshape(36).astype("float32") / 255)


def shuffled():
    ds = LocallyShuffleData(samples(), 30, shuffle_interval=7)
    return BatchData(MapData(ds, lambda dp: [dp[0] * 1.1, dp[1]] if dp[0][0] > -1 else None), BATCH)


def mixed():
    joined = MapData(JoinData([samples(60, 2), samples(50, 3)]), lambda dp: [dp[0] + dp[2], dp[1]])
    cached = CacheData(samples(40, 4), shuffle=True)
    return BatchData(RandomChooseData([ConcatData([joined, samples(20, 5)]), cached]), BATCH)


# pipeline -> (the flow of its datapoints, the input)
PIPELINES = {
    "user": (lambda: BatchData(Noise(samples()), BATCH), FeedInput),
    "shuffled": (shuffled, QueueInput),
    "mixed, staged": (mixed, lambda ds: StagingInput(QueueInput(ds), nr_stage=2)),
    "samples": (lambda: Noise(samples()), lambda ds: BatchQueueInput(ds, BATCH)),
    "images": (lambda: BatchData(images(), BATCH), QueueInput),
}


class Counted(RNGDataFlow):
    """The training's datapoints, after one of which the process is killed."""

    def __init__(self, ds, number):
        self.ds, self.number, self.made = ds, number, 0

    def __len__(self):
        return len(self.ds)

    def reset_state(self):
        super().reset_state()
        self.ds.reset_state()

    def __iter__(self):
        for dp in self.ds:
            self.made += 1
            if self.made == self.number:
                os.kill(os.getpid(), signal.SIGKILL)
            yield dp


def make_input(pipeline, trainer, kill_after):
    make_flow, make = PIPELINES[pipeline]
    if make is FeedInput and trainer in ("replicated", "parameter server"):
        make = QueueInput  # each tower needs its own batch
    return make(Counted(make_flow(), kill_after))


# The model and the trainers -------------------------------------------------------------------------------------------
class Model(ModelDesc):
    """Two layers with dropout and batch normalization."""

    def inputs(self):
        return [tf.TensorSpec([None, 36], tf.float32, "x"), tf.TensorSpec([None], tf.int32, "y")]

    def build_graph(self, x, y):
        hidden = Dropout("drop", FullyConnected("a", x, 64, activation=tf.nn.relu), keep_prob=0.8)
        logits = FullyConnected("b", BatchNorm("bn", hidden), 3)
        cost = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=y)
        cost = tf.reduce_mean(cost, name="cost")
        add_moving_summary(cost)
        return cost

    def optimizer(self):
        return tf.train.AdamOptimizer(0.01)


class TwoRunsTrainer(TowerTrainer):
    """Updates the layers in two runs per step, each with its own batch, as GAN trainers do."""

    def __init__(self, input, model):
        super().__init__()
        self.register_callback(input.setup(model.get_input_signature()))
        self.tower_func = TowerFunc(model.build_graph, model.get_input_signature())
        with TowerContext("", is_training=True):
            cost = self.tower_func(*input.get_input_tensors())
        self.ops = [
            model.optimizer().minimize(cost, var_list=tf.trainable_variables(name), name=f"op_{name}")
            for name in ("a", "b")
        ]

    def run_step(self):
        for op in self.ops:
            self.hooked_sess.run(op)


TRAINERS = {
    "simple": SimpleTrainer,
    "replicated": lambda: SyncMultiGPUTrainerReplicated([0, 1], mode="cpu"),
    "parameter server": lambda: SyncMultiGPUTrainerParameterServer([0, 1]),
    "two runs": TwoRunsTrainer,
}


# Callbacks --------------------------------------------------------------------------------------------------------------
class Batches(Callback):
    """Writes a line for each run that takes data."""

    def _before_train(self):
        self.file = open("batches.txt", "ab", buffering=0)  # noqa: SIM115 (closed in _after_train)
        towers = list(self.trainer.towers.training())
        self.args = tf.train.SessionRunArgs([tower.get_tensor(name) for tower in towers for name in ("x", "y")])
        self.run = 0

    def _before_run(self, ctx):
        return self.args

    def _after_run(self, ctx, values):
        self.run += 1
        sums = " ".join(str(zlib.crc32(np.ascontiguousarray(array))) for array in values.results)
        self.file.write(f"{self.trainer.loop.global_step} {self.run} {sums}\n".encode())

    def _trigger_step(self):
        self.run = 0

    def _after_train(self):
        self.file.close()


class At(Callback):
    """Ends the process once, at a moment of a step, if `at` begins with its name."""

    def __init__(self, name, at):
        self.name, self.at = name, at
        if at and at[0] == name:
            setattr(self, f"_{at[1]}", self._end)

    def _end(self, *_):
        _, moment, step, how = self.at
        if moment == "setup_graph" or step in (None, (self.epoch_num - 1) * STEPS + self.local_step + 1):
            setattr(self, f"_{moment}", lambda *_: None)
            end(how)

    def __str__(self):
        return f"At-{self.name}"


def end(how):
    """End this process."""
    if how == "STOP":
        raise StopTraining("told to")
    if how == "DISK":
        resource.setrlimit(resource.RLIMIT_FSIZE, (DISK_BYTES, resource.RLIM_INFINITY))
    elif how == "GROUP":
        os.killpg(0, signal.SIGTERM)
    else:
        os.kill(os.getpid(), getattr(signal, how))


def end_after(name, seconds):
    """Start a process that sends this one a signal after some seconds."""
    name, target = ("SIGTERM", -os.getpid()) if name == "GROUP" else (name, os.getpid())
    command = f"sleep {seconds}; kill -s {name[3:]} -- {target}"
    killer = subprocess.Popen(["sh", "-c", command], start_new_session=True)
    atexit.register(killer.wait)
    atexit.register(killer.terminate)


class EndLater(Callback):
    """Starts the clock of `end_after` when training starts."""

    def __init__(self, told):
        self.told = told

    def _before_train(self):
        if self.told.get("signal") and not self.told.get("early"):
            end_after(self.told["signal"], self.told["after"])


def callbacks(told):
    at = told.get("at")
    before, after = ([ScalarStats("cost", prefix=name)] for name in ("before", "after"))
    return [
        At("first", at),
        Batches(),
        EMAWeights(0.9),
        InferenceRunner(BatchData(images(30, 1), BATCH, remainder=True), before, "InferenceBefore"),
        PeriodicTrigger(ModelSaver(max_to_keep=4), every_k_steps=SAVED_EVERY, every_k_epochs=1),
        At("middle", at),
        InferenceRunner(QueueInput(BatchData(images(40, 2), BATCH)), after, "InferenceAfter"),
        At("last", at),
        EndLater(told),
    ]


def main():
    with open("exact.json") as file:
        told = json.load(file)
    os.setsid()
    if told.get("early"):
        end_after(told["signal"], told["after"])
    data_position._SNAPSHOT_SECONDS = numbered_source._SNAPSHOT_SECONDS = told.get("snapshot_seconds", 0.01)
    logger.set_logger_dir("log", action="k")
    kill_at(told.get("file_change"))
    if told.get("seeds", True):
        fix_rng_seed(7)
        tf.set_random_seed(3)
        np.random.seed(5)
    train(told)


def train(told):
    options = {
        "callbacks": callbacks(told),
        "extra_callbacks": [MovingAverageSummary(), MergeAllSummaries(period=7)],
        "monitors": [JSONWriter()],
        "steps_per_epoch": STEPS,
        "max_epoch": told["epochs"],
    }
    data = make_input(told["pipeline"], told["trainer"], told.get("made"))
    trainer = TRAINERS[told["trainer"]]
    if trainer is not TwoRunsTrainer:
        config = AutoResumeTrainConfig(exact="require", model=Model(), data=data, **options)
        launch_train_with_config(config, trainer())
        return
    found = AutoResumeTrainConfig(steps_per_epoch=STEPS)
    begin_exact_resume(found.session_init, "require")
    trainer = TwoRunsTrainer(data, Model())
    trainer.train_with_defaults(session_init=found.session_init, starting_epoch=found.starting_epoch, **options)


if __name__ == "__main__":
    main()
