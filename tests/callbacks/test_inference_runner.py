"""InferenceRunner: running a model over a data set during training."""

from __future__ import annotations

import re

import numpy as np
import pytest
from fakes.recording import RecordingCallback
from fakes.trainers import CountingTrainer, ScalingTrainer, run

from tensorpack_lite.callbacks.inference import Inferencer, ScalarStats
from tensorpack_lite.callbacks.inference_runner import InferenceRunner
from tensorpack_lite.callbacks.trigger import PeriodicTrigger
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.base import DataFlow
from tensorpack_lite.dataflow.mapping import MapData
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.dataflow.repeat import FixedSizeData, RepeatedData
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.input_source.queueing import BatchQueueInput, QueueInput
from tensorpack_lite.input_source.remap import remap_input_source
from tensorpack_lite.input_source.tensor import TensorInput
from tensorpack_lite.input_source.tfdata import TFDatasetInput
from tensorpack_lite.tfutils.tower.func import TowerFunc

# The model is y = x * w with w = 1 + number of steps done; cost is the mean of y.
DATA = [[np.array([1.0], "float32")], [np.array([2.0], "float32")], [np.array([6.0], "float32")]]
MEAN = 3.0


def data(*datapoints):
    """A DataFlow of these, or of DATA."""
    return DataFromList(list(datapoints) or DATA, shuffle=False)


class Flow(DataFlow):
    """A DataFlow made of a function, with or without a length."""

    def __init__(self, function, length=None) -> None:
        self._function, self._length = function, length

    def __iter__(self):
        return self._function()

    def __len__(self) -> int:
        if self._length is None:
            raise NotImplementedError
        return self._length


class TestRounds:
    def test_each_epoch(self):
        """After each epoch, the mean over the data set is reported for the current variables."""
        trainer = run(ScalingTrainer(), [InferenceRunner(data(), ScalarStats("cost"))])

        assert [(2, 3 * MEAN), (4, 5 * MEAN)] == trainer.monitors.get_history("validation_cost")

    @pytest.mark.parametrize("make_input", [lambda df: df, FeedInput, QueueInput])
    def test_data_that_never_ends(self, make_input):
        """Data that repeats without end is refused before training, also inside other stages; a limited part of it is not."""
        endless = RepeatedData(data(), -1)
        with pytest.raises(ValueError, match=r"InferenceRunner: the data repeats without end.* FixedSizeData\(df, n\)"):
            run(ScalingTrainer(), [InferenceRunner(make_input(MapData(endless, list)), ScalarStats("cost"))])
        with tf.Graph().as_default():
            limited = InferenceRunner(make_input(FixedSizeData(endless, 3)), ScalarStats("cost"))
            trainer = run(ScalingTrainer(), [limited], epochs=1)
        assert 3 * MEAN == trainer.monitors.get_latest("validation_cost")

    def test_several_inferencers(self):
        """A list of inferencers is accepted, and each one sees all datapoints."""

        class Largest(Inferencer):
            def _before_inference(self) -> None:
                self.largest = 0.0

            def _get_fetches(self):
                return ["y"]

            def _on_fetches(self, results) -> None:
                self.largest = max(self.largest, results[0].max())

            def _after_inference(self):
                return {"largest": self.largest}

        trainer = run(ScalingTrainer(), [InferenceRunner(data(), [ScalarStats("cost"), Largest()])], epochs=1)

        assert 3 * MEAN == trainer.monitors.get_latest("validation_cost")
        assert 3 * 6.0 == trainer.monitors.get_latest("largest")

    def test_a_scheduler(self):
        """It runs whenever it is triggered, including before training."""
        runner = PeriodicTrigger(InferenceRunner(data(), ScalarStats("cost")), 3, before_train=True)
        trainer = run(ScalingTrainer(), [runner])

        assert [(0, MEAN), (3, 4 * MEAN)] == trainer.monitors.get_history("validation_cost")

    def test_several_training_towers(self):
        """With two training towers, the variables of the first one are evaluated."""
        runner = InferenceRunner(data(), ScalarStats("cost"))
        trainer = run(ScalingTrainer(("tower0", "tower1")), [runner], epochs=1)

        assert 3 * MEAN == trainer.monitors.get_latest("validation_cost")

    def test_on_the_cpu(self):
        """With a negative device, the operations of the tower are placed on the CPU."""
        trainer = ScalingTrainer()
        run(trainer, [InferenceRunner(data(), ScalarStats("cost"), device=-1)], epochs=1)

        assert trainer.towers["InferenceTower"]["y"].device.lower().endswith("cpu:0")

    def test_a_training_step_counts_nothing_of_it(self):
        """Inference runs do not change global_step or call the hooks of other callbacks."""
        recorder = RecordingCallback()
        trainer = run(ScalingTrainer(), [InferenceRunner(data(), ScalarStats("cost")), recorder], epochs=1)

        assert 2 == trainer.global_step
        assert 2 == recorder.calls.count("before_run")

    def test_summaries_of_the_tower_are_left_out(self):
        """The inference tower adds nothing to SUMMARIES."""
        trainer = ScalingTrainer(build=lambda: tf.summary.scalar("s", 1.0))
        run(trainer, [InferenceRunner(data(), ScalarStats("cost"))], epochs=1)

        assert ["s:0"] == [t.name for t in tf.get_collection(tf.GraphKeys.SUMMARIES)]

    def test_another_tower_func(self):
        """A given tower function is evaluated instead of the trainer's."""

        def model(x, z):
            tf.add(tf.reduce_max(x), tf.reduce_max(z), name="total")

        spec = [tf.TensorSpec([None], tf.float32, "x"), tf.TensorSpec([], tf.float32, "z")]
        source = data([np.float32([1, 2]), np.float32(10)])
        runner = InferenceRunner(source, ScalarStats("total"), "Other", TowerFunc(model, spec))
        trainer = run(ScalingTrainer(), [runner], epochs=1)

        assert 12.0 == trainer.monitors.get_latest("validation_total")

    def test_hooks(self):
        """A registered hook takes part in each inference run."""
        seen = []

        class Hook(tf.train.SessionRunHook):
            def before_run(self, ctx):
                return tf.train.SessionRunArgs("InferenceTower/cost:0")

            def after_run(self, ctx, values) -> None:
                seen.append(float(values.results))

        runner = InferenceRunner(data(), ScalarStats("cost"))
        runner.register_hook(Hook())
        run(ScalingTrainer(), [runner], steps=1, epochs=1)

        assert [2.0, 4.0, 12.0] == seen


