"""Callbacks that run operations or read tensors."""

from __future__ import annotations

import os

import numpy as np
import pytest
from fakes.recording import RecordingMonitor
from fakes.trainers import CountingTrainer, ScalingTrainer, run

from tensorpack_lite.callbacks.graph import (
    CheckNumerics,
    DumpParamAsImage,
    DumpTensorAsImage,
    DumpTensors,
    ProcessTensors,
    RunOp,
    RunUpdateOps,
)
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop.callback import Callback


class Counter(Callback):
    """Creates a variable and an operation that adds 1 to it; records its value after each epoch."""

    def __init__(self) -> None:
        with tf.variable_scope("counter"):
            self.variable = tf.get_variable("n", initializer=0, use_resource=True, trainable=False)
        self.seen = []

    def increment(self):
        return self.variable.assign_add(1, read_value=False)

    def _before_train(self) -> None:
        self.seen.append(self._value())

    def _trigger_epoch(self) -> None:
        self.seen.append(self._value())

    def _value(self) -> int:
        return self.trainer.sess.run(self.variable)


class TestRunOp:
    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            ({}, [1, 2, 3]),
            ({"run_before": False}, [0, 1, 2]),
            ({"run_as_trigger": False}, [1, 1, 1]),
            ({"run_before": False, "run_as_trigger": False, "run_step": True}, [0, 3, 6]),
            ({"run_step": True}, [1, 5, 9]),
        ],
    )
    def test_when_it_runs(self, arguments, expected):
        """RunOp runs before training, at each trigger and with each of three steps, as its arguments say."""
        trainer, counter = CountingTrainer(), Counter()
        run(trainer, [RunOp(counter.increment, **arguments), counter], steps=3)

        assert expected == counter.seen

    @pytest.mark.parametrize(
        "make",
        [lambda counter: counter.increment(), lambda counter: lambda: counter.variable.assign_add(1) + 0],
        ids=["operation", "tensor"],
    )
    def test_other_operations(self, make):
        """RunOp accepts an existing operation, and a tensor such as the result of tf.assign."""
        trainer, counter = CountingTrainer(), Counter()
        run(trainer, [RunOp(make(counter)), counter], steps=1, epochs=1)
        assert [1, 2] == counter.seen

    def test_something_else(self):
        """A function that returns neither an operation nor a tensor raises TypeError in setup_graph."""
        with pytest.raises(TypeError, match="RunOp: op has the wrong type .*got NoneType"):
            run(CountingTrainer(), [RunOp(lambda: None)])

    def test_verbose(self, log_lines):
        """With verbose=True, each run is logged, including runs with a step."""
        trainer = CountingTrainer()
        operation = tf.no_op(name="nothing")
        run(trainer, [RunOp(operation, run_step=True, verbose=True)], steps=2, epochs=1)

        assert 4 == log_lines.count("RunOp: running nothing.")


class TestRunUpdateOps:
    def test_every_step(self, fresh_graph):
        """The operations of the collection run with each step, grouped under a known name."""
        trainer, counter = CountingTrainer(), Counter()
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, counter.increment())
        run(trainer, [RunUpdateOps(), counter], steps=3)

        assert [0, 3, 6] == counter.seen
        assert "RunUpdateOps/update_ops" == fresh_graph.get_operation_by_name("RunUpdateOps/update_ops").name

    def test_another_collection(self):
        """Another collection can be named; UPDATE_OPS then does not run."""
        trainer, counter = CountingTrainer(), Counter()
        tf.add_to_collection("mine", counter.increment())
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.Assert(False, ["must not run"]))
        run(trainer, [RunUpdateOps("mine"), counter], steps=3, epochs=1)

        assert [0, 3] == counter.seen

    def test_an_operation_that_a_user_callback_added(self):
        """Operations that earlier callbacks add to the collection in _setup_graph run too."""
        trainer, counter = CountingTrainer(), Counter()

        class Add(Callback):
            def _setup_graph(self) -> None:
                tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, counter.increment())

        run(trainer, [Add(), RunUpdateOps(), counter], steps=3, epochs=1)

        assert [0, 3] == counter.seen

    def test_an_empty_collection(self, fresh_graph):
        """For an empty collection, the graph has an operation of a known name, and nothing runs."""
        callback = RunUpdateOps()
        run(CountingTrainer(), [callback], steps=1, epochs=1)

        assert "NoOp" == fresh_graph.get_operation_by_name("RunUpdateOps/empty_update_ops").type
        assert callback.before_run(None) is None


