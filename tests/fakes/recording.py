"""Guests of a training that write down what happens to them."""

from __future__ import annotations

from tensorpack_lite.callbacks.monitor.base import MonitorBase
from tensorpack_lite.loop.callback import Callback

MOMENTS = (
    "setup_graph", "before_train", "before_epoch", "before_run", "after_run", "trigger_step", "after_epoch",
    "trigger_epoch", "trigger", "after_train",
)  # fmt: skip


class RecordingCallback(Callback):
    """
    Writes down each moment with the counters it sees there.

    Args:
        names: tensors to evaluate with each run.

    Attributes:
        calls: the moments, in order.
        counters: `(moment, epoch_num, global_step, local_step)` for each.
        results: what `_after_run` received, one entry a run.
        name_scope_seen: the name scope of `_setup_graph`.
    """

    def __init__(self, names=None) -> None:
        self.names = names
        self.calls = []
        self.counters = []
        self.results = []
        self.name_scope_seen = None

    def _note(self, moment: str) -> None:
        self.calls.append(moment)
        self.counters.append((moment, self.epoch_num, self.global_step, self.local_step))

    def times(self, moment: str) -> list:
        """`(epoch_num, global_step)` of each call of one moment."""
        return [(epoch, step) for name, epoch, step, _ in self.counters if name == moment]

    def _setup_graph(self) -> None:
        self.name_scope_seen = self.graph.get_name_scope() or ""
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
        self.results.append(run_values.results)

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
