"""DatasetPredictors: prediction of a whole DataFlow, in this process or in several."""

from __future__ import annotations

import os
from unittest import mock

import numpy as np
import pytest
from fakes.processes import run_python

from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.raw import DataFromGenerator, DataFromList
from tensorpack_lite.predict import dataset
from tensorpack_lite.predict.config import PredictConfig
from tensorpack_lite.predict.dataset import MultiProcessDatasetPredictor, SimpleDatasetPredictor

SCRIPT = """
import os, signal, time
import numpy as np
from tensorpack_lite.compat import TensorSpec, ensure_graph_mode, tfv1 as tf
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.predict import MultiProcessDatasetPredictor, PredictConfig

def work(x):
    x = int(x)
    if x == -1:
        raise ValueError("bad datapoint")
    if x == -2:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.2 if x == 0 else 0)
    return np.int64(os.getpid())

def model(x):
    tf.multiply(x, 2, name="y")
    tf.py_func(work, [x], tf.int64, name="pid")

config = PredictConfig(tower_func=model, input_signature=[TensorSpec([], tf.int64, "x")], output_names=["y", "pid"])

def predict(numbers, **kwargs):
    flow = DataFromList([[n] for n in numbers], shuffle=False)
    return MultiProcessDatasetPredictor(config, flow, 2, use_gpu=False, **kwargs)
"""


def double(x):
    """y = 2 x."""
    tf.multiply(x, 2, name="y")


def config(**kwargs):
    """Return a configuration of the model."""
    return PredictConfig(
        tower_func=double, input_signature=[TensorSpec([], tf.int64, "x")], output_names=["y"], **kwargs
    )


def run(code):
    """Run a script on the model above in a process that has not run a session. Return the last line of its output."""
    return run_python("-c", SCRIPT + code).stdout.splitlines()[-1]


class TestSimple:
    def test_results(self):
        """Results are lists of outputs in order, for each pass anew."""
        predictor = SimpleDatasetPredictor(config(), DataFromList([[1], [2], [3]], shuffle=False))
        assert [[2], [4], [6]] == predictor.get_all_result()
        assert [2, 4, 6] == [outputs[0] for outputs in predictor.get_result()]
        predictor.predictor.sess.close()

    def test_without_a_size(self):
        """A DataFlow without length is read to its end."""
        predictor = SimpleDatasetPredictor(config(return_input=True), DataFromGenerator(lambda: iter([[1], [5]])))
        assert [((1,), [2]), ((5,), [10])] == predictor.get_all_result()
        predictor.predictor.sess.close()

    def test_mistakes(self):
        """Both arguments are checked."""
        with pytest.raises(TypeError, match=r"expected DataFlow, got list\). Wrap it"):
            SimpleDatasetPredictor(config(), [[1]])
        with pytest.raises(TypeError, match="expected PredictConfig, got NoneType"):
            SimpleDatasetPredictor(None, DataFromList([[1]]))


@pytest.mark.slow
@pytest.mark.any_tensorflow
class TestMultiProcess:
    def test_ordered(self):
        """Results are in order although the first datapoint takes longest, and come from two processes."""
        code = "r = predict(range(20)).get_all_result(); print([int(y) for y, _ in r], len({int(p) for _, p in r}))"
        assert run(code) == f"{[2 * i for i in range(20)]} 2"

    def test_unordered(self):
        """With ordered=False, results come in the order in which they arrive."""
        code = "r = [int(y) for y, _ in predict(range(20), ordered=False).get_result()]; print(sorted(r), r[0])"
        assert run(code).startswith(f"{[2 * i for i in range(20)]} ")

    def test_an_error_in_a_process(self):
        """An error in a process is raised with the number of the datapoint and the process's traceback."""
        code = """
try:
    predict([1, 2, -1, 3]).get_all_result()
except RuntimeError as error:
    print("datapoint 2 failed" in str(error), "bad datapoint" in str(error), "Traceback" in str(error.__cause__))
"""
        assert "True True True" == run(code)

    def test_death_of_a_process(self):
        """The death of a process raises an error with its pid and exit code, and no process remains."""
        code = """
import multiprocessing, re
try:
    predict([1, -2, 3, 4]).get_all_result()
except RuntimeError as error:
    print(bool(re.search(r"process \\d+ died with exit code -9", str(error))), multiprocessing.active_children())
"""
        assert "True []" == run(code)

    def test_left_early(self):
        """No process remains after iteration stops early."""
        code = """
import multiprocessing
results = predict(range(1, 20)).get_result()
next(results)
results.close()
print(multiprocessing.active_children())
"""
        assert "[]" == run(code)


