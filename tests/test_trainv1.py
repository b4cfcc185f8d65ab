"""trainv1.py runs scripts of tensorpack's first API once their imports are changed."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from fakes.models import Mean, threes

import tensorpack_lite
from tensorpack_lite import train, trainv1
from tensorpack_lite.callbacks import InferenceRunner, ScalarStats
from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.input_source import FeedInput, QueueInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.tfutils.tower.context import TowerContext
from tensorpack_lite.trainv1 import InputDesc, ModelDesc, TrainConfig, Trainer

OLD_SCRIPT = textwrap.dedent(
    """
    from tensorpack import *
    from tensorpack.trainv1 import *
    import tensorflow.compat.v1 as tf

    class Model(ModelDesc):
        def _get_inputs(self):
            return [InputDesc(tf.float32, (None,), 'x')]

        def _build_graph(self, inputs):
            w = tf.get_variable('w', initializer=0.0)
            self.cost = tf.reduce_mean((w - inputs[0]) ** 2, name='cost')
            summary.add_moving_summary(self.cost)

        def _get_optimizer(self):
            return tf.train.GradientDescentOptimizer(0.25)

    class Print(Callback):
        def _setup_graph(self):
            self.w = self.get_tensors_maybe_in_tower(['w'])[0]
        def _after_train(self):
            print('epoch', self.epoch_num, 'w', float(self.trainer.sess.run(self.w)))

    logger.set_logger_dir('log', action='k')
    config = AutoResumeTrainConfig(
        model=Model(), dataflow=DataFromList([[[3.0] * 4]] * 2, shuffle=False),
        callbacks=[ModelSaver(), Print()], max_epoch=EPOCHS)
    SimpleTrainer(config).train()
    """
)


class Old(ModelDesc):
    """`fakes.models.Mean` in the first API."""

    def _get_inputs(self):
        return [InputDesc(tf.float32, (None,), "x")]

    def _build_graph(self, inputs):
        w = tf.get_variable("w", initializer=0.0)
        self.cost = tf.reduce_mean((w - inputs[0]) ** 2, name="cost")

    def _get_optimizer(self):
        return tf.train.GradientDescentOptimizer(0.25)


class FinalW(Callback):
    """Reads the variable after training."""

    def _after_train(self):
        self.w = float(self.trainer.sess.run(self.trainer.find_tensor("w")))


class Forgets(Old):
    """Does not set `self.cost`."""

    def _build_graph(self, inputs):
        pass


def config(*callbacks, kind=TrainConfig, **kwargs):
    """Return a config of four steps, each of which halves the distance to 3."""
    if "data" not in kwargs:
        kwargs.setdefault("dataflow", threes())
    kwargs = {
        "model": Old(),
        "steps_per_epoch": 2,
        "max_epoch": 2,
        "extra_callbacks": [],
        "monitors": [],
        **kwargs,
    }
    return kind(callbacks=list(callbacks), **kwargs)


def trained(trainer_class, final=None, **kwargs):
    final = FinalW()
    trainer_class(config(final, **kwargs)).train()
    return final.w


@pytest.mark.slow
@pytest.mark.any_tensorflow
def test_a_script_with_only_its_imports_changed_trains_and_resumes(tmp_path):
    """A script trains two epochs; started again with `max_epoch=3`, it trains one more."""
    text = OLD_SCRIPT.replace("from tensorpack", "from tensorpack_lite").replace("EPOCHS", "int(sys.argv[1])")
    (tmp_path / "script.py").write_text("import sys\n" + text, encoding="utf-8")
    environment = dict(os.environ, PYTHONPATH=str(Path(tensorpack_lite.__file__).parents[1]), TF_CPP_MIN_LOG_LEVEL="3")

    def run(epochs):
        done = subprocess.run(
            [sys.executable, "script.py", str(epochs)],
            cwd=str(tmp_path), env=environment, capture_output=True, timeout=120, check=False,
        )  # fmt: skip
        assert 0 == done.returncode, done.stderr.decode()
        return [line for line in done.stdout.decode().splitlines() if line.startswith("epoch ")][-1]

    assert f"epoch 2 w {3 - 3 / 2**4}" == run(2)
    assert f"epoch 3 w {3 - 3 / 2**6}" == run(3)


class TestTrainers:
    @pytest.mark.parametrize(
        ("name", "make"),
        [
            ("SimpleTrainer", dict),
            ("SimpleTrainer", lambda: {"data": QueueInput(threes())}),
            ("SimpleTrainer", lambda: {"model": Mean()}),
            ("QueueInputTrainer", dict),
            ("QueueInputTrainer", lambda: {"data": QueueInput(threes())}),
        ],
    )
    def test_closed_form(self, name, make):
        """The trainers reach the weight of the current trainers, also with an InputSource or a current model."""
        assert 3 - 3 / 16 == trained(getattr(trainv1, name), **make())

    def test_each_is_a_current_trainer(self):
        """Each old trainer is a subclass of the current trainer of the same name."""
        adaptors = {
            name for name in trainv1.__all__ if name.endswith("Trainer") or "TrainerP" in name or "TrainerR" in name
        }
        for name in adaptors - {"SyncMultiGPUTrainer"}:
            assert issubclass(getattr(trainv1, name), getattr(train, name)), name
            assert issubclass(getattr(trainv1, name), Trainer)

    def test_the_input_of_a_dataflow(self):
        """SimpleTrainer feeds a DataFlow through placeholders, other trainers through a queue; NoOpTrainer does not train."""
        assert isinstance(trainv1.SimpleTrainer(config())._input_source, FeedInput)
        with tf.Graph().as_default():
            assert isinstance(trainv1.NoOpTrainer(config())._input_source, QueueInput)
        with tf.Graph().as_default():
            assert 0.0 == trained(trainv1.NoOpTrainer)

    def test_a_queue_of_the_user(self):
        """The second argument of QueueInputTrainer is the queue to use."""
        queue = tf.FIFOQueue(3, [tf.float32])
        trainer = trainv1.QueueInputTrainer(config(), queue)
        trainer.train()
        assert queue is trainer._input_source.queue

    def test_defaults(self):
        """If `extra_callbacks` and `monitors` are None, the defaults are used."""
        trainer = trainv1.SimpleTrainer(config(extra_callbacks=None, monitors=None))
        trainer.train()
        assert {"MovingAverageSummary", "ProgressBar", "JSONWriter"} <= {
            type(cb).__name__ for cb in trainer._callbacks.cbs
        }


class TestMultiGPU:
    @pytest.mark.parametrize(
        ("name", "arguments"),
        [
            ("SyncMultiGPUTrainerParameterServer", {"ps_device": "cpu"}),
            ("SyncMultiGPUTrainerReplicated", {}),
            ("SyncMultiGPUTrainer", {}),
        ],
    )
    def test_the_config_says_which_gpus(self, name, arguments):
        """The towers in the config set the devices, and two towers with the same data train like one."""
        final = FinalW()
        options = tf.ConfigProto(allow_soft_placement=True)
        trainer = getattr(trainv1, name)(config(final, tower=[0, 1], session_config=options), **arguments)
        assert [0, 1] == trainer.devices
        trainer.train()
        assert 3 - 3 / 16 == pytest.approx(final.w)

    def test_async(self):
        """AsyncMultiGPUTrainer takes `scale_gradient`, and its devices from `nr_tower`."""
        trainer = trainv1.AsyncMultiGPUTrainer(config(nr_tower=2), scale_gradient=False)
        assert [0, 1] == trainer.devices

    def test_nr_tower_and_tower(self):
        """Passing both `nr_tower` and `tower` raises ValueError. `tower` alone sets `nr_tower`."""
        with pytest.raises(ValueError, match="got both nr_tower and tower"):
            config(nr_tower=2, tower=[0, 1])
        assert 2 == config(tower=[3, 5]).nr_tower


class TestCustomTrainer:
    class Own(Trainer):
        """A custom trainer in the first API."""

        def _setup(self):
            cbs = self._input_source.setup(self.model.get_inputs_desc())
            self.config.callbacks.extend(cbs)
            with TowerContext("", is_training=True):
                self.model.build_graph(self._input_source)
                self.train_op = self.model.get_optimizer().minimize(self.model.get_cost())

    @pytest.mark.parametrize("is_own", [True, False])
    def test_has_inference_and_predictors(self, is_own):
        """InferenceRunner and predictors work with old models, also if a trainer of the script sets no tower function."""

        class Predict(Callback):
            def _setup_graph(self):
                self.predictor = self.trainer.get_predictor(["x"], ["cost"])

            def _after_train(self):
                self.cost = self.predictor(np.array([3.0], "float32"))[0]

        predict = Predict()
        made = config(InferenceRunner(threes(1), ScalarStats("cost")), predict)
        trainer = (self.Own if is_own else trainv1.SimpleTrainer)(made)
        trainer.train()
        np.testing.assert_allclose((3 / 16) ** 2, predict.cost, rtol=1e-6)
        np.testing.assert_allclose((3 / 16) ** 2, trainer.monitors.get_latest("validation_cost"), rtol=1e-6)

    def test_overriding_run_step(self):
        """A `run_step` that runs `train_op` twice halves the distance to 3 eight times; an input set before the constructor is kept."""

        class Twice(self.Own):
            def __init__(self, config):
                self._input_source = FeedInput(config.dataflow)
                super().__init__(config)

            def run_step(self):
                self.hooked_sess.run(self.train_op)
                self.hooked_sess.run(self.train_op)

        assert 3 - 3 / 2**8 == trained(Twice)
        with tf.Graph().as_default():
            assert 3 - 3 / 16 == trained(self.Own)


class TestModelDesc:
    def test_inputs(self):
        """`_get_inputs` may return InputDesc, TensorSpec and placeholders in one list."""

        class Model(Old):
            def _get_inputs(self):
                return [
                    InputDesc(tf.int32, (None, 3), "a"),
                    TensorSpec([2], tf.float32, "b"),
                    tf.placeholder(tf.string, [], "c"),
                ]

        assert [
            TensorSpec([None, 3], tf.int32, "a"),
            TensorSpec([2], tf.float32, "b"),
            TensorSpec([], tf.string, "c"),
        ] == [TensorSpec(one.shape, one.dtype, one.name) for one in Model().get_inputs_desc()]

    def test_build_graph_takes_tensors_or_a_list(self):
        """`build_graph` takes tensors or, as in old scripts, one list of them."""
        x = tf.constant([3.0])
        model = Old()
        with tf.variable_scope("", reuse=tf.AUTO_REUSE):
            assert model.build_graph(x) is model.cost
            assert model.build_graph([x]) is model.get_cost()

    def test_towers_do_not_share_the_cost(self):
        """A tower that does not set `self.cost` has no cost, even if an earlier tower set one."""

        class Sometimes(Old):
            def _build_graph(self, inputs):
                if self.training:
                    super()._build_graph(inputs)

        model = Sometimes()
        with TowerContext("", is_training=True):
            assert model.build_graph(tf.constant([3.0])) is not None
        with TowerContext("pred", is_training=False):
            assert model.build_graph(tf.constant([3.0])) is None

    @pytest.mark.parametrize(
        ("call", "method"),
        [
            (lambda m: m.inputs(), "_get_inputs"),
            (lambda m: m.build_graph(), "_build_graph"),
            (lambda m: m.optimizer(), "_get_optimizer"),
        ],
    )
    def test_missing_methods(self, call, method):
        """The error for a missing method names it in both interfaces."""
        with pytest.raises(NotImplementedError, match=f"ModelDesc: define .*{method}"):
            call(ModelDesc())


class TestErrors:
    @pytest.mark.parametrize(
        ("call", "error", "message"),
        [
            (lambda: train.SimpleTrainer(config()), TypeError, "(?s)launch_train_with_config.*tensorpack_lite.trainv1"),
            (lambda: trainv1.SimpleTrainer(3), TypeError, r"trainv1.SimpleTrainer: expected a TrainConfig, got int"),
            (lambda: trainv1.SimpleTrainer(config(model=None)).train(), ValueError, "the config needs a model, and data"),
            (lambda: trainv1.SimpleTrainer(config(dataflow=None)).train(), ValueError, "needs a model, and data"),
            (lambda: trainv1.SimpleTrainer(config(model=Forgets())).train(), TypeError, "Forgets has no cost. Set self.cost"),
            (lambda: Trainer(config()).train(), NotImplementedError, r"Trainer: define _setup\(\)"),
        ],
    )  # fmt: skip
    def test_mistakes(self, call, error, message):
        """A config of the wrong trainer or without a part, a model without a cost, and a trainer without _setup are errors."""
        with pytest.raises(error, match=message):
            call()
