"""The extension that lets the first InferenceRunner of a training collect predictions for the report."""

from __future__ import annotations

from ...callbacks.expected import find_single_callbacks
from ...callbacks.inference_runner import InferenceRunnerBase
from ...callbacks.report import ReportWriter
from ...callbacks.sharded_inference import ShardedInferenceRunner
from ...callbacks.worst_samples import WorstSamples
from ...loop.callback import Callback
from ...loop.extension import ExtendedTrainer, Extension
from ...utils import logger
from .collect import CollectPredictions


class Predictions(Extension):
    """
    Extension that collects predictions of the first InferenceRunner, if its model classifies images.

    The values come from the runs of the validation. Nothing is collected without a logger directory, without a
    `ReportWriter`, or in a `ShardedInferenceRunner` of several ranks, which would send all images to the chief.
    """

    def before_setup(self, trainer: ExtendedTrainer) -> None:
        """Register the callback that adds the inferencer to the runner."""
        if logger.get_logger_dir() is not None:
            trainer.register_callback(_AddToRunner())


class _AddToRunner(Callback):
    """
    Callback that is set up before the InferenceRunner.

    Runs at: setup_graph.
    """

    def _setup_graph(self) -> None:
        callbacks = find_single_callbacks(self.trainer.find_callbacks(Callback))
        runners = [cb for cb in callbacks if isinstance(cb, InferenceRunnerBase)]
        if not runners or not any(isinstance(cb, ReportWriter) for cb in callbacks):
            return
        if isinstance(runners[0], ShardedInferenceRunner) and self.trainer.ranks.size > 1:
            return
        has_worst = not any(isinstance(inf, WorstSamples) for runner in runners for inf in runner.infs)
        runners[0].add_guest(CollectPredictions(has_worst))
