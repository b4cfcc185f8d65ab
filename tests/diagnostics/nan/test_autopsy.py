"""TerminateOnNaN(autopsy=True): a step that is not finite updates nothing, and its cause is found and written."""

from __future__ import annotations

import errno
import json
import os

import numpy as np
import pytest
from fakes.processes import run_python
from fakes.trainers import run

from tensorpack_lite import FeedInput, QueueInput, SimpleTrainer, StagingInput
from tensorpack_lite.callbacks import TerminateOnNaN
from tensorpack_lite.callbacks.graph import RunUpdateOps
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow import DataFromList
from tensorpack_lite.diagnostics.nan import autopsy
from tensorpack_lite.tfutils.exact.state import begin_exact
from tensorpack_lite.tfutils.loss_scale import DynamicLossScaleOptimizer
from tensorpack_lite.tfutils.varmanip import load_checkpoint_vars
from tensorpack_lite.train import (
    AsyncMultiGPUTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
)
from tensorpack_lite.utils import logger
from tensorpack_lite.utils.notes import read_notes

BATCH, RATE = 8, 0.5
SIGNATURE = [tf.TensorSpec([None], tf.float32, "x"), tf.TensorSpec([None], tf.int32, "label")]


@pytest.fixture
def log_dir(tmp_path):
    """The logger's directory."""
    logger.set_logger_dir(str(tmp_path / "log"), "d")
    yield str(tmp_path / "log")
    logger._directory.close()


def batches(num=12, bad=(), x_of=None):
    """Batches [x, label]; `bad` holds (number of the batch from 1, sample, label)."""
    random = np.random.RandomState(3)
    found = [[random.rand(BATCH).astype("float32"), np.zeros(BATCH, np.int32)] for _ in range(num)]
    for number, sample, label in bad:
        found[number - 1][1][sample] = label
    for number, value in (x_of or {}).items():
        found[number - 1][0][:] = value
    return found


def alone(x, label):
    """w * mean(x), NaN if a label is -1; `mean` counts the steps as an update operation."""
    w = tf.get_variable("w", initializer=1.0)
    mean = tf.get_variable("mean", initializer=0.0, trainable=False)
    tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, mean.assign_add(1.0).op)
    factor = tf.sqrt(1.0 - 2.0 * tf.cast(tf.equal(label, -1), tf.float32), name="root")
    return tf.reduce_mean(x * factor * w, name="cost")


def together(x, label):
    """w * mean(x), NaN if the labels 1 and 2 are both in the batch."""
    w = tf.get_variable("w", initializer=1.0)
    both = tf.reduce_any(tf.equal(label, 1)) & tf.reduce_any(tf.equal(label, 2))
    return tf.add(w * tf.reduce_mean(x), tf.sqrt(1.0 - 2.0 * tf.cast(both, tf.float32)) - 1.0, name="cost")


def roots(x, label):
    """The mean of sqrt(w * x), whose gradient is NaN for x = 0."""
    w = tf.get_variable("w", initializer=1.0)
    return tf.reduce_mean(tf.sqrt(w * x), name="cost")


def train(source, model=alone, trainer=None, rate=RATE, optimizer=None, callbacks=None):
    """Train with TerminateOnNaN. Return the trainer."""
    trainer = trainer or SimpleTrainer()
    trainer.setup_graph(SIGNATURE, source, model, lambda: optimizer or tf.train.GradientDescentOptimizer(rate))
    return run(trainer, [RunUpdateOps(), TerminateOnNaN()] if callbacks is None else callbacks, steps=3, epochs=3)


def failing(*args, **kwargs):
    """Train, and return the text of the error."""
    with pytest.raises(FloatingPointError) as caught:
        train(*args, **kwargs)
    return str(caught.value)


INPUTS = {
    "feed": FeedInput,
    "queue": QueueInput,
    "staging": lambda df: StagingInput(QueueInput(df)),
}


