"""Entry points that build a graph switch TensorFlow 2 to graph mode and keep the seed."""

from __future__ import annotations

import itertools
import json
import re

import pytest
from fakes.programs import program_runner

from tensorpack_lite.compat import TF_VERSION
from tensorpack_lite.compat import tfv1 as tf

pytestmark = pytest.mark.slow

BEGIN = """
import contextlib, json
import tensorflow
from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.tfutils.common import get_global_step_var
from tensorpack_lite.predict.export import ModelExporter
from tensorpack_lite.tfutils.placeholder import build_or_reuse_placeholder
from tensorpack_lite.tfutils.sesscreate import NewSessionCreator
from tensorpack_lite.tfutils.scope_utils import auto_reuse_variable_scope, under_variable_scope
from tensorpack_lite.tfutils.tower.context import PredictTowerContext, TrainTowerContext
from tensorpack_lite.tfutils.varreplace import override_to_local_variable

SPEC = tf.TensorSpec([None, 2], tf.float32, "x")

class Model(ModelDesc):
    def inputs(self):
        return [SPEC]
    def build_graph(self, x):
        return tf.reduce_mean(FullyConnected("fc", x, 2), name="cost")
    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.1)

def data():
    return DataFromList([[[[1.0, 2.0]]]])

def enter(context):
    with context:
        pass
"""

# Calls with which a script may begin. Each must leave TensorFlow in graph mode.
ENTRY_POINTS = [
    "Trainer()",
    "SimpleTrainer()",
    "SyncMultiGPUTrainerReplicated(2)",
    "launch_train_with_config(None, None)",
    "FeedInput(data()).setup([SPEC])",
    "QueueInput(data()).setup([SPEC])",
    "BatchQueueInput(data(), 2).setup([SPEC])",
    "StagingInput(QueueInput(data())).setup([SPEC])",
    "TFDatasetInput(data()).setup([SPEC])",
    "TFDatasetInput.dataflow_to_dataset(data(), [tf.float32])",
    "ZMQInput('ipc://unused', 5).to_dataset([SPEC])",
    "TensorInput(lambda: [tf.zeros([1, 2])]).setup([SPEC])",
    "PlaceholderInput().setup([SPEC])",
    "remap_input_source(PlaceholderInput(), ['x']).setup([SPEC])",
    "PredictConfig(model=Model(), output_names=['cost'])",
    "TowerContext('', is_training=True)",
    "PredictTowerContext('')",
    "TrainTowerContext('')",
    "NewSessionCreator().create_session()",
    "get_global_step_var()",
    "build_or_reuse_placeholder(SPEC)",
    "FullyConnected('fc', [[1.0, 2.0]], 2)",
    "LinearWrap([[1.0, 2.0]]).FullyConnected('fc', 2)",
    "enter(varreplace.freeze_variables())",
    "enter(varreplace.remap_variables(lambda variable: variable))",
    "enter(varreplace.custom_getter_scope(lambda getter, *args, **kwargs: getter(*args, **kwargs)))",
    "enter(override_to_local_variable())",
    "auto_reuse_variable_scope(lambda: None)()",
    "under_variable_scope()(lambda: None)()",
]


EACH = """
import os, sys, traceback
for number, code in enumerate(json.load(open("codes.json"))):
    pid = os.fork()
    if pid == 0:
        with open(f"{number}.txt", "w") as output:
            sys.stdout = sys.stderr = output
            try:
                exec(code)
            except BaseException:
                traceback.print_exc()
        os._exit(0)
    os.waitpid(pid, 0)
"""


@pytest.fixture(scope="module")
def run_each(tmp_path_factory):
    """Run each piece of code in a process in which TensorFlow is unchanged. Return the last line that each prints."""

    def run_each(codes):
        directory = tmp_path_factory.mktemp("codes")
        (directory / "codes.json").write_text(json.dumps(codes))
        (directory / "program.py").write_text(BEGIN + EACH)
        runner.run(directory, "program.py")
        return [(directory / f"{number}.txt").read_text().strip().splitlines()[-1] for number in range(len(codes))]

    with program_runner() as runner:
        yield run_each


