"""The summary of a model: its numbers against closed forms, and where it is shown."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from fakes.processes import run_python
from fakes.trainers import CountingTrainer, launch, run

from tensorpack_lite.callbacks.saver import ModelSaver
from tensorpack_lite.cli.main import main
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.diagnostics.model_summary.callback import ModelSummary
from tensorpack_lite.diagnostics.model_summary.show import show_bytes, show_number
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.input_source.queueing import QueueInput
from tensorpack_lite.models import BatchNorm, Conv2D, FullyConnected, MaxPooling
from tensorpack_lite.report.page import write_report
from tensorpack_lite.tfutils.flops import count_flops
from tensorpack_lite.train.model_desc import ModelDesc
from tensorpack_lite.train.multi_gpu import SyncMultiGPUTrainerReplicated


class Net(ModelDesc):
    """A convolution, pooling, batch normalization in a scope, and two layers; `batch` is the static batch size."""

    def __init__(self, batch=None, size=8):
        super().__init__()
        self.batch, self.size = batch, size

    def inputs(self):
        shape = [self.batch, self.size, self.size, 3]
        return [tf.TensorSpec(shape, tf.float32, "image"), tf.TensorSpec([self.batch], tf.int32, "label")]

    def build_graph(self, image, label):
        x = Conv2D("conv0", image, 4, 3, activation=tf.nn.relu)  # [?, 8, 8, 4]
        x = MaxPooling("pool0", x, 2)  # [?, 4, 4, 4]
        with tf.variable_scope("block"):
            x = BatchNorm("bn", x)
        x = FullyConnected("fc0", x, 16, activation=tf.nn.relu)
        logits = FullyConnected("fc1", x, 10)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label))

    def optimizer(self):
        return tf.train.AdamOptimizer(1e-3)


def summary_of(model, callbacks=(), trainer=None, size=8, batch=2, source=FeedInput):
    """Train one step, and return the summary."""
    callback = ModelSummary()
    data = DataFromList([[np.zeros([batch, size, size, 3], "float32"), np.zeros([batch], "int32")]] * 4)
    launch(trainer, model=model, data=source(data), callbacks=[callback, *callbacks])
    return callback.summary


@pytest.fixture(scope="module")
def summary():
    """The summary of a Net with an unknown batch."""
    return summary_of(Net())


# layer -> parameters, shape, FLOPs (products and sums, one for each bias, activation and element of a pool), and what
# training keeps: inputs of convolutions and products, outputs of activations and pools, each tensor once
LAYERS = {
    "conv0": (3 * 3 * 3 * 4 + 4, ["?", 8, 8, 4], 8 * 8 * 4 * (2 * 3 * 3 * 3 + 1 + 1), 4 * 8 * 8 * 4),
    "pool0": (0, ["?", 4, 4, 4], 4 * 4 * 4 * 4, 4 * 4 * 4 * 4),
    "block/bn": (8, ["?", 4, 4, 4], 4 * 4 * 4 * 4, 4 * 4 * 4 * 4),
    "fc0": (64 * 16 + 16, ["?", 16], 16 * (2 * 64 + 1 + 1), 4 * 16),
    "fc1": (16 * 10 + 10, ["?", 10], 10 * (2 * 16 + 1), None),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers(summary, name):
    """The parameters, output, FLOPs and kept bytes of each layer are those of closed forms."""
    (found,) = [one for one in summary.layers if one.name == name]
    expected = LAYERS[name]
    assert expected[:3] == (found.parameters, found.shape, found.flops)
    assert expected[3] in (None, found.kept)


def test_sums(summary):
    """The rest beside the layers is Adam's, averages and counters; inference needs the convolution and its bias at once."""
    total = sum(parameters for parameters, *_ in LAYERS.values())
    assert (total, 4 * total) == (summary.parameters, summary.parameter_bytes)
    # two slots of Adam, two averages of batch normalization, two powers, and global_step
    assert 2 * 4 * total + 2 * 4 * 4 + 2 * 4 + 8 == summary.other_bytes
    assert sum(one.flops for one in summary.layers) == summary.flops
    assert 2 * 4 * 8 * 8 * 4 <= summary.inference_bytes <= 4 * 8 * 8 * (3 + 4 + 4)


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 6])
def test_numbers_are_per_sample(summary, batch):
    """A graph with a fixed batch has the same numbers for each sample, up to the mean over the batch."""
    fixed = summary_of(Net(batch), batch=batch)
    assert batch == fixed.batch
    assert summary.batch is None
    for one, other in zip(summary.layers, fixed.layers):
        assert one[:3] == other[:3]
        if one.name != "others":
            assert one == other
    assert summary.flops == pytest.approx(fixed.flops, rel=0.01)


@pytest.mark.slow
def test_a_size_that_is_not_known():
    """If the shape of images is not known, FLOPs and memory are "?", and parameters are counted."""

    class Free(Net):
        def inputs(self):
            return [tf.TensorSpec([None, None, None, 3], tf.float32, "image"), super().inputs()[1]]

        def build_graph(self, image, label):
            x = tf.reduce_mean(Conv2D("conv0", image, 4, 3), axis=[1, 2])
            logits = FullyConnected("fc1", x, 10)
            return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label))

    found = summary_of(Free())
    assert found.flops is None
    assert found.inference_bytes is None
    assert 3 * 3 * 3 * 4 + 4 + 4 * 10 + 10 == found.parameters


@pytest.mark.slow
def test_several_towers_and_a_queue(summary):
    """With two towers and a queue, the layers are those of one tower."""
    found = summary_of(Net(), trainer=SyncMultiGPUTrainerReplicated(2), source=QueueInput)
    assert summary.layers[:-1] == found.layers[:-1]


