"""Timers with a simulated clock."""

from __future__ import annotations

from unittest import mock

import pytest

from tensorpack_lite.utils import timer as timer_module
from tensorpack_lite.utils.timer import (
    IterSpeedCounter,
    Timer,
    print_total_timer,
    timed_operation,
    total_timer,
)


@pytest.fixture
def clock(monkeypatch):
    """A clock that shows `clock.now`."""
    clock = mock.Mock(now=100.0)
    monkeypatch.setattr(timer_module, "timer", lambda: clock.now)
    return clock


def messages(capsys) -> list:
    return [line.split("] ", 1)[1] for line in capsys.readouterr().out.splitlines()]


class TestTimer:
    def test_pauses_do_not_count(self, clock):
        """Pauses are not counted."""
        timer = Timer()
        clock.now += 3
        timer.pause()
        clock.now += 10
        paused = timer.is_paused(), timer.seconds()
        timer.resume()
        clock.now += 2

        assert (True, 3) == paused
        assert 5 == timer.seconds()

    def test_reset(self, clock):
        """`reset` starts from zero, also after a pause."""
        timer = Timer()
        clock.now += 3
        timer.pause()
        timer.reset()
        clock.now += 1

        assert 1 == timer.seconds()

    def test_pause_twice(self):
        """Pausing a paused timer raises a RuntimeError."""
        timer = Timer()
        timer.pause()
        with pytest.raises(RuntimeError, match="Timer.pause: the timer is already paused"):
            timer.pause()

    def test_resume_twice(self):
        """Resuming a running timer raises a RuntimeError."""
        with pytest.raises(RuntimeError, match="Timer.resume: the timer is already running"):
            Timer().resume()


class TestTimedOperation:
    def test_logs_the_time(self, clock, capsys):
        """One line is logged after the body."""
        with timed_operation("Load"):
            clock.now += 1.5

        assert ["Load finished, time:1.5000 sec."] == messages(capsys)

    def test_logs_the_start(self, clock, capsys):
        """With log_start, a line is also logged at the start."""
        with timed_operation("Load", log_start=True):
            pass

        assert ["Start Load ...", "Load finished, time:0.0000 sec."] == messages(capsys)

    def test_says_nothing_of_failures(self, capsys):
        """Nothing is logged if the body raises."""
        with pytest.raises(ZeroDivisionError), timed_operation("Load"):
            raise ZeroDivisionError

        assert [] == messages(capsys)


class TestTotalTimer:
    @pytest.fixture(autouse=True)
    def new_totals(self, monkeypatch):
        self.register = mock.Mock()
        monkeypatch.setattr(timer_module, "_totals", timer_module._Totals())
        monkeypatch.setattr(timer_module.atexit, "register", self.register)

    def test_adds_up(self, clock, capsys):
        """Durations with the same name are added."""
        for seconds in (1, 3):
            with total_timer("load"):
                clock.now += seconds
        print_total_timer()

        assert ["Total Time: load -> 4.00 sec, 2 times, 2 sec/time"] == messages(capsys)

    def test_is_logged_at_exit(self, clock):
        """The first total registers one exit handler."""
        assert not self.register.called
        for name in ("load", "save"):
            with total_timer(name):
                pass

        self.register.assert_called_once_with(timer_module._totals.log)


class TestIterSpeedCounter:
    def test_logs_every_so_often(self, clock, capsys):
        """A line is logged after every third call, with the totals since the first."""
        counter = IterSpeedCounter(3, name="loop")
        clock.now += 50  # before the first call nothing counts
        for _ in range(7):
            counter()
            clock.now += 2

        assert [
            "loop: 4.00 sec, 3 times, 1.33 sec/time",
            "loop: 10.00 sec, 6 times, 1.67 sec/time",
        ] == messages(capsys)
