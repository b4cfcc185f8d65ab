"""Tests of the loss, the queue and the momentum encoder of moco_digits.py against NumPy, and of the example."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.programs import read_figures
from fakes.trainers import run

pytest.importorskip("cv2")
pytest.importorskip("sklearn")

from tensorpack_lite import Callback, DataFromList, QueueInput, RepeatedData, SimpleTrainer
from tensorpack_lite.compat import tfv1 as tf

TWO_STEPS = ["--steps-per-epoch", "2", "--max-epoch", "1", "--log-dir", "log"]


@pytest.fixture
def example(load_example):
    return load_example("moco_digits.py")


def unit_vectors(rng, *shape):
    x = rng.randn(*shape)
    return (x / np.linalg.norm(x, axis=-1, keepdims=True)).astype("float32")


@pytest.mark.slow
def test_contrast(example):
    """The loss is the cross entropy of the query's key among the queue, with similarities over the temperature."""
    rng = np.random.RandomState(0)
    queries, queue = unit_vectors(rng, 5, 4), unit_vectors(rng, 12, 4)
    scores = np.exp(queries @ queue.T / example.TEMPERATURE)
    with tf.Session() as session:
        value = session.run(example.contrast(tf.constant(queries), tf.constant(queue)))
    np.testing.assert_allclose(-np.log(np.diag(scores) / scores.sum(axis=1)).mean(), value, rtol=1e-4)


class Watch(Callback):
    """Records the queue and one variable of both networks after each step."""

    def _setup_graph(self):
        variables = {v.op.name: v for v in tf.global_variables()}
        self.tensors = [variables[name].read_value() for name in ("queue", "query/fc/W", "key/fc/W")]
        self.values = []

    def _trigger_step(self):
        self.values.append(self.trainer.sess.run(self.tensors))


@pytest.mark.slow
def test_queue_and_momentum(example, monkeypatch):
    """The newest keys are at the front of the queue, and the oldest ones leave; the key network follows slowly."""
    monkeypatch.setattr(example, "BATCH", 4)
    monkeypatch.setattr(example, "KEYS", 12)
    rng = np.random.RandomState(0)
    batch = [rng.rand(4, 16, 16, 1).astype("float32") for _ in range(2)] + [np.zeros(4, "int32")]
    trainer = SimpleTrainer()
    model = example.Model((16, 16, 1), False)
    data = QueueInput(RepeatedData(DataFromList([batch], shuffle=False), -1))
    trainer.setup_graph(model.get_input_signature(), data, model.build_graph, model.get_optimizer)
    watch = Watch()
    run(trainer, [example.FollowQuery(), watch, example.RunUpdateOps()], steps=5, epochs=1)
    queues, queries, keys = zip(*watch.values)
    np.testing.assert_allclose(queries[0], keys[0], rtol=1e-5, atol=1e-7)  # copied after the first step
    for step in range(1, 5):
        rate = max(1 - example.MOMENTUM, 1 / (step + 1))
        expected = keys[step - 1] + rate * (queries[step] - keys[step - 1])
        np.testing.assert_allclose(expected, keys[step], rtol=1e-4, atol=1e-6)
        np.testing.assert_array_equal(queues[step - 1][:-4], queues[step][4:])
        np.testing.assert_allclose(np.ones(4), np.linalg.norm(queues[step][:4], axis=1), rtol=1e-4)
    assert np.abs(queues[4][:4] - queues[3][:4]).max() > 0


@pytest.mark.slow
def test_views(example):
    """A batch has two different views of each image, and its label."""
    images = np.random.RandomState(0).rand(5, 16, 16, 1).astype("float32")
    flow = example.get_views(images, np.arange(5))
    flow.reset_state()
    image, other, label = next(iter(flow))
    assert (example.BATCH, 16, 16, 1) == image.shape == other.shape
    assert {0, 1, 2, 3, 4} == set(label)
    assert np.abs(image - other).max() > 0.1


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [[], pytest.param(["--scratch"], marks=[pytest.mark.any_tensorflow, pytest.mark.proof])]
)
def test_two_steps(tmp_path, run_example, arguments):
    """The example reports the accuracy of the probe and draws views."""
    run_example("moco_digits.py", [*arguments, *TWO_STEPS], tmp_path)
    assert all(0.05 < accuracy <= 1 for accuracy in read_figures(tmp_path / "log").values())
    assert (tmp_path / "log" / "views.png").exists()