@pytest.mark.slow
def test_the_graph_does_not_change():
    """The callback adds no operation to the graph and changes no result."""
    counts = []
    for _ in range(2):
        data = FeedInput(DataFromList([[np.zeros([2, 8, 8, 3], "float32"), np.zeros([2], "int32")]]))
        trainer = launch(model=Net(), data=data, callbacks=[ModelSummary()] if counts else [])
        counts.append([op.name for op in trainer.sess.graph.get_operations()])
    assert counts[0] == counts[1]


def test_a_trainer_without_a_tower():
    """A trainer without a cost in a tower raises an error that explains what to use."""
    with tf.Graph().as_default(), pytest.raises(ValueError, match="CountingTrainer has no training tower with a cost"):
        run(CountingTrainer(), [ModelSummary()])


CASES = {
    "MatMul": (lambda: tf.matmul(tf.zeros([5, 3]), tf.zeros([3, 7])), 2 * 5 * 3 * 7),
    "transposed": (lambda: tf.matmul(tf.zeros([3, 5]), tf.zeros([3, 7]), transpose_a=True), 2 * 5 * 3 * 7),
    "batched": (lambda: tf.matmul(tf.zeros([2, 5, 3]), tf.zeros([2, 3, 7])), 2 * 2 * 5 * 3 * 7),
    "Conv2D": (
        lambda: tf.nn.conv2d(tf.zeros([1, 9, 9, 3]), tf.zeros([3, 3, 3, 4]), 2, "SAME"),
        2 * 25 * 4 * 27,
    ),
    "depthwise": (
        lambda: tf.nn.depthwise_conv2d(tf.zeros([1, 9, 9, 3]), tf.zeros([3, 3, 3, 2]), [1, 1, 1, 1], "SAME"),
        2 * 81 * 6 * 9,
    ),
    "transposed convolution": (
        lambda: tf.nn.conv2d_transpose(tf.zeros([1, 4, 4, 3]), tf.zeros([2, 2, 5, 3]), [1, 8, 8, 5], 2),
        2 * 16 * 3 * 4 * 5,
    ),
    "mean": (lambda: tf.reduce_mean(tf.zeros([5, 6]), axis=1), 30),
    "softmax": (lambda: tf.nn.softmax(tf.zeros([5, 6])), 90),
    "reshape": (lambda: tf.reshape(tf.zeros([5, 6]), [6, 5]), 0),
}


@pytest.mark.parametrize("name", CASES)
def test_operations(name):
    """The number for one operation is that of its closed form."""
    make, expected = CASES[name]
    with tf.Graph().as_default():
        tensor = make()
        ops = [op for op in tf.get_default_graph().get_operations() if "shape" not in op.name]
        found = sum(count_flops(op) or 0 for op in ops if op.type != "Const")
    assert tensor is not None
    assert expected == found


def test_units():
    """Numbers have three digits and a unit."""
    assert ["999", "1 k", "1.23 M", "?"] == [show_number(n) for n in (999, 1000, 1_234_567, None)]
    assert ["0 B", "1.5 kB", "2 GB"] == [show_bytes(n) for n in (0, 1500, 2_000_000_000)]


@pytest.mark.slow
def test_the_report(log_dir):
    """The callback writes `model.json`, and the report has its table and sentences."""
    summary_of(Net())
    content = json.loads(Path(log_dir, "model.json").read_text(encoding="utf-8"))
    assert "conv0" == content["rows"][0][0]
    write_report([str(log_dir)], f"{log_dir}/report.html")
    page = Path(log_dir, "report.html").read_text(encoding="utf-8")
    assert '<section id="model"><h2>Model</h2>' in page
    assert "[?, 8, 8, 4]" in page
    assert "FLOPs and bytes are per sample" in page


@pytest.mark.slow
@pytest.mark.parametrize("text", ["{", "[]", '{"head": 1}'])
def test_a_damaged_file_in_the_report(log_dir, text):
    """A damaged `model.json` is a sentence in the report."""
    summary_of(Net())
    with open(f"{log_dir}/model.json", "w", encoding="utf-8") as file:
        file.write(text)
    write_report([str(log_dir)], f"{log_dir}/report.html")
    assert "model.json: " in Path(log_dir, "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_of_a_checkpoint(log_dir, capsys):
    """The command lists the parameters of a checkpoint by layer, without those of the optimizer."""
    summary_of(Net(), [ModelSaver()])
    capsys.readouterr()
    assert 0 == main(["summary", str(log_dir)])
    output = capsys.readouterr().out
    rows = {
        line.split()[0]: line.split()[1] for line in output.splitlines() if line.startswith(("fc", "conv", "block"))
    }
    assert {
        "conv0": "112",
        "block/bn": "8",
        "block/bn/mean": "4",
        "block/bn/variance": "4",
        "fc0": "1,040",
        "fc1": "170",
    } == rows
    assert "Variables that only training needs: " in output


SCRIPT = """
from diagnostics.test_model_summary import Net, summary_of
summary_of(Net())
"""


@pytest.mark.slow
def test_of_a_script(tmp_path):
    """The command prints the table of a script without training."""
    (tmp_path / "train.py").write_text(SCRIPT)
    output = run_python("-m", "tensorpack_lite", "summary", "train.py", cwd=tmp_path).stdout
    assert re.search(r"^conv0 +\[\?, 8, 8, 4\] +112 ", output, re.MULTILINE)
    assert "Start epoch" not in output
