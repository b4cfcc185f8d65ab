"""
Tests that need GPUs: `tox -e gpu`, or `pytest -m gpu`. A test is skipped if the machine has too few of them. On a machine with
one GPU, `TENSORPACK_LITE_LOGICAL_GPUS=2` divides it.

Other tests of training on many devices use virtual CPUs or soft placement. `test_weights_on_gpus` in
test_multi_equals_single.py compares the weights on GPUs with those on one device.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from fakes.logical_gpus import need_gpus, need_real_gpus

from tensorpack_lite.callbacks import GPUMemoryTracker, GPUUtilizationTracker
from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.graph_builder.allreduce import allreduce_grads, allreduce_grads_hierarchical
from tensorpack_lite.input_source import StagingInput, TensorInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.models import Conv2D, FullyConnected
from tensorpack_lite.predict import MultiTowerOfflinePredictor, PredictConfig
from tensorpack_lite.train import (
    AsyncMultiGPUTrainer,
    ModelDesc,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
)

pytestmark = pytest.mark.gpu

SIZES = [2, 1000, 70_000]

TRAINERS = {
    "ps-gpu": lambda: SyncMultiGPUTrainerParameterServer(2, ps_device="gpu"),
    "ps-cpu": lambda: SyncMultiGPUTrainerParameterServer(2, ps_device="cpu"),
    "gpu": lambda: SyncMultiGPUTrainerReplicated(2, mode="gpu"),
    "nccl": lambda: SyncMultiGPUTrainerReplicated(2, mode="nccl"),
    "collective": lambda: SyncMultiGPUTrainerReplicated(2, mode="collective"),
    "async": lambda: AsyncMultiGPUTrainer(2),
}
REPLICATED = ["gpu", "nccl", "collective"]


NCCL = ("nccl", "collective")  # TensorFlow's collective operations use NCCL on GPUs
WHY = "NCCL cannot use one GPU twice"


def need_two(trainer):
    """Skip the test if there are not two GPUs that this trainer can use."""
    if trainer in NCCL:
        need_real_gpus(2, WHY)
    need_gpus(2)


class Net(ModelDesc):
    """A model with a convolution and a layer of 1,000 x 10 weights."""

    def inputs(self):
        return [TensorSpec([8, 10, 10, 3], tf.float32, "image")]

    def build_graph(self, image):
        x = Conv2D("conv", image, 10, 3, activation=tf.nn.relu)
        return tf.reduce_mean(FullyConnected("fc", x, 10) ** 2, name="cost")

    def optimizer(self):
        return tf.train.MomentumOptimizer(0.1, 0.9)


def train(trainer, callbacks=(), steps=3):
    """Train Net on random images and trace each step. Return the devices of each operation in the last step."""
    model = Net()
    source = StagingInput(TensorInput(lambda: [tf.random_uniform([8, 10, 10, 3])]))
    trainer.setup_graph(model.get_input_signature(), source, model.build_graph, model.get_optimizer)
    options, metadata = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), tf.RunMetadata()
    trainer.run_step = lambda: trainer.hooked_sess.run(trainer.train_op, options=options, run_metadata=metadata)
    trainer.train_with_defaults(
        callbacks=list(callbacks), extra_callbacks=[], monitors=[], steps_per_epoch=steps, max_epoch=1
    )
    places = {}
    for device in metadata.step_stats.dev_stats:
        kind = re.search(r"device:([A-Z]+:[0-9]+)$", device.device)
        if kind:  # the others are streams of a GPU, and threads that launch kernels
            for node in device.node_stats:
                places.setdefault(node.node_name, set()).add(kind.group(1))
    return places


class TestReductions:
    """All-reduces leave the sum or mean on each GPU, in every run."""

    @pytest.mark.parametrize("average", [True, False])
    @pytest.mark.parametrize(("mode", "count"), [("nccl", 2), ("collective", 2), ("nccl", 4), ("collective", 4)])
    def test_together(self, mode, count, average):
        """NCCL and collective operations reduce gradients."""
        need_real_gpus(count, WHY)
        check_reduction(count, average, lambda grads, devices: allreduce_grads(grads, average, mode, devices))

    @pytest.mark.parametrize("average", [True, False])
    def test_hierarchical(self, average):
        """The hierarchical mode reduces the gradients of eight GPUs."""
        need_gpus(8)
        check_reduction(8, average, lambda grads, devices: allreduce_grads_hierarchical(grads, devices, average))


def check_reduction(count, average, reduce, kind="gpu"):
    rng = np.random.RandomState(0)
    rows = [[rng.randint(-9, 9, size).astype("float32") for size in SIZES] for _ in range(count)]
    total = [np.sum(column, axis=0) for column in zip(*rows)]
    expected = [value / count for value in total] if average else total
    devices = [f"/{kind}:{k}" for k in range(count)]
    grads = []
    for device, row in zip(devices, rows):
        with tf.device(device):
            grads.append([tf.constant(value) for value in row])
    reduced = reduce(grads, devices)
    config = tf.ConfigProto(allow_soft_placement=False, device_count={"CPU": 8})
    with tf.Session(config=config) as sess:
        for _ in range(3):
            for row in sess.run(reduced):
                for wanted, got in zip(expected, row):
                    np.testing.assert_allclose(got, wanted, rtol=1e-6)


class TestPlacement:
    @pytest.mark.parametrize("name", TRAINERS)
    def test_each_tower_computes_on_its_gpu(self, name):
        """Each GPU computes the forward and backward pass of its tower, with the datapoint that was staged on it."""
        need_two(name)
        places = train(TRAINERS[name]())
        for k in range(2):
            backward = f"tower{k}/gradients/tower{k}/conv/Conv2D_grad/Conv2DBackpropFilter"
            assert {f"GPU:{k}"} == places[backward]
            assert {f"GPU:{k}"} == places[f"tower{k}/StagingInput/StagingArea_get"]
            of_tower = [where for op, where in places.items() if op.startswith(f"tower{k}/")]
            assert {f"GPU:{k}"} == set().union(*of_tower) - {"CPU:0"}

    @pytest.mark.parametrize(
        ("name", "devices"),
        [
            ("ps-gpu", {"GPU:0", "GPU:1"}),
            ("ps-cpu", {"CPU:0"}),
            ("async", {"GPU:0", "GPU:1"}),
            ("gpu", {"GPU:0", "GPU:1"}),
        ],
    )
    def test_variables_are_updated_on_their_devices(self, name, devices):
        """Variables are updated on the devices that docs/distributed.md names."""
        need_two(name)
        places = train(TRAINERS[name]())
        updates = [where for op, where in places.items() if op.endswith("/ResourceApplyMomentum")]
        assert devices == set().union(*updates)

    def test_predictors(self):
        """Each predictor computes on its GPU, with shared variables."""
        need_gpus(2)
        config = PredictConfig(model=Net(), input_names=["image"], output_names=["cost"])
        predictor = MultiTowerOfflinePredictor(config, [0, 1])
        image = np.random.RandomState(0).uniform(size=[8, 10, 10, 3]).astype("float32")
        first, second = (float(one(image)[0]) for one in predictor.get_predictors())
        assert first == pytest.approx(second, rel=1e-5)
        devices = [one.output_tensors[0].device for one in predictor.get_predictors()]
        assert ["/device:GPU:0", "/device:GPU:1"] == devices


@pytest.mark.parametrize("name", REPLICATED)
def test_copies_stay_equal_to_the_bit(name):
    """Copies of variables stay equal after steps in which each GPU updated its copy."""
    need_two(name)
    trainer = TRAINERS[name]()

    class Compare(Callback):
        times = 0

        def _trigger_step(self):
            self.times += 1
            values = self.trainer.sess.run({var.op.name: var for var in tf.trainable_variables()})
            assert 8 == len(values)
            for copy, value in values.items():
                np.testing.assert_array_equal(values[copy.replace("tower1/", "")], value, err_msg=copy)

    compare = Compare()
    train(trainer, [compare], steps=5)
    assert 5 == compare.times


class TestTrackers:
    def test_memory_and_utilization(self):
        """Both trackers report values for both GPUs."""
        need_real_gpus(2, "NVML does not know logical ones")
        trainer = TRAINERS["gpu"]()
        train(trainer, [GPUMemoryTracker([0, 1]), GPUUtilizationTracker([0, 1])], steps=20)
        for k in range(2):
            assert trainer.monitors.get_latest(f"PeakMemory(MB)/gpu:{k}") > 0.05
            assert 0 <= trainer.monitors.get_latest(f"GPUUtil/{k}") <= 100