class TestProcessTensors:
    @pytest.mark.parametrize("names", [["cost"], ["cost:0"], ("cost",)])
    def test_values(self, names):
        """The function is called with the values after every run, with and without `:0` in the name."""
        seen = []
        run(CountingTrainer(), [ProcessTensors(names, seen.append)], steps=3, epochs=1)

        assert [0.0, 10.0, 20.0] == seen

    @pytest.mark.parametrize("towers", [("",), ("tower0", "tower1")])
    def test_one_tower_and_two(self, towers):
        """A tensor of the model is found without the tower's name, with one tower and with two."""
        seen = []
        run(ScalingTrainer(towers), [ProcessTensors(["cost"], seen.append)], steps=1, epochs=1)

        assert 1 == len(seen)
        assert isinstance(seen[0], np.float32)

    def test_a_variable(self):
        """The name of a resource variable means its value."""
        seen = []
        run(CountingTrainer(), [ProcessTensors(["x"], seen.append)], steps=1, epochs=1)

        assert np.float32 == np.asarray(seen[0]).dtype

    def test_several(self):
        """The function gets one argument for each name, in order."""
        seen = []
        tf.constant(7, name="seven")
        callback = ProcessTensors(["seven", "cost"], lambda *values: seen.append(values))
        run(CountingTrainer(), [callback], steps=2, epochs=1)

        assert [(7, 0.0), (7, 10.0)] == seen

    def test_an_operation_without_outputs(self):
        """An operation without outputs runs, and its value is None."""
        seen = []
        tf.no_op(name="nothing")
        run(CountingTrainer(), [ProcessTensors(["nothing"], seen.append)], steps=1, epochs=1)

        assert [None] == seen


class TestDumpTensors:
    def test_one_file_a_run(self, log_dir):
        """Each run writes one file, named after the step; its keys are the names as given."""
        run(CountingTrainer(), [DumpTensors(["cost", "cost:0"])], steps=2, epochs=1)

        assert ["DumpTensor-1.npz", "DumpTensor-2.npz"] == sorted(f for f in os.listdir(log_dir) if "Dump" in f)
        with np.load(os.path.join(log_dir, "DumpTensor-2.npz")) as dumped:
            assert {"cost": 10.0, "cost:0": 10.0} == dict(dumped)

    def test_a_tensor_called_file(self, log_dir):
        """A tensor may have the name of an argument of NumPy's function."""

        class Trainer(CountingTrainer):
            def __init__(self):
                super().__init__()
                tf.constant(3.0, name="file")

        run(Trainer(), [DumpTensors(["file"])], steps=1, epochs=1)
        with np.load(os.path.join(log_dir, "DumpTensor-1.npz")) as dumped:
            assert {"file": 3.0} == dict(dumped)


class TestDumpTensorAsImage:
    def trainer(self):
        trainer = CountingTrainer()
        tf.constant([[0.0, 1.0], [0.5, 2.0]], name="picture")
        return trainer

    def test_the_file(self, log_dir, fresh_graph):
        """The image is scaled, clipped, named after the tensor and the epoch, and sent to the monitors."""
        monitor = RecordingMonitor()
        run(self.trainer(), [DumpTensorAsImage("picture")], [monitor], epochs=1)

        with open(os.path.join(log_dir, "picture-ep001.png"), "rb") as file:
            content = file.read()
        with tf.Graph().as_default(), tf.Session() as session:
            image = session.run(tf.image.decode_png(content))
        np.testing.assert_array_equal([[0, 255], [127, 255]], image[:, :, 0])
        np.testing.assert_array_equal([[0, 255], [127.5, 255]], monitor.images[0][1][0, :, :, 0])

    def test_a_list_is_numbered_from_0(self, log_dir):
        """Each image of a list has a number, starting with 0."""
        callback = DumpParamAsImage("picture", prefix="p", map_func=lambda value: [value, value])
        run(self.trainer(), [callback], epochs=1)

        assert ["p-ep001-0.png", "p-ep001-1.png"] == sorted(f for f in os.listdir(log_dir) if f.endswith("png"))

    def test_a_prefix_with_a_slash(self, log_dir):
        """The directory of a prefix with a slash is created."""
        run(self.trainer(), [DumpTensorAsImage("picture", prefix="a/b")], epochs=1)

        assert os.path.exists(os.path.join(log_dir, "a", "b-ep001.png"))


class TestCheckNumerics:
    def trainer(self):
        """Trains x = 1, 0, -1 ... through log(x): -inf at step 2."""
        trainer = CountingTrainer()
        x = tf.trainable_variables()[0]
        trainer.train_op = x.assign(tf.log(x + 0.0), read_value=False)
        return trainer

    def test_a_trigger_finds_it(self):
        """NaN or infinity in a variable ends training at the end of the epoch with an error that names the variable."""
        trainer = self.trainer()
        with pytest.raises(tf.errors.InvalidArgumentError, match="CheckNumerics: variable 'x' has NaN or Inf"):
            run(trainer, [CheckNumerics()], steps=3, epochs=1)
        assert 3 == trainer.global_step

    def test_every_step_finds_it_sooner(self):
        """With run_step=True, the error is raised in the next step."""
        trainer = self.trainer()
        with pytest.raises(tf.errors.InvalidArgumentError, match="variable 'x' has NaN or Inf"):
            run(trainer, [CheckNumerics(run_step=True)], steps=30, epochs=1)
        assert trainer.global_step <= 2

    def test_finite_values_pass(self):
        """Finite values and integers cause no error."""
        tf.get_variable("n", initializer=1)
        assert 4 == run(CountingTrainer(), [CheckNumerics(run_step=True)]).global_step