@pytest.mark.nightly
def test_entry_points_begin_graph_mode(run_each):
    """After any entry point, TensorFlow is in graph mode."""
    # The call may reject its argument, or leave work to a later call.
    code = "with contextlib.suppress(TypeError, ValueError): {}\nprint(tf.executing_eagerly())"
    before, *after = run_each(["print(tf.executing_eagerly())", *map(code.format, ENTRY_POINTS)])
    assert str(TF_VERSION >= (2, 0)) == before
    assert dict.fromkeys(ENTRY_POINTS, "False") == dict(zip(ENTRY_POINTS, after))


def test_dataset_made_before_the_trainer_trains(run_each):
    """A dataset that `dataflow_to_dataset` returns before a trainer exists can be used for training."""
    program = """
dataset = TFDatasetInput.dataflow_to_dataset(RepeatedData(data(), -1), [tf.float32])
config = TrainConfig(
    model=Model(), data=TFDatasetInput(dataset), callbacks=[], extra_callbacks=[], monitors=[],
    steps_per_epoch=2, max_epoch=1,
)
trainer = SimpleTrainer()
launch_train_with_config(config, trainer)
print(trainer.global_step)
"""
    assert ["2"] == run_each([program])


@pytest.mark.skipif(TF_VERSION < (2, 0), reason="TensorFlow 1.15 is never eager")
def test_a_tensor_made_before(run_each):
    """A tensor made before the first entry point is an eager one: a layer, or a model, that uses it raises an error that explains what to do."""
    layer = "FullyConnected('fc', tf.constant([[1.0, 2.0]]), 2)"
    model = """
scale = tf.constant(2.0)
class Scaled(Model):
    def build_graph(self, x):
        return tf.multiply(x, scale, name="cost")
OfflinePredictor(PredictConfig(model=Scaled(), output_names=["cost"]))
"""
    cured_layer = f"tf.disable_eager_execution()\n{layer}\nprint('built')"
    cured_model = model.replace("x, scale", "x, tf.constant(2.0)") + "print('built')"
    of_layer, of_model, *cured = run_each([layer, model, cured_layer, cured_model])
    cure = "a tensor was created before .* Create it inside the model.* add the line `tf.disable_eager_execution\\(\\)`"
    assert re.match(f"FullyConnected 'fc': {cure}", of_layer)
    assert re.match(f"The tower function: {cure}", of_model)
    assert ["built", "built"] == cured


class TestSeed:
    CODE = """
{set_seed}
{entry_point}
weights = tf.get_variable("w", [4])
with tf.Session() as session:
    session.run(weights.initializer)
    print(json.dumps(session.run(weights).tolist()))
"""
    SETTERS = [
        "tf.set_random_seed(7)",
        "tensorflow.compat.v1.set_random_seed(7)",
        "tensorflow.compat.v2.random.set_seed(7)",
    ]
    ENTRY_POINTS = [
        "Trainer()",
        "PlaceholderInput().setup([])",
        "PredictConfig(model=Model(), output_names=['cost'])",
        "PredictTowerContext('')",
    ]

    @staticmethod
    def weights_in_graph_mode(seed):
        """Return the weights that result from a seed set in a graph."""
        with tf.Graph().as_default():
            tf.set_random_seed(seed)
            weights = tf.get_variable("w", [4])
            with tf.Session() as session:
                session.run(weights.initializer)
                return session.run(weights).tolist()

    def test_seed_set_before_graph_mode(self, run_each):
        """A seed that is set before graph mode gives the same weights as a seed set in a graph."""
        pairs = list(itertools.product(self.SETTERS, self.ENTRY_POINTS))
        codes = [self.CODE.format(set_seed=set_seed, entry_point=entry_point) for set_seed, entry_point in pairs]
        weights = dict(zip(pairs, map(json.loads, run_each(codes))))
        assert dict.fromkeys(pairs, self.weights_in_graph_mode(7)) == weights
        assert self.weights_in_graph_mode(7) != self.weights_in_graph_mode(8)

    @pytest.mark.nightly
    def test_no_seed(self, run_each):
        """Without a seed, two processes start with different weights."""
        one, other = run_each([self.CODE.format(set_seed="", entry_point="Trainer()")] * 2)
        assert one != other
