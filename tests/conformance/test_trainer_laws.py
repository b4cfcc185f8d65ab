"""Properties of every trainer."""

from __future__ import annotations

import os

import numpy as np
import pytest
from conformance.trainer_rows import NO_ROW, ROWS

from tensorpack_lite import train
from tensorpack_lite.callbacks import ModelSaver
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.loop.trainer import find_step_ops
from tensorpack_lite.tfutils.dependency import elements_in
from tensorpack_lite.tfutils.sessinit import JustCurrentSession, SmartInit
from tensorpack_lite.tfutils.varmanip import load_checkpoint_vars
from tensorpack_lite.train import Trainer

pytestmark = [pytest.mark.law, pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)]


class Watch(Callback):
    """Reads the variable after each step."""

    def __init__(self, row):
        self.row, self.values = row, []

    def _setup_graph(self):
        self.var = self.trainer.find_tensor(self.row.variable)

    def _trigger_step(self):
        self.values.append(float(self.trainer.sess.run(self.var)))


def run(row, *callbacks, session_init=None, **kwargs):
    """Train in a new graph and return the trainer."""
    kwargs = {"steps_per_epoch": 3, "max_epoch": 2, "extra_callbacks": [], "monitors": [], **kwargs}
    with tf.Graph().as_default():
        trainer = row.make()
        trainer.train_with_defaults(
            callbacks=list(callbacks), session_init=session_init or JustCurrentSession(), **kwargs
        )
    return trainer


def closed_form(step):
    """Return w after some steps, each of which halves the distance to 3."""
    return 3 - 3 * 0.5**step


@pytest.mark.slow
def test_trajectory(row):
    """The weight after each step is that of the closed form. NoOpTrainer does not change it."""
    watch = Watch(row)
    run(row, watch)
    expected = [closed_form(step) if row.trains else 0.0 for step in range(1, 7)]
    assert expected == watch.values


def test_counts(row):
    """After two epochs of three steps, `global_step` is 6 and `epoch_num` is 2."""
    trainer = run(row)
    assert (6, 2) == (trainer.global_step, trainer.epoch_num)


def test_what_a_step_runs_is_declared(row):
    """Everything that `run_step` fetches is among the operations that exact resume, signals and lint examine."""

    class Fetches(Callback):
        def _before_train(self):
            self.names, run = set(), self.trainer.hooked_sess.run

            def record(fetches, *args, **kwargs):
                self.names.update(one.name for one in elements_in({"fetches": fetches}))
                return run(fetches, *args, **kwargs)

            self.trainer.hooked_sess.run = record

        def _after_train(self):
            self.declared = {one.name for one in find_step_ops(self.trainer)}

    fetches = Fetches()
    run(row, fetches)
    undeclared = fetches.names - fetches.declared
    assert not undeclared, f"Set self.step_ops in {row.name}: its run_step runs {undeclared} beside train_op."


@pytest.mark.slow
def test_resume_is_uninterrupted(row, tmp_path):
    """A training that is saved after one epoch and resumed has the same weights as an uninterrupted one."""
    first, second = Watch(row), Watch(row)
    run(row, first, ModelSaver(checkpoint_dir=str(tmp_path)), max_epoch=1)
    init = SmartInit(os.path.join(str(tmp_path), "model-3"))
    trainer = run(row, second, session_init=init, starting_epoch=2, max_epoch=2)
    whole = Watch(row)
    run(row, whole)
    assert whole.values == first.values + second.values
    assert 6 == trainer.global_step


@pytest.mark.slow
def test_checkpoint_keys(row, tmp_path):
    """A checkpoint contains the model's variable and `global_step`, without a prefix in their names."""
    run(row, ModelSaver(checkpoint_dir=str(tmp_path)), max_epoch=1)
    saved = load_checkpoint_vars(os.path.join(str(tmp_path), "model-3"))
    assert {row.variable, "global_step"} == set(saved)


def test_predictor_is_the_training_forward(row):
    """A predictor computes the same outputs as the training tower, with the same variables."""
    if not row.has_tower:
        with pytest.raises(RuntimeError, match="has no tower function. Use a TowerTrainer"):
            Trainer().get_predictor(["x"], ["cost"])
        return

    class Predicts(Callback):
        def _setup_graph(self):
            self.predictor = self.trainer.get_predictor(["x"], ["cost"])

        def _trigger(self):
            w = float(self.trainer.sess.run(self.trainer.find_tensor("w")))
            got = self.predictor(np.array([1.0, 5.0], "float32"))[0]
            np.testing.assert_allclose(got, ((w - 1) ** 2 + (w - 5) ** 2) / 2, rtol=1e-6)
            self.called = True

    predicts = Predicts()
    run(row, predicts)
    assert predicts.called


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("mine")], ids=["ctrl-c", "error"])
def test_session_closed_after_an_error(row, error):
    """After Ctrl-C or an error, `after_train` runs, then the session is closed and the exception is raised."""

    class Fails(Callback):
        ended = False

        def _trigger_step(self):
            raise error

        def _after_train(self):
            self.session = self.trainer.sess
            self.ended = True

    fails = Fails()
    with pytest.raises(type(error)):
        run(row, fails)
    assert fails.ended
    with pytest.raises(RuntimeError, match="closed"):
        fails.session.run([])


@pytest.mark.slow
def test_two_trainers_do_not_disturb_each_other(row):
    """A second trainer in the same process starts with initial weights."""
    one, two = Watch(row), Watch(row)
    run(row, one)
    run(row, two)
    assert one.values == two.values


def test_every_trainer_has_a_row(row):
    """Every public trainer has a row or a reason in `NO_ROW`."""
    public = {name for name in train.__all__ if isinstance(getattr(train, name), type)}
    trainers = {name for name in public if issubclass(getattr(train, name), Trainer)}
    assert trainers == {each.name for each in ROWS} | set(NO_ROW)
