"""Training runs that hang: the log names the stage, the process and the datapoint. `fakes/hanging_script.py` has the training runs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from fakes import hanging_script
from fakes.processes import python_environment, python_starter

from tensorpack_lite.utils.notes import read_notes

pytestmark = pytest.mark.slow

MAP = r"MultiProcessMapDataZMQ\({}\) waits for its workers"
WORKED = r"worker \d \(pid \d+\) has worked for [\d.]+ s( \(usually [\d.]+ ms\))?, "
READ = r"read_and_crop, on its datapoint \d+ \('/data/037.jpg'\), at hanging_script.py:\d+ read_and_crop: time.sleep\(FOREVER\)"
EMPTY = r"waits for data: QueueInput is empty\."

ON_EVERY_END = {
    "map": [r"Step \d+ \(epoch 1\) " + EMPTY, MAP.format("read_and_crop"), WORKED + "in " + READ],
    "validation": [
        r"InferenceRunner \(trigger_epoch, after step 40\) " + EMPTY,
        r"<- in MapData\(read_and_crop\), on its datapoint 38 \('/data/037.jpg'\), at hanging_script.py:\d+ ",
    ],
    "graph": [
        r"Step 38 \(epoch 1\) is inside session.run. The data is ready \(QueueInput is full\)",
        r"The graph is calling a py_func, at hanging_script.py:\d+ block_at_37: time.sleep\(FOREVER\)",
    ],
}
OTHERS = {
    "sigstop": [
        MAP.format("stop_yourself"),
        r"worker \d \(pid \d+\) is stopped \(state T: .*, on its datapoint \d+",
    ],
    "fork_lock": [
        MAP.format("take_lock"),
        WORKED + r"in take_lock, on its datapoint 1 \('/data/000.jpg'\), at .*: with LOCK: \(was this lock held when",
    ],
    "runner": [
        "MultiProcessRunner waits for its workers",
        r"worker 0 \(pid \d+\) works, in MapData\(read_and_crop\), on its datapoint 38 \('/data/037.jpg'\), at ",
    ],
    "threads": [r"MultiThreadMapData\(read_and_crop\) waits for its threads", r"<- thread \d: in " + READ],
    "reader": [
        EMPTY,
        r"<- in SlowReader, on its datapoint 38, at hanging_script.py:\d+ __iter__: time.sleep",
    ],
    "feed": [
        r"Step 38 \(epoch 1\) waits for data, which the main thread reads",
        r"<- in MapData\(" + READ.replace(",", r"\),", 1),
    ],
    "lock": [
        r"WaitsForLock \(trigger_step, after step 20\) does not end: .* at hanging_script.py:\d+ _trigger_step: LOCK.acq"
    ],
    "deadlock": [
        r"Deadlock \(trigger_step, after step 20\) does not end: .* at hanging_script.py:\d+ _trigger_step: with OTHER_LOCK",
        r"Thread loader waits for a lock, too, at hanging_script.py:\d+ take_both: with LOCK:\. If each of the two holds",
    ],
    "runner_lock": [
        "MultiProcessRunner waits for its workers",
        r"worker 0 \(pid \d+\) .*, in TakesLockAtStart, .* with LOCK: \(was this lock held when the worker was forked",
    ],
    "describe": [
        MAP.format("find_file"),
        WORKED + r"in find_file, on its datapoint \d+ \(file /data/037.jpg\), at ",
    ],
    "shared_memory": [
        WORKED + r"in wait_for_room, on its datapoint \d+ \('/data/037.jpg'\), at ",
        r"\n  /dev/shm is full: 0 of 1 MB are free\.",
    ],
    "before_run": [r"SleepsInRun \(before_run, after step 20\) does not end: .* _before_run: time.sleep\(FOREVER\)"],
}
if sys.version_info >= (3, 8):  # which has os.posix_spawn
    OTHERS["disk"] = [
        MAP.format("wait_for_disk"),
        r"worker \d \(pid \d+\) waits for a disk or a network file system \(state D, \w+\), in wait_for_disk, on its datapoint",
    ]
NO_HANGS = ["parts", "stopped", "debugger", "computing"]


def run_all(directory, cases):
    """Run the cases with on_hang="abort". Return {case: (exit code, log)}."""
    command = [sys.executable, hanging_script.__file__, str(directory), "abort", *cases]
    done = subprocess.run(command, env=python_environment(), stdout=subprocess.PIPE, check=True)
    codes = json.loads(done.stdout)
    return {case: (codes[case], (directory / case / "log.log").read_text()) for case in cases}


def check(patterns, outcome):
    code, log = outcome
    assert 143 == code
    paragraph = log[log.index("Nothing has moved for") :]
    for pattern in patterns:
        assert re.search(pattern, paragraph), f"{pattern!r} is not in:\n{paragraph}"


# Each test has several cases, because the processes of all cases run at the same time.
@pytest.mark.nightly
def test_on_every_tensorflow(tmp_path):
    """A worker, a DataFlow of validation and a py_func that do not return are named with their line and datapoint."""
    outcomes = run_all(tmp_path, ON_EVERY_END)
    for case, patterns in ON_EVERY_END.items():
        check(patterns, outcomes[case])
    check_files(tmp_path / "map")


def check_files(directory):
    """The notes have the paragraph, and a file has the stacks of all threads and of the workers that do not move."""
    note = next(note for note in read_notes(str(directory)) if note["kind"] == "hang")
    stacks = (directory / os.path.basename(note["file"])).read_text()
    assert note["text"].splitlines()[0] == stacks.splitlines()[0]
    assert "Thread MainThread (most recent call last)" in stacks
    assert re.search(r"MultiProcessMapDataZMQ\(read_and_crop\), worker 0 \(pid \d+\):", stacks)
    assert "in read_and_crop" in stacks
    assert "the process ends with exit code 143" in note["text"]


@pytest.mark.any_tensorflow
def test_hangs(tmp_path):
    """
    The first paragraph names the stage, process and datapoint of each hang, and on_hang="abort" ends with code 143. A
    callback that works in parts or computes, a stopped process and a debugger are not hangs, however long they take.
    Validation data that is shorter than its length is an error, which names both numbers.
    """
    outcomes = run_all(tmp_path, [*OTHERS, *NO_HANGS, "short_validation"])
    for case, patterns in OTHERS.items():
        if outcomes[case][0] != hanging_script.UNABLE:  # only root may mount a file system
            check(patterns, outcomes[case])
    for case in NO_HANGS:
        code, log = outcomes[case]
        assert (0, False) == (code, "Nothing has moved" in log), log
    code, log = outcomes["short_validation"]
    assert (1, False) == (code, "Nothing has moved" in log), log
    assert "the DataFlow Short failed: its pass ended after 5 datapoints, but its size is 8." in log


def where(training):
    command = [
        sys.executable,
        "-c",
        "import sys; from tensorpack_lite.cli.main import main; sys.exit(main())",
    ]
    command += ["where", str(training)]
    done = subprocess.run(command, env=python_environment(), stdout=subprocess.PIPE, text=True)
    return done.returncode, done.stdout


@pytest.fixture
def hang(tmp_path, monkeypatch):
    """Start a training that hangs and, with the long limits of this test, does not report it. Return its pid and directory."""
    monkeypatch.setenv("LIMIT", "1000")
    with python_starter() as start:
        pids = []

        def begin(case, on_hang="report"):
            start(hanging_script.__file__, tmp_path, on_hang, case)
            log, lock = tmp_path / case / "log.log", tmp_path / case / "training.lock"
            while not (log.exists() and "Start epoch 1" in log.read_text()):
                time.sleep(0.1)
            pids.append(json.loads(lock.read_text())["pid"])
            return pids[0], tmp_path / case

        try:
            yield begin
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)


def ask_until(training, pattern):
    for _ in range(60):
        code, text = where(training)
        if re.search(pattern, text, re.DOTALL):
            return code, text
        time.sleep(0.2)
    raise AssertionError(f"{pattern!r} is not in:\n{text}")


@pytest.mark.any_tensorflow
def test_where(hang):
    """`tensorpack-lite where` prints the paragraph of a training, by its directory and by its process id."""
    pid, directory = hang("lock")
    pattern = (
        r"It has been there for \d+ s. WaitsForLock \(trigger_step, after step 20\) does not end: .* LOCK.acquire\(\)"
    )
    assert 0 == ask_until(directory, pattern)[0]
    assert 0 == ask_until(pid, pattern)[0]


@pytest.mark.any_tensorflow
def test_where_interpreter_is_locked(hang):
    """Native code that holds the interpreter's lock is found too: the stacks are written by the handler of a signal."""
    _, directory = hang("native")
    pattern = r"holds the interpreter's lock in native code. Its main thread is at hanging_script.py:\d+ _trigger_step"
    assert 1 == ask_until(directory, pattern)[0]


@pytest.mark.any_tensorflow
def test_interpreter_is_locked(hang, monkeypatch):
    """The log gets the stacks while native code holds the interpreter's lock, without the help of any Python code."""
    monkeypatch.setenv("LIMIT", "2")
    _, directory = hang("native", "stacks")
    deadline, text = time.monotonic() + 60, ""
    while "in _trigger_step" not in text and time.monotonic() < deadline:
        time.sleep(0.2)
        text = (directory / "log.log").read_text()
    assert re.search(
        r'Thread \w+ \(most recent call first\):\n  File "\S*hanging_script.py", line \d+ in _trigger_step',
        text,
    )


@pytest.mark.any_tensorflow
def test_where_stopped(hang):
    """`where` reports that a process is stopped."""
    pid, _ = hang("lock")
    os.kill(pid, signal.SIGSTOP)
    assert 1 == ask_until(pid, rf"Process {pid} is stopped \(state T")[0]