class TestInputs:
    def test_each_round_begins_at_the_first_datapoint(self):
        """Each round iterates over the DataFlow from the start."""
        seen = []

        class Record(ScalarStats):
            def _on_fetches(self, results) -> None:
                seen.append(float(results[0]))
                super()._on_fetches(results)

        run(ScalingTrainer(), [InferenceRunner(data(), Record("cost"))], steps=1, epochs=2)

        assert [2.0, 4.0, 12.0, 3.0, 6.0, 18.0] == seen

    @pytest.mark.parametrize(
        ("wrap", "message"),
        [
            (lambda flow: flow, "InferenceRunner 'InferenceTower': the FeedInput ended too early"),
            (FeedInput, "FeedInput: the DataFlow Flow "),
            (QueueInput, "QueueInput: the DataFlow Flow "),
            (lambda flow: remap_input_source(QueueInput(flow), ["x"]), "QueueInput: the DataFlow Flow "),
            (TFDatasetInput, "InferenceRunner 'InferenceTower': the TFDatasetInput ended too early"),
        ],
        ids=["dataflow", "feed", "queue", "remapped", "dataset"],
    )
    def test_a_flow_that_is_shorter_than_its_length(self, wrap, message):
        """A DataFlow that ends too early raises an error with the input and both numbers, and nothing is reported."""
        runner = InferenceRunner(wrap(Flow(lambda: iter(DATA), length=5)), ScalarStats("cost"))
        trainer = ScalingTrainer()
        with pytest.raises(RuntimeError, match=rf"{message}.*Make .*len\(\)") as caught:
            run(trainer, [runner])
        assert ["3", "5"] == sorted(re.findall(r"\b[0-9]\b", str(caught.value)))
        assert [] == trainer.monitors.get_history("validation_cost")

    def test_batches_of_a_short_flow(self):
        """BatchQueueInput counts samples."""
        samples = Flow(lambda: iter([[np.float32(1.0)]] * 5), length=6)
        runner = InferenceRunner(BatchQueueInput(samples, 2), ScalarStats("cost"))
        with pytest.raises(RuntimeError, match="BatchQueueInput.*ended after 5 datapoints, but its size is 6"):
            run(ScalingTrainer(), [runner])

    @pytest.mark.parametrize("wrap", [lambda flow: flow, QueueInput], ids=["feed", "queue"])
    def test_a_users_exception_travels(self, wrap):
        """An exception in the data ends training with that exception, also if a thread reads the data."""

        def fail():
            yield DATA[0]
            raise ArithmeticError("in the data")

        runner = InferenceRunner(wrap(Flow(fail, length=3)), ScalarStats("cost"))
        with pytest.raises(ArithmeticError, match="in the data"):
            run(ScalingTrainer(), [runner])

    def test_a_tensor(self):
        """A TensorInput with a size runs that many times."""
        source = TensorInput(lambda: [tf.constant([4.0])], size=2)
        trainer = run(ScalingTrainer(), [InferenceRunner(source, ScalarStats("cost"))], epochs=1)

        assert 12.0 == trainer.monitors.get_latest("validation_cost")

    @pytest.mark.parametrize("size", [None, 5])
    def test_the_end_of_tensors(self, size):
        """The end of a TensorInput ends the round if its size is unknown; otherwise it is an error."""
        queue = tf.FIFOQueue(3, [tf.float32], [[1]])
        fill = queue.enqueue_many([np.array([[1], [3]], "float32")])
        with tf.control_dependencies([fill]):
            close = queue.close()

        class Fill(RecordingCallback):
            def _before_train(self) -> None:
                self.trainer.sess.run(close)

        runner = InferenceRunner(TensorInput(lambda: [queue.dequeue()], size), ScalarStats("cost"))
        if size is None:
            trainer = run(ScalingTrainer(), [Fill(), runner], epochs=1)
            assert 3 * 2.0 == trainer.monitors.get_latest("validation_cost")
        else:
            with pytest.raises(RuntimeError, match=r"the TensorInput ended too early \(expected 5 datapoints, got 2\)"):
                run(ScalingTrainer(), [Fill(), runner], epochs=1)