@pytest.mark.law
@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("is_exact", [False, True])
def test_one_sample(log_dir, kind, is_exact):
    """The bad sample is found by number, and no variable has the update of its step."""
    if is_exact:
        begin_exact(True, None)
    data = batches(bad=[(5, 3, -1)])

    message = failing(INPUTS[kind](DataFromList(data, shuffle=False)))

    assert "loss is not finite at global_step=5, epoch 2: cost = nan" in message
    assert "The cause is in datapoint 5 of tower 0, sample 3 of 0-7; 'root:0' (Sqrt) is nan" in message
    assert "its inputs are finite, at most 1" in message
    assert "label is -1" in message
    directory = os.path.join(log_dir, "nan-5")
    weights = load_checkpoint_vars(os.path.join(directory, "model-4"))
    expected = 1 - RATE * sum(x.mean(dtype=np.float64) for x, _ in data[:4])
    np.testing.assert_allclose(weights["w"], expected, rtol=1e-5)
    assert 4 == weights["mean"]
    assert 4 == weights["global_step"]
    with np.load(os.path.join(directory, "batch.npz")) as written:
        np.testing.assert_array_equal(data[4][0], written["tower0/x"])
        np.testing.assert_array_equal(data[4][1], written["tower0/label"])


def test_the_files_and_the_note(log_dir):
    """The report has the last losses and gradients; the note has the same text as the error."""
    message = failing(FeedInput(DataFromList(batches(bad=[(2, 0, -1)]), shuffle=False)))

    with open(os.path.join(log_dir, "nan-2", "report.txt"), encoding="utf-8") as file:
        report = file.read()
    assert "Last 2 steps:" in report
    assert "gradient norm" in report
    assert "root:0" in report
    (note,) = read_notes(log_dir)
    assert ("nan", 2, 2) == (note["kind"], note["step"], note["datapoint"])
    assert message == note["text"]
    assert os.path.join(log_dir, "nan-2") == note["directory"]


def test_pictures(log_dir):
    """The image of the bad sample is written as PNG."""
    images = np.zeros([4, 6, 5, 3], np.uint8)
    images[2] = 255

    def model(image):
        w = tf.get_variable("w", initializer=1.0)
        value = tf.reduce_max(tf.cast(image, tf.float32), axis=[1, 2, 3])
        return tf.reduce_mean(w * tf.sqrt(254.0 - value), name="cost")

    trainer = SimpleTrainer()
    signature = [tf.TensorSpec([4, 6, 5, 3], tf.uint8, "image")]
    trainer.setup_graph(
        signature,
        FeedInput(DataFromList([[images]])),
        model,
        lambda: tf.train.GradientDescentOptimizer(0.1),
    )
    with pytest.raises(FloatingPointError, match="sample 2 of 0-3"):
        trainer.train_with_defaults(callbacks=[TerminateOnNaN()], monitors=[], steps_per_epoch=1)
    assert ["image-2.png"] == [name for name in os.listdir(os.path.join(log_dir, "nan-1")) if "png" in name]


def test_no_files(log_dir, monkeypatch):
    """If the disk is full, the error still has the cause, and says that there are no files."""
    monkeypatch.setattr(autopsy, "write_batches", full_disk)
    message = failing(FeedInput(DataFromList(batches(bad=[(2, 3, -1)]), shuffle=False)))
    assert "sample 3 of 0-7" in message
    assert message.endswith("The files of the step cannot be written: [Errno 28] No space left on device")
    assert [message[message.index("TerminateOnNaN") :]] == [note["text"] for note in read_notes(log_dir)]


