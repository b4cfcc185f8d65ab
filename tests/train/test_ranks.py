"""train/ranks.py: where a rank is, and what two ranks compare; ranks are threads here."""

from __future__ import annotations

import gc
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
from fakes.models import Mean, threes

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.train import SimpleTrainer
from tensorpack_lite.train.ranks import RankCallback, RankWatch, graph_of_training
from tensorpack_lite.utils.cluster import free_ports
from tensorpack_lite.utils.ranks import RankError


@pytest.fixture
def watch():
    """The watch of a rank that is alone."""
    one = RankWatch(0, 1, ("127.0.0.1", free_ports(1)[0]), 10.0)
    yield one
    one.channel.close()


def on_two_ranks(function):
    """Call a function with the watch of each of two ranks, at the same time; gives what each raised."""
    address = ("127.0.0.1", free_ports(1)[0])

    def run(rank):
        watch = RankWatch(rank, 2, address, 10.0)
        try:
            function(watch)
        except RankError as error:
            return str(error)
        finally:
            watch.channel.close()

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(run, range(2)))


class Asks(Callback):
    """Asks at some moments where the rank is."""

    def __init__(self, watch, chief_only=True, works_alone=False):
        self.watch, self.seen, self.chief_only, self.works_alone = watch, {}, chief_only, works_alone

    def note(self, moment):
        self.seen[moment] = self.watch._place_now()

    def _before_run(self, ctx):
        self.note("before_run")

    def _trigger_epoch(self):
        self.note("trigger_epoch")


class TestWhere:
    @pytest.mark.parametrize(
        ("chief_only", "works_alone", "kind"),
        [(True, False, "excused"), (False, False, "busy"), (False, True, "excused")],
    )
    def test_in_a_callback(self, watch, chief_only, works_alone, kind):
        """Its name, its moment and the step; others have to wait for what only the chief does."""
        asks, trainer, model = Asks(watch, chief_only, works_alone), SimpleTrainer(), Mean()
        trainer.setup_graph(
            model.get_input_signature(), FeedInput(threes()), model.build_graph, model.get_optimizer
        )
        with watch.reporting(trainer, "training"):
            trainer.train_with_defaults(
                callbacks=[asks], monitors=[], extra_callbacks=[], steps_per_epoch=2, max_epoch=1
            )
        assert {"kind": kind, "step": 1, "where": "in callback Asks, _before_run"} == asks.seen["before_run"]
        assert {"kind": kind, "step": 2, "where": "in callback Asks, _trigger_epoch"} == asks.seen[
            "trigger_epoch"
        ]

    def test_between(self, watch):
        """Elsewhere, what is going on."""
        with watch.reporting(None, "building the graph"):
            assert {"kind": "busy", "step": 0, "where": "building the graph"} == watch._place_now()
        for place in ("setting up callbacks", "initializing the session"):
            with watch.reporting(None, place):
                assert "excused" == watch._place_now()["kind"]

    def test_the_end_of_its_data(self, watch):
        """Is part of what it says."""
        assert watch._where()["has_data"]
        watch.note_end_of_data()
        assert not watch._where()["has_data"]

    def test_while_it_takes_variables(self, watch):
        """The others are waited for."""
        seen = []
        look = RankCallback(watch, lambda: seen.append(watch._place_now()), lambda: True).before_train
        watch.waiting("taking rank 0's variables", look)
        assert [{"kind": "variables", "step": 0, "where": "taking rank 0's variables"}] == seen
        assert "building the graph" == watch._place_now()["where"]


