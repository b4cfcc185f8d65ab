"""
Cost of exact resume: pipelines of 3 to 6 stages into inputs, with exact=False and exact=True.

    python benchmarks/exact.py [--steps 3000] [--repetitions 5]

The budget is 1 % of the throughput, and 1.5 microseconds for each datapoint and stage; 5 ms for a state, and 10 ms and 100 kB for
its file. To compare exact=False with an earlier version of the library, run this script with `PYTHONPATH` set to each.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time

import numpy as np
from _measure import measure, print_table, time_calls

from tensorpack_lite.compat import ensure_graph_mode
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow import BatchData, DataFromList, LocallyShuffleData, MapData, RepeatedData
from tensorpack_lite.input_source import FeedInput, QueueInput
from tensorpack_lite.loop.group import Callbacks
from tensorpack_lite.loop.session import HookedSession

try:
    from tensorpack_lite.tfutils.checkpoint_state import write_state
    from tensorpack_lite.tfutils.exact.state import begin_exact, find_exact
except ImportError:  # a version without exact resume
    begin_exact = None


def busy(seconds):
    """Return a function that computes for some time."""

    def work(datapoint):
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            pass
        return datapoint

    return work


def pipeline(num_stages, seconds):
    """A source, a map that costs `seconds`, and further stages; a batch is one datapoint."""
    data = [[np.full(16, n, np.float32)] for n in range(1000)]
    flow = MapData(DataFromList(data, shuffle=True), busy(seconds))
    if num_stages >= 4:
        flow = LocallyShuffleData(flow, 100)
    for _ in range(num_stages - (4 if num_stages >= 4 else 3)):
        flow = MapData(flow, lambda datapoint: datapoint)
    return BatchData(flow, 1)


class Running:
    """An input whose datapoints are taken by a step that does nothing else."""

    def __init__(self, make_input, flow, is_exact):
        if is_exact:
            begin_exact(True, None)
        self.source = make_input(flow)
        callbacks = Callbacks(self.source.setup([tf.TensorSpec([1, 16], tf.float32, "x")]))
        tensors = self.source.get_input_tensors()
        callbacks.setup_graph(None)
        tf.train.get_or_create_global_step()
        self.callbacks, self.session = callbacks, tf.Session()
        variables = [tf.global_variables_initializer(), tf.local_variables_initializer()]
        self.session.run([*variables, tf.tables_initializer()])
        self.hooked = HookedSession(self.session, callbacks.get_hooks())
        self.step = tf.group(*tensors)

    def __enter__(self):
        self.default = self.session.as_default()
        self.default.__enter__()
        self.callbacks.before_train()
        return self

    def __exit__(self, *error):
        self.callbacks.after_train()
        self.default.__exit__(*error)
        self.session.close()


def microseconds(make_input, num_stages, seconds, is_exact, steps):
    """Return a function that measures the microseconds for a datapoint."""

    def run_once():
        with tf.Graph().as_default(), Running(make_input, pipeline(num_stages, seconds), is_exact) as run:
            time_calls(lambda: run.hooked.run(run.step), 200)
            return 1e6 * time_calls(lambda: run.hooked.run(run.step), steps)

    return run_once


def in_python(num_stages, is_exact, steps):
    """Return a function that measures the microseconds for a datapoint of a pipeline alone, without work."""

    def run_once():
        flow = RepeatedData(pipeline(num_stages, 0), -1)
        if is_exact:
            flow.set_state(None)
        flow.reset_state()
        datapoints = iter(flow)
        time_calls(lambda: next(datapoints), 1000)
        return 1e6 * time_calls(lambda: next(datapoints), 10 * steps)

    return run_once


def measure_state(num_stages):
    """Print how long a state and its file take, and the size of the file."""
    with tf.Graph().as_default(), Running(QueueInput, pipeline(num_stages, 0), True) as run:
        for _ in range(300):
            run.hooked.run(run.step)
        exact = find_exact()
        taken = 1e3 * time_calls(exact.state, 100)
        snapshot = 1e3 * time_calls(run.source.flow._stream.flow.get_state, 100)
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "model-1.state")
            state = exact.state()
            written = 1e3 * time_calls(lambda: write_state(path, state), 100)
            size = os.path.getsize(path)
    print(
        f"{num_stages} stages: snapshot {snapshot:.2f} ms, state {taken:.2f} ms, file {written:.2f} ms, {size / 1e3:.1f} kB"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--repetitions", type=int, default=5)
    args = parser.parse_args()
    ensure_graph_mode()
    modes = [False] if begin_exact is None else [False, True]
    for num_stages in (3, 6):
        figures = measure(
            {f"exact={is_exact}": in_python(num_stages, is_exact, args.steps) for is_exact in modes},
            args.repetitions,
        )
        print_table(f"pipeline of {num_stages} stages, no work", "us", figures, "exact=False")
        for make_input in (QueueInput, FeedInput):
            for seconds in (0, 1e-4, 1e-3):
                steps = min(args.steps, int(2 / seconds) if seconds else args.steps)
                candidates = {
                    f"exact={is_exact}": microseconds(make_input, num_stages, seconds, is_exact, steps)
                    for is_exact in modes
                }
                title = f"{make_input.__name__}, {num_stages} stages, {1e6 * seconds:.0f} us of work"
                print_table(title, "us", measure(candidates, args.repetitions), "exact=False")
        if begin_exact is not None:
            measure_state(num_stages)


if __name__ == "__main__":
    main()
