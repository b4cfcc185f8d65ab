"""
Scaling to two processes on two cores: images per second, and seconds from launch to the first step.

    python benchmarks/scaling.py [--repetitions 5] [--batch 64] [--steps 8] [--only speed|start|ring] [--machines]

The model is a convnet of 1.1 M weights on 32x32 images. Each rank is bound to one core (sched_setaffinity) and has one thread per
pool, and so has the single process with which ranks are compared. "share nothing" runs two independent processes, which
shows what two cores can reach. "not fused" sends each gradient separately. "plain TF1 loop" is a loop of Session.run with
Horovod's DistributedOptimizer. The targets are at least 1.8 x one process, and at most 1.5 x the time to the first step. To
measure the first step, processes are not bound to a core, and it has 8 images per rank, so the start dominates.

The ring is the time of an all-reduce between two ranks in an otherwise empty graph; ranks_model.py uses these results. Horovod's rows
are omitted if Horovod is not installed. Every result comes from newly started processes.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

from _machines import start_by_hand, two_machines
from _measure import machine, measure, print_table, time_calls

ROOT = Path(__file__).resolve().parents[1]
SIZE, CLASSES = 32, 10
START_BATCH = 8
RINGS = {
    "4": [4],
    "65,536": [1 << 16],
    "1,048,576": [1 << 20],
    "4,194,304": [1 << 22],
    "16,777,216": [1 << 24],
    "4 x 4,194,304": [1 << 22] * 4,
}


# In each rank ------------------------------------------------------------------------------------------------------------
def rank_of_this_process() -> int:
    """Return the rank that the launcher set, or 0."""
    from tensorpack_lite.utils.own_rank import given_rank

    return given_rank() or 0


def net(image, label):
    """Six convolutions and a dense layer in plain TensorFlow; 1,146,000 weights."""
    from tensorpack_lite.compat import tfv1 as tf

    def conv(name, x, filters):
        shape = [3, 3, int(x.shape[3]), filters]
        weight = tf.get_variable(name + "/W", shape, initializer=tf.variance_scaling_initializer(2.0))
        bias = tf.get_variable(name + "/b", [filters], initializer=tf.zeros_initializer())
        return tf.nn.relu(tf.nn.conv2d(x, filter=weight, strides=[1, 1, 1, 1], padding="SAME") + bias)

    x = image
    for stage, filters in enumerate([64, 128, 256]):
        x = conv(f"conv{stage}.0", x, filters)
        x = conv(f"conv{stage}.1", x, filters)
        x = tf.nn.max_pool2d(x, 2, 2, "VALID")
    weight = tf.get_variable("fc/W", [256, CLASSES], initializer=tf.variance_scaling_initializer())
    logits = tf.matmul(tf.reduce_mean(x, [1, 2]), weight)
    costs = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
    return tf.reduce_mean(costs, name="cost")


def session_config():
    """Return a session configuration with one thread per pool."""
    from tensorpack_lite.compat import tfv1 as tf

    return tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)


def make_trainer(engine):
    """Return the trainer and whether it fuses gradients."""
    from tensorpack_lite import train
    from tensorpack_lite.graph_builder import collective

    if engine == "collective, not fused":
        collective._BUFFER_BYTES = 0
    if engine.startswith("collective"):
        return train.CollectiveTrainer(time_limit=60)
    return train.HorovodTrainer() if engine == "horovod" else train.SimpleTrainer()


def train_with_library(options, results):
    """Train a warm-up epoch and a measured one."""
    from tensorpack_lite.callbacks import Callback
    from tensorpack_lite.compat import ensure_graph_mode
    from tensorpack_lite.compat import tfv1 as tf
    from tensorpack_lite.input_source import DummyConstantInput
    from tensorpack_lite.tfutils.sesscreate import NewSessionCreator
    from tensorpack_lite.train import ModelDesc

    class Model(ModelDesc):
        def inputs(self):
            shape = [options.batch, SIZE, SIZE, 3]
            return [tf.TensorSpec(shape, tf.float32, "image"), tf.TensorSpec(shape[:1], tf.int32, "label")]

        def build_graph(self, image, label):
            return net(image, label)

        def optimizer(self):
            return tf.train.MomentumOptimizer(0.01, 0.9)

    class Clock(Callback):
        _chief_only = False

        def _trigger_step(self):
            results.setdefault("first_step", time.time())

        def _before_epoch(self):
            self.start, self.spent = time.perf_counter(), time.process_time()

        def _after_epoch(self):
            results["seconds"] = time.perf_counter() - self.start
            results["spent"] = time.process_time() - self.spent

    ensure_graph_mode()
    trainer, model = make_trainer(options.worker), Model()
    shapes = [[options.batch, SIZE, SIZE, 3], [options.batch]]
    trainer.setup_graph(model.get_input_signature(), DummyConstantInput(shapes), model.build_graph, model.get_optimizer)
    trainer.train_with_defaults(
        callbacks=[Clock()],
        monitors=[],
        extra_callbacks=[],
        session_creator=NewSessionCreator(config=session_config() if options.pin else None),
        steps_per_epoch=options.steps,
        max_epoch=options.epochs,
    )


def train_by_hand(options, results):
    """Run the loop that a user of TensorFlow 1 writes with Horovod."""
    import horovod.tensorflow as hvd

    from tensorpack_lite.compat import ensure_graph_mode
    from tensorpack_lite.compat import tfv1 as tf

    ensure_graph_mode()
    hvd.init()
    image = tf.zeros([options.batch, SIZE, SIZE, 3])
    optimizer = hvd.DistributedOptimizer(tf.train.MomentumOptimizer(0.01, 0.9))
    train_op = optimizer.minimize(net(image, tf.zeros([options.batch], tf.int32)))
    everywhere = hvd.broadcast_global_variables(0)
    with tf.Session(config=session_config()) as session:
        session.run(tf.global_variables_initializer())
        session.run(everywhere)
        for _ in range(options.epochs):
            start, spent = time.perf_counter(), time.process_time()
            for _ in range(options.steps):
                session.run(train_op)
                results.setdefault("first_step", time.time())
            results["seconds"] = time.perf_counter() - start
            results["spent"] = time.process_time() - spent


def reduce_rings(options, results):
    """Return the milliseconds of an all-reduce of each size."""
    from tensorpack_lite.callbacks import Callback
    from tensorpack_lite.compat import ensure_graph_mode
    from tensorpack_lite.compat import tfv1 as tf
    from tensorpack_lite.tfutils.tower.context import TrainTowerContext

    ensure_graph_mode()
    trainer = make_trainer(options.worker.split(" ")[0])
    with TrainTowerContext(""):
        x = tf.get_variable("x", [], initializer=tf.zeros_initializer())
        grads = [[(tf.fill([n // 4], x * 0 + 1.0), x) for n in sizes] for sizes in RINGS.values()]
        # Operations, not a group of them: TensorFlow prunes operations on which only a group depends.
        rings = [[grad.op for grad, _ in trainer._reduce(pairs)] for pairs in grads]
        alone = [[grad.op for grad, _ in pairs] for pairs in grads]
        trainer.train_op = x.assign_add(1.0, read_value=False)
    trainer._graph = {}

    class Clock(Callback):
        _chief_only = False

        def _trigger_epoch(self):
            for name, ring, fill in zip(RINGS, rings, alone):
                calls = max(3, min(200, (1 << 24) // sum(RINGS[name])))
                run, floor = (self.trainer.sess.make_callable(op) for op in (ring, fill))
                time_calls(run, 3)
                seconds = [time_calls(run, calls) for _ in range(3)]
                results[name] = (statistics.median(seconds) - time_calls(floor, calls)) * 1e3

    trainer.train_with_defaults(
        callbacks=[Clock()],
        monitors=[],
        extra_callbacks=[],
        steps_per_epoch=1,
        max_epoch=1,
    )


def work(options) -> None:
    """Measure in a rank and write the results to a file."""
    if options.pin:
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[rank_of_this_process() % len(cores)]})
    results: dict = {}
    if options.worker == "plain":
        train_by_hand(options, results)
    elif options.worker.endswith(" ring"):
        reduce_rings(options, results)
    else:
        train_with_library(options, results)
    path = Path(options.out) / f"rank-{rank_of_this_process()}.json"
    path.write_text(json.dumps(results), encoding="utf-8")


# In the process that measures ----------------------------------------------------------------------------------------------
def start_with_launcher(size, command, environment):
    """Start ranks with the launcher; one rank without. Return the process in a list."""
    python, *script = command
    launcher = [] if size == 1 else ["-m", "tensorpack_lite.launch", "-n", str(size)]
    return [
        subprocess.Popen(
            [python, *launcher, *script], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
    ]


def run_ranks(size, worker, options, pin=True, epochs=2, steps=None, batch=None, start=start_with_launcher):
    """Run ranks, which `start(size, command, environment)` starts. Return the time of launch and the results of each rank."""
    with tempfile.TemporaryDirectory() as directory:
        script = [__file__, "--worker", worker, "--out", directory, "--batch", str(batch or options.batch)]
        script += [
            "--steps",
            str(steps or options.steps),
            "--epochs",
            str(epochs),
            *(["--pin"] if pin else []),
        ]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        environment.pop("TF_CONFIG", None)
        launched = time.time()
        processes = start(size, [sys.executable, *script], environment)
        outputs = [process.communicate()[0] for process in processes]
        if any(process.returncode for process in processes):
            told = b"".join(outputs).decode()
            raise RuntimeError(f"{worker}, {size} ranks:\n{told[-3000:]}")
        files = sorted(Path(directory).glob("rank-*.json"))
        assert size == len(files)
        return launched, [json.loads(file.read_text(encoding="utf-8")) for file in files]


def images_per_second(size, worker, options, spent):
    """Return the images per second of all ranks. Store the CPU time of a step, in milliseconds, in `spent`."""

    def run_once():
        _, found = run_ranks(size, worker, options)
        spent.append(statistics.mean(each["spent"] for each in found) / options.steps * 1e3)
        return sum(options.batch * options.steps / each["seconds"] for each in found)

    return run_once


def seconds_to_first_step(size, worker, options, start=start_with_launcher):
    """Return the seconds to the first step of the last rank."""

    def run_once():
        launched, found = run_ranks(size, worker, options, False, 1, 1, START_BATCH, start)
        return max(each["first_step"] for each in found) - launched

    return run_once


def print_ring(engine, options) -> None:
    """Print a row for each number of bytes."""
    figures: dict = {name: [] for name in RINGS}
    for _ in range(options.repetitions):
        with two_machines() if options.machines else nullcontext() as machines:
            start = functools.partial(start_by_hand, machines=machines) if machines else start_with_launcher
            _, found = run_ranks(2, f"{engine} ring", options, pin=False, start=start)
        for name, values in figures.items():
            values.append(max(each[name] for each in found))
    where = "on two machines in network namespaces" if options.machines else "on one machine"
    print(f"\nAll-reduce between two ranks {where}, {engine}  [{machine()}]")
    print(f"{'bytes':>14}  {'median':>10} {'min':>10} {'max':>10}  ms")
    for name, values in figures.items():
        print(f"{name:>14}  {statistics.median(values):10.3f} {min(values):10.3f} {max(values):10.3f}")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--only", choices=["speed", "start", "ring"])
    parser.add_argument(
        "--machines",
        action="store_true",
        help="the ring between two network namespaces, not over loopback; needs root",
    )
    parser.add_argument("--no-horovod", action="store_true", help="leave it out, where it is installed")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    parser.add_argument("--epochs", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--pin", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if options.worker:
        work(options)
        return
    has_horovod = importlib.util.find_spec("horovod") and not options.no_horovod and not options.machines
    engines = ["collective", *(["horovod"] if has_horovod else [])]
    if options.only in (None, "speed"):
        one, two = "one process", "two that share nothing"
        candidates = {one: (1, "alone"), two: (2, "alone")}
        candidates.update({f"{engine}, 2 ranks": (2, engine) for engine in engines})
        candidates["collective, 2 ranks, not fused"] = (2, "collective, not fused")
        if "horovod" in engines:
            candidates["plain TF1 loop, horovod, 2 ranks"] = (2, "plain")
        spent: dict = {name: [] for name in candidates}
        figures = measure(
            {name: images_per_second(*how, options, spent[name]) for name, how in candidates.items()},
            options.repetitions,
        )
        print_table(f"A convnet of 1.1 M weights, batch {options.batch} a rank", "images/s", figures, one)
        spent = {name: values[1:] for name, values in spent.items()}  # `measure` discards its first round
        print_table("CPU time of a step in a rank", "ms", spent, one)
    if options.only in (None, "start"):
        candidates = {"one process": (1, "alone"), **{f"{e}, 2 ranks": (2, e) for e in engines}}
        figures = measure(
            {name: seconds_to_first_step(*how, options) for name, how in candidates.items()},
            options.repetitions,
        )
        print_table("From launch to the end of the first step", "s", figures, "one process")
    if options.only in (None, "ring"):
        for engine in engines:
            print_ring(engine, options)


if __name__ == "__main__":
    main()
