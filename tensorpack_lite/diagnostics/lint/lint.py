"""Lint: looks for mistakes in a training before its first step."""

from __future__ import annotations

from functools import partial
from typing import Callable, Iterable, Sequence, TypeVar

from ...callbacks.steps import ProgressBar
from ...loop.extension import ExtendedTrainer, Extension
from ...loop.trainer import LoopTrainer
from ...tfutils.sessinit import SessionInit
from ...utils import logger
from ...utils.checks import check_choice
from ...utils.notes import write_note
from ..data_check.remarks import Remark, join_remarks, show_remarks
from .data import examine_first, watch_data
from .epoch_rules import FirstEpoch, FirstEpochCost, find_loss
from .rules import GRAPH_RULES, RULE_IDS
from .step_rules import first_cost, judged_terms, train_on_one_batch
from .training import ExaminedTraining

T = TypeVar("T")


class Lint(Extension):
    """
    Extension that looks for mistakes, on the chief.

    Args:
        mode: "warn" logs remarks; "error" also ends training before its first step; "deep" is "warn" with 200 steps on one
            batch, after which variables are put back; "off" looks for nothing. See docs/lint.md.
        ignore: ids of rules to skip.

    Raises:
        ValueError: `mode` or an id is unknown.
    """

    def __init__(self, mode: str = "warn", ignore: Sequence[str] = ()) -> None:
        self.mode = check_choice("TrainConfig: lint", mode, ("warn", "error", "deep", "off"))
        ids = [ignore] if isinstance(ignore, str) else list(ignore)
        self.ignore = [check_choice("TrainConfig: an id in lint_ignore", rule, RULE_IDS) for rule in ids]

    def before_setup(self, trainer: ExtendedTrainer) -> None:
        """Register the callback that examines the first epoch."""
        if self.mode != "off":
            trainer.register_callback(FirstEpoch() if trainer.cost is None else FirstEpochCost())

    def after_setup(self, trainer: ExtendedTrainer) -> None:
        """
        Look for mistakes in the graph, and watch the first epoch for those in the data.

        Raises:
            RuntimeError: `mode` is "error", and there is a remark.
        """
        if trainer.is_chief and self.mode != "off" and trainer.arguments is not None:
            _, session_init, steps_per_epoch, *_ = trainer.arguments
            lint_training(trainer, session_init, self.mode, self.ignore, steps_per_epoch)


def lint_training(
    trainer: LoopTrainer,
    session_init: SessionInit,
    mode: str,
    ignore: Sequence[str] = (),
    steps_per_epoch: int = 0,
) -> list[Remark]:
    """
    Look for mistakes in a training whose callbacks are set up, and report them. Its data is watched when training begins.

    Args:
        trainer: the trainer.
        session_init: the initial values of its variables.
        mode: "warn" logs the remarks; "error" raises an error; "deep" logs, and also trains on one batch after the first step.
        ignore: ids of rules to leave out.
        steps_per_epoch: the number of steps in an epoch; 0 if it is not known.

    Returns:
        The remarks.

    Raises:
        RuntimeError: `mode` is "error", and there is a remark.
    """
    training = ExaminedTraining(trainer, session_init, steps_per_epoch)
    remarks = _apply_rules(training, ignore)
    report(remarks, mode)
    watch_data(training, ignore, lambda found, is_early: report(found, mode if is_early else "warn"))
    _watch_first_step(training, mode, ignore)
    for epoch in training.find(FirstEpoch):
        epoch.begin(training, _attempt(find_loss, training), partial(_apply_and_report, ignore))
    return remarks


def _apply_and_report(ignore: Sequence[str], rule: Callable[..., Iterable[Remark]], *arguments: object) -> None:
    """Apply a rule during training, and report its remarks as warnings."""
    report([remark for remark in _attempt(rule, *arguments) if remark.rule not in ignore], "warn")


def _watch_first_step(training: ExaminedTraining, mode: str, ignore: Sequence[str]) -> None:
    """Apply the rules T01 and T02 after the first step. The progress bar, which shows the cost then, calls them."""
    judged = [] if "T01" in ignore else _attempt(judged_terms, training)
    is_deep = mode == "deep" and "T02" not in ignore
    bars = training.find(ProgressBar)
    if is_deep and not bars:
        logger.warning("Lint: 'deep' needs the callback ProgressBar() that shows the cost.")
    if not bars or not (judged or is_deep):
        return

    def apply(cost: float) -> None:
        found = [remark for terms in judged for remark in _attempt(first_cost, training, terms, cost)]
        found += _attempt(train_on_one_batch, training) if is_deep else []
        report(found, "warn")

    bars[0].hang_detector_cost(apply)


def lint_only(trainer: LoopTrainer, session_init: SessionInit, steps_per_epoch: int) -> bool:
    """
    Look for mistakes in a training that will not start, and in its first datapoints, whatever the mode of its lint is.

    Args:
        trainer, session_init, steps_per_epoch: as in `lint_training`.

    Returns:
        Whether there are remarks. They are in the log. False in a process that is not the chief.
    """
    if not trainer.is_chief:
        return False
    lint = trainer.find_extension(Lint)
    ignore = [] if lint is None else lint.ignore
    training = ExaminedTraining(trainer, session_init, steps_per_epoch)
    found = _apply_rules(training, ignore)
    watch_data(training, ignore, lambda remarks, _: found.extend(remarks))
    for source in training.sources:
        examine_first(source)
    report(found, "warn")
    return bool(found)


def _apply_rules(training: ExaminedTraining, ignore: Sequence[str]) -> list[Remark]:
    remarks = [remark for rule in GRAPH_RULES for remark in _attempt(rule, training)]
    return join_remarks(remark for remark in remarks if remark.rule not in ignore)


def _attempt(rule: Callable[..., Iterable[T]], *arguments: object) -> list[T]:
    """Apply a rule, or a part of one. Its errors are warnings, because a mistake in a rule must not end training."""
    try:
        return list(rule(*arguments))
    except Exception as error:  # noqa: BLE001 (see above)
        logger.warning(f"Lint: {rule.__name__} failed: {type(error).__name__}: {error}")
        return []


def report(remarks: Sequence[Remark], mode: str) -> None:
    """
    Log remarks, and write them to the notes of the training. Without remarks, do nothing.

    Raises:
        RuntimeError: `mode` is "error".
    """
    if not remarks:
        return
    text = show_remarks(remarks)
    for remark in remarks:
        write_note("lint", str(remark), rule=remark.rule, name=remark.name, place=remark.place)
    if mode == "error":
        raise RuntimeError(f"{text}\nCorrect them, or leave rules out with lint_ignore=[...].")
    logger.warning(text)
