"""diagnostics/hangs/detector.py within this process. Training runs that hang are in tests/integration/test_hangs.py."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from types import SimpleNamespace

import psutil
import pytest
from fakes.quadratic import QuadraticTrainer
from fakes.trainers import run

from tensorpack_lite import DEFAULT_EXTENSIONS, Callback, TrainConfig
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.diagnostics.hangs import detector
from tensorpack_lite.diagnostics.hangs.detector import HangDetection, HangDetector
from tensorpack_lite.ranks.alone import Alone
from tensorpack_lite.utils.manifest_file import FORMAT, write_manifest
from tensorpack_lite.utils.process_state import catches_signal


class Looks(Callback):
    def __init__(self):
        self.seen = []

    def _trigger_step(self):
        self.seen.append(
            (
                [thread.name for thread in threading.enumerate()].count("HangDetector"),
                catches_signal(os.getpid(), signal.SIGUSR2),
            )
        )


class Fails(Callback):
    def _trigger_step(self):
        raise KeyError("x")


def num_fds():
    return len(os.listdir("/proc/self/fd"))


def test_one_thread_in_the_loop():
    """In the loop there is one thread more, and SIGUSR2 writes stacks; afterwards both are gone. A handler of the script stays."""
    looks = Looks()
    run(QuadraticTrainer(), [looks])
    assert [(1, True)] * 4 == looks.seen
    assert "HangDetector" not in [thread.name for thread in threading.enumerate()]
    assert not catches_signal(os.getpid(), signal.SIGUSR2)
    received = []
    before = signal.signal(signal.SIGUSR2, lambda number, _: received.append(number))
    try:
        with tf.Graph().as_default():
            run(QuadraticTrainer(), [Looks()])
        os.kill(os.getpid(), signal.SIGUSR2)
        assert [signal.SIGUSR2] == received
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_after_a_failure():
    """The thread ends, and its file descriptors are closed, when training fails."""
    before = num_fds()
    with pytest.raises(KeyError, match="x"):
        run(QuadraticTrainer(), [Fails()])
    assert "HangDetector" not in [thread.name for thread in threading.enumerate()]
    assert not catches_signal(os.getpid(), signal.SIGUSR2)
    assert before == num_fds()


class AwaitsLooks(Callback):
    """Waits until the thread has looked several times; then lists the processes that this one has started."""

    def __init__(self):
        self.before = psutil.Process().children(recursive=True)

    def _trigger_step(self):
        if self.local_step == 0:
            hangs = self.trainer.find_extension(HangDetection)
            deadline = time.monotonic() + 60
            while hangs.detector._still.num_looks < 3 and time.monotonic() < deadline:
                time.sleep(0.01)
            self.num_looks = hangs.detector._still.num_looks
            self.started = [one for one in psutil.Process().children(recursive=True) if one not in self.before]


@pytest.mark.parametrize(
    ("on_hang", "num_processes"),
    [("report", 0), ("abort", 0), ("stacks", int(sys.platform.startswith("linux")))],
)
def test_only_stacks_starts_a_process(monkeypatch, on_hang, num_processes):
    """A training starts no process, also after the thread has looked several times; with on_hang="stacks" it starts one."""
    monkeypatch.setattr(detector, "_POLL_SECONDS", 0.02)
    trainer, cb = QuadraticTrainer(), AwaitsLooks()
    trainer.extensions = DEFAULT_EXTENSIONS(on_hang=on_hang)
    run(trainer, [cb])
    assert cb.num_looks >= 3
    assert num_processes == len(cb.started)


def test_on_hang():
    """TrainConfig refuses other values of on_hang."""
    with pytest.raises(ValueError, match="on_hang"):
        TrainConfig(steps_per_epoch=1, on_hang="restart")


class Main:
    """A detector whose looks the test makes, with a fake trainer and a number of reports."""

    def __init__(self, monkeypatch, is_computing=False):
        self.call = None
        loop = SimpleNamespace(epoch_num=1, local_step=0, global_step=0, heartbeats=0)
        callbacks = SimpleNamespace(phase="trigger_step", num_called=0)
        self.trainer = SimpleNamespace(
            loop=loop,
            callbacks=callbacks,
            ranks=Alone(),
            hooked_sess=None,
            global_step=0,
            current_call=None,
            is_in_run=True,
        )
        self.reports = []
        monkeypatch.setattr(HangDetector, "_report", lambda one: self.reports.append(round(one._still.seconds)))
        monkeypatch.setattr(detector, "_say", lambda text: self.reports.append(text))
        monkeypatch.setattr(detector, "count_running_threads", lambda: 1 + is_computing)
        self.detector = HangDetector(self.trainer)

    def step(self):
        self.trainer.loop.global_step += 1
        self.trainer.global_step += 1

    def looks(self, num):
        for _ in range(num):
            self.detector._look(1.0)


@pytest.fixture
def main(monkeypatch):
    return Main(monkeypatch)


def do_fast_steps(main, num=5):
    for _ in range(num):
        main.step()
        main.looks(1)


def test_reports_double(main):
    """A step is reported after T, 2 T and 4 T; the end of the standstill is logged."""
    do_fast_steps(main)
    main.looks(1000)
    assert [60, 120, 240] == main.reports
    main.step()
    main.looks(1)
    assert "Training continues, after it had stood still for 1000 s." == main.reports[-1]


@pytest.mark.parametrize(
    ("longest", "is_computing", "limit"),
    [(1, False, 60), (10, False, 200), (None, False, 600), (1, True, 1800)],
    ids=["a minute", "20 times the longest interval", "the first steps", "while a thread computes"],
)
def test_limits(monkeypatch, longest, is_computing, limit):
    """The limit of a step: a minute, 20 times the longest interval, ten minutes at first, half an hour of computation."""
    main = Main(monkeypatch, is_computing)
    if longest is not None:
        do_fast_steps(main)
        main.looks(longest)
        do_fast_steps(main)
    main.looks(limit - (longest is not None))
    assert [] == main.reports
    main.looks(1)
    assert [limit] == main.reports


def test_at_most_ten(main):
    """A training reports at most ten times."""
    do_fast_steps(main)
    for _ in range(8):
        main.looks(250)
        do_fast_steps(main)
        main.detector._intervals[True].clear()
    assert 10 == len([report for report in main.reports if isinstance(report, int)])


def test_limits_of_the_last_run(main, monkeypatch, tmp_path):
    """Waits of at least a minute are kept by kind; three times those of the last run are allowed in the next one."""
    main.looks(401)
    main.step()
    main.looks(60)
    main.step()
    main.looks(1)
    assert {"first steps": 400.0} == main.detector.longest_waits
    path = str(tmp_path / "manifest.json")
    write_manifest(path, {"format": FORMAT, "longest waits": main.detector.longest_waits})
    monkeypatch.setattr(detector.logger, "get_logger_dir", lambda: str(tmp_path))

    after = Main(monkeypatch)
    after.detector._waits_of_last_run = detector._read_waits()
    after.looks(1200)
    assert [] == after.reports
    after.looks(1)
    assert [1200] == after.reports


@pytest.mark.parametrize("text", [None, "{", '{"format": 1}', '{"format": 1, "longest waits": 3}'])
def test_no_last_run(monkeypatch, tmp_path, text):
    """Without a manifest of the last run, or with a damaged one, nothing is learned."""
    monkeypatch.setattr(detector.logger, "get_logger_dir", lambda: str(tmp_path))
    if text is not None:
        (tmp_path / "manifest.json").write_text(text)
    assert {} == detector._read_waits()