class TestCompare:
    @pytest.mark.parametrize(
        ("others", "told"),
        [
            ({"a": 1, "b": [2]}, None),
            ({"a": 1, "b": [3]}, "b is [3] there and [2] on rank 0"),
            ({"a": 1}, "b ([2]) is only on rank 0"),
            ({"a": 1, "b": [2], "c": 4}, "c (4) is only there"),
            ({"b": [2], "a": 1}, "it made b where rank 0 made a: the same, in another order"),
        ],
    )
    def test_the_first_difference(self, others, told):
        """Is said on every rank."""
        raised = on_two_ranks(
            lambda watch: watch.compare(lambda: others if watch.rank else {"a": 1, "b": [2]})
        )
        sentence = told and f"Rank 1 does not fit to rank 0: {told}. All ranks must run the same script."
        assert [sentence, sentence] == raised

    def test_the_graph(self):
        """Versions, variables, operations."""
        w = tf.get_variable("w", [2, 3])
        tf.add(w, 1.0, name="sum")
        found = graph_of_training()
        assert found["operation sum"].endswith(" sum/y:0")
        assert ["float32", "(2, 3)"] == found["variable w"]
        assert {"version of TensorFlow", "version of tensorpack_lite"} < set(found)
        assert any(name.startswith("operation w/") for name in found)


class TestReporting:
    def test_an_error(self):
        """Is told to the others with where it was, and stays what it is."""

        def work(watch):
            if watch.rank == 1:
                with pytest.raises(KeyError), watch.reporting(None, "training"):
                    raise KeyError("planted\nmore")
            else:
                watch.channel.all_gather("something", 0)

        assert ["Rank 1 failed after step 0, training: KeyError: 'planted\\nmore'", None] == on_two_ranks(
            work
        )

    def test_an_error_in_the_script(self, monkeypatch):
        """Beside the trainer it is told, too, and shown as ever."""
        shown = []
        monkeypatch.setattr(sys, "excepthook", lambda kind, error, traceback: shown.append(error))
        error = TypeError("planted in the script")

        def work(watch):
            if watch.rank == 1:
                watch.report_end_of_script()
                sys.excepthook(TypeError, error, None)
            else:
                watch.channel.all_gather("something", 0)

        told = "Rank 1 failed after step 0, in its script: TypeError: planted in the script"
        assert [told, None] == on_two_ranks(work)
        assert [error] == shown

    def test_a_script_that_fails_after_training(self, monkeypatch, watch):
        """Has nobody to tell: the hook is gone, and does nothing where another one has kept it."""
        shown, told = [], []
        monkeypatch.setattr(sys, "excepthook", lambda kind, error, traceback: shown.append(error))
        before = sys.excepthook
        watch.report_end_of_script()
        hook = sys.excepthook
        watch.finish(3, "its loop is over")
        assert before is sys.excepthook
        monkeypatch.setattr(watch.channel, "fail", told.append)
        hook(TypeError, TypeError("late"), None)
        assert 1 == len(shown)
        assert [] == told

    def test_an_error_of_the_ranks_that_only_one_saw(self):
        """Is told to the others as it is."""

        def work(watch):
            if watch.rank == 1:
                with pytest.raises(RankError), watch.reporting(None, "training"):
                    raise RankError("Rank 1 drew something else.")
            else:
                watch.channel.all_gather("something", 0)

        assert ["Rank 1 drew something else.", None] == on_two_ranks(work)

    def test_the_trainer_is_let_go(self, watch):
        """After training nothing here keeps it alive."""
        trainer = SimpleTrainer()
        alive = weakref.ref(trainer)
        with watch.reporting(trainer, "training"):
            watch.finish(0, "its loop is over")
        del trainer
        gc.collect()
        assert alive() is None

    def test_an_engine_s_error(self):
        """What another rank did is raised in its place; an error of one's own is left alone."""

        def work(watch):
            if watch.rank == 1:
                watch.channel.fail("Rank 1 failed: planted")
            else:
                watch.channel.wait_for_failure(5)
                watch.explain(ValueError("Connection reset by peer"))

        assert ["Rank 1 failed: planted", None] == on_two_ranks(work)

    def test_one_s_own_error(self, watch):
        """Is left alone."""
        assert watch.explain(ValueError("shapes differ")) is None

    def test_ends_that_differ(self):
        """Are a warning, not an error."""
        assert [None, None] == on_two_ranks(lambda watch: watch.finish(5 + watch.rank, "its loop is over"))
