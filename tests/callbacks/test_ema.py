"""EMAWeights and SwapEMAWeights: the averages, their names, and swapping them with the weights."""

from __future__ import annotations

import os

import numpy as np
import pytest
from fakes.trainers import CountingTrainer, ScalingTrainer, run

from tensorpack_lite.callbacks.ema import EMAWeights, SwapEMAWeights
from tensorpack_lite.callbacks.inference import ScalarStats
from tensorpack_lite.callbacks.inference_runner import InferenceRunner
from tensorpack_lite.callbacks.saver import ModelSaver
from tensorpack_lite.callbacks.trigger import PeriodicTrigger
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.tfutils.sessinit import DictRestore, SaverRestore
from tensorpack_lite.train.base import Trainer


def averages(values, decay, num_done=0, average=None):
    """Return the average after each of these values of the weight; the first value is the one before training."""
    average = values[0] if average is None else average
    found = []
    for count, value in enumerate(values[1:], num_done):
        d = min(decay, (1 + count) / (10 + count))
        average = d * average + (1 - d) * value
        found.append(average)
    return found


class Watch(Callback):
    """Records the weight at each trigger."""

    def __init__(self, name="x") -> None:
        self._name = name
        self.seen = []

    def _trigger(self) -> None:
        variable = next(v for v in tf.global_variables() if v.op.name == self._name)
        self.seen.append(float(self.trainer.sess.run(variable)))


class RefTrainer(Trainer):
    """CountingTrainer with TensorFlow's default kind of variable, on 1.15 a ref variable."""

    def __init__(self) -> None:
        super().__init__()
        self.train_op = tf.assign_add(tf.get_variable("x", initializer=0.0), 1.0)


@pytest.mark.parametrize("trainer", [CountingTrainer, RefTrainer])
@pytest.mark.parametrize("decay", [0.15, 0.999])
def test_the_numbers(trainer, decay):
    """The average follows the formula after each step, and the weights are unchanged."""
    ema, average, weight = EMAWeights(decay), Watch("x/ExponentialMovingAverage"), Watch()
    callbacks = [ema, *[PeriodicTrigger(watch, every_k_steps=1) for watch in (average, weight)]]
    run(trainer(), callbacks, steps=3, epochs=2)

    np.testing.assert_allclose(average.seen, averages(range(7), decay), rtol=1e-5)
    assert [1, 2, 3, 4, 5, 6] == weight.seen


def test_it_begins_with_restored_weights():
    """The average starts with the restored value of the weight, not with the initial value."""
    average = Watch("x/ExponentialMovingAverage")
    run(CountingTrainer(), [EMAWeights(0.9), average], (), 1, 1, 1, DictRestore({"x": np.float32(100)}))

    np.testing.assert_allclose(average.seen, averages([100, 101], 0.9), rtol=1e-5)


def test_it_resumes(tmp_path):
    """A resumed training continues with the average and the number of updates in the checkpoint."""
    with tf.Graph().as_default():
        run(CountingTrainer(), [EMAWeights(0.9), ModelSaver(checkpoint_dir=str(tmp_path))], steps=4, epochs=1)
    average = Watch("x/ExponentialMovingAverage")
    init = SaverRestore(str(tmp_path / "model-4"))
    with tf.Graph().as_default():
        run(CountingTrainer(), [EMAWeights(0.9), average], (), 2, 2, 2, init)

    np.testing.assert_allclose(average.seen, averages(range(7), 0.9)[-1:], rtol=1e-5)
    keys = tf.train.NewCheckpointReader(str(tmp_path / "model-4")).get_variable_to_shape_map()
    assert {"x", "x/ExponentialMovingAverage", "ExponentialMovingAverage/num_updates", "global_step"} == set(keys)


def test_what_is_averaged():
    """Trainable floating-point variables are averaged; if each tower has its own, only those of the first tower."""
    tf.get_variable("integer", initializer=1)
    tf.get_variable("fixed", initializer=1.0, trainable=False)
    local = [tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.TRAINABLE_VARIABLES]
    tf.get_variable("tower1/x", initializer=1.0, collections=local)
    run(CountingTrainer(), [EMAWeights()])

    made = [v.op.name for v in tf.get_collection(tf.GraphKeys.MOVING_AVERAGE_VARIABLES)]
    assert ["x/ExponentialMovingAverage"] == made


