"""Processes that are started without standard output, standard error or both, as daemons are."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import textwrap

import pytest

from tensorpack_lite.utils import log_lines
from tensorpack_lite.utils.streams import fill_descriptors

TRAINING = """
    import os, sys, warnings
    from tensorpack_lite import *
    from tensorpack_lite.compat import TensorSpec, tfv1 as tf
    from tensorpack_lite.dataflow import *
    from tensorpack_lite.utils import logger
    from tensorpack_lite.utils.utils import get_tqdm

    class Model(ModelDesc):
        def inputs(self):
            return [TensorSpec([None], tf.float32, "x")]

        def build_graph(self, x):
            return tf.reduce_mean((tf.get_variable("w", [], initializer=tf.ones_initializer()) * x) ** 2, name="cost")

        def optimizer(self):
            return tf.train.GradientDescentOptimizer(0.01)

    logger.set_logger_dir("log", action="k")
    warnings.warn("a warning")
    for _ in get_tqdm(range(3)):
        pass
    data = MultiProcessMapData(DataFromList([[1.0]] * 8), 1, lambda dp: dp, buffer_size=2)
    launch_train_with_config(
        TrainConfig(model=Model(), data=QueueInput(BatchData(data, 4)), callbacks=[ModelSaver()], max_epoch=2, steps_per_epoch=2),
        SimpleTrainer())
    os.write(2, b"from a C library\\n")
    if sys.argv[1:] == ["fails"]:
        raise ValueError("the script's error")
"""
CLOSED = ["2>&-", ">&-", ">&- 2>&-"]


def start(command: str, folder) -> subprocess.CompletedProcess:
    """Run a shell command in a folder."""
    return subprocess.run(
        ["sh", "-c", command],
        cwd=str(folder),
        capture_output=True,
        timeout=180,
        check=False,
    )


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "closed"),
    [("", "2>&-"), ("", ">&-"), ("-m tensorpack_lite run", ">&- 2>&-")],
)
def test_a_training(tmp_path, program, closed):
    """A training without standard streams writes its files, and ends as always; no file gets what a C library prints."""
    (tmp_path / "train.py").write_text(textwrap.dedent(TRAINING))
    done = start(f"{sys.executable} {program} train.py {closed}", tmp_path)
    assert 0 == done.returncode, done
    files = os.listdir(str(tmp_path / "log"))
    assert {"model-2.index", "model-4.index", "stats.json"} <= set(files)
    log = (tmp_path / "log" / "log.log").read_text()
    assert "Training has finished." in log
    for file in (tmp_path / "log").iterdir():
        assert not file.is_file() or b"from a C library\n" not in file.read_bytes(), file
    assert b"Logging error" not in done.stderr


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.parametrize("closed", CLOSED)
def test_a_training_that_fails(tmp_path, closed):
    """An error that ends a script without standard streams has the exit code of Python, 1."""
    (tmp_path / "train.py").write_text(textwrap.dedent(TRAINING))
    done = start(f"{sys.executable} train.py fails {closed}", tmp_path)
    assert 1 == done.returncode, done
    assert ("2>&-" not in closed) == (b"the script's error" in done.stderr)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("-m tensorpack_lite", 2),
        ("-m tensorpack_lite --help", 0),
        ("-m tensorpack_lite.launch -n 0 missing.py", 2),
        ("-m tensorpack_lite.launch -n 1 missing.py", 2),
    ],
)
@pytest.mark.slow
def test_a_command(tmp_path, command, code):
    """A command without standard streams has the exit code that it has with them."""
    for closed in ("", CLOSED[-1]):
        assert code == start(f"{sys.executable} {command} {closed}", tmp_path).returncode, closed


def test_the_log_without_stdout(monkeypatch):
    """Log lines are omitted if `sys.stdout` is None, without an error for each of them."""
    handler = log_lines.StdoutHandler()
    record = logging.LogRecord("x", 40, "file.py", 1, "text", (), None)
    assert handler.filter(record)
    monkeypatch.setattr(sys, "stdout", None)
    assert not handler.filter(record)


def test_open_descriptors_stay():
    """In a process with standard streams, `fill_descriptors` changes nothing."""
    before = [os.fstat(number) for number in range(3)]
    fill_descriptors()
    assert before == [os.fstat(number) for number in range(3)]
