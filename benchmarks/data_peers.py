"""
Interleaved comparison of data pipelines: this library, PyTorch's DataLoader, tf.data, and grain.

    python benchmarks/data_peers.py [--cases arrays jpeg large records first] [--peers ours torch] [--rounds 2]

For each case, the processes of all peers run blocks of about a second in turn, as in `peers.py`, and read batches
as fast as they can. Each round starts new processes. The output is the median time of a batch, and the ratio to
ours with its interval of 95 % confidence: above 1, ours is faster. Peers that are not installed are left out.

Cases, all shuffled except "large":
    arrays     10,000 arrays of 28x28 uint8 with a label, in memory, batches of 128, without workers
    jpeg       JPEG of 500x375, decoded, resized to 224x224 and flipped by the same OpenCV function, batches of 32
    large      batches of 64x224x224x3 uint8 with labels, 9.6 MB, from workers
    records    1,000,000 arrays of 16 float32 with a label, in memory, batches of 256, without workers
    first      the time from the beginning of a pass to its first batch, of "jpeg" with 256 images and of "records". An
               earlier pass has ended. Ours is the strict map, which fills its buffer before a pass ends.

Peers:
    ours       BatchData(MultiProcessMapData) for "jpeg", MultiProcessRunnerZMQ for "large"
    runner     ours with MultiProcessRunnerZMQ(BatchData(MapData)), only for "jpeg"
    batches    ours with MultiProcessMapAndBatchData, only for "jpeg"
    threads    ours with BatchData(MultiThreadMapData), only for "jpeg"
    torch      DataLoader, for "jpeg" with persistent workers
    tf_data    calls the OpenCV function in as many threads as the others have workers; "large" comes from a generator
    grain      `mp_prefetch` for "jpeg" and "large", otherwise as many threads as the others have workers

tf_data and grain repeat the data without end, except in "first": their passes begin slowly.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import itertools
import json
import os
import signal
import statistics
import sys
import time

import numpy as np
from _turns import Turns, interval, run_in_turn

BATCHES = {"arrays": 128, "jpeg": 32, "large": 64, "records": 256}
PASS = 256  # images of a pass of "first_jpeg"


# The data -------------------------------------------------------------------------------------------------------------
class Pairs:
    """A sequence of [array, label], read at an index: a dataset for every peer."""

    def __init__(self, arrays, labels, function=None):
        self.arrays, self.labels, self.function = arrays, labels, function or (lambda datapoint: datapoint)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.function([self.arrays[index], self.labels[index]])


def make_pairs(kind, images):
    """Return the arrays and labels of a case."""
    rng = np.random.RandomState(0)
    if kind == "arrays":
        return rng.randint(0, 256, (10000, 28, 28)).astype(np.uint8), np.arange(10000)
    if kind == "records":
        return rng.rand(1000000, 16).astype(np.float32), np.arange(1000000)
    import cv2

    files = []
    for _ in range(64):
        picture = cv2.resize(
            rng.randint(0, 256, (24, 32, 3)).astype(np.uint8), (500, 375), interpolation=cv2.INTER_CUBIC
        )
        noisy = np.clip(picture.astype(int) + rng.randint(-8, 9, picture.shape), 0, 255).astype(np.uint8)
        files.append(cv2.imencode(".jpg", noisy, [cv2.IMWRITE_JPEG_QUALITY, 90])[1])
    return [files[k % len(files)] for k in range(images)], np.arange(images)


def decode(datapoint):
    """Decode a JPEG, resize it to 224x224, and flip it if its label is odd."""
    import cv2

    cv2.setNumThreads(0)
    image = cv2.resize(cv2.imdecode(np.asarray(datapoint[0]), cv2.IMREAD_COLOR), (224, 224))
    return [cv2.flip(image, 1) if datapoint[1] % 2 else image, datapoint[1]]


LARGE = [np.random.RandomState(0).randint(0, 256, (64, 224, 224, 3)).astype(np.uint8), np.arange(64)]


# The peers: each returns a function that begins a pass of batches -----------------------------------------------------
def ours(case, how="map"):
    from tensorpack_lite import dataflow as df

    workers = case["workers"]
    if case["kind"] == "large":
        flow = df.MultiProcessRunnerZMQ(df.DataFromList([LARGE] * 100, shuffle=False), workers, hwm=4)
    else:
        arrays, labels = make_pairs(case["kind"], case["images"])
        flow = df.DataFromList([[array, label] for array, label in zip(arrays, labels)], shuffle=True)
        size = BATCHES[case["kind"]]
        if case["kind"] != "jpeg":
            flow = df.BatchData(flow, size)
        elif how == "map":
            flow = df.BatchData(df.MultiProcessMapData(flow, workers, decode, strict=case["first"]), size)
        elif how == "threads":
            flow = df.BatchData(df.MultiThreadMapData(flow, workers, decode, strict=case["first"]), size)
        elif how == "runner":
            flow = df.MultiProcessRunnerZMQ(df.BatchData(df.MapData(flow, decode), size), workers, hwm=4)
        else:
            flow = df.MultiProcessMapAndBatchData(flow, workers, decode, size)
    flow.reset_state()
    return lambda: iter(flow)


def torch(case):
    from torch import from_numpy
    from torch.utils.data import DataLoader, IterableDataset, TensorDataset

    class Large(IterableDataset):
        def __iter__(self):
            return itertools.repeat([from_numpy(part) for part in LARGE], 10**6)

    workers = case["workers"]
    if case["kind"] == "large":
        loader = DataLoader(Large(), batch_size=None, num_workers=workers)
        return lambda: iter(loader)
    arrays, labels = make_pairs(case["kind"], case["images"])
    size = BATCHES[case["kind"]]
    if case["kind"] == "jpeg":
        loader = DataLoader(
            Pairs(arrays, labels, decode),
            size,
            shuffle=True,
            drop_last=True,
            num_workers=workers,
            persistent_workers=True,
        )
    else:
        loader = DataLoader(TensorDataset(from_numpy(arrays), from_numpy(labels)), size, shuffle=True, drop_last=True)
    return lambda: iter(loader)


def tf_data(case):
    import tensorflow as tf

    if case["kind"] == "large":
        types = tuple(tf.TensorSpec(part.shape, part.dtype) for part in LARGE)
        dataset = tf.data.Dataset.from_generator(lambda: itertools.repeat(tuple(LARGE)), output_signature=types)
        dataset = dataset.prefetch(4)
    else:
        arrays, labels = make_pairs(case["kind"], case["images"])
        is_jpeg = case["kind"] == "jpeg"
        arrays = [file.tobytes() for file in arrays] if is_jpeg else arrays
        dataset = tf.data.Dataset.from_tensor_slices((arrays, labels)).shuffle(len(labels))
        dataset = dataset if case["first"] else dataset.repeat()
        if is_jpeg:
            dataset = dataset.map(
                lambda file, label: tf.numpy_function(_decode_bytes, [file, label], [tf.uint8, tf.int64]),
                case["workers"],
            )
        dataset = dataset.batch(BATCHES[case["kind"]], drop_remainder=True).prefetch(4)
    return lambda: dataset.as_numpy_iterator()


def _decode_bytes(file, label):
    return decode([np.frombuffer(file, np.uint8), label])


def grain(case):
    import grain
    from absl import flags

    flags.FLAGS(["data_peers"])  # grain requires parsed flags to start processes
    # by default it reads 500 batches ahead, also while the other peers have their turns
    options = grain.ReadOptions(num_threads=case["workers"], prefetch_buffer_size=4)
    if case["kind"] == "large":
        dataset = grain.MapDataset.source([LARGE] * 10000).to_iter_dataset(options)
    else:
        dataset = grain.MapDataset.source(Pairs(*make_pairs(case["kind"], case["images"]))).shuffle(seed=0)
        dataset = dataset if case["first"] else dataset.repeat()
        dataset = dataset.map(decode) if case["kind"] == "jpeg" else dataset
        dataset = dataset.batch(BATCHES[case["kind"]], drop_remainder=True).to_iter_dataset(options)
    if case["kind"] in ("jpeg", "large"):
        dataset = dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=case["workers"]))
    return lambda: iter(dataset)


PEERS = {
    "ours": ours,
    "runner": lambda case: ours(case, "runner"),
    "batches": lambda case: ours(case, "batches"),
    "threads": lambda case: ours(case, "threads"),
    "torch": torch,
    "tf_data": tf_data,
    "grain": grain,
}
MODULES = {"torch": "torch", "tf_data": "tensorflow", "grain": "grain"}


def peers_of(case, wanted):
    """Return the names of the wanted peers of a case that are installed, with "ours", and those that are missing."""
    missing = [name for name in wanted if name in MODULES and importlib.util.find_spec(MODULES[name]) is None]
    names = ["ours", *(name for name in wanted if name != "ours" and name not in missing)]
    if case["kind"] != "jpeg":
        names = [name for name in names if name == "ours" or name in MODULES]
    elif case["first"]:
        names = [name for name in names if name not in ("runner", "batches")]  # they have no passes
    return names, missing


# A child --------------------------------------------------------------------------------------------------------------
def run_child(peer, case):
    """Read batches in turns."""
    os.setpgid(0, 0)
    if case["first"]:
        turns = Turns(0, 1)
        begin = PEERS[peer](case)
        check(next(begin()), case)
        turns.hand_over(0)
        while True:
            turns.hand_over(1e6 * statistics.median(first_batch_seconds(begin, case) for _ in range(case["passes"])))
    # the batches at the beginning of a block come from buffers that were filled before
    turns = Turns(case["warmup"], 3, case["seconds"])
    begin = PEERS[peer](case)
    check(next(begin()), case)
    while True:
        for _ in begin():
            turns.step()


def first_batch_seconds(begin, case):
    """Return how long the first batch of a pass takes, and read the rest of the pass."""
    start = time.perf_counter()
    batches = begin()
    next(batches)
    seconds = time.perf_counter() - start
    for _ in batches if case["kind"] == "jpeg" else ():  # a pass of a million records is left
        pass
    return seconds


def check(batch, case):
    """Raise ValueError unless a batch has the expected shape: a peer that did less would look fast."""
    shape = {"arrays": (28, 28), "records": (16,)}.get(case["kind"], (224, 224, 3))
    found = tuple(batch[0].shape), len(batch[1])
    if found != ((BATCHES[case["kind"]], *shape), BATCHES[case["kind"]]):
        raise ValueError(f"wrong batch of {case['kind']}: {found}")


# The comparison -------------------------------------------------------------------------------------------------------
def end_with_workers(child):
    """End a child, and the workers of grain, which outlive it."""
    child.end()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.process.pid, signal.SIGKILL)


def compare(case, wanted, rounds, blocks):
    """Print a line for each peer."""
    names, missing = peers_of(case, wanted)
    title = ("first batch of " if case["first"] else "") + case["kind"]
    workers = case["workers"] if case["kind"] in ("jpeg", "large") else 0
    print(f"\n{title}, {workers} workers; not installed: {', '.join(missing) or 'none'}")
    times, ratios = {name: [] for name in names}, {name: [] for name in names}
    for _ in range(rounds):
        arguments = {name: [os.path.abspath(__file__), "--child", name, json.dumps(case)] for name in names}
        figures = run_in_turn(arguments, blocks, end_with_workers)
        for name in names:
            times[name] += figures[name]
            ratios[name] += [other / base for other, base in zip(figures[name], figures["ours"])]
    for name in names:
        ratio = "{:6.2f} ({:.2f}-{:.2f})".format(*interval(ratios[name]))
        micro = interval(times[name])[0]
        rate = "" if case["first"] else f"{1e6 * BATCHES[case['kind']] / micro:12,.0f} samples/s"
        print(f"{name:10}{micro:12,.0f} us {ratio}  x ours{rate}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", default=[*BATCHES, "first"], choices=[*BATCHES, "first"])
    parser.add_argument("--peers", nargs="+", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--blocks", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=0.7, help="of a block, after its warm-up")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        return run_child(args.child[0], json.loads(args.child[1]))
    shared = {"workers": args.workers, "seconds": args.seconds, "warmup": 20}
    for name in args.cases:
        kinds = ["jpeg", "records"] if name == "first" else [name]
        for kind in kinds:
            first = {"first": name == "first", "images": PASS if name == "first" else 512, "passes": 2}
            compare({**shared, **first, "kind": kind}, args.peers, args.rounds, args.blocks)
    return None


if __name__ == "__main__":
    main()
