"""contrib/keras.py: training of Keras 2 models on every TensorFlow."""

from __future__ import annotations

import json
import os
import sys

import numpy as np
import pytest
from fakes.keras_models import Read, X, Y, compiled, keras, one_weight, points, quiet

from tensorpack_lite.callbacks import InferenceRunner, ModelSaver, ScalarStats
from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.contrib import keras as bridge
from tensorpack_lite.contrib import keras_tower
from tensorpack_lite.dataflow import DataFromList
from tensorpack_lite.input_source import FeedInput, QueueInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.predict import OfflinePredictor, PredictConfig
from tensorpack_lite.tfutils.sesscreate import NewSessionCreator
from tensorpack_lite.tfutils.sessinit import SmartInit
from tensorpack_lite.tfutils.varmanip import load_checkpoint_vars
from tensorpack_lite.train import (
    ModelDesc,
    SimpleTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
    TrainConfig,
    launch_train_with_config,
)


class TestTraining:
    @pytest.mark.parametrize("source", [FeedInput, QueueInput])
    def test_closed_form(self, source):
        """Four steps, each halving the distance to 3, give the same result with every input; an unused weight stays."""
        read = Read("dense/kernel")
        compiled(data=source(points())).fit(**quiet(callbacks=[read]))
        np.testing.assert_array_equal([[3 - 3 / 16], [0]], read.values[0])

    def test_preprocessing_outside_of_the_model(self):
        """Operations that get_model creates before the Keras model are part of each tower, also in inference."""

        def doubled(x):
            return one_weight(2 * x)

        model = compiled(doubled, rate=1 / 16)
        model.fit(points(1), **quiet(max_epoch=2))
        losses = [(3 - 2 * w) ** 2 for w in (1.5 - 1.5 * 0.5**4, 1.5 - 1.5 * 0.5**8)]
        history = model.trainer.monitors
        np.testing.assert_allclose(losses[1], history.get_latest("validation_mse"), rtol=1e-5)

    def test_validation_comes_first_and_reads_the_trained_weights(self):
        """The scalars of validation are available to the user's callbacks in the same epoch."""
        seen = []

        class Look(Callback):
            def _trigger(self):
                seen.append(self.trainer.monitors.get_latest("validation_total_loss"))

        compiled().fit(points(1), **quiet(callbacks=[Look()], max_epoch=2))
        np.testing.assert_allclose([(3 / 2**4) ** 2, (3 / 2**8) ** 2], seen, rtol=1e-5)

    def test_stats_have_every_name(self, log_dir):
        """Training has moving summaries, and validation has scalars, of each loss, each metric and the total."""
        model = compiled(metrics=["mae"])
        model.fit(points(1), max_epoch=1)
        with open(os.path.join(log_dir, "stats.json"), encoding="utf-8") as file:
            stats = json.load(file)[-1]
        wanted = {"mse", "mae", "total_loss"}
        assert wanted | {f"validation_{name}" for name in wanted} <= set(stats)

    def test_steps_per_epoch_is_the_length_of_the_data(self):
        """The default of steps_per_epoch is the length of the data."""
        model = compiled(data=FeedInput(points(7)))
        model.fit(**quiet())
        assert 7 == model.trainer.global_step

    def test_a_dataflow_is_fed_as_by_launch(self):
        """SimpleTrainer gets a DataFlow through FeedInput."""
        assert isinstance(compiled(data=points()).input, FeedInput)

    def test_resumes_by_name(self, tmp_path):
        """The checkpoint has the layers' names, and a new model restores it."""
        compiled().fit(**quiet(callbacks=[ModelSaver(checkpoint_dir=str(tmp_path))]))
        saved = load_checkpoint_vars(str(tmp_path / "model-4"))
        assert {"dense/kernel", "global_step"} == set(saved)
        read = Read("dense/kernel")
        with tf.Graph().as_default():
            model = compiled()
            model.fit(**quiet(callbacks=[read], session_init=SmartInit(str(tmp_path / "model-4"))))
        assert 3 - 3 / 2**8 == read.values[0][0, 0]

    def test_offline_prediction(self, tmp_path):
        """The tower function predicts in another graph, without the targets."""
        model = compiled()
        model.fit(**quiet(callbacks=[ModelSaver(checkpoint_dir=str(tmp_path))]))
        config = PredictConfig(
            tower_func=model.trainer.tower_func,
            input_names=["x"],
            output_names=["dense/MatMul"],
            session_init=SmartInit(str(tmp_path / "model-4")),
        )
        (output,) = OfflinePredictor(config)(np.array([[2.0, 5.0]], "float32"))
        np.testing.assert_array_equal([[2 * (3 - 3 / 16)]], output)


