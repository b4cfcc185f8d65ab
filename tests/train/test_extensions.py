"""loop/extension.py in training runs: the order of moments, states in checkpoints, and errors."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from fakes.quadratic import QuadraticTrainer
from fakes.trainers import run

from tensorpack_lite.callbacks import Callback, ModelSaver
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop.extension import Extension
from tensorpack_lite.train.config import AutoResumeTrainConfig
from tensorpack_lite.train.signals.extension import Signals

MOMENTS = ["before_setup", "after_setup", "after_initialize", "before_epochs"]


class Notes(Extension):
    """Writes its moments into a list; raises an error in one of them."""

    def __init__(self, notes, name="", fails_in=None):
        self.notes, self.name, self.fails_in = notes, name, fails_in

    @property
    def state_name(self):
        return f"Notes {self.name}"

    def note(self, moment):
        self.notes.append(f"{self.name}{moment}")
        if moment == self.fails_in:
            raise KeyError(moment)

    @contextmanager
    def around_training(self, trainer):
        self.note("around_training")
        try:
            yield
        finally:
            self.note("around_training left")

    @contextmanager
    def around_loop(self, trainer):
        assert trainer.sess is tf.get_default_session()
        self.note("around_loop")
        try:
            yield
        finally:
            self.note("around_loop left")

    def before_setup(self, trainer):
        self.note("before_setup")

    def after_setup(self, trainer):
        assert not trainer.sess
        self.note("after_setup")

    def after_initialize(self, trainer):
        assert trainer.sess.graph.finalized
        self.note("after_initialize")

    def before_epochs(self, trainer):
        self.note("before_epochs")


class Noting(Callback):
    def __init__(self, notes):
        self.notes = notes

    def _setup_graph(self):
        self.notes.append("_setup_graph")

    def _before_train(self):
        self.notes.append("_before_train")

    def _trigger_epoch(self):
        self.notes.append("_trigger_epoch")

    def _after_train(self):
        self.notes.append("_after_train")


ALL = [
    "around_training", "before_setup", "_setup_graph", "after_setup", "after_initialize", "around_loop", "_before_train",
    "before_epochs", "_trigger_epoch", "_trigger_epoch", "around_loop left", "_after_train", "around_training left",
]  # fmt: skip


def test_order_of_moments():
    """An extension is called at its moments, between those of callbacks."""
    notes = []
    trainer = QuadraticTrainer()
    trainer.extensions.append(Notes(notes))
    run(trainer, [Noting(notes)])
    assert ALL == notes


def test_contexts_are_nested():
    """Contexts are entered in the order of the list, and left in the opposite order."""
    notes = []
    trainer = QuadraticTrainer()
    trainer.extensions = [Notes(notes, "a "), Notes(notes, "b ")]
    run(trainer)
    around = [note for note in notes if "around" in note]
    entered = ["a around_training", "b around_training", "a around_loop", "b around_loop"]
    left = ["b around_loop left", "a around_loop left", "b around_training left", "a around_training left"]
    assert entered + left == around


@pytest.mark.parametrize("moment", ["around_training", *MOMENTS, "around_loop"])
def test_an_error_ends_training(moment):
    """An error in a moment is raised by `train`, and contexts that were entered are left."""
    notes = []
    trainer = QuadraticTrainer()
    trainer.extensions = [Notes(notes, "first "), Notes(notes, "", moment)]
    with pytest.raises(KeyError, match=moment):
        run(trainer, [Noting(notes)])
    assert "first around_training left" == notes[-1]
    assert ("_after_train" in notes) == (moment in ("around_loop", "before_epochs"))


@pytest.mark.parametrize("moment", MOMENTS)
def test_extensions_of_a_phase_alone(moment):
    """A script that calls the phases itself has the same moments, without a context around them."""
    notes = []
    trainer = QuadraticTrainer()
    trainer.extensions.append(Notes(notes))
    trainer.setup_callbacks([], [])
    trainer.initialize(tf.train.ChiefSessionCreator(), _nothing())
    trainer.main_loop(1, 1, 1)
    assert moment in notes
    assert "around_training" not in notes


def _nothing():
    from tensorpack_lite.tfutils.sessinit import JustCurrentSession

    return JustCurrentSession()


class Counts(Extension):
    """Counts the training runs of one task, over all resumptions."""

    count = 0

    def before_epochs(self, trainer):
        self.count += 1

    def state_dict(self, trainer):
        return {"count": self.count}

    def load_state_dict(self, trainer, state):
        self.count = state["count"]


def test_state(log_dir):
    """A checkpoint keeps the state of an extension, which it gets back before `before_epochs`."""
    for number in (1, 2, 3):
        config = AutoResumeTrainConfig(steps_per_epoch=2, max_epoch=number)
        with tf.Graph().as_default():
            trainer, counts = QuadraticTrainer(), Counts()
            trainer.extensions.append(counts)
            start, init = config.starting_epoch, config.session_init
            run(trainer, [ModelSaver()], epochs=number, starting_epoch=start, session_init=init)
        assert number == counts.count


def test_no_extensions():
    """A training without any extension ends as usual."""
    trainer = QuadraticTrainer()
    trainer.extensions = []
    run(trainer)
    assert 4 == trainer.global_step


def test_find_extension():
    """`find_extension` returns the first one of a class, or None."""
    trainer = QuadraticTrainer()
    assert trainer.extensions[2] is trainer.find_extension(Signals)
    assert trainer.find_extension(Counts) is None


@pytest.mark.parametrize(
    ("added", "error", "message"),
    [
        (Counts(), ValueError, "state_name 'Counts' of Counts is taken"),
        (type("place", (Extension,), {})(), ValueError, "state_name 'place' of place is taken"),
        (Callback(), TypeError, "expected a list of Extension, got Callback in it"),
        (Extension, TypeError, r"got the class Extension; write Extension\(\) in it"),
    ],
)
def test_a_list_with_a_mistake(added, error, message):
    """Two states of one name would replace each other in checkpoints, so they are an error before anything is built."""
    trainer = QuadraticTrainer()
    trainer.extensions += [Counts(), added]
    with pytest.raises(error, match=message):
        run(trainer)
