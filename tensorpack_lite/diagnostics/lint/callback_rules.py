"""Rules about callbacks, what they set and their order, and about the length of an epoch."""

from __future__ import annotations

import os
import re
from typing import Any, Iterator

from ...callbacks.best_saver import MinSaver
from ...callbacks.expected import find_reporter_behind
from ...callbacks.param.hyperparam import GraphVarParam
from ...callbacks.param.setter import HyperParamSetter
from ...callbacks.saver import ModelSaver
from ...compat import tfv1 as tf
from ...dataflow.batch import BatchData
from ...dataflow.shuffle import LocallyShuffleData
from ...loop.callback_factory import CallbackFactory
from ...loop.hooks import HookToCallback
from ...utils.inspection import root_of
from ...utils.naming import MOVING_SUMMARY_OPS_KEY
from ..data_check.remarks import Remark
from ..data_check.stage_speed import walk
from .graph_view import remark_on
from .rate_rules import has_rate_name
from .training import ExaminedTraining, find_dataflow

_PACKAGE = __name__.split(".")[0]

_READS = ("Identity", "ReadVariableOp", "Cast")  # without any other use
_KEEPS = re.compile(r"\w*Summary(V2)?|SaveV2")


def parameter_without_effect(training: ExaminedTraining) -> Iterator[Remark]:
    """
    G04: no training step reads a variable that a callback sets, or that has the name of a learning rate.

    Why: the schedule is logged and plotted, and has no effect. Usually the optimizer got the number instead of the variable.

    Does not report a variable if the result of anything other than a summary or a callback of this library depends on
    it, e.g. in an inference tower.

    Source: tensorpack issues about ScheduledHyperParamSetter.
    """
    if not training.targets:
        return
    averages = training.graph.before(tf.get_collection(MOVING_SUMMARY_OPS_KEY))
    setters = [setter for setter in training.find(HyperParamSetter) if isinstance(setter.param, GraphVarParam)]
    advice = "Give the variable, not its initial value, to the optimizer."
    for setter in setters:
        if not _is_used(training, setter.param.var, averages):
            text = f"{setter} sets this variable, but no training step reads it."
            yield remark_on("G04", setter.param.var, text, advice)
    is_set = {id(setter.param.var) for setter in setters}
    for variable in tf.global_variables():
        is_rate = has_rate_name(variable.op.name) and id(variable) not in is_set
        if is_rate and not variable.trainable and not _is_used(training, variable, averages):
            text = "the variable has the name of a learning rate, but no training step reads it."
            yield remark_on("G04", variable, text, advice)


def _is_used(training: ExaminedTraining, variable: tf.Variable, averages: set[str]) -> bool:
    """Return whether a training step, or a result that nothing is known about, depends on a variable."""
    reads = [op.name for op in training.graph.reads(variable)]
    behind = training.graph.after(reads)
    if behind & training.step:
        return True
    values = training.graph.after(reads, lambda op: op.type in _READS)
    for op in training.graph.in_order(behind):
        is_known = op.name in averages or training.is_watching(op.name) or _KEEPS.fullmatch(op.type)
        is_end = not training.graph.consumers(op)
        if is_end and not is_known and not (op.type in _READS and op.name in values):
            return True
    return False


def order_of_savers(training: ExaminedTraining) -> Iterator[Remark]:
    """
    G14: a `MinSaver`, `MaxSaver` or `TopKSaver` before the `ModelSaver`, or before what reports its statistic.

    Why: callbacks are called in their order. Such a saver finds no checkpoint of the step that its statistic belongs to, so it
    copies nothing, or ends training after the first epoch.

    Source: tensorpack issue 1298.
    """
    callbacks = training.callbacks
    has_others = any(root_of(type(cb)) != _PACKAGE for cb in callbacks)
    for index, saver in enumerate(callbacks):
        if not isinstance(saver, MinSaver):
            continue
        directory = os.path.abspath(saver.checkpoint_dir or "")
        before = any(_saves_to(cb, directory) for cb in callbacks[:index])
        after = any(_saves_to(cb, directory) for cb in callbacks[index:])
        if not before and after:
            text = "it is called before the ModelSaver, so the checkpoint of this step does not exist yet."
            yield Remark("G14", saver.state_name, text, "Put it after the ModelSaver.")
        elif not before and not has_others:
            text = f"no ModelSaver saves to its directory {saver.checkpoint_dir}."
            advice = "Add ModelSaver() before it, with the same checkpoint_dir."
            yield Remark("G14", saver.state_name, text, advice)
        late = find_reporter_behind(callbacks, saver, saver.monitor_stat)
        if late is not None:
            text = f"it is called before {late}, which reports '{saver.monitor_stat}', so it has only the previous epoch's value."
            advice = (
                f"Put it after {late}; after the default callbacks, in extra_callbacks=[*DEFAULT_CALLBACKS(), ...]."
            )
            yield Remark("G14", saver.state_name, text, advice)