class TestTrainers:
    """Towers of trainers for several devices, all placed on the CPU here."""

    @pytest.mark.parametrize("kind", [SyncMultiGPUTrainerParameterServer, SyncMultiGPUTrainerReplicated])
    def test_two_towers_are_one(self, kind):
        """Two towers with the same data train like one, and validate with the same weights."""
        config = tf.ConfigProto(allow_soft_placement=True)
        model = compiled(data=QueueInput(points(8)), trainer=kind([0, 1]))
        read = Read("dense/kernel")
        model.fit(
            points(1),
            session_creator=NewSessionCreator(config=config),
            **quiet(callbacks=[read], steps_per_epoch=4),
        )
        np.testing.assert_allclose([[3 - 3 / 16], [0]], read.values[0])
        np.testing.assert_allclose((3 / 16) ** 2, model.trainer.monitors.get_latest("validation_mse"), rtol=1e-5)

    @pytest.mark.parametrize(
        ("num_gpu", "kind"), [(0, SimpleTrainer), (1, SimpleTrainer), (2, SyncMultiGPUTrainerParameterServer)]
    )
    def test_default(self, monkeypatch, num_gpu, kind):
        """The default trainer uses all GPUs, if there are several."""
        monkeypatch.setattr(bridge, "get_num_gpu", lambda: num_gpu)
        assert kind is type(bridge.KerasModel(one_weight, X, Y, points()).trainer)


