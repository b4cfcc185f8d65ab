"""
Everything that one GPU can prove, in one run of at most six minutes.

    python benchmarks/gpu_proof.py [--out DIR] [--sections resnet50_256] [--minutes 6] [--small]

Writes gpu_proof.json and gpu_proof.md, a table, after each row. Each section runs in a separate process and has a limit of
time; a section that fails has its error as a row. The checks run together. Then the sections that measure speed run alone.

Sections:
    machine         the GPU, the driver, the libraries, and the versions
    tests           pytest -m gpu, with two logical GPUs
    equality        the weights after training on one tower, two towers and the CPU, in float32 without TF32
    exact           a training that was stopped and resumed, with deterministic kernels: the same bytes
    memory          the peak with and without recomputation
    out_of_memory   a step that needs too much memory: one sentence
    resnet50        images/s with batches of 64 in each precision and with XLA, and the ratios to the raw loop and to PyTorch
    inputs          QueueInput, and StagingInput(QueueInput), against a batch on the GPU
    step            a step of about 20 us of work on a GPU, against TensorFlow's callable
    resnet50_256    as resnet50, with batches of 256

On a machine without a GPU, the same code runs with small sizes (--small) and tests nothing but the script.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

import _gpu_checks as checks
import _gpu_speed as speed

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# name -> (function, limit in seconds)
CHECKS = {
    "machine": (checks.show_machine, 60),
    "tests": (checks.run_tests, 150),
    "equality": (checks.compare_devices, 90),
    "exact": (checks.resume_exactly, 120),
    "memory": (checks.measure_memory, 90),
    "out_of_memory": (checks.run_out_of_memory, 60),
}
SPEED = {
    "resnet50": (speed.compare_precisions, 140),
    "inputs": (speed.compare_inputs, 50),
    "step": (speed.compare_steps, 30),
    "resnet50_256": (speed.compare_large_batch, 200),
}
SECTIONS = {**CHECKS, **SPEED}
SMALL_LIMIT = 900  # seconds of each section, on a CPU that may be busy


class Section:
    """
    Settings of a section, which its function gets in the process of the section.

    Attributes:
        small: whether the sizes are small.
        has_gpu: whether the machine has a GPU.
    """

    def __init__(self, path, seconds, small, has_gpu):
        self.path, self.small, self.has_gpu = path, small, has_gpu
        self._end = time.monotonic() + seconds

    def seconds_left(self):
        """Return the seconds until the process is ended."""
        return self._end - time.monotonic()

    def row(self, what, result, passed=None, **values):
        """
        Write a row of the table.

        Args:
            what: what was tried or measured.
            result: the result as text.
            passed: whether it is what it must be; None if nothing is demanded, or this machine cannot tell.
            values: numbers for the JSON.
        """
        row = {
            "what": what,
            "result": str(result),
            "passed": None if passed is None else bool(passed),
            **values,
        }
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


class Running:
    """The process of a section. It is the leader of a group, so that the processes that it starts end with it."""

    def __init__(self, name, seconds, small):
        self.name, self.seconds, self.start, self.is_killed = name, seconds, time.monotonic(), False
        self.directory = tempfile.TemporaryDirectory()
        self.rows, self.log = (os.path.join(self.directory.name, file) for file in ("rows", "log"))
        arguments = [os.path.abspath(__file__), "--child", name, self.rows, str(seconds)]
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [sys.executable, *arguments, *(["--small"] if small else [])],
                cwd=ROOT,
                env=environment(TMPDIR=self.directory.name),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=os.setpgrp,  # not a new session, whose processes would outlive a command on a lent machine
            )

    def is_over(self):
        """Return whether the process has ended, or its time is over."""
        return self.process.poll() is not None or time.monotonic() > self.start + self.seconds

    def kill(self):
        """Kill the processes that still run."""
        if not self.is_killed:
            self.is_killed = True
            with contextlib.suppress(ProcessLookupError):  # all have ended
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def end(self):
        """Kill the processes that still run. Return the rows."""
        code = self.process.poll()
        self.kill()
        rows = self.read_rows()
        if code != 0:
            trouble = f"ended after {self.seconds:.0f} s" if code is None else f"exit code {code}: {self.last_line()}"
            rows.append({"what": "the section failed", "result": trouble, "passed": False})
        rows.append({"what": "duration", "result": f"{time.monotonic() - self.start:.0f} s", "passed": None})
        with contextlib.suppress(OSError):  # a killed process may still be writing
            self.directory.cleanup()
        return rows

    def read_rows(self):
        if not os.path.exists(self.rows):
            return []
        with open(self.rows, encoding="utf-8") as file:
            return [json.loads(line) for line in file if line.endswith("\n")]

    def last_line(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            lines = [line.strip() for line in file if line.strip()]
        return lines[-1] if lines else ""


def environment(**more):
    """Return the environment of the processes: the library of this checkout, without TensorFlow's log."""
    path = os.pathsep.join([ROOT, *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "3", **more}


def count_gpus():
    """Return the number of GPUs, without starting TensorFlow."""
    sys.path.insert(0, ROOT)
    from tensorpack_lite.utils.gpu import count_gpus

    return count_gpus() or 0


def write(directory, about, results):
    """Write both files. They are replaced as a whole, so that they can be read at any moment."""
    lines = [f"# Proof on a GPU\n\n{' · '.join(about.values())}\n"]
    lines += ["| section | what | result | as it must be |", "| --- | --- | --- | --- |"]
    words = {True: "yes", False: "**no**", None: ""}
    for name, rows in results.items():
        for row in rows:
            cells = [name, row["what"], row["result"], words[row["passed"]]]
            lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    texts = {
        "gpu_proof.md": "\n".join(lines) + "\n",
        "gpu_proof.json": json.dumps({**about, "sections": results}, indent=1) + "\n",
    }
    os.makedirs(directory, exist_ok=True)
    for file, text in texts.items():
        path = os.path.join(directory, file)
        with open(f"{path}.new", "w", encoding="utf-8") as opened:
            opened.write(text)
        os.replace(f"{path}.new", path)
    return texts["gpu_proof.md"]


def run(names, directory, minutes, small):
    """Run the sections, and return the table."""
    about = {
        "date": f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC",
        "command": " ".join(["python", *sys.argv]),
        "sizes": "small sizes, which prove nothing about speed" if small else "full sizes",
    }
    results, end = {name: [] for name in names}, time.monotonic() + 60 * minutes
    checks = [name for name in names if name in CHECKS]
    for group in filter(None, [checks, *([name] for name in names if name in SPEED)]):
        left = end - time.monotonic()
        if left < 5:
            results.update({name: [{"what": "not run", "result": "no time left", "passed": None}] for name in group})
            continue
        limits = {name: SMALL_LIMIT if small else min(SECTIONS[name][1], left) for name in group}
        sections = [Running(name, limits[name], small) for name in group]
        try:
            for name, rows in rows_of(sections):
                results[name] = rows
                write(directory, about, results)
        finally:  # an interrupt
            for section in sections:
                section.kill()
    return write(directory, about, results)


def rows_of(sections):
    """Yield (name, rows) of each section, again and again until it is over."""
    running = list(sections)
    while running:
        for section in list(running):
            if section.is_over():
                running.remove(section)
                yield section.name, section.end()
            else:
                yield section.name, section.read_rows()
        time.sleep(0.5)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=".", help="directory of the two files")
    parser.add_argument("--sections", nargs="+", default=list(SECTIONS), choices=list(SECTIONS))
    parser.add_argument("--minutes", type=float, default=6, help="for all sections; no limit with --small")
    parser.add_argument("--small", action="store_true", help="small sizes; always without a GPU")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    has_gpu = count_gpus() > 0
    small = args.small or not has_gpu
    if args.child:
        name, path, seconds = args.child
        SECTIONS[name][0](Section(path, float(seconds), small, has_gpu))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the sections are ended
    print(run(args.sections, args.out, 10**6 if small else args.minutes, small))


if __name__ == "__main__":
    main()
