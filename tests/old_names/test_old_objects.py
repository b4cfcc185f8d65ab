"""
Under `tensorpack-lite run`, models, trainers and configs have the interfaces of tensorpack 0.2 to 0.10.

The scripts are of the years in their names, and are started as `run` starts them. Only their imports name tensorpack_lite:
what holds for `tensorpack` holds for it, too.
"""

from __future__ import annotations

import numpy as np
import pytest
from old_names.scripts import reports

from tensorpack_lite import trainv1
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow import DataFromList
from tensorpack_lite.graph_builder.model_desc import ModelDesc
from tensorpack_lite.train import SimpleTrainer, TrainConfig, Trainer
from tensorpack_lite.trainv1.choose import old_class

pytestmark = pytest.mark.any_tensorflow

SCRIPT_2016 = """
from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
import tensorpack_lite.tfutils.symbolic_functions as symbf
from tensorpack_lite.tfutils.summary import *

class Model(ModelDesc):
    def _get_input_vars(self):
        return [InputVar(tf.float32, [None, 4], 'input'), InputVar(tf.int32, [None], 'label')]

    def _build_graph(self, input_vars, is_training):
        x, label = input_vars
        assert is_training == get_current_tower_context().is_training
        logits = FullyConnected('fc', x, out_dim=2, W_init=tf.constant_initializer(0.0), nl=tf.identity)
        wrong = symbf.prediction_incorrect(logits, label)
        summary_moving_average(tf.reduce_mean(wrong, name='train_error'))
        self.loss = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)

    def _get_cost(self):
        return tf.reduce_mean(self.loss, name='cost')

    def get_gradient_processor(self):
        return [gradproc.ScaleGradient([('fc/b', 0.0)])]

def data():
    rng = np.random.RandomState(0)
    x = rng.randn(64, 4).astype('float32')
    return BatchData(DataFromList([[p, int(p.sum() > 0)] for p in x], shuffle=False), 16)

logger.set_logger_dir('log', action='d')
config = TrainConfig(
    dataset=data(),
    optimizer=tf.train.AdamOptimizer(0.05),
    callbacks=Callbacks([
        StatPrinter(), ModelSaver(keep_recent=2), InferenceRunner(data(), [ClassificationError('incorrect_vector', 'val')]),
    ]),
    session_config=get_default_sess_config(0.5),
    model=Model(),
    step_per_epoch=4,
    max_epoch=5,
)
config.set_tower(nr_tower=1)
QueueInputTrainer(config).train()
report(dump_chkpt_vars(tf.train.latest_checkpoint('log')))
"""

SCRIPT_2017 = """
from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.tfutils import symbolic_functions as symbf
from tensorpack_lite.tfutils.common import get_tf_version_number

assert get_tf_version_number() > 1

class Model(ModelDesc):
    def _get_inputs(self):
        return [InputDesc(tf.float32, (None,), 'x')]

    def _build_graph(self, inputs):
        self.training = get_current_tower_context().is_training
        w = tf.get_variable('w', initializer=0.0)
        self.cost = tf.reduce_mean((w - inputs[0]) ** 2, name='cost')

    def _get_optimizer(self):
        return tf.train.GradientDescentOptimizer(learning_rate())

def learning_rate():
    return symbf.get_scalar_var('learning_rate', 0.25)

class TwiceTrainer(FeedfreeTrainerBase):
    def __init__(self, config):
        self._input_source = QueueInput(config.dataflow)
        super(TwiceTrainer, self).__init__(config)

    def _setup(self):
        super(TwiceTrainer, self)._setup()
        self.build_train_tower()
        self.op = self.model.get_optimizer().minimize(self.model.get_cost(), name='op')

    def run_step(self):
        for _ in range(2):
            self.hooked_sess.run(self.op)

class OwnTrainer(SimpleTrainer):
    def run_step(self):
        super(OwnTrainer, self).run_step()

class W(Callback):
    def _after_train(self):
        report({'w': self.trainer.sess.run(self.trainer.sess.graph.get_tensor_by_name('w/Read/ReadVariableOp:0'))})

for trainer in TwiceTrainer, OwnTrainer, AsyncMultiGPUTrainer, SyncMultiGPUTrainer:
    with tf.Graph().as_default():
        data = PrefetchData(DataFromList([[[3.0, 3.0]]] * 4, shuffle=False), nr_prefetch=2, nr_proc=1)
        config = TrainConfig(
            dataflow=data, model=Model(), callbacks=[W()], steps_per_epoch=2, max_epoch=1, tower=[0],
            monitors=[], extra_callbacks=[])
        trainer(config).train()
"""

SCRIPT_2018 = """
from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf

class Model(ModelDesc):
    def inputs(self):
        return [InputDesc(tf.float32, (None,), 'x'), tf.placeholder(tf.float32, (None,), 'y')]

    def build_graph(self, x, y):
        w = tf.get_variable('w', initializer=0.0)
        self.cost = tf.reduce_mean((w - x) ** 2 + 0.0 * y, name='cost')

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.25)

class OldModel(ModelDesc):
    def _get_inputs(self):
        return [InputDesc(tf.float32, (None,), 'x'), InputDesc(tf.float32, (None,), 'y')]

    def _build_graph(self, inputs):
        x, y = inputs
        w = tf.get_variable('w', initializer=0.0)
        self.cost = tf.reduce_mean((w - x) ** 2 + 0.0 * y, name='cost')

    def _get_optimizer(self):
        return tf.train.GradientDescentOptimizer(0.25)

class W(Callback):
    def _after_train(self):
        report({'w': self.trainer.sess.run(self.trainer.find_tensor('w'))})

model = Model()
assert type(model).__name__ == 'Model'
model.training = False
assert model.training is False
assert type(SimpleTrainer()) is SimpleTrainer

for model in Model(), OldModel():
    with tf.Graph().as_default():
        config = TrainConfig(
            model=model, data=QueueInput(DataFromList([[[3.0], [0.0]]] * 4, shuffle=False)), callbacks=[W()],
            steps_per_epoch=2, max_epoch=2, monitors=[], extra_callbacks=[])
        launch_train_with_config(config, SyncMultiGPUTrainerParameterServer(1, ps_device='cpu'))
"""