class TestModels:
    """The ways in which get_model may build its model, each with the same training."""

    def with_own_inputs(self, x):
        inputs = keras.layers.Input([2])
        return keras.Model(inputs, keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")(inputs))

    def without_inputs(self, x):
        return keras.models.Sequential([keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")])

    def subclass(self, x):
        class Users(keras.Model):
            def __init__(self):
                super().__init__()
                self.dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")

            def call(self, x):
                return self.dense(x)

        return Users()

    def memoized(self, x):
        if not hasattr(self, "model"):
            self.model = one_weight(x)
        return self.model

    @pytest.mark.parametrize("way", ["with_own_inputs", "without_inputs", "subclass", "memoized"])
    @pytest.mark.parametrize("source", [FeedInput, QueueInput])
    def test_trains_and_validates(self, way, source):
        """Inference uses the weights of training."""
        model = compiled(getattr(self, way), data=source(points()))
        model.fit(points(1), **quiet())
        np.testing.assert_allclose((3 / 16) ** 2, model.trainer.monitors.get_latest("validation_mse"), rtol=1e-5)
        assert 1 == len(tf.trainable_variables())

    @pytest.mark.parametrize("continues", [True, False])
    def test_two_inputs_and_two_outputs(self, continues):
        """Each output has a loss; names of the second output end with a number."""

        def get_model(a, b):
            ins = [keras.layers.Input(tensor=a), keras.layers.Input(tensor=b)]
            if not continues:
                ins = [keras.layers.Input([1]), keras.layers.Input([1])]
            outs = [keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")(one) for one in ins]
            return keras.Model(ins, outs)

        specs = [TensorSpec([None, 1], tf.float32, name) for name in ("a", "b", "c", "d")]
        one = np.ones([1, 1], "float32")
        data = DataFromList([[one, one, 3 * one, 5 * one]] * 2, shuffle=False)
        model = bridge.KerasModel(get_model, specs[:2], specs[2:], FeedInput(data))
        model.compile(tf.train.GradientDescentOptimizer(0.25), ["mse", "mse"], ["mae"])
        read = Read("dense/kernel", "dense_1/kernel")
        model.fit(data, **quiet(callbacks=[read]))
        assert [3 * 0.75, 5 * 0.75] == [value[0, 0] for value in read.values]
        latest = model.trainer.monitors.get_latest
        assert [0.75, 1.25] == [latest("validation_mae"), latest("validation_mae_1")]
        assert 0.75**2 + 1.25**2 == pytest.approx(latest("validation_total_loss"))
        assert 1.25**2 == pytest.approx(latest("validation_mse_1"))


class TestKerasPhaseCallback:
    class Model(ModelDesc):
        """A ModelDesc that calls one Keras model in each tower, and does not say in which phase."""

        keras_model = None

        def inputs(self):
            return X

        def build_graph(self, x):
            if self.keras_model is None:
                self.keras_model = keras.models.Sequential([keras.layers.Dropout(0.5)])
            w = tf.get_variable("w", initializer=1.0)
            out = self.keras_model(x)
            tf.reduce_max(out, name="largest")
            return tf.reduce_mean(out) * w

        def optimizer(self):
            return tf.train.GradientDescentOptimizer(0.0)

    def test_phase_in_training_and_inference(self):
        """Dropout turns 1 into 0 or 2, so the maximum is 2 in training and 1 in inference."""
        data = DataFromList([[np.ones([50, 2], "float32")]], shuffle=False)

        class Largest(Callback):
            def _setup_graph(self):
                self.args = tf.train.SessionRunArgs(self.trainer.find_tensor("largest"))

            def _before_run(self, ctx):
                return self.args

            def _after_run(self, ctx, values):
                self.value = values.results

        largest = Largest()
        config = TrainConfig(
            model=self.Model(),
            dataflow=data,
            callbacks=[
                largest,
                bridge.KerasPhaseCallback(True),
                InferenceRunner(data, ScalarStats("largest")),
            ],
            **quiet(steps_per_epoch=1),
        )
        trainer = SimpleTrainer()
        launch_train_with_config(config, trainer)
        assert (2.0, 1.0) == (largest.value, trainer.monitors.get_latest("validation_largest"))

    def test_a_phase_that_is_set_for_good_is_left_alone(self, monkeypatch):
        """If the script has set a fixed phase, nothing is fed."""
        callback = bridge.KerasPhaseCallback(True)
        monkeypatch.setattr(callback._keras.backend, "learning_phase", lambda: 1)
        assert callback._make_args() is None

    def test_argument(self):
        """isTrain must be a bool."""
        with pytest.raises(TypeError, match="KerasPhaseCallback: isTrain: expected True or False, got int"):
            bridge.KerasPhaseCallback(1)


class TestErrors:
    def test_without_keras_2(self, monkeypatch):
        """Without Keras 2, the ImportError contains the command that installs it."""
        monkeypatch.setattr(keras_tower, "TF_VERSION", (2, 21))
        monkeypatch.setitem(sys.modules, "tf_keras", None)
        with pytest.raises(ImportError, match=r'Run: pip install "tf_keras==2.21'):
            bridge.import_keras()

    def test_get_model_returns_something_else(self):
        """The error names the type that get_model returned and the Keras that is expected."""
        with pytest.raises(TypeError, match=r"get_model returned builtins.int, expected a model of .*keras"):
            compiled(lambda x: 3)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (
                (3, X, Y, points()),
                "KerasModel: get_model: expected a function that returns a keras.Model, got int",
            ),
            (
                (one_weight, X, Y, None),
                "KerasModel: input: expected a DataFlow or an InputSource, got NoneType",
            ),
            ((one_weight, X, None, points()), "input_signature and target_signature are required"),
        ],
    )
    def test_constructor(self, arguments, message):
        """A missing argument raises TypeError, which names it."""
        with pytest.raises(TypeError, match=message):
            bridge.KerasModel(*arguments)

    def test_fit_before_compile(self):
        """`fit` before `compile` raises RuntimeError."""
        with pytest.raises(RuntimeError, match=r"call compile\(optimizer, loss, metrics\) first"):
            bridge.KerasModel(one_weight, X, Y, points()).fit()

    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"trainer": 3}, "trainer: expected a SingleCostTrainer, got int"),
            ({"input": 3}, "input: expected an InputSource, got int"),
            ({"optimizer": "adam"}, "optimizer: expected a tf.train.Optimizer of tfv1, got str"),
        ],
    )
    def test_setup_keras_trainer(self, changed, message):
        """Arguments are checked before anything is built."""
        arguments = {
            "trainer": SimpleTrainer(),
            "get_model": one_weight,
            "input_signature": X,
            "target_signature": Y,
            "input": FeedInput(points()),
            "optimizer": tf.train.AdamOptimizer(),
            "loss": "mse",
            "metrics": [],
            **changed,
        }
        with pytest.raises(TypeError, match=message):
            bridge.setup_keras_trainer(**arguments)

    def test_numbers_of_losses_targets_and_outputs(self):
        """The numbers of losses, targets and outputs must be equal."""
        with pytest.raises(ValueError, match="expected one loss for each of the 1 targets, got 2"):
            compiled(loss=["mse", "mse"])
        model = bridge.KerasModel(one_weight, X, [*Y, TensorSpec([None], tf.float32, "z")], FeedInput(points()))
        with pytest.raises(ValueError, match=r"expected a model with 2 outputs, one for each target \(y, z\), got 1"):
            model.compile(tf.train.AdamOptimizer(), ["mse", "mse"])
