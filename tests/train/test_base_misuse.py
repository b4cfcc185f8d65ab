"""train/trainer.py: the errors for wrong calls of a trainer."""

from __future__ import annotations

import pytest
from fakes.quadratic import QuadraticTrainer

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.tfutils.sessinit import SessionInit


class TestMisuse:
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

    def test_not_chief(self, trainer, log_lines):
        """A process that is not the chief leaves out chief-only callbacks, and does not log that."""
        trainer.is_chief = False
        assert trainer.register_callback(Callback()) is False
        assert trainer.register_callback(Callback().set_chief_only(False)) is True
        assert not [line for line in log_lines if "chief" in line]

    def test_ranges_in_setup(self, trainer, run):
        """While the graph is built, the ranges raise AttributeError."""

        class Asks(Callback):
            def _setup_graph(self):
                return self.trainer.steps_per_epoch

        with pytest.raises(AttributeError, match="known from before_train on"):
            run(trainer, Asks())
