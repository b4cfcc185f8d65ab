"""Guests of a training that write down what happens to them, or report what a test wants."""

from __future__ import annotations

from tensorpack_lite.callbacks.inference import Inferencer
from tensorpack_lite.callbacks.monitor.base import MonitorBase
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop.callback import Callback

MOMENTS = (
    "setup_graph", "before_train", "before_epoch", "before_run", "after_run", "trigger_step", "after_epoch",
    "trigger_epoch", "trigger", "after_train",
)  # fmt: skip


class RecordingCallback(Callback):
    """
    Writes down each moment with the counters it sees there, in whatever trainer it is, or in none.

    Args:
        name: what `log` has it as.
        at: a moment at which it fails, or None.
        error: what it raises there.
        nth: at which call of that moment.
        log: a list that several share, or None.
        names: tensors to evaluate with each run.

    Attributes:
        log: `(name, moment, epoch_num, global_step, local_step)` for each, in order.
        calls: its own moments, in order.
        counters: `(moment, epoch_num, global_step, local_step)` for each.
        results: what `_after_run` received, one entry a run.
        name_scope_seen: the name scope of `_setup_graph`.
    """

    _chief_only = False

    def __init__(self, name="recorder", at=None, error=None, nth=1, log=None, names=None) -> None:
        self.name, self.at, self.error, self.nth = name, at, error, nth
        self.log = [] if log is None else log
        self.names = names
        self.calls = []
        self.counters = []
        self.results = []
        self.name_scope_seen = None

    def _note(self, moment: str) -> None:
        trainer = getattr(self, "trainer", None)
        seen = tuple(getattr(trainer, name, None) for name in ("epoch_num", "global_step", "local_step"))
        self.calls.append(moment)
        self.counters.append((moment, *seen))
        self.log.append((self.name, moment, *seen))
        if moment == self.at and self.calls.count(moment) == self.nth:
            raise self.error

    def seen_at(self, moment: str) -> list:
        """`(epoch_num, global_step, local_step)` at each call of one moment."""
        return [tuple(seen) for name, *seen in self.counters if name == moment]

    def times(self, moment: str) -> list:
        """`(epoch_num, global_step)` of each call of one moment."""
        return [(epoch, step) for name, epoch, step, _ in self.counters if name == moment]

    def _setup_graph(self) -> None:
        self.name_scope_seen = tf.get_default_graph().get_name_scope() or ""
        self._note("setup_graph")

    def _before_train(self) -> None:
        self._note("before_train")

    def _before_epoch(self) -> None:
        self._note("before_epoch")

    def _before_run(self, ctx):
        self._note("before_run")
        return self.names

    def _after_run(self, ctx, run_values) -> None:
        self._note("after_run")
        self.results.append(getattr(run_values, "results", None))

    def _trigger_step(self) -> None:
        self._note("trigger_step")

    def _after_epoch(self) -> None:
        self._note("after_epoch")

    def _trigger_epoch(self) -> None:
        self._note("trigger_epoch")
        self.trigger()

    def _trigger(self) -> None:
        self._note("trigger")

    def _after_train(self) -> None:
        self._note("after_train")


class PutValues(Callback):
    """
    Reports a scalar: one value at each trigger.

    Args:
        name: of the scalar.
        values: one a trigger; None reports nothing.
    """

    def __init__(self, name, values) -> None:
        self._name, self._values = name, iter(values)

    def _trigger(self) -> None:
        value = next(self._values)
        if value is not None:
            self.trainer.monitors.put_scalar(self._name, value)


class CollectX(Inferencer):
    """
    Keeps the values of `x` of each round of inference, in order.

    Attributes:
        rounds: for each round a list of values.
    """

    def __init__(self) -> None:
        self.rounds = []

    def _before_inference(self) -> None:
        self.rounds.append([])

    def _get_fetches(self):
        return ["x"]

    def _on_fetches(self, results) -> None:
        self.rounds[-1].append(results[0].tolist())


class RecordingMonitor(MonitorBase):
    """
    Writes down what it is told.

    Attributes:
        scalars: `(name, value)`, in order.
        summaries, images, events: as they came.
    """

    def __init__(self) -> None:
        self.scalars = []
        self.summaries = []
        self.images = []
        self.events = []

    def process_scalar(self, name, val) -> None:
        self.scalars.append((name, val))

    def process_summary(self, summary) -> None:
        self.summaries.append(summary)

    def process_image(self, name, val) -> None:
        self.images.append((name, val))

    def process_event(self, evt) -> None:
        self.events.append(evt)
