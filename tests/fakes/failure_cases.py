"""
Program that runs the cases of `test_failures.py`: one pipeline and one consumer, with each fault in a separate process.

    python -m fakes.failure_cases PIPELINE CONSUMER START_METHOD FAULT...

The program imports the library once and forks a process for each fault. In this process the pipeline fails at its fifth
datapoint, the error is not caught, and the interpreter ends as it does for a user. The program checks the error, the time
that it took, and leftover processes and files, and prints the problems as JSON, {fault: [sentences]}.
"""

from __future__ import annotations

import contextlib
import gc
import glob
import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from fakes.faults import DEADLY, DRIFTS, NOTE, TEXTS, Fault
from fakes.faulty_pipelines import CONSUMERS, PIPELINES, iterate

import tensorpack_lite

__all__ = ["start", "wait_for_session"]

CASE_SECONDS = 60  # a case that takes longer hangs
EXIT_SECONDS = 8  # from the error to the end of the process
SEEN = "seen.txt"  # time of the error, in the directory of the case
LEFT = "left.txt"
OUTPUT = "output.txt"
LATE = "late:"  # prefix of problems with times


# ---- in the process of a case


def run_case(pipeline, fault_name, consumer, directory):
    """Run a case, and record for `judge` what happens."""
    fault = Fault(fault_name, directory)
    if consumer == "iteration" and pipeline.kind != "sender":  # a sender is another program
        record_leftovers(pipeline, fault)
    try:
        CONSUMERS[consumer](pipeline.build(pipeline.where, fault))
    except BaseException:
        with open(os.path.join(directory, SEEN), "w") as file:
            file.write(str(time.time()))
        raise


def record_leftovers(pipeline, fault):
    """Run the case once with the error caught, and record threads and children that are still running."""
    with contextlib.suppress(BaseException):  # the second run does not catch it
        iterate(pipeline.build(pipeline.where, fault))
    os.remove(os.path.join(fault.directory, NOTE))
    deadline = time.monotonic() + 2
    while True:
        gc.collect()
        left = [t.name for t in threading.enumerate() if t is not threading.main_thread()]
        left += [child.name for child in multiprocessing.active_children()]
        if not left:
            return
        if time.monotonic() > deadline:
            with open(os.path.join(fault.directory, LEFT), "w") as file:
                file.write(str(left))
            return
        time.sleep(0.01)


# ---- in the process that starts the cases


def try_patiently(pipeline, fault_name, consumer):
    """Run a case, and repeat it up to twice if it was only too slow, because the machine may be busy."""
    for _ in range(3):
        problems = try_fault(pipeline, fault_name, consumer)
        if not problems or not all(problem.startswith(LATE) for problem in problems[:-1]):
            break
    return problems


