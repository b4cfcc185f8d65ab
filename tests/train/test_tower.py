"""train/tower.py: tower functions, predictors, find_tensor, and the base class of single-cost trainers."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.models import Mean, threes

from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.input_source.placeholder import PlaceholderInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.tfutils.tower.context import TowerContext
from tensorpack_lite.tfutils.tower.func import TowerFunc
from tensorpack_lite.train.simple import SimpleTrainer
from tensorpack_lite.train.tower import SingleCostTrainer, TowerTrainer

SIGNATURE = [TensorSpec([None], tf.float32, "x")]


def scaled(x):
    w = tf.get_variable("w", initializer=2.0)
    return tf.multiply(w, x, name="y")


class ScaledTrainer(TowerTrainer):
    """A custom trainer with one tower of a given name."""

    def __init__(self, tower_name=""):
        super().__init__()
        inputs = PlaceholderInput()
        inputs.setup(SIGNATURE)
        self.tower_func = TowerFunc(scaled, SIGNATURE)
        with TowerContext(tower_name, is_training=True):
            self.tower_func(*inputs.get_input_tensors())
        self.train_op = tf.no_op()


class Predicts(Callback):
    """Gets predictors in `_setup_graph` and calls them during training."""

    def __init__(self, devices=(0,), outputs=("y",)):
        self.devices, self.outputs = devices, outputs

    def _setup_graph(self):
        self.predictors = [self.trainer.get_predictor(["x"], list(self.outputs), device) for device in self.devices]

    def _before_train(self):
        self.results = [predictor(np.array([1.0, 3.0])) for predictor in self.predictors]


class TestTowerFunc:
    def test_set_once(self):
        """Setting tower_func a second time raises RuntimeError."""
        with pytest.raises(RuntimeError, match="cannot be set a second time"):
            ScaledTrainer().tower_func = TowerFunc(scaled, SIGNATURE)

    def test_not_set(self):
        """Reading towers before tower_func is set raises RuntimeError, which explains how to set it."""
        for ask in (lambda t: t.towers, lambda t: t.input_signature, lambda t: t.get_predictor(["x"], ["y"])):
            with pytest.raises(RuntimeError, match=r"has no tower function. Set self.tower_func"):
                ask(TowerTrainer())
        assert TowerTrainer().tower_func is None

    def test_signature(self):
        """`input_signature` is that of the tower function."""
        assert SIGNATURE == ScaledTrainer().input_signature


class TestPredictor:
    def test_values(self, run):
        """A predictor evaluates the model with the current variables."""
        predicts = Predicts()
        run(ScaledTrainer(), predicts)
        assert [2.0, 6.0] == predicts.results[0][0].tolist()

    def test_one_tower_a_device(self, run):
        """All predictors on a device share one tower and its placeholders."""
        predicts = Predicts(devices=(-1, 0, 0, 1, 5))
        trainer = run(ScaledTrainer(), predicts)
        names = [t.ns_name for t in trainer.towers.inference()]
        assert ["tower-pred-cpu", "tower-pred-0", "tower-pred-1", "tower-pred-5"] == names
        assert ["x:0"] * 5 == [p.input_tensors[0].name for p in predicts.predictors]
        assert "tower-pred-5/y:0" == predicts.predictors[-1].output_tensors[0].name

    def test_variable_as_output(self, run):
        """The name of a variable means its value."""
        predicts = Predicts(outputs=("w", "w:0"))
        run(ScaledTrainer(), predicts)
        assert [2.0, 2.0] == predicts.results[0]

    def test_unknown_name(self, run):
        """An unknown name raises KeyError, which shows the nearest names."""
        with pytest.raises(KeyError, match=r"tower-pred-0/yy:0' is not in the graph. The nearest names are: .*y"):
            run(ScaledTrainer(), Predicts(outputs=("yy",)))

    def test_two_trainers_in_a_process(self, run):
        """Two trainers in one process have separate predictors."""
        first, second = Predicts(), Predicts()
        with tf.Graph().as_default():
            one = run(ScaledTrainer(), first)
        with tf.Graph().as_default():
            run(ScaledTrainer(), second)
        assert first.predictors[0].sess is one.sess
        assert second.predictors[0].sess is not one.sess

    def test_asked_for_before_setup(self, run):
        """A predictor can be made right after the towers."""
        trainer = ScaledTrainer()
        predictor = trainer.get_predictor(["x"], ["y"])

        class Calls(Callback):
            def _before_train(self):
                self.result = predictor(np.array([1.0]))

        calls = Calls()
        run(trainer, calls)
        assert [2.0] == calls.result[0].tolist()


class TestVariableScopeOfPredictors:
    def test_devices(self):
        """A predictor reads the variables of the training tower on its device, or of the first tower."""
        trainer = TowerTrainer()
        trainer.tower_func = TowerFunc(scaled, SIGNATURE)
        from tensorpack_lite.tfutils.tower.context import TrainTowerContext

        with TrainTowerContext("tower0", index=0, total=2):
            trainer.tower_func(tf.zeros([1]))
        with TrainTowerContext("tower1", vs_name="tower1", index=1, total=2):
            trainer.tower_func(tf.zeros([1]))
        assert ["", "tower1", "", ""] == [trainer.vs_name_for_predictor(d) for d in (0, 1, 5, -1)]
        assert "tower1" == trainer._vs_name_for_predictor(1)


class TestFindTensor:
    @pytest.mark.parametrize("tower_name", ["", "tower0"])
    def test_in_graph_or_first_tower(self, tower_name):
        """A name without prefix is found, whether the towers have names or not."""
        assert ScaledTrainer(tower_name).find_tensor("y").name.endswith("y:0")

    def test_before_there_are_towers(self):
        """Before towers are built, an unknown name raises KeyError."""
        with pytest.raises(KeyError, match="'y:0' is not in the graph|'y' is not in the graph"):
            TowerTrainer().find_tensor("y")


class TestSetupGraph:
    def build(self, get_cost=None, input_source=None, trainer=None, signature=None):
        model = Mean()
        trainer = trainer or SimpleTrainer()
        trainer.setup_graph(
            signature or model.get_input_signature(),
            input_source or FeedInput(threes()),
            get_cost or model.build_graph,
            model.get_optimizer,
        )
        return trainer

    def test_once(self):
        """Calling setup_graph a second time raises RuntimeError."""
        trainer = self.build()
        with pytest.raises(RuntimeError, match="expected one call, got two"):
            self.build(trainer=trainer)

    def test_input_that_was_set_up(self):
        """An input source that was set up before raises RuntimeError."""
        source = FeedInput(threes())
        self.build(input_source=source)
        with pytest.raises(RuntimeError, match="a FeedInput, was set up before. Make a new one"):
            self.build(input_source=source)

    @pytest.mark.parametrize(
        ("cost", "message"), [(None, "returned the wrong type .*got NoneType"), (1.0, "got float")]
    )
    def test_cost_is_no_tensor(self, cost, message):
        """A cost that is not a tensor raises TypeError."""
        with pytest.raises(TypeError, match=message):
            self.build(lambda x: cost)

    def test_cost_is_no_scalar(self):
        """A cost that is not a scalar raises ValueError."""
        with pytest.raises(
            ValueError, match=r"a cost of the wrong shape \(expected a scalar, got .* Use tf.reduce_mean"
        ):
            self.build(lambda x: x)

    def test_nothing_to_train(self):
        """A model without variables in its tower raises an error."""
        tf.get_variable("outside", shape=[])
        with pytest.raises(ValueError, match="has no trainable variables"):
            self.build(lambda x: tf.reduce_sum(x))

    def test_variables_from_outside_are_not_trained(self):
        """A variable created outside the tower function is not trained."""
        outside = tf.get_variable("outside", initializer=1.0, use_resource=True)

        def cost(x):
            return tf.reduce_mean(tf.get_variable("w", initializer=0.0) * outside - x)

        trainer = self.build(cost)
        trained = [v.op.name for v in trainer.towers[0].get_collection(tf.GraphKeys.TRAINABLE_VARIABLES)]
        assert ["w"] == trained

    def test_optimizer_is_asked_once(self):
        """get_opt_fn is called once, inside the tower."""
        calls = []

        def optimizer():
            calls.append(tf.get_default_graph().get_name_scope() or "")
            return tf.train.GradientDescentOptimizer(0.1)

        trainer = SimpleTrainer()
        model = Mean()
        trainer.setup_graph(model.get_input_signature(), FeedInput(threes()), model.build_graph, optimizer)
        assert [""] == calls

    def test_gradients_that_are_none(self):
        """A variable on which the cost does not depend stays unchanged."""

        def cost(x):
            tf.get_variable("unused", initializer=0.0)
            return tf.reduce_mean((tf.get_variable("w", initializer=0.0) - x) ** 2)

        assert "train_op" == self.build(cost).train_op.name

    def test_abstract(self):
        """SingleCostTrainer itself raises NotImplementedError."""
        model = Mean()
        trainer = SingleCostTrainer()
        with pytest.raises(NotImplementedError, match="_setup_graph"):
            trainer.setup_graph(
                model.get_input_signature(), FeedInput(threes()), model.build_graph, model.get_optimizer
            )
