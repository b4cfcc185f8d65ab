"""Each further tower adds the same number of operations to a graph, and none that towers can share."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.graph_builder.data_parallel import shared_zeros
from tensorpack_lite.input_source.tensor import DummyConstantInput
from tensorpack_lite.models import BatchNorm, BNReLU, Conv2D, FullyConnected, l2_regularizer, regularize_cost
from tensorpack_lite.tfutils.tower.context import TowerContext
from tensorpack_lite.train import (
    AsyncMultiGPUTrainer,
    ModelDesc,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
)

SHAPES = [[2, 4, 4, 3], [2]]
NUM_VARIABLES = 10
NUM_WEIGHTS = 3


class Net(ModelDesc):
    """Three weights, a bias and two BatchNorm layers, one of them without gamma and beta: ten variables."""

    def inputs(self):
        return [TensorSpec(SHAPES[0], tf.float32, "image"), TensorSpec(SHAPES[1], tf.int32, "label")]

    def build_graph(self, image, label):
        x = Conv2D("conv0", image, 4, 3, activation=BNReLU, use_bias=False)
        x = BatchNorm("bn", Conv2D("conv1", x, 4, 3, use_bias=False), center=False, scale=False)
        logits = FullyConnected("fc", x, 5)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
        return tf.reduce_mean(losses) + regularize_cost(".*/W", l2_regularizer(1e-4))

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.1)


def count(kind, num_towers):
    """Return the number of operations of each type in a trainer's graph."""
    with tf.Graph().as_default() as graph:
        model = Net()
        trainer = kind(num_towers)
        trainer._report_cost = lambda: None  # its moving average has variables, too
        trainer.setup_graph(
            model.get_input_signature(), DummyConstantInput(SHAPES), model.build_graph, model.get_optimizer
        )
        return Counter(op.type for op in graph.get_operations())


def replicated(num_towers):
    return SyncMultiGPUTrainerReplicated(num_towers, mode="gpu")


def on_cpu(num_towers):
    return SyncMultiGPUTrainerParameterServer(num_towers, ps_device="cpu")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [on_cpu, replicated, AsyncMultiGPUTrainer])
def test_linear(kind):
    """Each tower adds the same operations, except constants and groups, which depend on the devices."""
    counts = [count(kind, num_towers) for num_towers in (2, 3, 4)]
    for types in counts:
        del types["Const"], types["NoOp"]
    second, third = (after - before for before, after in zip(counts, counts[1:]))
    assert second == third


def test_shared_variables_are_read_once():
    """All towers and layers share one read per variable."""
    for num_towers in (1, 3):
        counts = count(SyncMultiGPUTrainerParameterServer, num_towers)
        assert NUM_VARIABLES == counts["VarHandleOp"] == counts["ReadVariableOp"]


def test_copies_are_read_once():
    """Each copy of a variable has one read."""
    counts = count(replicated, 3)
    assert 3 * NUM_VARIABLES == counts["VarHandleOp"] == counts["ReadVariableOp"]


def test_one_constant_for_all_batch_norms_of_a_tower():
    """All BatchNorm layers of a tower share one constant."""
    with tf.Graph().as_default() as graph:
        model = Net()
        SyncMultiGPUTrainerParameterServer(2).setup_graph(
            model.get_input_signature(), DummyConstantInput(SHAPES), model.build_graph, model.get_optimizer
        )
        kernels = [op for op in graph.get_operations() if op.type == "FusedBatchNormV3"]
    assert 4 == len(kernels)
    assert 2 == len({op.inputs[index].name for op in kernels for index in (3, 4)})


def test_slots_share_their_zeros():
    """Slots of one shape share their initial value, zero."""
    with tf.Graph().as_default():
        optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
        with shared_zeros(), TowerContext("", is_training=True):
            variables = [tf.get_variable(name, shape) for name, shape in (("a", [2, 3]), ("b", [2, 3]), ("c", [3]))]
            optimizer.apply_gradients([(tf.ones_like(var), var) for var in variables])
        slots = [optimizer.get_slot(var, "momentum") for var in variables]
        values = [slot.initializer.inputs[1] for slot in slots]
        assert values[0] is values[1]
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            assert [(2, 3), (2, 3), (3,)] == [value.shape for value in sess.run(slots)]
            assert 0 == sum(np.abs(value).sum() for value in sess.run(slots))


def test_multiplications_of_weight_decay():
    """Weight decay has one multiplication per tower forward, and one per weight backward."""
    with tf.Graph().as_default() as graph:
        model = Net()
        SyncMultiGPUTrainerParameterServer(1).setup_graph(
            model.get_input_signature(), DummyConstantInput(SHAPES), model.build_graph, model.get_optimizer
        )
        names = [op.name for op in graph.get_operations() if "L2Loss" in op.name and op.type == "Mul"]
    assert NUM_WEIGHTS == len(names)


def test_initial_values_of_a_batch_norm():
    """A BatchNorm layer has two initial values: ones and zeros."""
    with tf.Graph().as_default(), TowerContext("", is_training=True):
        variables = BatchNorm("bn", tf.zeros([2, 3, 3, 5000])).variables
        initial = [var.initializer.inputs[1] for var in (variables.gamma, variables.variance)]
        initial += [var.initializer.inputs[1] for var in (variables.beta, variables.mean)]
    assert initial[0] is initial[1]
    assert initial[2] is initial[3]
    assert ["Const"] * 4 == [tensor.op.type for tensor in initial]