def try_fault(pipeline, fault_name, consumer):
    """Run a case in a child process and return its problems."""
    shared = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
    directory = tempfile.mkdtemp()  # only this process removes it
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.chdir(directory)
        output = os.open(os.path.join(directory, OUTPUT), os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(output, 1)
        os.dup2(output, 2)
        # leave all frames, so that the interpreter ends normally
        raise Case(pipeline, fault_name, consumer, directory)
    exit_code, ended = wait_for(pid)
    problems = judge(pipeline, fault_name, exit_code, ended, directory)
    problems += [f"{LATE} left in the session: {what}" for what in wait_for_session(pid)]
    after = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
    problems += [f"left in /dev/shm: {name}" for name in after - shared if "tensorpack" in name]
    problems += [f"left on disk: {name}" for name in os.listdir(directory) if name not in (NOTE, SEEN, LEFT, OUTPUT)]
    if problems:
        with open(os.path.join(directory, OUTPUT), errors="replace") as file:
            problems.append(file.read()[-3000:])
    shutil.rmtree(directory)
    return problems


class Case(Exception):
    """Carries a case out of the loop that forks."""


def wait_for(pid):
    """Return the exit code (negative for a signal, None if the process had to be killed) and the time of the end."""
    deadline = time.monotonic() + CASE_SECONDS
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
            return code, time.time()
        time.sleep(0.005)
    os.killpg(pid, signal.SIGABRT)
    os.waitpid(pid, 0)
    return None, time.time()


def judge(pipeline, fault_name, exit_code, ended, directory):
    """Return the problems of a case."""

    def read(name):
        path = os.path.join(directory, name)
        if not os.path.exists(path):
            return ""
        with open(path, errors="replace") as file:
            return file.read()

    faults = [line.split() for line in read(NOTE).splitlines()]
    seen, left, output = read(SEEN), read(LEFT), read(OUTPUT)
    if exit_code is None:
        return [f"hangs; the consumer {'saw' if seen else 'never saw'} an error"]
    if not faults or not seen:
        return [f"the fault {'was not noticed' if faults else 'did not happen'}; exit code {exit_code}"]
    noticed_after = float(seen) - min(float(when) for when, _ in faults)
    problems = [f"{LATE} left after the error: {left}"] if left else []
    if exit_code == 0 or exit_code < 0:
        problems.append(f"exit code {exit_code}")
    limit = 10 if pipeline.kind == "sender" else 2
    if noticed_after > limit:
        problems.append(f"{LATE} noticed after {noticed_after:.1f} s")
    if ended - float(seen) > EXIT_SECONDS:
        problems.append(f"{LATE} ended {ended - float(seen):.1f} s after the error")
    stopped = pipeline.kind == "sender" and fault_name in (*DEADLY, "ctrl-c")
    if pipeline.kind == "sender" and "no sender connected" in output:
        return [f"{LATE} the sender did not connect in time"]
    # the cause cannot be known on another machine
    wanted = ["senders? .*vanished"] if stopped else [TEXTS[fault_name]]
    outside = fault_name in DRIFTS and pipeline.name.endswith("MapData")  # BatchData is in the consumer
    # raised in the worker that batches, not in the one with the fault
    elsewhere = fault_name in DRIFTS and "AndBatch" in pipeline.name
    if pipeline.kind is not None and not outside:
        wanted += [
            pipeline.name,
            "worker|sender",
            r"pid \d" if elsewhere else rf"pid ({'|'.join(pid for _, pid in faults)})\b",
        ]
    if not stopped and fault_name not in (*DEADLY, *DRIFTS, "unpicklable datapoint"):
        wanted.append("in misbehave")  # the traceback
    return problems + [f"the error does not say /{text}/" for text in wanted if not re.search(text, output)]


def wait_for_session(session):
    """Return the processes of a session that still run after two seconds, and kill them."""
    deadline = time.monotonic() + 2
    while True:
        left = session_members(session)
        if not left or time.monotonic() > deadline:
            for pid, _ in left:
                os.kill(pid, signal.SIGKILL)
            return [f"{pid} {name}" for pid, name in left]
        time.sleep(0.01)


def session_members(session):
    """Return the pids and names of the processes of a session."""
    found = []
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path) as file:
                head, _, tail = file.read().rpartition(")")
            state, _, _, of_session = tail.split()[:4]
        except OSError:  # the process has ended meanwhile
            continue
        if int(of_session) == session and state != "Z":
            found.append((int(head.split()[0]), head.split("(", 1)[1]))
    return found


def main(argv):
    """Run all faults and print the problems. In a forked child, return its case."""
    name, consumer, method, *faults = argv
    multiprocessing.set_start_method(method)
    if consumer != "iteration":
        import tensorpack_lite.train.simple  # noqa: F401 (imported once, for all children)
    problems = {}
    for where, pipeline in PIPELINES[name].items():
        for fault_name in pipeline.faults():
            if faults and fault_name not in faults:
                continue
            try:
                found = try_patiently(pipeline, fault_name, consumer)
            except Case as case:
                return case.args
            problems[f"{where}: {fault_name}"] = found
    sys.stdout.write(json.dumps(problems))
    return None


def start(*arguments):
    """Run this module as a program and return its problems."""
    places = Path(tensorpack_lite.__file__).parents[1], Path(__file__).parents[1]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, places)),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "",
    }
    done = subprocess.run(
        [sys.executable, "-m", "fakes.failure_cases", *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=900,
        check=False,
    )
    assert 0 == done.returncode, done.stderr.decode()
    return json.loads(done.stdout.decode())


if __name__ == "__main__":
    case = main(sys.argv[1:])
    if case is not None:
        run_case(*case)
