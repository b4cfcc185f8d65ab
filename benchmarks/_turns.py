"""
Processes that run blocks of steps in turn: while one runs, the others wait.

Load on the machine that lasts longer than a block thus affects all of them alike.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time


class Turns:
    """
    In a child: counts steps. After each block, it writes the microseconds a step, and waits for its next turn.

    Args:
        warmup: steps at the beginning of a block that are not timed.
        steps: at least so many steps are timed in a block,
        seconds: and at least for so long.
        on_turn: called when a turn begins.
    """

    def __init__(self, warmup, steps, seconds=0.0, on_turn=lambda: None):
        self.warmup, self.steps, self.nanoseconds, self.on_turn = warmup, steps, int(1e9 * seconds), on_turn
        self.count = -1
        self.out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        sys.stdin = os.fdopen(os.dup(0))

    def step(self):
        self.count += 1
        if self.count == self.warmup:
            self.start = time.perf_counter_ns()
        elif self.count >= self.warmup + self.steps:
            passed = time.perf_counter_ns() - self.start
            if passed >= self.nanoseconds:
                self.hand_over(1e-3 * passed / (self.count - self.warmup))
        elif not self.count:
            self.hand_over(0)

    def hand_over(self, figure):
        print(figure, file=self.out, flush=True)
        if not sys.stdin.readline():
            os._exit(0)
        self.on_turn()
        self.count = 0
        if not self.warmup:
            self.start = time.perf_counter_ns()


class Child:
    """
    A child process that runs a block of steps when asked to.

    Args:
        arguments: of Python: a script that makes a `Turns`, and its arguments.
        wait: whether to wait until it is ready. If not, call `answer` once before `run`, so that several can start together.
        environment: variables to add.
    """

    def __init__(self, arguments, wait=True, **environment):
        self.directory = tempfile.TemporaryDirectory()
        self.errors = os.path.join(self.directory.name, "stderr")
        with open(self.errors, "w", encoding="utf-8") as errors:  # a pipe without a reader would fill up
            self.process = subprocess.Popen(
                [sys.executable, *arguments],
                env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **environment, "TMPDIR": self.directory.name},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                universal_newlines=True,
            )
        if wait:
            self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            with open(self.errors, encoding="utf-8", errors="replace") as errors:
                raise RuntimeError(f"A training ended:\n{errors.read()}")
        return float(line)

    def run(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.answer()

    def end(self):
        """Let the process end, at its next turn."""
        self.process.communicate()
        with contextlib.suppress(OSError):  # a worker is still writing
            self.directory.cleanup()


def run_in_turn(arguments, blocks, end=Child.end):
    """
    Start children together, and let each run blocks in turn.

    Args:
        arguments: name -> the arguments of Python for a child.
        blocks: blocks of each child that count; the first one does not.
        end: ends a child.

    Returns:
        name -> the figure of each block.
    """
    children, figures = {}, {name: [] for name in arguments}
    try:
        for name, words in arguments.items():
            children[name] = Child(words, wait=False)
        for child in children.values():
            child.answer()
        names = list(children)
        for number in range(blocks + 1):
            shift = number % len(names)
            for name in names[shift:] + names[:shift]:
                figure = children[name].run()
                if number:
                    figures[name].append(figure)
    finally:
        for child in children.values():
            end(child)
    return figures


def interval(values):
    """Return the median and its interval of 95 % confidence: that of the sign test."""
    values = sorted(values)
    reach = 0.98 * len(values) ** 0.5
    first, last = int(len(values) / 2 - reach), int(len(values) / 2 + reach)
    return statistics.median(values), values[max(first, 0)], values[min(last, len(values) - 1)]


def format_interval(values):
    """Return the median and its interval as text."""
    return "{:7.3f} ({:6.3f} to {:6.3f})".format(*interval(values))
