"""train/trainer.py: the errors for wrong calls of a trainer."""

from __future__ import annotations

from unittest import mock

import pytest
from fakes.models import Mean, threes
from fakes.quadratic import QuadraticTrainer

from tensorpack_lite.callbacks.monitor.base import MonitorBase
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.tfutils.sessinit import SessionInit
from tensorpack_lite.train.base import Trainer
from tensorpack_lite.train.config import TrainConfig
from tensorpack_lite.train.simple import SimpleTrainer
from tensorpack_lite.train.tower import TowerTrainer
from tensorpack_lite.utils import logger


class TestMisuse:
    def test_config_passed_to_a_trainer(self):
        """A TrainConfig as argument raises TypeError, which names both alternatives."""
        with pytest.raises(TypeError, match=r"launch_train_with_config.*trainv1"):
            Trainer(object())
        with pytest.raises(TypeError, match="expected no arguments"):
            TowerTrainer(config=object())

    @pytest.mark.parametrize("method", ["train", "fit"])
    def test_config_passed_to_a_method(self, method):
        """`trainer.train(config)` and `trainer.fit(config)` raise TypeError, which names the function that takes both."""
        config = TrainConfig(model=Mean(), dataflow=threes(), steps_per_epoch=1)
        with pytest.raises(
            TypeError, match=rf"SimpleTrainer.*{method}.*launch_train_with_config\(config, trainer\)"
        ):
            getattr(SimpleTrainer(), method)(config)

    def test_session_init_that_fails(self, trainer, run):
        """An error of session_init is raised; the session is closed and its queue runners are stopped."""

        class Fails(SessionInit):
            def _run_init(self, sess):
                raise ZeroDivisionError("planted")

        tf.train.input_producer(tf.constant([1.0, 2.0]))
        with pytest.raises(ZeroDivisionError, match="planted"):
            run(trainer, session_init=Fails())
        assert trainer.hooked_sess.should_stop()
        with pytest.raises(RuntimeError, match="closed"):
            trainer.sess.run(trainer.train_op)

    def test_hooks_that_cannot_be_made(self, run):
        """An error in `initialize_hooks` closes the raw session."""

        class Fails(QuadraticTrainer):
            def initialize_hooks(self):
                raise ZeroDivisionError("planted")

        trainer = Fails()
        with pytest.raises(ZeroDivisionError, match="planted"):
            run(trainer)
        with pytest.raises(RuntimeError, match="closed"):
            trainer.sess.run(trainer.train_op)

    def test_training_twice(self, trainer, run):
        """Training a second time raises RuntimeError."""
        run(trainer)
        with pytest.raises(
            RuntimeError,
            match=r"Trainer\.setup_callbacks: .* \(expected one call, got two\)\. Create a new one",
        ):
            run(trainer)

    def test_register_something_else(self, trainer):
        """Registering anything but a callback raises TypeError."""
        with pytest.raises(TypeError, match="expected a Callback or a list of them, got int"):
            trainer.register_callback(3)

    def test_register_late(self, trainer, run):
        """Registering after `setup_callbacks` raises RuntimeError."""
        run(trainer)
        with pytest.raises(RuntimeError, match="comes too late"):
            trainer.register_callback(Callback())

    def test_register_list(self, trainer):
        """A list is registered in order, and the result is None."""
        one, two = Callback(), Callback()
        assert trainer.register_callback([one, two]) is None
        assert [one, two] == trainer._callbacks.cbs
        assert trainer.register_callback(Callback()) is True

    def test_not_chief(self, trainer):
        """A process that is not the chief leaves out chief-only callbacks. Only the debug log mentions it."""
        trainer.is_chief = False
        with mock.patch.object(logger, "debug") as log, mock.patch.object(logger, "warning") as warning:
            assert trainer.register_callback(Callback()) is False
        assert "Callback is chief-only" in log.call_args[0][0]
        warning.assert_not_called()
        assert trainer.register_callback(Callback().set_chief_only(False)) is True

    def test_monitor_among_callbacks(self, trainer, run):
        """A monitor among the callbacks raises TypeError."""
        with pytest.raises(TypeError, match=r"is among the callbacks. Pass it in monitors=\[...\]"):
            run(trainer, MonitorBase())

    @pytest.mark.parametrize("name", ["callbacks", "monitors"])
    def test_not_a_list(self, trainer, name):
        """Callbacks and monitors that are not lists raise TypeError."""
        kwargs = {"callbacks": [], "monitors": [], name: ()}
        with pytest.raises(
            TypeError, match=rf"Trainer: {name} has the wrong type \(expected a list, got tuple\)"
        ):
            trainer.setup_callbacks(**kwargs)

    def test_no_steps_per_epoch(self, trainer):
        """A missing steps_per_epoch raises ValueError."""
        with pytest.raises(ValueError, match="steps_per_epoch is missing"):
            trainer.train_with_defaults(callbacks=[])

    def test_session_creator_of_another_kind(self, trainer, run):
        """A session_creator that is not a SessionCreator raises TypeError."""
        with pytest.raises(
            TypeError, match=r"session_creator has the wrong type .expected SessionCreator, got int"
        ):
            run(trainer, session_creator=3)

    def test_session_init_of_another_kind(self, trainer, run):
        """A session_init that is not a SessionInit raises TypeError."""
        with pytest.raises(
            TypeError, match=r"session_init has the wrong type .expected SessionInit, got str.. See SmartInit"
        ):
            run(trainer, session_init="model")

    def test_ranges_in_setup(self, trainer, run):
        """While the graph is built, the ranges raise AttributeError."""

        class Asks(Callback):
            def _setup_graph(self):
                return self.trainer.steps_per_epoch

        with pytest.raises(AttributeError, match="known from before_train on"):
            run(trainer, Asks())
