"""
Interleaved comparison of training speed: this library, the raw loop, Keras, and PyTorch.

    python benchmarks/peers.py [--works mnist resnet20 lstm] [--batches 1 16 64 256] [--input synthetic data] [--rounds 5]
    python benchmarks/peers.py --works resnet50 --batches 64 256 --precision mixed_float16         on a GPU

For each case, each peer trains the same network in a separate process. The processes run blocks of half a second in turn, and
new processes are started for each round, because two processes with the same code differ for as long as they live. The output is
the median time of a step, and the ratio to ours with its interval of 95 % confidence: above 1, ours is faster.

Peers:
    ours       SimpleTrainer with the default callbacks; QueueInput
    gated      ours with GATE_GRADIENTS = True, only with --peers: the gradients of an operation wait for each other; free: with False
    raw        the same graph in the same precision, run by TensorFlow's own callable in a plain loop: the floor; feeds the batch
    keras      Model.fit of the Keras that TensorFlow uses
    tf_keras   Model.fit of Keras 2, if it is installed
    torch      a plain loop in PyTorch, if it is installed; DataLoader without workers; on a GPU channels_last; autocast
    jax        a jitted step of Flax and Optax in a plain loop, if they are installed; float32 only; feeds the batch

tensorpack itself is not a peer: its layers do not run on TensorFlow >= 2.16.

Input: "synthetic" is one batch that is already in the graph or on the device. "data" is a pass over 10,000 samples in memory, shuffled
and put into batches by each peer's usual means. Two more inputs are only for ours: "queue" is a batch that is ready in memory, through
QueueInput; "staged" is the same through StagingInput(QueueInput).

By default, ours chooses the number of threads for each operation, and raw has the same number. With --threads 0, an operation may
use all cores, as in the other peers.

In float32, products on a GPU are exact; with --tf32, TensorFlow and PyTorch round their factors to 10 bits.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import logging
import os
import sys
import tempfile

import _peer_models as models
from _turns import Turns, interval, run_in_turn

SECONDS = 0.5  # of a block


# The peers, in a child ---------------------------------------------------------------------------------------------------
def be_ours(turns, case):
    from tensorpack_lite.compat import tfv1 as tf
    from tensorpack_lite.graph_builder import ModelDesc
    from tensorpack_lite.loop import Callback
    from tensorpack_lite.train import SimpleTrainer, TrainConfig, launch_train_with_config
    from tensorpack_lite.utils import logger

    case.set_tf32()
    x, label = models.make_data(case.work, case.pixels)

    class Model(ModelDesc):
        def inputs(self):
            size = None if case.input == "data" else case.batch
            return [
                tf.TensorSpec([size, *each.shape[1:]], tf.as_dtype(each.dtype), name)
                for each, name in ((x, "x"), (label, "label"))
            ]

        def build_graph(self, x, label):
            return models.cost_of(case.work, x, label)

        def optimizer(self):
            return models.optimizer_of(case.work)

    class Step(Callback):
        def _trigger_step(self):
            turns.step()

    logging.disable(logging.WARNING)
    logger.set_logger_dir(os.path.join(tempfile.gettempdir(), "train_log"))
    source = make_source(case.input, x, label, case.batch)
    config = TrainConfig(
        model=Model(), data=source, callbacks=[Step()], steps_per_epoch=10**9, max_epoch=1, **case.options()
    )
    launch_train_with_config(config, SimpleTrainer())


def be_gated(turns, case, gated=True):
    from tensorpack_lite.train import SimpleTrainer

    SimpleTrainer.GATE_GRADIENTS = gated
    be_ours(turns, case)


def be_free(turns, case):
    be_gated(turns, case, False)


def make_source(kind, x, label, batch):
    """Return an InputSource: "synthetic", "data", "queue" or "staged"; see the head of this file."""
    from tensorpack_lite.compat import tfv1 as tf
    from tensorpack_lite.dataflow import BatchData, DataFromList
    from tensorpack_lite.input_source import QueueInput, StagingInput, TensorInput

    if kind == "synthetic":
        return TensorInput(lambda: [tf.constant(x[:batch]), tf.constant(label[:batch])], 10**6)
    if kind == "data":
        return QueueInput(BatchData(DataFromList(list(zip(x, label)), shuffle=True), batch, use_list=False))
    ready = QueueInput(DataFromList([[x[:batch], label[:batch]]] * 100, shuffle=False))
    return StagingInput(ready) if kind == "staged" else ready


def be_raw(turns, case):
    from tensorpack_lite.compat import ensure_graph_mode
    from tensorpack_lite.compat import tfv1 as tf

    logging.disable(logging.WARNING)
    ensure_graph_mode()
    case.set_tf32()
    x, label = models.make_data(case.work, case.pixels)
    with tf.Graph().as_default():
        train_op, fed = raw_graph(case, x, label)
        run = case.raw_session(train_op, fed).make_callable(train_op, fed)
    for batch in raw_batches(case, x, label):
        run(*batch)
        turns.step()


def raw_batches(case, x, label):
    """Yield what a step feeds, without end: nothing, or the images and labels of a shuffled batch."""
    import numpy as np

    if case.input == "synthetic":
        yield from itertools.repeat(())
    rng = np.random.RandomState(0)
    while True:
        order = rng.permutation(len(x))
        for first in range(0, len(x) - case.batch + 1, case.batch):
            chosen = order[first : first + case.batch]
            yield x[chosen], label[chosen]


def raw_graph(case, x, label):
    """Build the graph without a trainer. Return the operation of a step, and the tensors to feed."""
    from tensorpack_lite.compat import tfv1 as tf
    from tensorpack_lite.tfutils.tower import TrainTowerContext

    fed = []
    if case.input == "synthetic":
        tensors = [tf.constant(x[: case.batch]), tf.constant(label[: case.batch])]
    else:
        tensors = fed = [tf.placeholder(tf.as_dtype(each.dtype), [None, *each.shape[1:]]) for each in (x, label)]
    build, optimizer = case.raw_functions()
    with TrainTowerContext(""):
        cost = build(*tensors)
    train_op = optimizer().minimize(cost)
    return tf.group(train_op, *tf.get_collection(tf.GraphKeys.UPDATE_OPS)), fed


def be_keras(turns, case, package="keras"):
    import tensorflow as tf

    keras = importlib.import_module(package) if package == "tf_keras" else tf.keras
    case.set_tf32()
    if case.precision != "float32":
        keras.mixed_precision.set_global_policy(case.precision)
    model = models.keras_model(keras, case.work, case.pixels, case.xla)
    x, label = models.make_data(case.work, case.pixels)

    class Step(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            turns.step()

    if case.input == "synthetic":
        batch = tf.data.Dataset.from_tensors((x[: case.batch], label[: case.batch])).cache().repeat()
        model.fit(batch, steps_per_epoch=10**9, verbose=0, callbacks=[Step()])
    model.fit(x, label, batch_size=case.batch, epochs=10**9, verbose=0, callbacks=[Step()])


def be_tf_keras(turns, case):
    be_keras(turns, case, "tf_keras")


def be_torch(turns, case):
    import contextlib

    import torch
    from torch.nn import functional
    from torch.utils.data import DataLoader, TensorDataset

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = case.tf32
    torch.backends.cudnn.benchmark = True  # TensorFlow also tries the algorithms
    x, label = map(torch.from_numpy, models.make_data(case.work, case.pixels))
    x, label = (x.long() if case.work == "lstm" else x.movedim(-1, 1).contiguous()), label.long()
    model, optimizer = models.torch_model(case.work)
    model = model.to(device)
    if device == "cuda" and x.dim() == 4:
        model, x = (
            model.to(memory_format=torch.channels_last),
            x.contiguous(memory_format=torch.channels_last),
        )
    dtype = {"mixed_float16": torch.float16, "mixed_bfloat16": torch.bfloat16}.get(case.precision)
    cast = contextlib.nullcontext if dtype is None else lambda: torch.autocast(device, dtype)
    scaler = torch.amp.GradScaler(device, enabled=dtype is torch.float16)
    if case.input == "synthetic":
        fixed = x[: case.batch].to(device), label[: case.batch].to(device)
        batches = itertools.repeat(fixed)
    else:
        loader = DataLoader(
            TensorDataset(x, label), case.batch, shuffle=True, drop_last=True, pin_memory=device == "cuda"
        )
        moved = (one for _ in itertools.count() for one in loader)
        batches = ((a.to(device, non_blocking=True), b.to(device, non_blocking=True)) for a, b in moved)
    for images, labels in batches:
        optimizer.zero_grad(set_to_none=True)
        with cast():
            cost = functional.cross_entropy(model(images), labels)
        scaler.scale(cost).backward()
        scaler.step(optimizer)
        scaler.update()
        if device == "cuda":
            torch.cuda.synchronize()  # else a block would end before its steps; the other peers also wait
        turns.step()


def be_jax(turns, case):
    import _jax_models

    x, label = models.make_data(case.work, case.pixels)
    step, state = _jax_models.make_step(case.work, x[: case.batch])
    batches = raw_batches(case, x, label)
    if case.input == "synthetic":
        batches = itertools.repeat(_jax_models.on_device(x[: case.batch], label[: case.batch]))
    for batch in batches:
        state, cost = step(state, *batch)
        cost.block_until_ready()
        turns.step()


PEERS = {
    "ours": be_ours,
    "gated": be_gated,
    "free": be_free,
    "raw": be_raw,
    "keras": be_keras,
    "tf_keras": be_tf_keras,
    "torch": be_torch,
    "jax": be_jax,
}


# The comparison ------------------------------------------------------------------------------------------------------------
class Case:
    """A network, a batch size, an input and a precision."""

    def __init__(self, work, batch, input, precision="float32", xla=False, tf32=False, pixels=224, threads=None):
        self.work, self.batch, self.input, self.precision = work, int(batch), input, precision
        self.xla, self.tf32, self.pixels, self.threads = bool(xla), bool(tf32), int(pixels), threads

    def __str__(self):
        more = "" if self.precision == "float32" else f", {self.precision}"
        more += ", TF32" if self.tf32 else ""
        more += "" if self.threads is None else f", --threads {self.threads}"
        return f"{self.work}, batch {self.batch}, {self.input}{more}{', XLA' if self.xla else ''}"

    def set_tf32(self):
        """Let TensorFlow round the factors of products on a GPU, or not."""
        from tensorpack_lite.compat import TF_VERSION, tensorflow

        if TF_VERSION >= (2, 4):
            tensorflow.config.experimental.enable_tensor_float_32_execution(self.tf32)

    def options(self):
        """Return the arguments of TrainConfig; those that only newer versions have, if they are needed."""
        options = {"session_config": self.session_config()}
        if self.precision != "float32":
            options["precision"] = self.precision
        return {**options, "xla": True} if self.xla else options

    def session_config(self):
        """Return a config with `threads` for each operation; None, the library's default, for None."""
        if self.threads is None:
            return None
        from tensorpack_lite.tfutils.common import get_default_sess_config

        config = get_default_sess_config()
        config.intra_op_parallelism_threads = self.threads
        return config

    def raw_functions(self):
        """Return the functions that build the cost and the optimizer of the raw loop, as a trainer with `options` does."""
        functions = (
            lambda x, label: models.cost_of(self.work, x, label),
            lambda: models.optimizer_of(self.work),
        )
        if self.precision != "float32":
            from tensorpack_lite.tfutils.precision import with_precision

            functions = with_precision(self.precision, *functions)
        if self.xla:
            from tensorpack_lite.tfutils.xla import with_xla

            functions = with_xla(functions[0]), functions[1]
        return functions

    def raw_session(self, train_op, fed):
        """Return a session with the config and the environment variables of ours, and initialized variables."""
        from tensorpack_lite.tfutils.operation_threads import measure_work, set_threads
        from tensorpack_lite.tfutils.sesscreate import NewSessionCreator
        from tensorpack_lite.utils.cores import usable_cores

        creator = NewSessionCreator(config=self.session_config())
        set_threads(creator, lambda: measure_work([train_op], fed, self.batch), usable_cores())
        if self.xla:
            from tensorpack_lite.tfutils.xla import keep_for_xla

            keep_for_xla(creator.config)
        return creator.create_session()


