"""Fixtures for all tests: a new graph, and checks for leftover state, threads and processes."""

from __future__ import annotations

import faulthandler
import gc
import importlib.util
import logging
import multiprocessing
import os
import random
import signal
import threading
import time

import numpy as np
import pytest

HAS_TENSORFLOW = importlib.util.find_spec("tensorflow") is not None


# A test that hangs ends its process after this time, with the stack of each thread; pytest-xdist names the test.
LONGEST_SECONDS = 600

# Their results do not depend on the version of TensorFlow.
ANY_TENSORFLOW = {"api", "architecture", "cli", "dataflow", "ranks", "report", "utils"}
EXAMPLES = {"docs", "examples"}
# Their slow tests are whole training runs and processes, which CI runs on the oldest and the newest TensorFlow.
TRAININGS = {"integration", "train"}
STATIC = {"architecture"}  # they read the whole source, for seconds, and `tox -e quick` also runs them
CLUSTERS = {"clusters"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark each proof, each training of the gallery and each test of clusters as full, and each full or static test as slow, so that `-m "not slow"` deselects all of them; likewise the rows of laws and matrices besides the first."""
    for item in items:
        is_first_row = not any(item.callspec.indices.values()) if hasattr(item, "callspec") else True
        for marker, others in (("law", "slow"), ("matrix", "nightly")):
            if item.get_closest_marker(marker) and not is_first_row:
                item.add_marker(others)
        if item.nodeid.split("/")[1] in ANY_TENSORFLOW:
            item.add_marker("any_tensorflow")
        if item.nodeid.split("/")[1] in EXAMPLES:
            item.add_marker("example")
        if item.nodeid.split("/")[1] in TRAININGS:
            item.add_marker("oldest_and_newest")
        if item.nodeid.split("/")[1] in CLUSTERS:
            item.add_marker("cluster")
        if any(map(item.get_closest_marker, ("proof", "gallery", "cluster"))):
            item.add_marker("full")
        if item.nodeid.split("/")[1] in STATIC:
            item.add_marker("static")
        if any(map(item.get_closest_marker, ("static", "full", "matrix", "nightly"))):
            item.add_marker("slow")


def pytest_configure(config):
    """Keep the real stderr, which is captured during tests, and let Ctrl+C reach tests that were started in the background."""
    # `pytest &` inherits from a shell that it is ignored, and so would each process that a test starts
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    with config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        config.real_stderr = os.dup(2)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """Return the number of processes of `-n auto`: one more than cores, because some tests wait."""
    return min(1 + len(os.sched_getaffinity(0)), 6) if hasattr(os, "sched_getaffinity") else 4


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    """End the process if a test hangs. Proofs, training runs of the gallery and tests of clusters have no limit."""
    if not any(map(item.get_closest_marker, ("proof", "gallery", "cluster"))):
        faulthandler.dump_traceback_later(LONGEST_SECONDS, exit=True, file=item.config.real_stderr)
    yield
    faulthandler.cancel_dump_traceback_later()


def pytest_sessionstart():
    """Fail if logical GPUs were asked for on a machine without a GPU."""
    from fakes import logical_gpus

    logical_gpus.check()


def pytest_sessionfinish(session):
    """End the process if it hangs after the last test."""
    faulthandler.dump_traceback_later(LONGEST_SECONDS, exit=True, file=session.config.real_stderr)


@pytest.fixture(scope="session", autouse=True)
def seeded_graphs():
    """Every graph has a seed."""
    if HAS_TENSORFLOW:
        from fakes import logical_gpus
        from fakes.seeds import seed_graphs

        import tensorpack_lite.compat  # noqa: F401 (before TensorFlow: see its `_alone.py`)

        seed_graphs()
        logical_gpus.install()


@pytest.fixture(autouse=True)
def fresh_graph(seeded_graphs):
    """Each test runs in graph mode, in a new graph."""
    if not HAS_TENSORFLOW:
        yield None
        return
    from tensorpack_lite.compat import ensure_graph_mode, tfv1

    ensure_graph_mode()
    with tfv1.Graph().as_default() as graph:
        yield graph


@pytest.fixture(autouse=True)
def no_leaked_threads():
    """Fail if a test leaves a thread or a child process running."""
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + 60  # only a busy machine, or a test that fails, needs more than a moment
    while True:
        threads = [t for t in threading.enumerate() if t not in before and _is_ours(t)]
        children = multiprocessing.active_children()
        if not threads and not children:
            return
        if time.monotonic() > deadline:
            pytest.fail(f"left running: {threads + children}")
        gc.collect()  # a caught exception and the test's frame refer to each other and keep DataFlows alive
        time.sleep(0.01)


def _is_ours(thread):
    """Return whether a thread must end. tqdm's monitor runs until exit, and dummy threads are TensorFlow's."""
    return thread.is_alive() and type(thread).__name__ not in ("TMonitor", "_DummyThread")


@pytest.fixture(autouse=True)
def no_ambient_state(no_leaked_threads):
    """Before each test, seed Python's and NumPy's global generators; after it, reset the logger and the library's seed."""
    from tensorpack_lite.utils import logger, random_streams

    random.seed(1)
    np.random.seed(1)
    random_streams.fix_rng_seed(1)
    yield
    logger.reset()
    random_streams.reset_rng_seed()


@pytest.fixture
def start_python():
    """Function that starts `python *args` and returns the Popen, which is killed at the end of the test."""
    from fakes.processes import python_starter

    with python_starter() as start:
        yield start


@pytest.fixture
def log_dir(tmp_path):
    """The logger's directory, in a temporary directory."""
    from tensorpack_lite.utils import logger

    path = str(tmp_path / "log")
    logger.set_logger_dir(path)
    return path


@pytest.fixture
def sess(fresh_graph):
    """A default session for the test's graph."""
    from tensorpack_lite.compat import tfv1

    with tfv1.Session(graph=fresh_graph).as_default() as session:
        yield session
        session.close()


@pytest.fixture
def log_lines():
    """The list of messages that the library logs during the test."""
    handler = _Lines()
    logging.getLogger("tensorpack_lite").addHandler(handler)
    yield handler.lines
    logging.getLogger("tensorpack_lite").removeHandler(handler)


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines = []

    def emit(self, record) -> None:
        self.lines.append(record.getMessage())