def full_disk(*args):
    """Raise the error of a full disk."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def is_random(x, label):
    """A model that is NaN in its third run only."""
    w = tf.get_variable("w", initializer=1.0)
    count = tf.get_variable("count", initializer=0.0, collections=[tf.GraphKeys.LOCAL_VARIABLES])
    is_third = tf.equal(count.assign_add(1.0), 3.0)
    return tf.add(w * tf.reduce_mean(x), tf.where(is_third, np.nan, 0.0), name="cost")


@pytest.mark.parametrize(
    ("data", "settings", "texts"),
    [
        ({"bad": [(2, 6, -1), (2, 1, -1)]}, {}, ["samples 1, 6 of 0-7"]),
        (
            {"bad": [(3, 1, 1), (3, 6, 2)]},
            {"model": together},
            ["datapoint 3 of tower 0; ", "no single sample does it, only together: samples 0-7"],
        ),
        (
            {"x_of": {1: 1e-18, 2: 1e-18, 3: 1e10}},
            {"rate": 1e29},
            [
                "the first with NaN or infinity is the variable 'w'",
                "A variable was not finite already (w): the update of step 3 broke it",
                "with a gradient norm of 1e+10 (usual 1e-18)",
            ],
        ),
        (
            {"x_of": {1: 2.0, 2: 1e30}},
            {},
            [
                "norm of the gradients = inf. The gradients are finite, but so large",
                "In the step before, cost was 2, and the norm 2. Lower the learning rate",
            ],
        ),
        (
            {"bad": [(1, 3, -1)]},
            {"trainer": lambda: AsyncMultiGPUTrainer([0])},
            ["The update of this step was not held back"],
        ),
        ({}, {"model": is_random}, ["the same batch and weights, the step is finite when it runs again."]),
    ],
    ids=["several samples", "together", "too large a step", "overflow", "asynchronous", "random"],
)
def test_causes(log_dir, data, settings, texts):
    """The error names the samples, the variable, the gradients or the kind of training that are the cause."""
    settings = {**settings, **({"trainer": settings["trainer"]()} if "trainer" in settings else {})}
    message = failing(QueueInput(DataFromList(batches(**data), shuffle=False)), **settings)
    assert [] == [text for text in texts if text not in message]


def test_a_gradient(log_dir):
    """A gradient that is NaN while the loss is finite ends training before the update."""
    data = batches()
    data[2][0][5] = 0
    message = failing(FeedInput(DataFromList(data, shuffle=False)), roots)
    assert "loss or gradient is not finite at global_step=3" in message
    assert "norm of the gradients = nan" in message
    assert "sample 5 of 0-7" in message
    assert np.isfinite(load_checkpoint_vars(os.path.join(log_dir, "nan-3", "model-2"))["w"])


@pytest.mark.law
@pytest.mark.parametrize("make", [SyncMultiGPUTrainerParameterServer, SyncMultiGPUTrainerReplicated])
@pytest.mark.parametrize("tower", [0, 1])
def test_towers(log_dir, make, tower):
    """The bad sample is found in each tower, and all towers keep their variables."""
    data = batches(bad=[(5 + tower, 3, -1)])

    message = failing(QueueInput(DataFromList(data, shuffle=False)), trainer=make([0, 1]))

    assert f"The cause is in datapoint {5 + tower} of tower {tower}, sample 3 of 0-7" in message
    weights = load_checkpoint_vars(os.path.join(log_dir, "nan-3", "model-2"))
    expected = 1 - RATE * sum(x.mean(dtype=np.float64) for x, _ in data[:4]) / 2
    np.testing.assert_allclose(weights["w"], expected, rtol=1e-5)


def test_an_overflow_that_is_handled(log_dir):
    """DynamicLossScaleOptimizer skips a step that overflows, which is not an error."""
    optimizer = DynamicLossScaleOptimizer(tf.train.GradientDescentOptimizer(RATE), initial_scale=2.0**127)
    source = FeedInput(DataFromList(batches(x_of={1: 1e6, 2: 1e6}), shuffle=False))

    assert 9 == train(source, optimizer=optimizer).global_step


def test_a_fetched_update(log_dir):
    """An update whose result is fetched ends training with the same error."""
    data = batches(bad=[(2, 0, -1)])

    class Fetching(SimpleTrainer):
        def run_step(self):
            self.hooked_sess.run(self.fetched)

        def _setup_graph(self, *args):
            super()._setup_graph(*args)
            with tf.control_dependencies([self.train_op]):
                self.train_op = self.fetched = tf.constant(1) + 0

    message = failing(FeedInput(DataFromList(data, shuffle=False)), trainer=Fetching())

    assert "loss is not finite at global_step=2" in message
    assert "sample 0 of 0-7" in message


def test_without_autopsy(log_dir):
    """With autopsy=False, the error names the tensor, and nothing is written."""
    source = FeedInput(DataFromList(batches(bad=[(2, 0, -1)]), shuffle=False))

    message = failing(source, callbacks=[TerminateOnNaN(autopsy=False)])

    assert message.endswith("the first with NaN or infinity is 'root:0' (Sqrt).")
    assert [] == [name for name in os.listdir(log_dir) if name.startswith("nan")]


def test_the_graph_of_the_model_stays():
    """The callback adds operations, and changes no name of the model's."""

    def names(callbacks):
        with tf.Graph().as_default() as graph:
            trainer = SimpleTrainer()
            trainer.setup_graph(
                SIGNATURE,
                FeedInput(DataFromList(batches())),
                alone,
                lambda: tf.train.MomentumOptimizer(0.1, 0.9),
            )
            trainer.setup_callbacks(callbacks, [])
            return [op.name for op in graph.get_operations() if "TerminateOnNaN" not in op.name]

    assert names([]) == names([TerminateOnNaN()])