def _saves_to(callback: Any, directory: str) -> bool:
    return isinstance(callback, ModelSaver) and os.path.abspath(callback.checkpoint_dir or "") == directory


def no_checkpoint_to_resume(training: ExaminedTraining) -> Iterator[Remark]:
    """
    G22: a training with `AutoResumeTrainConfig` has no ModelSaver.

    Why: nothing saves a checkpoint, so the next run starts from the beginning.

    Does not report a training if a callback of the user, or one that runs functions or hooks of the user, may save a
    checkpoint.

    Source: a new user's training that did not resume.
    """
    if training.session_init.expects_checkpoints and not any(map(_may_save, training.callbacks)):
        text = "nothing saves a checkpoint, so a later start cannot resume."
        yield Remark("G22", "AutoResumeTrainConfig", text, "Add ModelSaver().")


def _may_save(callback: Any) -> bool:
    if isinstance(callback, CallbackFactory):
        return callback.is_triggered
    return isinstance(callback, (ModelSaver, HookToCallback)) or root_of(type(callback)) != _PACKAGE


def length_of_epoch(training: ExaminedTraining) -> Iterator[Remark]:
    """
    G15: an epoch was meant to be a pass over the data, and is not; or a shuffle buffer holds the data several times.

    Why: each step takes a datapoint for each tower, and a datapoint is usually a batch. With as many steps as datapoints, an epoch
    of four towers is four passes. With as many steps as samples, it is as many passes as a batch has samples. Schedules and
    validation then come later than intended. A buffer that is larger than the data delays the first step by several passes.

    Reports no other number of steps, because epochs may have any length.

    Source: tensorpack issues 557, 598, 940, 1172.
    """
    steps, num_towers = training.steps_per_epoch, len(training.towers)
    for source in training.sources:
        flow = find_dataflow(source)
        if flow is None:
            continue
        size = training.length_of(source)
        if 1 < num_towers < steps == size:
            text = (
                f"steps_per_epoch is {steps}, the number of datapoints, but each step takes {num_towers} of them, one for each tower: "
                f"an epoch is {num_towers} passes."
            )
            advice = f"For one pass, use steps_per_epoch={steps // num_towers}."
            yield Remark("G15", type(flow).__name__, text, advice)
        for stage in walk(flow):
            if isinstance(stage, BatchData) and stage.batch_size > 1 and steps != size:
                yield from _steps_are_samples(training, stage)
            if isinstance(stage, LocallyShuffleData):
                yield from _large_buffer(training, stage)


def _steps_are_samples(training: ExaminedTraining, stage: BatchData) -> Iterator[Remark]:
    steps, num_towers = training.steps_per_epoch, len(training.towers)
    if steps != training.length_of(stage.ds) or steps < stage.batch_size:
        return
    right = max(1, steps // (stage.batch_size * num_towers))
    text = f"steps_per_epoch is {steps}, the number of samples, but each step takes a batch of {stage.batch_size}."
    advice = f"For one pass in an epoch, use steps_per_epoch={right}."
    yield Remark("G15", type(stage).__name__, text, advice)


def _large_buffer(training: ExaminedTraining, stage: LocallyShuffleData) -> Iterator[Remark]:
    length = training.length_of(stage.ds)
    if length is not None and stage.buffer_size >= 2 * length:
        passes = f"{stage.buffer_size / length:.1f} passes of {length} datapoints"
        text = f"its buffer of {stage.buffer_size} is filled with {passes} before the first step."
        yield Remark("G15", type(stage).__name__, text, f"Use buffer_size={length} at most.")
