"""Callbacks, inferencers and monitors that record their calls or report given values."""

from __future__ import annotations

from tensorpack_lite.callbacks.inference import Inferencer
from tensorpack_lite.callbacks.monitor.base import MonitorBase
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop.callback import Callback


class RecordingCallback(Callback):
    """
    Records each call with the counters of the trainer, if there is one.

    Args:
        name: name of the callback in `log`.
        at: name of a method that raises `error`, or None.
        error: the exception to raise.
        nth: which call of `at` raises it, counted from 1.
        log: a list shared by several callbacks, or None.
        names: tensors to fetch in each run.

    Attributes:
        log: `(name, moment, epoch_num, global_step, local_step)` of each call, in order.
        calls: the names of the called methods, in order.
        counters: `(moment, epoch_num, global_step, local_step)` of each call.
        results: the results that `_after_run` received, one entry per run.
        name_scope_seen: the name scope in `_setup_graph`.
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
        """Return `(epoch_num, global_step, local_step)` of each call of one method."""
        return [tuple(seen) for name, *seen in self.counters if name == moment]

    def times(self, moment: str) -> list:
        """Return `(epoch_num, global_step)` of each call of one method."""
        return [(epoch, step) for name, epoch, step, _ in self.counters if name == moment]

    def _setup_graph(self) -> None:
        self.name_scope_seen = tf.get_default_graph().get_name_scope() or ""
        self._note("setup_graph")

    def _forward(self, moment: str) -> None:
        self._note(moment)

    def _before_run(self, ctx):
        self._note("before_run")
        return self.names

    def _after_run(self, ctx, run_values) -> None:
        self._note("after_run")
        self.results.append(getattr(run_values, "results", None))

    def _trigger_epoch(self) -> None:
        self._note("trigger_epoch")
        self.trigger()


class PutValues(Callback):
    """
    Reports one value of a scalar at each trigger.

    Args:
        name: the name of the scalar.
        values: one value for each trigger; None reports nothing.
    """

    def __init__(self, name, values) -> None:
        self._name, self._values = name, iter(values)

    def _trigger(self) -> None:
        value = next(self._values)
        if value is not None:
            self.trainer.monitors.put_scalar(self._name, value)


class CollectX(Inferencer):
    """
    Records the values of `x` in each round of inference.

    Attributes:
        rounds: a list of values for each round.
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
    Records all scalars, summaries, images and events.

    Attributes:
        scalars: `(name, value)`, in order.
        summaries, images, events: in order.
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
