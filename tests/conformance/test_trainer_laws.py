"""Properties of every trainer."""

from __future__ import annotations

import itertools
import os

import numpy as np
import pytest
from conformance.trainer_rows import NO_ROW, ROWS

from tensorpack_lite import train
from tensorpack_lite.callbacks import ModelSaver, PeriodicTrigger, TerminateOnNaN
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow import DataFromList
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.loop.trainer import find_step_ops
from tensorpack_lite.tfutils.dependency import elements_in, operations_needed, updates_wait_for_data
from tensorpack_lite.tfutils.sessinit import JustCurrentSession, SmartInit
from tensorpack_lite.tfutils.varmanip import is_training_name, load_checkpoint_vars
from tensorpack_lite.train import Trainer, begin_exact_resume
from tensorpack_lite.train.resume import find_checkpoint
from tensorpack_lite.utils.random_streams import fix_rng_seed

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


@pytest.mark.slow
def test_trajectory(row):
    """The weight after each step is that of the closed form. NoOpTrainer does not change it."""
    watch = Watch(row)
    run(row, watch)
    expected = [row.weight(step) if row.trains else 0.0 for step in range(1, 7)]
    assert expected == watch.values


def test_counts(row):
    """After two epochs of three steps, `global_step` is 6 and `epoch_num` is 2."""
    trainer = run(row)
    assert (6, 2) == (trainer.global_step, trainer.epoch_num)


def test_what_a_step_runs_is_declared(row):
    """Everything that `run_step` runs is among the operations that exact resume, signals, lint and TerminateOnNaN examine."""
    undeclared = undeclared_by(row)
    assert not undeclared, f"Set self.step_ops in {row.name}: its run_step runs {undeclared} beside train_op."


def undeclared_by(row):
    """Return the names of what a step of a trainer runs, in either session, without declaring it."""

    class Fetches(Callback):
        def _before_train(self):
            self.names = set()
            for session in self.trainer.hooked_sess, self.trainer.sess:
                session.run = self.recorded(session.run)

        def recorded(self, run):
            def record(fetches, *args, **kwargs):
                if self.trainer.current_call is None:  # a callback may run what it likes
                    self.names.update(element.name for element in elements_in({"fetches": fetches}))
                return run(fetches, *args, **kwargs)

            return record

        def _trigger_epoch(self):
            self.declared = {op.name for op in find_step_ops(self.trainer)}

    fetches = Fetches()
    run(row, fetches, max_epoch=1)
    return fetches.names - fetches.declared


def test_a_step_without_data_changes_nothing(row):
    """Each update waits for the data of the step, so a step that fails because data is missing, or a signal came, can be undone."""
    with tf.Graph().as_default():
        step_ops = find_step_ops(row.make())
        if not row.has_tower or any("Placeholder" in op.type for op in operations_needed(step_ops)):
            pytest.skip("no data, or data that is fed, can be missing")
        early = [op.name for op in step_ops if not updates_wait_for_data(op)]
    assert not early, (
        f"{row.name} updates something in {early} before its data is there. Use tf.control_dependencies(grads)."
    )


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
def test_resumes_exactly(row, tmp_path):
    """With exact resume, a training that is saved within an epoch, and continues, gets the datapoints that were due."""
    if not row.has_tower:
        pytest.skip("it has no data")

    def train(max_epoch, directory, init=None):
        """Train on shuffled data, and save after every third step. Return the weights after each step."""
        watch = Watch(row)
        saver = PeriodicTrigger(ModelSaver(checkpoint_dir=str(tmp_path / directory)), every_k_steps=3)
        with tf.Graph().as_default():
            fix_rng_seed(3)
            begin_exact_resume(init)
            trainer = row.make(DataFromList([[[float(k)] * 4] for k in range(11)], shuffle=True))
            trainer.train_with_defaults(
                callbacks=[watch, saver],
                session_init=init,
                steps_per_epoch=4,
                max_epoch=max_epoch,
                extra_callbacks=[],
                monitors=[],
            )
        return watch.values

    whole, first = train(3, "whole"), train(1, "cut")[:3]
    assert whole == first + train(3, "cut", find_checkpoint(str(tmp_path / "cut")))


@pytest.mark.slow
def test_nan_updates_nothing(row):
    """A datapoint with NaN ends training with TerminateOnNaN, and changes no variable."""
    if not row.has_tower or not row.trains:
        pytest.skip("it has no cost that data can make NaN, or no update")

    class Last(Watch):
        """Also reads the variable at the end of training."""

        def _after_train(self):
            self.last = float(self.trainer.sess.run(self.var))

    watch = Last(row)
    with tf.Graph().as_default():
        trainer = row.make(DataFromList([[[3.0] * 4]] * 4 + [[[float("nan")] * 4]] * 40, shuffle=False))
        with pytest.raises(FloatingPointError, match="TerminateOnNaN"):
            trainer.train_with_defaults(
                callbacks=[watch, TerminateOnNaN()], steps_per_epoch=9, max_epoch=1, extra_callbacks=[], monitors=[]
            )
    assert 0 < len(watch.values) <= 4
    if trainer.updates_together:
        assert watch.values[-1] == watch.last
    else:  # as documented, nothing is held back
        assert np.isnan(watch.last)


@pytest.mark.slow
def test_checkpoint_keys(row, tmp_path):
    """A checkpoint contains the variables of the row and `global_step`, without a prefix in their names."""
    run(row, ModelSaver(checkpoint_dir=str(tmp_path)), max_epoch=1)
    saved = load_checkpoint_vars(os.path.join(str(tmp_path), "model-3"))
    assert {row.variable, *row.state, "global_step"} == set(saved)


def test_own_variables_are_used_only_in_training(row):
    """Commands and warnings treat the variables of a trainer or optimizer like slots, by their names."""
    for name in itertools.chain.from_iterable(each.state for each in ROWS):
        assert is_training_name(name), f"Add the name of {name!r} to _TRAINING_NAME in tfutils/varmanip.py."


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


def test_every_trainer_has_a_row(row):
    """Every public trainer has a row or a reason in `NO_ROW`."""
    public = {name for name in train.__all__ if isinstance(getattr(train, name), type)}
    trainers = {name for name in public if issubclass(getattr(train, name), Trainer)}
    assert trainers == {each.name for each in ROWS} | set(NO_ROW)
