"""The command `lint`: its output, exit codes, and what it leaves unchanged."""

from __future__ import annotations

import pytest
from fakes.commands import SOFTMAX_LINE, python_runner

SCRIPT = """
if "fail" in sys.argv:
    raise ValueError("a mistake of the script")
if "nothing" not in sys.argv:
    x = np.full(8, np.nan if "nan" in sys.argv else 1, "float32")
    data = BatchData(DataFromList([[x, k % 3] for k in range(20)]), 4)
    logger.set_logger_dir("log", action="d")
    callbacks = [ModelSaver()]
    config = TrainConfig(model=Model(), data=QueueInput(data), callbacks=callbacks, steps_per_epoch=2, max_epoch=1)
    launch_train_with_config(config, SimpleTrainer())
"""


@pytest.fixture
def lint(tmp_path):
    """Return a function that runs the command in a directory with a script, and returns its exit code and output."""
    python = python_runner(tmp_path, SCRIPT)
    return lambda *arguments: python("-m", "tensorpack_lite", "lint", *arguments)[:2]


@pytest.mark.slow
def test_remarks(lint, tmp_path):
    """Remarks about the graph and the first datapoints give exit code 1. The log directory of a training stays as it is."""
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "stats.json").write_text("[]")
    code, output = lint("train.py", "softmax", "nan")
    assert 1 == code, output
    assert "Lint: 2 remarks" in output
    assert "no remarks" not in output
    assert f"G03 Softmax (train.py:{SOFTMAX_LINE}): the output of a softmax" in output
    assert "D02 x: 32 of 32 values of a datapoint are NaN or infinite." in output
    assert "Start epoch" not in output
    assert ["stats.json"] == [path.name for path in (tmp_path / "log").iterdir()]


@pytest.mark.slow
def test_no_remarks(lint):
    """Without remarks, the exit code is 0, the last line mentions it, and training does not start."""
    code, output = lint("train.py")
    assert 0 == code, output
    assert "lint: no remarks." == output.splitlines()[-1]
    assert "Lint" not in output
    assert "Start epoch" not in output


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.parametrize(
    ("argument", "words"), [("nothing", "ended without a training"), ("fail", "failed with exit code 1")]
)
def test_scripts_that_do_not_train(lint, argument, words):
    """A script that does not train or fails gives exit code 2."""
    code, output = lint("train.py", argument)
    assert 2 == code, output
    assert f"tensorpack-lite lint: train.py {words}, so nothing was examined." in output
    assert "no remarks" not in output