class TestMultiProcessMistakes:
    def test_number(self):
        """nr_proc=0 raises ValueError."""
        with pytest.raises(ValueError, match=r"nr_proc is too small \(expected at least 1, got 0\)"):
            MultiProcessDatasetPredictor(config(), DataFromList([[1]]), 0)

    def test_gpus(self, monkeypatch):
        """More processes than GPUs raise ValueError."""
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
        with pytest.raises(ValueError, match=r"nr_proc is too large \(expected at most 2, the number of GPUs, got 3\)"):
            MultiProcessDatasetPredictor(config(), DataFromList([[1]]), 3)

    def test_gpus_are_shared_out(self, monkeypatch):
        """Each process gets one of the visible GPUs, or none."""
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
        assert ["3", "5"] == MultiProcessDatasetPredictor(config(), DataFromList([[1]]), 2)._gpus
        np.testing.assert_array_equal(
            ["", ""], MultiProcessDatasetPredictor(config(), DataFromList([[1]]), 2, False)._gpus
        )

    def test_system_without_fork(self, monkeypatch):
        """Where processes cannot be forked, the error points to SimpleDatasetPredictor."""
        monkeypatch.setattr(dataset, "get_all_start_methods", lambda: ["spawn"])
        with pytest.raises(RuntimeError, match="this system cannot fork processes. Use SimpleDatasetPredictor"):
            MultiProcessDatasetPredictor(config(), DataFromList([[1]]), 1)


class Pipe:
    """A child's end of a pipe: returns tasks, stores answers, then reports that the parent closed it."""

    def __init__(self, *tasks) -> None:
        self.tasks, self.answers = list(tasks), []

    def recv(self):
        if not self.tasks:
            raise EOFError
        return self.tasks.pop(0)

    def send(self, answer) -> None:
        self.answers.append(answer)


class TestChildProcess:
    """The loop of a child process, called in this process."""

    @pytest.fixture
    def answers(self, monkeypatch):
        """Return a function that returns the answers to datapoints."""
        monkeypatch.setattr(dataset, "enable_death_signal", lambda _warn: None)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")

        def answer(*datapoints):
            pipe = Pipe(*enumerate(datapoints))
            with pytest.raises(EOFError):
                dataset._predict_all(config(), "", 1, pipe)
            return pipe.answers

        return answer

    def test_answers(self, answers):
        """An answer has the number of the datapoint and the outputs; the process sees only its GPU."""
        assert [(0, [2], None, ""), (1, [8], None, "")] == answers([1], [4])
        assert "" == os.environ["CUDA_VISIBLE_DEVICES"]

    def test_an_error(self, answers):
        """An error is sent with its traceback, and the next datapoint is predicted."""
        (index, value, error, trace), after = answers([1, 2, 3], [4])
        assert (0, None, ValueError) == (index, value, type(error))
        assert "Traceback" in trace
        assert (1, [8], None, "") == after

    def test_an_error_that_cannot_be_sent(self):
        """A worker sends the text of a TensorFlow error; it sends Python's errors unchanged."""
        error = tf.errors.NotFoundError(None, None, "no such file")
        sent = dataset._sendable(error)
        assert (RuntimeError, "NotFoundError: no such file") == (type(sent), str(sent))
        own = KeyError("k")
        assert own is dataset._sendable(own)


def test_a_datapoint_for_a_dead_process():
    """Sending a datapoint to a dead process raises the error of its death."""
    worker = dataset._Worker.__new__(dataset._Worker)
    worker.connection = mock.Mock(send=mock.Mock(side_effect=BrokenPipeError))
    worker.process = mock.Mock(pid=123, exitcode=-9)
    with pytest.raises(RuntimeError, match="process 123 died with exit code -9"):
        worker.give((0, [1]))