def available_peers():
    """Return the names of the peers that are installed."""
    names = ["ours", "raw", "keras"]
    names += [name for name in ("tf_keras", "torch") if importlib.util.find_spec(name)]
    return names + (["jax"] if importlib.util.find_spec("flax") else [])


def compare(trainings, rounds, blocks):
    """
    Compare training runs that take turns.

    Args:
        trainings: name -> (peer, case). The first one is the base.
        rounds: how often the processes are started.
        blocks: blocks of each process.

    Returns:
        name -> the median time of a step in microseconds, and the ratio to the base with its interval.
    """
    names = list(trainings)
    times, ratios = {name: [] for name in names}, {name: [] for name in names}
    for _ in range(rounds):
        figures = run_in_turn(
            {
                name: [os.path.abspath(__file__), "--child", peer, json.dumps(vars(case))]
                for name, (peer, case) in trainings.items()
            },
            blocks,
        )
        for name in names:
            times[name].append(interval(figures[name])[0])
            ratios[name] += [other / base for other, base in zip(figures[name], figures[names[0]])]
    return {name: {"us": interval(times[name])[0], "ratio": interval(ratios[name])} for name in names}


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--works", nargs="+", choices=models.WORKS, default=list(models.WORKS[:3]))
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 16, 64, 256])
    parser.add_argument("--input", nargs="+", choices=["synthetic", "data"], default=["synthetic", "data"])
    parser.add_argument("--precision", default="float32", choices=["float32", "mixed_float16", "mixed_bfloat16"])
    parser.add_argument("--tf32", action="store_true", help="allow TF32 on a GPU")
    parser.add_argument("--xla", action="store_true", help="compile ours, raw and Keras")
    parser.add_argument("--threads", type=int, help="threads of an operation of ours and raw; 0: all; default: chosen")
    parser.add_argument("--pixels", type=int, default=224, help="height and width of resnet50's images")
    parser.add_argument("--peers", nargs="+", default=available_peers(), choices=list(PEERS))
    parser.add_argument("--rounds", type=int, default=3, help="how often the processes are started")
    parser.add_argument("--blocks", type=int, default=8, help="blocks of each process")
    parser.add_argument("--json", help="also write the results to this file")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.child:
        name, values = args.child
        sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        return PEERS[name](Turns(2, 3, SECONDS), Case(**json.loads(values)))
    results = {}
    peers = ["ours", *[name for name in args.peers if name != "ours"]]
    print(f"| case | ours, us a step | {' | '.join(f'{name} / ours' for name in peers[1:])} |")
    print("| --- " * (len(peers) + 1) + "|")
    for work, batch, input in itertools.product(args.works, args.batches, args.input):
        case = Case(work, batch, input, args.precision, args.xla, args.tf32, args.pixels, args.threads)
        found = results[str(case)] = compare({name: (name, case) for name in peers}, args.rounds, args.blocks)
        cells = ["{:.2f} ({:.2f}-{:.2f})".format(*found[name]["ratio"]) for name in peers[1:]]
        print(f"| {case} | {found['ours']['us']:,.0f} | {' | '.join(cells)} |", flush=True)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
    return None


if __name__ == "__main__":
    main()
