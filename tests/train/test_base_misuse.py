"""train/base.py: what a trainer refuses, and what it says."""

from __future__ import annotations

from unittest import mock

import pytest
from fakes.quadratic import QuadraticTrainer

from tensorpack_lite.callbacks.monitor.base import MonitorBase
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.tfutils.sessinit import SessionInit
from tensorpack_lite.train.base import Trainer
from tensorpack_lite.train.tower import TowerTrainer
from tensorpack_lite.utils import logger


class TestMisuse:
    def test_config_passed_to_a_trainer(self):
        """The old way of calling a trainer names both ways out."""
        with pytest.raises(TypeError, match=r"launch_train_with_config.*trainv1"):
            Trainer(object())
        with pytest.raises(TypeError, match="takes no arguments here"):
            TowerTrainer(config=object())

    def test_session_init_that_fails(self, trainer, run):
        """An error of session_init reaches the user as it is; the session is closed, its queue runners are stopped."""

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
        """An error before there is a hooked session closes the raw one."""

        class Fails(QuadraticTrainer):
            def initialize_hooks(self):
                raise ZeroDivisionError("planted")

        trainer = Fails()
        with pytest.raises(ZeroDivisionError, match="planted"):
            run(trainer)
        with pytest.raises(RuntimeError, match="closed"):
            trainer.sess.run(trainer.train_op)

    def test_training_twice(self, trainer, run):
        """A trainer trains once."""
        run(trainer)
        with pytest.raises(
            RuntimeError, match=r"Trainer\.setup_callbacks: may be called only once.*Make a new one"
        ):
            run(trainer)

    def test_register_something_else(self, trainer):
        """Only callbacks can be registered."""
        with pytest.raises(TypeError, match="takes a Callback or a list of them, got int"):
            trainer.register_callback(3)

    def test_register_late(self, trainer, run):
        """After setup it is too late to register."""
        run(trainer)
        with pytest.raises(RuntimeError, match="comes too late"):
            trainer.register_callback(Callback())

    def test_register_list(self, trainer):
        """A list is registered in order and gives None."""
        one, two = Callback(), Callback()
        assert trainer.register_callback([one, two]) is None
        assert [one, two] == trainer._callbacks
        assert trainer.register_callback(Callback()) is True

    def test_not_chief(self, trainer):
        """A process that is not the chief leaves chief-only callbacks out, with a warning."""
        trainer.is_chief = False
        with mock.patch.object(logger, "warning") as log:
            assert trainer.register_callback(Callback()) is False
        assert "Callback is chief-only" in log.call_args[0][0]
        assert trainer.register_callback(Callback().set_chief_only(False)) is True

    def test_monitor_among_callbacks(self, trainer, run):
        """A monitor must be passed as a monitor."""
        with pytest.raises(TypeError, match=r"is among the callbacks. Pass it in monitors=\[...\]"):
            run(trainer, MonitorBase())

    @pytest.mark.parametrize("name", ["callbacks", "monitors"])
    def test_not_a_list(self, trainer, name):
        """Callbacks and monitors come as lists."""
        kwargs = {"callbacks": [], "monitors": [], name: ()}
        with pytest.raises(TypeError, match=f"Trainer: {name}: takes a list, got tuple"):
            trainer.setup_callbacks(**kwargs)

    def test_no_steps_per_epoch(self, trainer):
        """steps_per_epoch must be given."""
        with pytest.raises(ValueError, match="steps_per_epoch is missing"):
            trainer.train_with_defaults(callbacks=[])

    def test_session_creator_of_another_kind(self, trainer, run):
        """The session comes from a SessionCreator."""
        with pytest.raises(TypeError, match=r"takes a tf.train.SessionCreator, got int"):
            run(trainer, session_creator=3)

    def test_session_init_of_another_kind(self, trainer, run):
        """Values come from a SessionInit."""
        with pytest.raises(TypeError, match=r"takes a SessionInit, got str. Use SmartInit"):
            run(trainer, session_init="model")

    def test_ranges_in_setup(self, trainer, run):
        """The ranges are not known while the graph is built."""

        class Asks(Callback):
            def _setup_graph(self):
                return self.trainer.steps_per_epoch

        with pytest.raises(AttributeError, match="known from before_train on"):
            run(trainer, Asks())
