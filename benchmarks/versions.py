"""
Comparison of two versions of the library, or of one version with and without exact resume.

    python benchmarks/versions.py OLD NEW [--only step] [--pairs 16] [--pin]
    python benchmarks/versions.py . . --exact [--pairs 16]

OLD and NEW are directories that contain `tensorpack_lite`, e.g. worktrees of git. With --exact, NEW resumes exactly. For each case,
two training runs live in two processes, and run blocks of steps in turn: while one runs, the other waits. Load on the machine that
lasts longer than a block, of 20 to 100 ms, thus affects both. Two processes with the same code differ by several per cent for as long
as they live, so there are many pairs of processes. The output is the median of each version, in microseconds a step, and the median
over pairs of the difference and of the ratio, with its interval of 95 % confidence (that of the sign test).

The time of a step also depends on the cores on which the kernel runs TensorFlow's threads: by up to a half, for seconds at a time.
With --pin, the main thread always runs on the first core and all other threads on the second. This suits the cases of a step, not
those with threads or processes for input.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import statistics
import tempfile

from _turns import Child, Turns, format_interval


def pin_threads():
    """Run the main thread on the first core, and all others on the second."""
    for thread in map(int, os.listdir("/proc/self/task")):
        with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
            os.sched_setaffinity(thread, {0 if thread == os.getpid() else 1})


def train_trainer(trainer, turns, **arguments):
    """Run the loop of a trainer until the process ends."""
    from tensorpack_lite.loop import Callback

    class Step(Callback):
        _chief_only = False

        def _trigger_step(self):
            turns.step()

    trainer.train_with_defaults(callbacks=[Step()], steps_per_epoch=10**9, max_epoch=1, **arguments)


def step(turns, is_exact, **arguments):
    from step_cost import AddOne

    train_trainer(AddOne(), turns, **arguments)


def step_alone(turns, is_exact):
    step(turns, is_exact, extra_callbacks=[], monitors=[])


def take_input(turns, make_input, **arguments):
    from input_cost import SMALL, InputTrainer, make_datapoint, repeat

    from tensorpack_lite.dataflow import DataFromGenerator

    source = make_input(DataFromGenerator(lambda: repeat(make_datapoint(SMALL))))
    train_trainer(InputTrainer().build(source, SMALL), turns, monitors=[], **arguments)


def queue(turns, is_exact, **arguments):
    from tensorpack_lite.input_source import QueueInput

    take_input(turns, QueueInput, **arguments)


def queue_alone(turns, is_exact):
    queue(turns, is_exact, extra_callbacks=[])


def staging(turns, is_exact):
    from tensorpack_lite.input_source import QueueInput, StagingInput

    take_input(turns, lambda flow: StagingInput(QueueInput(flow)), extra_callbacks=[])


def feed(turns, is_exact):
    from tensorpack_lite.input_source import FeedInput

    take_input(turns, FeedInput, extra_callbacks=[])


def processes(make, kind):
    """A case of worker processes that send datapoints of processes.py to this one."""

    def run(turns, is_exact):
        from processes import KINDS, Same, flow

        datapoints, _ = flow(lambda: make(Same(KINDS[kind])))()
        for _ in datapoints:
            turns.step()

    return run


def runner(flow):
    from tensorpack_lite.dataflow import MultiProcessRunnerZMQ

    return MultiProcessRunnerZMQ(flow, 1)


def process_map(flow):
    from processes import identity

    from tensorpack_lite.dataflow import MultiProcessMapDataZMQ

    return MultiProcessMapDataZMQ(flow, 1, identity)


def pipeline_into(name, num_stages):
    """A case of exact.py: a pipeline with 100 us of work for a datapoint into an input source."""

    def run(turns, is_exact):
        from exact import Running, pipeline

        import tensorpack_lite.input_source as sources

        with Running(getattr(sources, name), pipeline(num_stages, 1e-4), is_exact) as running:
            while True:
                running.hooked.run(running.step)
                turns.step()

    return run


# name -> (case, steps of warm-up, which empties a queue that was filled while the other process ran, timed steps)
CASES = {
    "step, no callbacks": (step_alone, 100, 1000),
    "step, default callbacks": (step, 100, 1000),
    "QueueInput": (queue_alone, 200, 1000),
    "QueueInput, default callbacks": (queue, 200, 1000),
    "StagingInput(QueueInput)": (staging, 200, 1000),
    "FeedInput": (feed, 100, 1000),
    "MultiProcessRunnerZMQ, small": (processes(runner, "small"), 4000, 4000),
    "MultiProcessRunnerZMQ, large": (processes(runner, "large"), 60, 20),
    "MultiProcessMapDataZMQ, small": (processes(process_map, "small"), 4000, 4000),
}
EXACT_CASES = {
    f"{name}, {num_stages} stages, 100 us of work": (pipeline_into(name, num_stages), 200, 400)
    for name in ("QueueInput", "FeedInput")
    for num_stages in (3, 6)
}


def be_child(case, is_exact, is_pinned):
    run, warmup, steps = {**CASES, **EXACT_CASES}[case]
    turns = Turns(warmup, steps, on_turn=pin_threads if is_pinned else lambda: None)
    from tensorpack_lite.compat import ensure_graph_mode
    from tensorpack_lite.utils import logger

    ensure_graph_mode()
    logging.disable(logging.WARNING)
    logger.set_logger_dir(os.path.join(tempfile.gettempdir(), "train_log"), action="d")
    run(turns, is_exact)


def start(library, case, options):
    """Start a child with a training of this library."""
    return Child([__file__, library, library, "--child", case, *options], PYTHONPATH=os.path.abspath(library))


def run_pair(case, args):
    """Start two training runs. Return the medians over blocks: of each in microseconds, of the difference and of the ratio."""
    pin = ["--pin"] * args.pin
    old, new = start(args.old, case, pin), start(args.new, case, [*pin, *["--exact"] * args.exact])
    blocks = []
    for number in range(args.blocks + 5):
        figures = {each: each.run() for each in ((old, new) if number % 2 else (new, old))}
        blocks.append((figures[old], figures[new]))
    old.end()
    new.end()
    rows = [(old, new, new - old, new / old) for old, new in blocks[5:]]
    return [statistics.median(column) for column in zip(*rows)]


def compare(case, args):
    olds, news, differences, ratios = zip(*(run_pair(case, args) for _ in range(args.pairs)))
    print(
        f"{case:44} {statistics.median(olds):8.2f} {statistics.median(news):8.2f}  {format_interval(differences)}  {format_interval(ratios)}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--exact", action="store_true", help="measure the cost of exact resume")
    parser.add_argument("--pin", action="store_true", help="the main thread and the others run on one core each")
    parser.add_argument("--only", default="", help="measure only cases with this in their name")
    parser.add_argument("--pairs", type=int, default=16, help="pairs of processes of a case")
    parser.add_argument("--blocks", type=int, default=30, help="blocks of steps of a process")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        be_child(args.child, args.exact, args.pin)
        return
    print(f"{'us a step':44} {'OLD':>8} {'NEW':>8}  {'NEW - OLD':^27}  {'NEW / OLD':^27}")
    for case in EXACT_CASES if args.exact else CASES:
        if args.only in case:
            compare(case, args)


if __name__ == "__main__":
    main()
