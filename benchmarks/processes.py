"""
Throughput of worker processes: datapoints per second from workers to one consumer.

    python benchmarks/processes.py [--repetitions 5] [--seconds 1] [--workers 1 2]

A large datapoint is 64x224x224x3 uint8 and 64 labels, 9.6 MB; a small one is 28x28 uint8 and a label. The upper limit is a
copy in memory. The reference is a simple ring of shared-memory slots, from which each datapoint is copied once. torch's
DataLoader, tf.data, and tensorpack from TENSORPACK_CHECKOUT are also measured if they are installed. Each round starts all
candidates of a table again; the start is not timed.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import mmap
import multiprocessing
import os
import time

import numpy as np
from _measure import import_tensorpack, measure, print_table

from tensorpack_lite.dataflow import (
    DataFlow,
    MapData,
    MultiProcessMapAndBatchData,
    MultiProcessMapDataZMQ,
    MultiProcessRunner,
    MultiProcessRunnerZMQ,
)

NUM_SLOTS = 8
KINDS = {
    "large": [np.random.RandomState(0).randint(0, 256, (64, 224, 224, 3)).astype(np.uint8), np.arange(64)],
    "small": [np.random.RandomState(0).randint(0, 256, (28, 28)).astype(np.uint8), 3],
}


class Same(DataFlow):
    """Yields the same datapoint endlessly."""

    def __init__(self, datapoint):
        self.datapoint = datapoint

    def __iter__(self):
        for _ in range(1000):
            yield self.datapoint

    def __len__(self):
        return 1000


def identity(datapoint):
    """Return the datapoint, to measure a map without the cost of its function."""
    return datapoint


def busy_2ms(datapoint):
    """Compute for two milliseconds of CPU time."""
    begin = time.thread_time()
    while time.thread_time() - begin < 0.002:
        pass
    return datapoint


def flow(make):
    """Return an endless iterator over a DataFlow. It needs no closing."""

    def start():
        made = make()
        made.reset_state()
        return itertools.chain.from_iterable(itertools.repeat(made)), lambda: None

    return start


def ring(datapoint, copy_out):
    """The reference: shared-memory slots, two semaphores and one producer."""
    array, label = datapoint
    label = np.atleast_1d(label).astype(np.int64)
    slot = array.nbytes + label.nbytes

    def produce(memory, free, full):
        views = [_views(memory, k, slot, array, label) for k in range(NUM_SLOTS)]
        for k in itertools.cycle(range(NUM_SLOTS)):
            free.acquire()
            np.copyto(views[k][0], array)
            np.copyto(views[k][1], label)
            full.release()

    def start():
        memory = mmap.mmap(-1, slot * NUM_SLOTS)
        free, full = multiprocessing.Semaphore(NUM_SLOTS), multiprocessing.Semaphore(0)
        process = multiprocessing.get_context("fork").Process(target=produce, args=(memory, free, full), daemon=True)
        process.start()

        def consume():
            views = [_views(memory, k, slot, array, label) for k in range(NUM_SLOTS)]
            for k in itertools.cycle(range(NUM_SLOTS)):
                full.acquire()
                yield [view.copy() for view in views[k]] if copy_out else views[k]
                free.release()

        def stop():
            process.kill()
            process.join()

        return consume(), stop

    return start


def _views(memory, k, slot, array, label):
    one = np.frombuffer(memory, np.uint8, slot, k * slot)
    return one[: array.nbytes].reshape(array.shape), one[array.nbytes :].view(np.int64)


def copies(datapoint):
    """The upper limit: a copy in memory, in this process."""

    def start():
        return ([np.copy(c) for c in datapoint] for _ in itertools.count()), lambda: None

    return start


def torch_loader(datapoint, workers, as_tensor):
    """torch.utils.data.DataLoader over an iterable dataset."""
    import torch
    from torch.utils.data import DataLoader, IterableDataset

    class Endless(IterableDataset):
        def __iter__(self):
            item = [torch.from_numpy(np.atleast_1d(c)) for c in datapoint] if as_tensor else datapoint
            return itertools.repeat(item)

    def start():
        return iter(DataLoader(Endless(), batch_size=None, num_workers=workers)), lambda: None

    return start


def tf_data(datapoint):
    """tf.data.Dataset.from_generator, in this process."""
    import tensorflow as tf

    def start():
        types = tuple(tf.as_dtype(np.asarray(c).dtype) for c in datapoint)
        with tf.Graph().as_default():
            dataset = tf.data.Dataset.from_generator(lambda: itertools.repeat(tuple(datapoint)), types).prefetch(8)
            values = tf.compat.v1.data.make_one_shot_iterator(dataset).get_next()
            session = tf.compat.v1.Session()
            call = session.make_callable(values)
        return (call() for _ in itertools.count()), session.close

    return start


def tensorpack_flows(tensorpack, datapoint, workers):
    """The runners of tensorpack."""
    from tensorpack.dataflow import DataFromList
    from tensorpack.dataflow import MultiProcessMapDataZMQ as MapZMQ
    from tensorpack.dataflow import MultiProcessRunnerZMQ as RunnerZMQ

    source = DataFromList([datapoint] * 1000, shuffle=False)
    return {
        "tensorpack MultiProcessRunnerZMQ": flow(lambda: RunnerZMQ(source, workers)),
        "tensorpack MultiProcessMapDataZMQ": flow(lambda: MapZMQ(source, workers, identity, buffer_size=20)),
    }


def rate(start, seconds):
    """Return datapoints per second."""

    def run():
        datapoints, stop = start()
        begin = time.perf_counter()
        while time.perf_counter() - begin < 0.3 * seconds:  # the first ones fill buffers
            next(datapoints)
        count, begin = 0, time.perf_counter()
        while time.perf_counter() - begin < seconds:
            for _ in range(8):
                next(datapoints)
            count += 8
        figure = count / (time.perf_counter() - begin)
        del datapoints
        stop()
        return figure

    return run


def candidates(datapoint, workers, seconds):
    """Return the candidates of a table."""
    source = Same(datapoint)
    found = {
        "ring, copied out once": ring(datapoint, copy_out=True),
        "ring, used in place": ring(datapoint, copy_out=False),
        "copy in memory": copies(datapoint),
        "MultiProcessRunnerZMQ": flow(lambda: MultiProcessRunnerZMQ(source, workers)),
        "MultiProcessRunner": flow(lambda: MultiProcessRunner(source, 50, workers)),
        "MultiProcessMapData": flow(lambda: MultiProcessMapDataZMQ(source, workers, identity)),
        "MultiProcessMapData, buffer 20": flow(
            lambda: MultiProcessMapDataZMQ(source, workers, identity, buffer_size=20)
        ),
    }
    if importlib.util.find_spec("torch"):
        found["torch DataLoader, tensors"] = torch_loader(datapoint, workers, as_tensor=True)
        found["torch DataLoader, numpy"] = torch_loader(datapoint, workers, as_tensor=False)
    if importlib.util.find_spec("tensorflow"):
        found["tf.data from_generator"] = tf_data(datapoint)
    tensorpack = import_tensorpack()
    if tensorpack is not None:
        found.update(tensorpack_flows(tensorpack, datapoint, workers))
    return {name: rate(start, seconds) for name, start in found.items()}


def batches_per_second(workers, seconds):
    """Compare MapAndBatch with the ring, in batches of 64 images."""
    batch = KINDS["large"]
    source = Same([batch[0][0], 3])
    return {
        "ring, copied out once": rate(ring(batch, copy_out=True), seconds),
        "MultiProcessMapAndBatchData": rate(
            flow(lambda: MultiProcessMapAndBatchData(source, workers, identity, 64)), seconds
        ),
    }


def cores_worth(workers, seconds):
    """Measure how many cores a map uses for a function of 2 ms, by number of workers."""
    source = Same(KINDS["small"])
    start = flow(lambda: MultiProcessMapDataZMQ(source, workers, busy_2ms))
    return {
        "one core: MapData here": rate(flow(lambda: MapData(source, busy_2ms)), seconds),
        f"MultiProcessMapData, {workers} workers": rate(start, seconds),
    }


def main() -> None:
    """Print a table for each size and number of workers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    args = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    for workers in args.workers:
        for kind, datapoint in KINDS.items():
            figures = measure(candidates(datapoint, workers, args.seconds), args.repetitions)
            print_table(f"{kind} datapoints, {workers} worker(s)", "per second", figures, "ring, copied out once")
        figures = measure(batches_per_second(workers, args.seconds), args.repetitions)
        print_table(f"batches of 64 images, {workers} worker(s)", "per second", figures, "ring, copied out once")
        figures = measure(cores_worth(workers, args.seconds), args.repetitions)
        print_table(f"2 ms a datapoint, {workers} worker(s)", "per second", figures, "one core: MapData here")


if __name__ == "__main__":
    main()