def test_inference_with_the_averages():
    """The inner callback sees the averages; the next step and later callbacks see the weights."""
    ema, after = EMAWeights(0.5), Watch("scale/w")
    data = DataFromList([[np.float32([2.0])]], shuffle=False)
    inside = SwapEMAWeights(InferenceRunner(data, ScalarStats("cost")), ema)
    trainer = run(ScalingTrainer(), [ema, inside, after], steps=2, epochs=2)

    expected = averages([1, 2, 3, 4, 5], 0.5)
    history = trainer.monitors.get_history("validation_cost")
    np.testing.assert_allclose([value for _, value in history], [2 * expected[1], 2 * expected[3]], rtol=1e-5)
    assert [3, 5] == after.seen


def test_saving_the_averages(tmp_path):
    """The wrapped ModelSaver saves the averages as ordinary variables; another ModelSaver saves the weights."""
    ema = EMAWeights(0.5)
    inside = SwapEMAWeights(ModelSaver(checkpoint_dir=str(tmp_path / "averaged")), ema)
    run(CountingTrainer(), [ema, inside, ModelSaver(checkpoint_dir=str(tmp_path / "weights"))], epochs=1)

    def value(directory):
        path = os.path.join(str(tmp_path), directory, "model-2")
        return tf.train.NewCheckpointReader(path).get_tensor("x")

    np.testing.assert_allclose(value("averaged"), averages(range(3), 0.5)[-1], rtol=1e-5)
    assert 2 == value("weights")


@pytest.mark.parametrize("trainer", [CountingTrainer, RefTrainer])
def test_under_a_schedule(trainer):
    """Inside a PeriodicTrigger, the averages are swapped in only at its triggers."""
    ema, inside, outside = EMAWeights(0.5), Watch(), Watch()
    swap = PeriodicTrigger(SwapEMAWeights(inside, ema), every_k_steps=2, before_train=True)
    run(trainer(), [ema, swap, PeriodicTrigger(outside, every_k_steps=2)], steps=4, epochs=1)

    expected = averages(range(5), 0.5)
    np.testing.assert_allclose(inside.seen, [0, expected[1], expected[3]], rtol=1e-5)
    assert [2, 4] == outside.seen


def test_the_weights_come_back_after_an_error():
    """The weights are restored if the inner callback raises an exception."""

    class Fail(Callback):
        def _trigger(self) -> None:
            raise RuntimeError("inner")

    class Look(Watch):
        def _after_train(self) -> None:
            self._trigger()

    ema, look = EMAWeights(0.5), Look()
    with pytest.raises(RuntimeError, match="inner"):
        run(CountingTrainer(), [ema, SwapEMAWeights(Fail(), ema), look])

    assert ([2.0], False) == (look.seen, ema.is_swapped)


def test_twice_is_refused():
    """Two nested SwapEMAWeights raise RuntimeError, because they would save the averages as weights."""
    ema = EMAWeights()
    with pytest.raises(RuntimeError, match="the averages are already in place"):
        run(CountingTrainer(), [ema, SwapEMAWeights(SwapEMAWeights(Watch(), ema), ema)])


def test_nothing_to_average():
    """A graph without trainable floating-point variables raises ValueError."""

    class Empty(Trainer):
        train_op = None

        def run_step(self) -> None:
            self.hooked_sess.run([])

    with pytest.raises(ValueError, match="no trainable floating-point variables"):
        run(Empty(), [EMAWeights()])


def test_averages_that_are_not_in_the_list():
    """SwapEMAWeights whose EMAWeights does not come before it raises an error before training."""
    with pytest.raises(RuntimeError, match="Put the EMAWeights before this callback"):
        run(CountingTrainer(), [SwapEMAWeights(Watch(), EMAWeights())])