class TestMistakes:
    @pytest.mark.parametrize("is_other", [False, True])
    def test_two_runners_of_one_name(self, is_other):
        """A second runner with the same tower name raises ValueError, also if it has another tower function."""
        other = TowerFunc(lambda x: tf.reduce_sum(x, name="sum"), [tf.TensorSpec([None], tf.float32, "x")])
        second = (ScalarStats("sum"), "InferenceTower", other) if is_other else (ScalarStats("cost"),)
        runners = [InferenceRunner(data(), ScalarStats("cost")), InferenceRunner(data(), *second)]
        with pytest.raises(ValueError, match="already has a tower named 'InferenceTower'.*'InferenceTower2'"):
            run(ScalingTrainer(), runners)

    def test_two_runners_of_two_names(self):
        """Two runners with different tower names evaluate their own data."""
        runners = [
            InferenceRunner(data(), ScalarStats("cost", "a")),
            InferenceRunner(data([np.float32([5])]), ScalarStats("cost", "b"), tower_name="Second"),
        ]
        trainer = run(ScalingTrainer(), runners, steps=1, epochs=1)

        assert [2 * MEAN, 2 * 5.0] == [trainer.monitors.get_latest(n) for n in ("a_cost", "b_cost")]

    def test_a_variable_that_training_has_not(self):
        """A variable that training does not have is named in the ValueError."""
        calls = []

        def build():
            calls.append(1)
            tf.get_variable(f"new{len(calls)}", initializer=1.0)

        with pytest.raises(ValueError, match="InferenceRunner 'InferenceTower': variable 'new2' does not exist"):
            run(ScalingTrainer(build=build), [InferenceRunner(data(), ScalarStats("cost"))])

    def test_a_trainer_without_a_model(self):
        """A trainer without a tower function raises RuntimeError."""
        with pytest.raises(RuntimeError, match="the trainer has no tower function"):
            run(CountingTrainer(), [InferenceRunner(data(), ScalarStats("cost"))])

    def test_an_unknown_tensor(self):
        """An unknown tensor raises a KeyError that names the inferencer and the tensor, without TensorFlow's own errors."""
        with pytest.raises(KeyError, match="InferenceRunner: ScalarStats asks for a tensor. .*costs") as caught:
            run(ScalingTrainer(), [InferenceRunner(data(), ScalarStats("costs"))])
        assert caught.value.__suppress_context__

    @pytest.mark.parametrize(
        ("arguments", "match"),
        [
            (([1], ScalarStats("cost")), "expected a DataFlow or an InputSource, got list"),
            ((data(), [3]), "expected an Inferencer or a list of them, got int"),
            (
                (data(), ["accuracy"]),
                r"expected an Inferencer .*, got str. Write ScalarStats\(\['accuracy'\]\)",
            ),
            (
                (data(), ScalarStats("cost"), "T", len),
                "tower_func: expected a TowerFunc, got builtin_function",
            ),
        ],
    )
    def test_other_kinds(self, arguments, match):
        """An argument of another type raises TypeError in the constructor."""
        with pytest.raises(TypeError, match=f"InferenceRunner: {match}"):
            InferenceRunner(*arguments)

    @pytest.mark.parametrize("make_input", [FeedInput, QueueInput, TFDatasetInput])
    def test_the_data_names_the_runner(self, make_input):
        """A datapoint that does not fit raises an error that begins with the runner, because training has data, too."""
        source = make_input(data([np.zeros([1, 2, 3], "float32")]))
        match = f"^InferenceRunner: {make_input.__name__}: component 0 'x' has the wrong shape"
        with pytest.raises(ValueError, match=match):
            run(ScalingTrainer(), [InferenceRunner(source, ScalarStats("cost"))])

    def test_a_failing_dataflow_names_the_runner(self):
        """An error of the DataFlow begins with the runner, too."""
        flow = Flow(lambda: iter([1 // 0]), 1)
        with pytest.raises(ZeroDivisionError, match="^InferenceRunner: FeedInput: the DataFlow Flow failed"):
            run(ScalingTrainer(), [InferenceRunner(flow, ScalarStats("cost"))])

    def test_an_empty_tower_name(self):
        """An empty tower name raises ValueError, because the tensors would mix with those of the training tower."""
        with pytest.raises(ValueError, match="InferenceRunner: tower_name is empty"):
            InferenceRunner(data(), ScalarStats("cost"), tower_name="")

    def test_a_model_that_fails(self):
        """A ValueError of the model keeps its text."""
        calls = []

        def build():
            calls.append(1)
            if len(calls) == 2:
                raise ValueError("in the model")

        with pytest.raises(ValueError, match="^in the model$"):
            run(ScalingTrainer(build=build), [InferenceRunner(data(), ScalarStats("cost"))])

    def test_a_cancelled_run(self, log_lines):
        """A cancelled run raises an error and logs the number of evaluated datapoints."""

        class Cancel(ScalarStats):
            def _on_fetches(self, results) -> None:
                if self._num_datapoints == 2:
                    raise tf.errors.CancelledError(None, None, "cancelled")
                super()._on_fetches(results)

        with pytest.raises(tf.errors.CancelledError):
            run(ScalingTrainer(), [InferenceRunner(data(), Cancel("cost"))])
        assert "InferenceRunner 'InferenceTower' was cancelled after 2 datapoints." in log_lines

    def test_a_hook_that_comes_too_late(self):
        """Registering a hook after training has started raises RuntimeError."""
        runner = InferenceRunner(data(), ScalarStats("cost"))
        run(ScalingTrainer(), [runner], epochs=1)
        with pytest.raises(RuntimeError, match="register_hook: training has started"):
            runner.register_hook(tf.train.SessionRunHook())

    def test_a_hook_that_is_none(self):
        """Registering an object that is not a hook raises TypeError."""
        with pytest.raises(TypeError, match="InferenceRunner.register_hook: expected a tf.train.SessionRunHook"):
            InferenceRunner(data(), ScalarStats("cost")).register_hook(3)
