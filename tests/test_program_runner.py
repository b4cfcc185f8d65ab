"""Tests of the server that runs programs of the docs and examples."""

from __future__ import annotations

import signal
from contextlib import contextmanager

import pytest
from fakes.programs import program_runner

pytest.importorskip("tensorflow")


@contextmanager
def ignored(number):
    """Ignore a signal in this process, as pygame does with SIGALRM, and so in the processes that it starts."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(number, before)


@pytest.mark.slow
@pytest.mark.any_tensorflow
def test_a_program_that_hangs_is_killed(tmp_path):
    """A program ends by SIGALRM at its limit, also if the tests ignore it; without a limit, it has no alarm."""
    (tmp_path / "hangs.py").write_text("import time\nprint('begin', flush=True)\ntime.sleep(100)\n")
    (tmp_path / "asks.py").write_text("import signal\nprint(signal.alarm(0))\n")
    with ignored(signal.SIGALRM), program_runner() as runner:
        assert 200 < int(runner.run(tmp_path, "asks.py")) <= 300
        runner.limit = 0
        assert 0 == int(runner.run(tmp_path, "asks.py"))
        runner.limit = 2
        assert (signal.SIGALRM, "begin\n") == runner.run_to_any_end(tmp_path, "hangs.py")
