"""Laws that hold for every public callback; `callback_rows.py` lists the callbacks."""

from __future__ import annotations

import json

import pytest
from conformance.callback_rows import NO_ROW, ROWS
from fakes.trainers import run

from tensorpack_lite import callbacks
from tensorpack_lite.callbacks.trigger import EnableCallbackIf, PeriodicTrigger
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.diagnostics.manifest.describe import describe
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.loop.callback_factory import CallbackFactory
from tensorpack_lite.tfutils.sesscreate import NewSessionCreator
from tensorpack_lite.tfutils.sessinit import JustCurrentSession
from tensorpack_lite.utils import logger

pytestmark = pytest.mark.law

ALL = pytest.mark.parametrize("row", ROWS, ids=repr)
NOT_MONITORS = pytest.mark.parametrize("row", [row for row in ROWS if not row.is_monitor], ids=repr)


class CountOperations(Callback):
    """Counts the graph's operations at the start and at the end of training."""

    def __init__(self) -> None:
        self.counts = []

    def _before_train(self) -> None:
        self.counts.append(len(self.graph.get_operations()))

    _after_train = _before_train


def guests(row, directory, wrap=lambda callback: callback):
    """Return the lists of callbacks and of monitors for a training with this row's callback."""
    before = [row.before(directory)] if row.before else []
    if row.is_monitor:
        return before, [row.make(directory)]
    return [*before, wrap(row.make(directory))], []


@ALL
def test_it_trains(row, log_dir):
    """Two epochs of three steps work with the callback and what it needs, and from before_train on, the graph does not change."""
    listed, monitors = guests(row, log_dir)
    count = CountOperations()
    assert 6 == run(row.trainer(), [count, *listed], monitors, steps=3).global_step
    assert count.counts[0] == count.counts[1]


@pytest.mark.slow
@NOT_MONITORS
def test_it_works_inside_a_periodic_trigger(row, log_dir):
    """The callback works inside a PeriodicTrigger of two steps."""
    wrap = lambda callback: PeriodicTrigger(callback, every_k_steps=2)  # noqa: E731
    assert 6 == run(row.trainer(), *guests(row, log_dir, wrap), steps=3).global_step


@pytest.mark.slow
@NOT_MONITORS
def test_it_works_inside_a_condition(row, log_dir):
    """The callback works inside an EnableCallbackIf that is true in the second epoch only."""
    wrap = lambda callback: EnableCallbackIf(callback, lambda self: self.epoch_num == 2)  # noqa: E731
    assert 6 == run(row.trainer(), *guests(row, log_dir, wrap), steps=3).global_step


@ALL
def test_its_flag(row, log_dir):
    """chief_only is as documented, and a wrapper copies it."""
    made = row.make(log_dir)

    assert row.chief_only == made.chief_only
    assert row.chief_only == EnableCallbackIf(made, lambda self: True).chief_only


@ALL
def test_a_process_that_is_not_chief(row, log_dir):
    """A process that is not the chief leaves chief-only callbacks out and trains with the others."""
    trainer = row.trainer()
    trainer.is_chief = False
    listed, monitors = guests(row, log_dir)
    if row.before:  # what it needs is for the chief only: without it, only being left out can be seen
        made = listed[-1] if listed[1:] else monitors[-1]
        assert trainer.register_callback(made) is (not row.chief_only)
        return
    run(trainer, listed, monitors, steps=3)

    assert 6 == trainer.global_step
    for one in [*listed, *monitors]:
        assert row.chief_only is (one not in trainer._callbacks.cbs)


@pytest.mark.slow
@ALL
def test_two_trainers_do_not_disturb_each_other(row, log_dir, tmp_path):
    """Two training runs in one process count their own steps, even if the second is set up before the first runs."""
    prepared = []
    for name in ("first", "second"):
        directory = str(tmp_path / name)
        (tmp_path / name).mkdir()
        graph = tf.Graph()
        with graph.as_default():
            trainer = row.trainer()
            trainer.setup_callbacks(*guests(row, directory))
            trainer.initialize(NewSessionCreator(), JustCurrentSession())
        prepared.append((graph, trainer))
    for (graph, trainer), steps in zip(prepared, (3, 2)):
        with graph.as_default():
            trainer.main_loop(steps, 1, 2)

    assert [6, 4] == [trainer.global_step for _, trainer in prepared]


def report(callback):
    callback.trainer.monitors.put_scalar("reported", 1.0)


def files_in(directory):
    """Return the content of each file in a directory, by its name."""
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


@pytest.mark.slow
@ALL
def test_it_writes_to_the_directory_of_its_training(row, log_dir, tmp_path):
    """A callback that is made before `set_logger_dir` of its training changes nothing in the directory of the training before it."""
    earlier, own = tmp_path / "earlier", tmp_path / "own"
    logger.set_logger_dir(str(earlier), action="d")
    with tf.Graph().as_default():
        run(row.trainer(), *guests(row, ""), steps=3)
    made, monitors = guests(row, "")
    logger.set_logger_dir(str(own), action="d")
    before = files_in(earlier)
    run(row.trainer(), [CallbackFactory(trigger=report), *made], monitors, steps=3)

    assert before == files_in(earlier)
    assert {name for name in before if name.startswith(("model-", "min-", "stats.", "top-"))} <= set(files_in(own))


@ALL
def test_its_description(row, log_dir):
    """Two callbacks that are made alike have the same description, which is JSON."""
    described = describe(row.make(log_dir))

    assert described == describe(row.make(log_dir))
    assert described == json.loads(json.dumps(described))


def test_every_public_callback_has_a_row():
    """A new public name needs a row here, or a reason in NO_ROW."""
    assert sorted(callbacks.__all__) == sorted([*{row.name for row in ROWS}, *NO_ROW])
