"""Sessions and predictors in a forked process, and at the end of Python."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys

import pytest

from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.contrib.tf_data import DataFromTFDataset
from tensorpack_lite.dataflow.map_process import MultiProcessMapData
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.dataflow.runner import MultiProcessRunner
from tensorpack_lite.loop.session import HookedSession
from tensorpack_lite.predict.base import OfflinePredictor, OnlinePredictor
from tensorpack_lite.predict.concurrency import MultiThreadAsyncPredictor
from tensorpack_lite.predict.config import PredictConfig

SCRIPT = """
from tensorpack_lite.compat import TensorSpec, tfv1 as tf
from tensorpack_lite.predict.base import OfflinePredictor
from tensorpack_lite.predict.config import PredictConfig

predict = OfflinePredictor(PredictConfig(
    tower_func=lambda x: tf.multiply(x, 2.0, name="y"),
    input_signature=[TensorSpec([], tf.float32, "x")], input_names=["x"], output_names=["y"]))
print(float(predict(4.0)[0]))
"""


@pytest.fixture
def predictor():
    """Return a predictor of y = 2 x, which has run once, with a session of the library."""
    predictor = new_predictor()
    assert [2.0] == predictor(1.0)
    yield predictor
    predictor.sess.close()


def new_predictor():
    """Create a predictor of y = 2 x."""
    return OfflinePredictor(
        PredictConfig(
            tower_func=lambda x: tf.multiply(x, 2.0, name="y"),
            input_signature=[TensorSpec([], tf.float32, "x")],
            input_names=["x"],
            output_names=["y"],
        )
    )


def first_of(df):
    """Return the first datapoint of a DataFlow."""
    df.reset_state()
    return next(iter(df))


def send_error(function, connection):
    """Call a function. Send the text of its error, or what it has returned."""
    try:
        connection.send(f"returned {function()}")
    except RuntimeError as error:
        connection.send(str(error))


def text_from_fork(function) -> str:
    """Return the text of the error that a function raises in a forked process."""
    fork = multiprocessing.get_context("fork")
    here, there = fork.Pipe()
    process = fork.Process(target=send_error, args=(function, there), daemon=True)
    process.start()
    try:
        return here.recv() if here.poll(20) else "hangs"
    finally:
        process.kill()
        process.join()


USES = {
    "a predictor": lambda p: p(1.0),
    "a predictor at its first call": lambda p: OnlinePredictor(["x"], ["y"], sess=p.sess)(1.0),
    "a new predictor": lambda p: new_predictor()(1.0),
    "a new session": lambda p: first_of(DataFromTFDataset(lambda: tf.data.Dataset.from_tensor_slices([1, 2]))),
    "trainer.sess.run": lambda p: p.sess.run("y:0", {"x:0": 1.0}),
    "sess.make_callable": lambda p: p.sess.make_callable("y:0", feed_list=["x:0"])(1.0),
    "trainer.hooked_sess.run": lambda p: HookedSession(p.sess, []).run("y:0", {"x:0": 1.0}),
}


@pytest.mark.parametrize("use", USES)
def test_a_fork_raises(predictor, use):
    """Each use of a session in a fork raises an error that names spawn and threads, instead of waiting forever."""
    text = text_from_fork(lambda: USES[use](predictor))
    assert "was forked from process" in text, text
    assert "'spawn'" in text
    assert "MultiThreadMapData" in text


def test_a_callable_of_the_parent_raises_in_a_fork(predictor):
    """A callable that was made before the fork raises, too."""
    call = predictor.sess.make_callable("y:0", feed_list=["x:0"])
    assert 2.0 == call(1.0)
    assert "was forked from process" in text_from_fork(lambda: call(1.0))


def test_an_asynchronous_predictor_raises_in_a_fork(predictor):
    """MultiThreadAsyncPredictor, whose threads do not exist in a fork, raises there."""
    asynchronous = MultiThreadAsyncPredictor([predictor])
    asynchronous.start()
    try:
        assert "put_task: process" in text_from_fork(lambda: asynchronous.put_task([1.0]).result())
    finally:
        asynchronous.stop()


@pytest.mark.parametrize("stage", ["map", "runner"])
def test_the_error_of_a_worker_reaches_the_parent(predictor, stage):
    """A predictor in the worker of a DataFlow raises the error where the datapoints are read."""
    data = DataFromList([[1.0]])
    df = {
        "map": lambda: MultiProcessMapData(data, 1, lambda dp: predictor(dp[0])),
        "runner": lambda: MultiProcessRunner(
            DataFromTFDataset(lambda: tf.data.Dataset.from_tensor_slices([1, 2])), 2, 1
        ),
    }[stage]()
    with pytest.raises(RuntimeError, match="MultiProcess.* was forked from process .*'spawn'"):
        first_of(df)


@pytest.mark.slow
def test_a_fork_without_earlier_sessions():
    """A process that is forked before the first session may have its own."""
    script = (
        "import multiprocessing\n"
        "def work(): exec(SCRIPT, {})\n"
        f"SCRIPT = {SCRIPT!r}\n"
        "process = multiprocessing.get_context('fork').Process(target=work)\n"
        "process.start()\n"
        "process.join(60)\n"
        "raise SystemExit(process.exitcode)\n"
    )
    assert "\n8.0\n" in run_script(script)


@pytest.mark.slow
def test_python_ends_quietly():
    """A script with a global predictor ends without a message of TensorFlow."""
    assert "Exception ignored" not in run_script(SCRIPT)


def run_script(script: str) -> str:
    """Run a script in a new process. Return what it has printed."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=120,
        check=False,
    )
    text = done.stdout.decode()
    assert 0 == done.returncode, text
    return text