SCRIPT = """
import sys
import numpy as np
from tensorpack_lite import FeedInput, SimpleTrainer
from tensorpack_lite.callbacks import TerminateOnNaN
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow import DataFromList
from tensorpack_lite.utils import logger

def model(x):
    w = tf.get_variable("w", initializer=1.0)
    return tf.reduce_mean(w * tf.sqrt(x), name="cost")

good, bad = np.ones(4, "float32"), np.array([1, 1, -1, 1], "float32")
logger.set_logger_dir(sys.argv[1])
trainer = SimpleTrainer()
trainer.setup_graph(
    [tf.TensorSpec([4], tf.float32, "x")],
    FeedInput(DataFromList([[good], [bad]], shuffle=False)),
    model,
    lambda: tf.train.GradientDescentOptimizer(0.1),
)
trainer.train_with_defaults(callbacks=[TerminateOnNaN()], steps_per_epoch=5, max_epoch=1)
"""


def replay(*arguments, exit_code):
    """Run nan-replay. Return what it prints."""
    done = run_python("-m", "tensorpack_lite", "nan-replay", *arguments, exit_code=exit_code)
    return done.stdout + done.stderr


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.any_tensorflow
def test_replay(tmp_path):
    """nan-replay gives the same NaN; with another batch it gives none; without the script it is an error."""
    script, log = tmp_path / "train.py", tmp_path / "log"
    script.write_text(SCRIPT)
    done = run_python(script, log, exit_code=1)
    assert "sample 2 of 0-3" in done.stdout + done.stderr
    directory = str(log / "nan-2")
    before = sorted(os.listdir(str(log)))

    assert "Same NaN: 'Sqrt:0' (Sqrt) is nan." in replay(directory, exit_code=0)
    assert before == sorted(os.listdir(str(log)))

    np.savez(os.path.join(directory, "batch.npz"), **{"tower0/x": np.ones(4, "float32")})
    assert "No NaN: with the same batch and variables" in replay(directory, "--", script, log, exit_code=1)

    record = json.loads((log / "nan-2" / "step.json").read_text())
    (log / "nan-2" / "step.json").write_text(json.dumps(dict(record, losses=[["other:0"]])))
    assert "the model differs from the recorded one" in replay(directory, exit_code=2)

    assert "step.json does not exist" in replay(tmp_path, exit_code=2)