SCRIPT_WITH_PICKLES = """
import copy, pickle
from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf

class Config(TrainConfig):
    pass

class Resuming(AutoResumeTrainConfig):
    pass

class Today(ModelDesc):
    depth = 0

    def inputs(self):
        return [tf.TensorSpec([None], tf.float32, 'x')]

    def build_graph(self, x):
        return tf.reduce_mean(x)

class Old(ModelDesc):
    depth = 0

    def _build_graph(self, inputs):
        self.cost = tf.reduce_mean(inputs[0])

class WithState(Today):
    def __getstate__(self):
        return {'depth': self.depth + 10}

class WithArguments(Old):
    def __init__(self, depth):
        self.depth = depth

    def __reduce__(self):
        return type(self), (self.depth + 20,)

class WithSlots(Old):
    __slots__ = ['width']

def copies(one):
    yield copy.copy(one)
    yield copy.deepcopy(one)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        yield pickle.loads(pickle.dumps(one, protocol))

flow = DataFromList([[1]])
logger.set_logger_dir('log', action='d')
for config in Config(dataflow=flow, max_epoch=3, nr_tower=2), Resuming(dataflow=flow, max_epoch=3, nr_tower=2):
    for other in copies(config):
        assert type(other) is type(config) and other.max_epoch == 3 and other.nr_tower == 2
depths = {}
for model in Today(), Old(), WithState(), WithArguments(0), WithSlots():
    model.depth = 3
    found = list(copies(model))
    assert {type(model)} == set(map(type, found))
    depths[type(model).__name__] = sorted({other.depth for other in found})
report(depths)
"""


class TestScripts:
    @pytest.mark.slow
    def test_2016(self, tmp_path):
        """A model with `_get_input_vars`, `is_training` and `_get_cost` trains; its gradient processor freezes the bias."""
        (values,) = reports(tmp_path, SCRIPT_2016)
        assert [0.0, 0.0] == values["fc/b"]
        assert 20 == values["global_step"]
        difference = np.diff(values["fc/W"], axis=1)  # label 1 is a positive sum
        assert np.all(difference > 0)

    @pytest.mark.slow
    def test_2017(self, tmp_path):
        """Trainers constructed with a config train: one of the script's own, a subclass, and two of the library."""
        values = [value["w"] for value in reports(tmp_path, SCRIPT_2017)]
        two_steps = 3 - 3 / 2**2
        assert [3 - 3 / 2**4, two_steps, two_steps, two_steps] == pytest.approx(values)

    @pytest.mark.slow
    def test_2018(self, tmp_path):
        """Models that set `self.cost` train with `launch_train_with_config`, whichever methods they define."""
        values = [value["w"] for value in reports(tmp_path, SCRIPT_2018)]
        assert [3 - 3 / 2**4] * 2 == pytest.approx(values)

    @pytest.mark.slow
    def test_pickles(self, tmp_path):
        """Configs and models of a script's classes can be pickled and copied, with their own `__getstate__` and `__reduce__`."""
        (depths,) = reports(tmp_path, SCRIPT_WITH_PICKLES)
        expected = {"Today": [3], "Old": [3], "WithState": [13], "WithArguments": [23], "WithSlots": [3]}
        assert expected == depths


class Today(ModelDesc):
    """A model of the current interface."""

    def inputs(self):
        return [tf.TensorSpec([None], tf.float32, "x")]

    def build_graph(self, x):
        return tf.reduce_mean(x)


class TestObjects:
    """Without `run`, the current classes are plain classes."""

    def test_models_and_trainers_of_today(self):
        """The class that a script calls is instantiated, and nothing replaces its `__new__`."""
        assert type(Today()) is Today
        assert type(SimpleTrainer()) is SimpleTrainer
        assert Today.__new__ is object.__new__

    @pytest.mark.parametrize("method", ["build_graph", "_build_graph"])
    def test_a_read_only_cost(self, fresh_graph, method):
        """A model whose cost is a property can be built again and again."""

        def build(self, x):
            self.total = x

        contents = {method: build, "cost": property(lambda self: self.total)}
        model = old_class(type("Model", (ModelDesc,), contents), [])()
        assert [1, 2] == [int(np.squeeze(model.build_graph(number))) for number in (1, 2)]

    def test_arguments_of_a_model(self):
        """A model without a constructor takes no arguments."""
        with pytest.raises(TypeError, match="no arguments"):
            Today(3)

    def test_assigned_training_is_refused(self):
        """The AttributeError explains why `training` cannot be assigned."""
        with pytest.raises(AttributeError, match="Today.training: cannot be assigned"):
            Today().training = False

    def test_trainers_with_a_config(self):
        """The choice depends on the argument: only a trainer that gets a TrainConfig has the old interface."""
        config = TrainConfig(dataflow=DataFromList([[1]]))
        assert SimpleTrainer is old_class(SimpleTrainer, [3, "config"])
        assert trainv1.SimpleTrainer is old_class(SimpleTrainer, [config])
        assert Trainer is old_class(Trainer, [config])  # has no `_setup`; its constructor raises an error
