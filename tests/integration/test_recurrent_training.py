"""Recurrent layers in towers on several devices, in inference, and in exported graphs."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.callbacks import InferenceRunner, ScalarStats
from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.input_source.queueing import QueueInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.models import GRU, LSTM, FullyConnected, l2_regularizer, regularize_cost
from tensorpack_lite.predict import OfflinePredictor, PredictConfig
from tensorpack_lite.predict.export import ModelExporter
from tensorpack_lite.tfutils.gradproc import GlobalNormClip
from tensorpack_lite.tfutils.optimizer import apply_grad_processors
from tensorpack_lite.tfutils.sessinit import DictRestore
from tensorpack_lite.tfutils.tower.context import TowerContext
from tensorpack_lite.train import (
    ModelDesc,
    SimpleTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
    TrainConfig,
    launch_train_with_config,
)

BATCH, STEPS = 3, 4


class Classifier(ModelDesc):
    """A classifier of padded sequences."""

    def inputs(self):
        shapes = ([None, None, 3], tf.float32, "x"), ([None], tf.int32, "length"), ([None], tf.int32, "label")
        return [TensorSpec(*shape) for shape in shapes]

    def build_graph(self, x, length, label):
        x, _ = LSTM("lstm", x, 4, sequence_length=length)
        _, state = GRU("gru", x, 4, sequence_length=length)
        logits = FullyConnected("fc", state, 2)
        tf.nn.softmax(logits, name="prob")
        cost = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label))
        return tf.add(cost, regularize_cost(".*kernel", l2_regularizer(1e-2)), name="cost")

    def optimizer(self):
        return apply_grad_processors(tf.train.AdamOptimizer(0.01), [GlobalNormClip(1)])


def make_data(times):
    """Return the same datapoints in the same order, with `times` batches concatenated."""
    rng, size = np.random.RandomState(0), 2 * BATCH
    batches = [
        [rng.uniform(-1, 1, [size, 5, 3]), rng.randint(6, size=size), rng.randint(2, size=size)] for _ in range(STEPS)
    ]
    dtypes = ["float32", "int32", "int32"]
    parts = [slice(i * size // (2 // times), (i + 1) * size // (2 // times)) for i in range(2 // times)]
    return [[c[p].astype(dtype) for c, dtype in zip(batch, dtypes)] for batch in batches for p in parts]


@pytest.fixture(scope="module")
def weights():
    """Return initial values of the variables."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        model = Classifier()
        with TowerContext("", is_training=False):
            model.build_graph(*[tf.placeholder(s.dtype, s.shape) for s in model.inputs()])
        session.run(tf.global_variables_initializer())
        return session.run({v.op.name: v for v in tf.trainable_variables()})


class Values(Callback):
    """Records the values of the variables after training."""

    def _setup_graph(self):
        self.variables = {v.op.name: v for v in tf.trainable_variables()}

    def _after_train(self):
        self.values = self.trainer.sess.run(self.variables)


def train(trainer, weights, times):
    """Train from given weights, validate after the epoch, and return the variables and the validation's results."""
    values = Values()
    with tf.Graph().as_default():
        config = TrainConfig(
            model=Classifier(),
            data=QueueInput(DataFromList(make_data(times), shuffle=False)),
            callbacks=[
                values,
                InferenceRunner(DataFromList(make_data(1), shuffle=False), ScalarStats("cost")),
            ],
            steps_per_epoch=STEPS,
            max_epoch=1,
            session_init=DictRestore(weights),
            monitors=[],
        )
        launch_train_with_config(config, trainer)
        return values.values, trainer.monitors.get_latest("validation_cost")


@pytest.mark.slow
@pytest.mark.any_tensorflow
def test_two_towers_equal_one(weights):
    """Two towers train like one tower with the concatenated batch, with shared and with replicated variables."""
    expected, cost = train(SimpleTrainer(), weights, times=2)
    assert all(np.abs(expected[name] - value).max() > 1e-3 for name, value in weights.items())
    for trainer in (
        SyncMultiGPUTrainerParameterServer(2, ps_device="cpu"),
        SyncMultiGPUTrainerReplicated(2, mode="cpu"),
    ):
        values, validated = train(trainer, weights, times=1)
        for name, value in expected.items():
            np.testing.assert_allclose(value, values[name], rtol=0, atol=1e-6)
        assert cost == pytest.approx(validated, abs=1e-6)


@pytest.mark.slow
def test_exported(weights, tmp_path):
    """A frozen graph has no variables, optimized or not. A frozen graph and a SavedModel return the predictor's outputs."""
    config = PredictConfig(
        model=Classifier(),
        session_init=DictRestore(weights),
        input_names=["x", "length"],
        output_names=["prob"],
    )
    x, length, _ = make_data(1)[0]
    feeds = {"x:0": x, "length:0": length}
    (expected,) = OfflinePredictor(config)(x, length)
    for optimize in (True, False):
        ModelExporter(config).export_compact(str(tmp_path / "model.pb"), optimize=optimize)
        graph_def = tf.GraphDef.FromString((tmp_path / "model.pb").read_bytes())
        nodes = [*graph_def.node, *[node for f in graph_def.library.function for node in f.node_def]]
        assert not {"VarHandleOp", "ReadVariableOp"} & {node.op for node in nodes}
        with tf.Graph().as_default(), tf.Session() as session:
            tf.import_graph_def(graph_def, name="")
            np.testing.assert_allclose(expected, session.run("prob:0", feeds), rtol=0, atol=1e-6)
    ModelExporter(config).export_serving(str(tmp_path / "serving"))
    with tf.Graph().as_default(), tf.Session() as session:
        tf.saved_model.loader.load(session, ["serve"], str(tmp_path / "serving"))
        np.testing.assert_allclose(expected, session.run("prob:0", feeds), rtol=0, atol=1e-6)
