"""train/rank_connection.py: the status of a rank, and comparing two ranks, which are threads here."""

from __future__ import annotations

import contextlib
import gc
import socket
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
from fakes.models import Mean, threes

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.ranks.cluster import free_ports
from tensorpack_lite.ranks.connecting import RankError
from tensorpack_lite.train import SimpleTrainer, rank_connection
from tensorpack_lite.train.rank_connection import RankCallback, RankConnection, graph_of_training


@pytest.fixture
def watch():
    """The RankConnection of a single rank."""
    one = RankConnection(0, 1, ("127.0.0.1", free_ports(1)[0]), 10.0)
    yield one
    one.channel.close()


def on_two_ranks(function):
    """Call a function with the RankConnection of each of two ranks, at the same time; return the RankErrors."""
    address = ("127.0.0.1", free_ports(1)[0])

    def run(rank):
        watch = RankConnection(rank, 2, address, 10.0)
        try:
            function(watch)
        except RankError as error:
            return str(error)
        finally:
            watch.channel.close()

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(run, range(2)))


def status(kind, step, where):
    """Return the status of a rank whose data has not ended."""
    return {"kind": kind, "step": step, "where": where, "has_data": True}


@pytest.mark.parametrize("host", ["127.0.0.1", "node0"])
def test_the_machine(host):
    """The status of a rank has the name of its machine, unless all ranks meet on the loopback interface."""
    watch = RankConnection(0, 1, (host, free_ports(1)[0]), 10.0)
    try:
        assert ({} if host == "127.0.0.1" else {"host": socket.gethostname()}) == {
            name: value for name, value in watch._where().items() if name == "host"
        }
    finally:
        watch.channel.close()


def test_the_reason_of_an_error_of_the_engine():
    """The other ranks are told the reason of an error of TensorFlow, not the line before it about the graph."""
    message = "Graph execution error:\n\nDetected at node 'div'\nNode: 'div'\nFrom /job:worker/replica:0/task:1:\nx: division by zero"

    def fail(watch):
        if watch.rank == 1:
            with contextlib.suppress(tf.errors.InvalidArgumentError), watch.reporting(None, "training"):
                raise tf.errors.InvalidArgumentError(None, None, message)
        else:
            watch.channel.all_gather("a value", 0)

    told = on_two_ranks(fail)
    assert ["Rank 1 failed after step 0, training: InvalidArgumentError: x: division by zero", None] == told


@pytest.mark.parametrize(
    ("error", "is_lost"), [(tf.errors.UnavailableError, True), (tf.errors.InvalidArgumentError, False)]
)
def test_a_lost_connection_of_the_engine(watch, monkeypatch, error, is_lost):
    """An engine that has lost its connection to another rank is a RankError, although the channel does not know of a failure yet."""
    monkeypatch.setattr(rank_connection, "_ECHO_SECONDS", 0.1)
    message = "Graph execution error:\n\nNode: 'x'\nCollective ops is aborted by: failed to connect to all addresses; ipv4:10.88.0.2:36217"
    with contextlib.ExitStack() as stack:
        if is_lost:
            told = "Rank 0 lost its connection to another rank: Collective ops is aborted by: failed to connect .*10.88.0.2"
            stack.enter_context(pytest.raises(RankError, match=told))
        watch.explain(error(None, None, message))


class Asks(Callback):
    """Records the status of the rank at some moments."""

    def __init__(self, watch, chief_only=True, works_alone=False):
        self.watch, self.seen, self.chief_only, self.works_alone = watch, {}, chief_only, works_alone

    def note(self, moment):
        self.seen[moment] = self.watch._where()

    def _before_run(self, ctx):
        self.note("before_run")

    def _trigger_epoch(self):
        self.note("trigger_epoch")


class TestStatus:
    @pytest.mark.parametrize(
        ("chief_only", "works_alone", "kind"),
        [(True, False, "excused"), (False, False, "busy"), (False, True, "excused")],
    )
    def test_in_a_callback(self, watch, chief_only, works_alone, kind):
        """In a callback the status has its name and moment; the others excuse the chief in a callback that only it has."""
        asks, trainer, model = Asks(watch, chief_only, works_alone), SimpleTrainer(), Mean()
        trainer.setup_graph(model.get_input_signature(), FeedInput(threes()), model.build_graph, model.get_optimizer)
        with watch.reporting(trainer, "training"):
            trainer.train_with_defaults(
                callbacks=[asks], monitors=[], extra_callbacks=[], steps_per_epoch=2, max_epoch=1
            )
        assert status(kind, 1, "in callback Asks, _before_run") == asks.seen["before_run"]
        assert status(kind, 2, "in callback Asks, _trigger_epoch") == asks.seen["trigger_epoch"]

    def test_outside_callbacks(self, watch):
        """Outside callbacks the status has the phase of the training."""
        with watch.reporting(None, "building the graph"):
            assert status("busy", 0, "building the graph") == watch._where()
        for place in ("setting up callbacks", "initializing the session"):
            with watch.reporting(None, place):
                assert "excused" == watch._where()["kind"]

    def test_the_end_of_its_data(self, watch):
        """The status says whether the data has ended."""
        assert watch._where()["has_data"]
        watch.end_data()
        assert not watch._where()["has_data"]

    def test_during_a_broadcast(self, watch):
        """During a broadcast of variables the rank waits for the others."""
        seen = []
        look = RankCallback(watch, lambda: seen.append(watch._where()), lambda: True).before_train
        with watch.waiting("taking rank 0's variables"):
            look()
        assert [status("variables", 0, "taking rank 0's variables")] == seen
        assert "building the graph" == watch._where()["where"]


