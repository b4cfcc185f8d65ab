"""
Tests that every fault in parallel data reaches the consumer in time, names its cause, and leaves nothing running.

`fakes/faults.py` defines the faults, `fakes/faulty_pipelines.py` the pipelines and consumers. `fakes/failure_cases.py`, which
runs as a program, checks each case.
A case with a trainer takes a second, so only one fault of each kind is tried; FAILURE_MATRIX=all tries all of them.
QueueInput and InferenceRunner with all pipelines are proofs.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys

import pytest
from fakes.failure_cases import start, wait_for_session
from fakes.faulty_pipelines import PIPELINES
from fakes.patience import patiently
from fakes.processes import python_environment

pytest.importorskip("zmq")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc"),
]

ALL = os.environ.get("FAILURE_MATRIX") == "all"
ONE_OF_EACH_KIND = ["error", "system exit", "sigkill", "components"]
OTHER_SOCKET = "RemoteDataZMQ ipc"  # differs from tcp only in the socket
AFTER_SPAWN = ["error", "unpicklable error", "sigkill", "os._exit"]
WITH_PROCESSES = [name for name, both in PIPELINES.items() if both["function"].kind == "process"]


def on_the_newest(names, but, mark=pytest.mark.full):
    """Mark all parameters except some as `full` or otherwise, because workers do not depend on the version of TensorFlow."""
    return [name if name in but else pytest.param(name, marks=mark) for name in names]


IN_CI = [
    "MultiProcessRunnerZMQ",
    "MultiProcessMapAndBatchData",
    "strict MultiProcessMapData",
    "MultiThreadMapData",
]
LOOPED = on_the_newest(PIPELINES, but=IN_CI, mark=pytest.mark.nightly)
SPAWNED = on_the_newest(WITH_PROCESSES, but=["MultiProcessRunnerZMQ"])
TRAINED = [name for name in PIPELINES if ALL or name != OTHER_SOCKET]
SOME_TRAINED = on_the_newest(TRAINED, but=["MultiProcessRunnerZMQ"], mark=pytest.mark.proof)
HAS_TENSORFLOW = importlib.util.find_spec("tensorflow") is not None


def wrong(*arguments):
    """Run failure cases and return a description of all problems; an empty string means success."""
    found = start(*arguments)
    assert found
    return "\n\n".join(f"{case}: " + "\n".join(problems) for case, problems in found.items() if problems)


class TestEveryFault:
    @pytest.mark.parametrize("pipeline", LOOPED)
    def test_in_a_loop(self, pipeline):
        """Each fault in a forked worker reaches a plain loop."""
        some = [] if ALL or pipeline != OTHER_SOCKET else ONE_OF_EACH_KIND
        assert "" == wrong(pipeline, "iteration", "fork", *some)

    @pytest.mark.parametrize("pipeline", SPAWNED)
    def test_after_spawn(self, pipeline):
        """Each fault in a spawned worker reaches a plain loop."""
        assert "" == wrong(pipeline, "iteration", "spawn", *([] if ALL else AFTER_SPAWN))

    @pytest.mark.skipif(not HAS_TENSORFLOW, reason="trains")
    @pytest.mark.parametrize("pipeline", SOME_TRAINED)
    def test_in_a_trainer(self, pipeline):
        """Each fault reaches a trainer behind QueueInput."""
        assert "" == wrong(pipeline, "training", "fork", *([] if ALL else ONE_OF_EACH_KIND))

    @pytest.mark.skipif(not HAS_TENSORFLOW, reason="trains")
    @pytest.mark.parametrize("pipeline", SOME_TRAINED)
    def test_in_an_inference_runner(self, pipeline):
        """Each fault reaches a trainer through an InferenceRunner."""
        assert "" == wrong(pipeline, "inference", "fork", *([] if ALL else ONE_OF_EACH_KIND))


SIX = """
import multiprocessing, sys
from tensorpack_lite.dataflow import DataFromList, MapData, MultiProcessMapData, MultiProcessRunnerZMQ, MultiThreadMapData

def double(dp):
    return [2 * dp[0]]

def six():
    return DataFromList([[k] for k in range(6)], shuffle=False)
"""


KILLED = (
    SIX
    + """
import os, signal, threading

def start():
    global flow
    flow = MultiProcessRunnerZMQ(six(), 2) if sys.argv[2] == "runner" else MultiProcessMapData(six(), 2, double)
    flow.reset_state()
    for k, _ in enumerate(flow):
        if k == 5:
            break

if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[1])
    if sys.argv[3] == "thread":
        thread = threading.Thread(target=start)
        thread.start()
        thread.join()
    else:
        start()
    print(" ".join(str(child.pid) for child in multiprocessing.active_children()), flush=True)
    while sys.argv[3] == "busy":
        for _ in flow:
            pass
    threading.Event().wait()
"""
)


def run(tmp_path, code, *arguments):
    """Start a script in a new session."""
    script = tmp_path / "script.py"
    script.write_text(code, encoding="utf-8")
    return subprocess.Popen(
        [sys.executable, str(script), *arguments],
        env=python_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


@pytest.mark.parametrize(
    ("method", "kind", "state"),
    [
        ("fork", "runner", "idle"),
        ("fork", "map", "busy"),
        ("fork", "runner", "thread"),
        ("spawn", "map", "idle"),
        ("spawn", "runner", "busy"),
        ("forkserver", "runner", "idle"),
    ],
)
@patiently
def test_workers_die_with_their_parent(tmp_path, method, kind, state):
    """Workers end within two seconds after their parent was killed by SIGKILL, whichever thread started them."""
    process = run(tmp_path, KILLED, method, kind, state)
    with process.stdout:
        pids = [int(pid) for pid in process.stdout.readline().split()]
        os.kill(process.pid, signal.SIGKILL)
        process.wait(10)
    assert 2 == len(pids)
    left = wait_for_session(process.pid)
    assert not left
