"""Fixtures that every test has: a graph of its own, no ambient state left over, no thread left running."""

from __future__ import annotations

import gc
import importlib.util
import logging
import multiprocessing
import threading
import time

import pytest

HAS_TENSORFLOW = importlib.util.find_spec("tensorflow") is not None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark each proof as full, and each full test as slow, so that `-m "not slow"` leaves all of them out."""
    for item in items:
        if item.get_closest_marker("proof"):
            item.add_marker("full")
        if item.get_closest_marker("full"):
            item.add_marker("slow")


@pytest.fixture(autouse=True)
def fresh_graph():
    """Each test builds in a graph of its own, in graph mode."""
    if not HAS_TENSORFLOW:
        yield None
        return
    from tensorpack_lite.compat import ensure_graph_mode, tfv1

    ensure_graph_mode()
    with tfv1.Graph().as_default() as graph:
        tfv1.set_random_seed(1)
        yield graph


@pytest.fixture(autouse=True)
def no_leaked_threads():
    """A test leaves no thread and no child process behind that it started."""
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + 5
    while True:
        threads = [t for t in threading.enumerate() if t not in before and _is_ours(t)]
        children = multiprocessing.active_children()
        if not threads and not children:
            return
        if time.monotonic() > deadline:
            pytest.fail(f"left running: {threads + children}")
        gc.collect()  # an exception that a test caught and the test's frame hold each other, and with them its DataFlows
        time.sleep(0.01)


def _is_ours(thread):
    """tqdm's monitor lives as long as the process; a dummy thread is one of TensorFlow's own that has called Python."""
    return thread.is_alive() and type(thread).__name__ not in ("TMonitor", "_DummyThread")


@pytest.fixture(autouse=True)
def no_ambient_state(no_leaked_threads):
    """Logger directory and random seed are as at the start of a process; the reset also ends the directory's lock."""
    yield
    from tensorpack_lite.utils import logger, utils

    logger.reset()
    utils.reset_rng_seed()


@pytest.fixture
def log_dir(tmp_path):
    """A directory set as the logger's."""
    from tensorpack_lite.utils import logger

    path = str(tmp_path / "log")
    logger.set_logger_dir(path)
    return path


@pytest.fixture
def sess(fresh_graph):
    """An open session on the test's graph, as default session."""
    from tensorpack_lite.compat import tfv1

    with tfv1.Session(graph=fresh_graph).as_default() as session:
        yield session
        session.close()


@pytest.fixture
def log_lines():
    """The messages that the library logs during the test."""
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
