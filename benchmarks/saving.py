"""
Seconds that training stands still while a checkpoint is saved, synchronously and in a thread.

    python benchmarks/saving.py [--megabytes 1024] [--repetitions 5] [--directory DIR]

The reference is one `session.run` that fetches all variables. The target for an asynchronous save is at most 1.2 x the
reference. A further row is what fsync costs. "Of which the fetch" is the share of the fetch within each asynchronous save: on a
machine with other load it is steadier than the ratio of two runs. "Other threads stand still" is the longest time in which
Python's interpreter lock kept another thread from running while the checkpoint was written.
"""

from __future__ import annotations

import argparse
import logging
import os
import tempfile
import threading
import time

from _measure import measure, print_table

from tensorpack_lite.callbacks import ModelSaver
from tensorpack_lite.compat import ensure_graph_mode
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop import Callback
from tensorpack_lite.train import Trainer
from tensorpack_lite.utils import logger

_MEGABYTES_EACH = 16


class Fill(Trainer):
    """A trainer whose step adds 1 to all variables."""

    def __init__(self, megabytes):
        super().__init__()
        shape = [_MEGABYTES_EACH << 18]
        self.variables = [
            tf.get_variable(f"v{i}", shape, initializer=tf.zeros_initializer(), use_resource=True)
            for i in range(max(megabytes // _MEGABYTES_EACH, 1))
        ]
        self.train_op = tf.group(*[v.assign_add(tf.ones(shape), read_value=False) for v in self.variables])


class Heartbeat:
    """Thread that measures the longest time in which it could not run."""

    def __enter__(self):
        self.longest, self._stop = 0.0, threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def _run(self):
        last = time.perf_counter()
        while not self._stop.wait(0.0005):
            now = time.perf_counter()
            self.longest, last = max(self.longest, now - last), now

    def __exit__(self, *error):
        self._stop.set()
        self._thread.join()


class Measure(Callback):
    """Triggers the savers in turn, with a step in between, and measures how long each of them takes."""

    def __init__(self, savers, repetitions):
        self.savers, self.repetitions = savers, repetitions
        self.longest, self.shares = [], []
        self._fetch_secs = 0.0

    def _setup_graph(self):
        for saver in self.savers.values():
            saver.setup_graph(self.trainer)

    def _before_train(self):
        for saver in self.savers.values():
            saver.before_train()
        writer = self.savers["asynchronous"]._writer
        fetch = writer.fetch

        def timed_fetch(session):
            start = time.perf_counter()
            arrays = fetch(session)
            self._fetch_secs = time.perf_counter() - start
            return arrays

        writer.fetch = timed_fetch

    def _trigger(self):
        save = {name: self._timed(saver) for name, saver in self.savers.items()}
        self.figures = measure({"session.run(variables)": self._fetch, **save}, self.repetitions)

    def _after_train(self):
        for saver in self.savers.values():
            saver.after_train()

    def _fetch(self):
        self.trainer.sess.run(self.trainer.train_op)
        start = time.perf_counter()
        self.trainer.sess.run(self.trainer.variables)
        return (time.perf_counter() - start) * 1e3

    def _timed(self, saver):
        def run_once():
            self.trainer.sess.run(self.trainer.train_op)
            start = time.perf_counter()
            saver.trigger()
            seconds = time.perf_counter() - start
            with Heartbeat() as heartbeat:
                saver.wait()
            if saver is self.savers["asynchronous"]:
                self.longest.append(heartbeat.longest)
                self.shares.append(self._fetch_secs / seconds)
                self.until_durable = time.perf_counter() - start
            return seconds * 1e3

        return run_once


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--directory", default=None)
    args = parser.parse_args()
    ensure_graph_mode()
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory(dir=args.directory) as directory:
        logger.set_logger_dir(os.path.join(directory, "log"), action="d")

        def saver(name, **options):
            return ModelSaver(1, checkpoint_dir=os.path.join(directory, name), **options)

        callback = Measure(
            {
                "synchronous": saver("sync"),
                "synchronous, no fsync": saver("nofsync", fsync=False),
                "asynchronous": saver("async", asynchronous=True),
            },
            args.repetitions,
        )
        Fill(args.megabytes).train_with_defaults(
            callbacks=[callback], monitors=[], extra_callbacks=[], steps_per_epoch=1, max_epoch=1
        )
    print_table(f"Standing still, {args.megabytes} MB", "ms", callback.figures, "session.run(variables)")
    base = callback.figures["session.run(variables)"]
    for name, values in callback.figures.items():
        ratios = sorted(value / other for value, other in zip(values, base))
        print(f"{name}: ratios {' '.join(f'{ratio:.2f}' for ratio in ratios)}")
    print("asynchronous, of which the fetch:", " ".join(f"{share:.3f}" for share in sorted(callback.shares)))
    print(f"Other threads stand still while it is written: at most {max(callback.longest) * 1e3:.0f} ms")
    print(f"Until the checkpoint is durable: {callback.until_durable:.1f} s")


if __name__ == "__main__":
    main()