class TestCompare:
    @pytest.mark.parametrize(
        ("others", "told"),
        [
            ({"a": 1, "b": [2]}, None),
            ({"a": 1, "b": [3]}, "its b is [3], and [2] on rank 0"),
            ({"a": 1}, "it lacks b ([2])"),
            ({"a": 1, "b": [2], "c": 4}, "rank 0 lacks c (4)"),
            ({"b": [2], "a": 1}, "it created b where rank 0 created a, so the order differs"),
        ],
    )
    def test_the_first_difference(self, others, told):
        """Every rank raises the first difference."""
        raised = on_two_ranks(lambda watch: watch.compare(others if watch.rank else {"a": 1, "b": [2]}))
        sentence = told and f"Rank 1 does not match rank 0: {told}. All ranks must run the same script."
        assert [sentence, sentence] == raised

    def test_the_graph(self):
        """The description of a graph has versions, variables and operations."""
        w = tf.get_variable("w", [2, 3])
        tf.add(w, 1.0, name="sum")
        found = graph_of_training()
        assert found["operation sum"].endswith(" sum/y:0")
        assert ["float32", "(2, 3)"] == found["variable w"]
        assert {"version of TensorFlow", "version of tensorpack_lite"} < set(found)
        assert any(name.startswith("operation w/") for name in found)


class TestReporting:
    def test_an_error(self):
        """An error is raised unchanged, and reported to the other ranks with its place."""

        def work(watch):
            if watch.rank == 1:
                with pytest.raises(KeyError), watch.reporting(None, "training"):
                    raise KeyError("planted\nmore")
            else:
                watch.channel.all_gather("something", 0)

        assert ["Rank 1 failed after step 0, training: KeyError: 'planted\\nmore'", None] == on_two_ranks(work)

    def test_an_error_in_the_script(self, monkeypatch):
        """An error in the script outside the trainer is reported to the other ranks, and shown as usual."""
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
        """After training `sys.excepthook` is restored; the hook reports nothing if another hook still calls it."""
        shown, told = [], []
        monkeypatch.setattr(sys, "excepthook", lambda kind, error, traceback: shown.append(error))
        before = sys.excepthook
        watch.report_end_of_script()
        hook = sys.excepthook
        watch.finish(3)
        assert before is sys.excepthook
        monkeypatch.setattr(watch.channel, "fail", told.append)
        hook(TypeError, TypeError("late"), None)
        assert 1 == len(shown)
        assert [] == told

    def test_an_error_of_the_ranks_that_only_one_saw(self):
        """A RankError that only one rank raises is reported to the other ranks unchanged."""

        def work(watch):
            if watch.rank == 1:
                with pytest.raises(RankError), watch.reporting(None, "training"):
                    raise RankError("Rank 1 drew something else.")
            else:
                watch.channel.all_gather("something", 0)

        assert ["Rank 1 drew something else.", None] == on_two_ranks(work)

    @pytest.mark.slow
    def test_no_reference_to_the_trainer(self, watch):
        """After training the RankConnection does not keep the trainer alive."""
        trainer = SimpleTrainer()
        alive = weakref.ref(trainer)
        with watch.reporting(trainer, "training"):
            watch.finish(0)
        del trainer
        gc.collect()
        assert alive() is None

    def test_an_engine_s_error(self):
        """If another rank failed, its failure replaces an error of the engine."""

        def work(watch):
            if watch.rank == 1:
                watch.channel.fail("Rank 1 failed: planted")
            else:
                watch.channel.wait_for_failure(5)
                watch.explain(ValueError("Connection reset by peer"))

        assert ["Rank 1 failed: planted", None] == on_two_ranks(work)

    def test_an_error_of_this_rank(self, watch):
        """`explain` returns if no other rank failed."""
        assert watch.explain(ValueError("shapes differ")) is None

    def test_ends_that_differ(self):
        """Different numbers of steps are a warning, not an error."""
        assert [None, None] == on_two_ranks(lambda watch: watch.finish(5 + watch.rank))
