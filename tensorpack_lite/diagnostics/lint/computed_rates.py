"""Learning rates that the graph computes from the step: their values at any step, and the rule about them."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator

import numpy as np

from ...compat import tfv1 as tf
from ...compat.session import Session
from ...tfutils.sessinit import JustCurrentSession
from ...utils.inspection import root_of
from ...utils.utils import ENDLESS
from ..data_check.remarks import Remark
from .graph_view import ASSIGNS, SOURCES, GraphView, constant_of, remark_on
from .rate_rules import find_rates, runs_code_of_user
from .schedule_rules import CHANGED, CONSTANT, NOTHING, SHORTEST, SHORTEST_TO_END, rises
from .training import ExaminedTraining

_PACKAGE = __name__.split(".")[0]
_VARIABLES = ("VarHandleOp", "VariableV2")
_CONDITIONS = ("If", "StatelessIf", "Case", "StatelessCase")
_NUM_SAMPLES = 50  # of the whole training, and of its first epoch
_MAX_OPERATIONS = 500
_LONG = 0.3  # of training
_LATER = (2, 5, 20, 100, 1000)  # times the length of training


class ComputedRate:
    """
    A learning rate that depends on constants and the step alone.

    Args:
        graph: the graph.
        rate: the rate.
        step: the variable of the step.

    Raises:
        ValueError: the rate depends on anything else.

    Attributes:
        tensor: the rate.
        is_fed: whether it depends on a placeholder with a default value, which a callback may feed.
    """

    def __init__(self, graph: GraphView, rate: tf.Tensor, step: tf.Variable) -> None:
        names = graph.before([rate])
        ops = list(graph.in_order(names))
        if len(ops) > _MAX_OPERATIONS or not all(_is_computing(op, step.op.name) for op in ops):
            raise ValueError(f"'{rate.name}' depends on more than the step.")
        is_conditional = any(op.type in _CONDITIONS for op in ops)
        library: Any = rate.graph.as_graph_def().library if is_conditional else None
        if is_conditional and not all(map(_is_pure, library.function)):
            raise ValueError(f"'{rate.name}' depends on functions that may do more than compute.")
        self.tensor, self._library = rate, library
        self.is_fed = any(op.type == "PlaceholderWithDefault" for op in ops)
        self._ops, self._step = ops, step

    @contextlib.contextmanager
    def evaluator(self) -> Iterator[Any]:
        """Yield a function of steps that returns the values at them, float64 [N]. It runs a copy of the operations on the CPU."""
        copy = tf.GraphDef(library=self._library)
        for op in self._ops:
            node = copy.node.add()
            node.CopyFrom(op.node_def)
            node.device = ""
            node.attr.pop("_class", None)
        config = tf.ConfigProto(
            device_count={"GPU": 0},
            intra_op_parallelism_threads=1,
            inter_op_parallelism_threads=1,
            use_per_session_threads=True,
        )
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(copy, name="")
            given, setter = tf.placeholder(self._step.dtype.base_dtype, []), tf.no_op()
            if self._step.op in self._ops:
                target = graph.get_tensor_by_name(self._step.op.outputs[0].name)
                is_resource = target.dtype == tf.resource
                assign = tf.raw_ops.AssignVariableOp if is_resource else tf.raw_ops.Assign
                names = ("resource", "value") if is_resource else ("ref", "value")
                setter = assign(**dict(zip(names, (target, given))))
            rate = graph.get_tensor_by_name(self.tensor.name)
            with Session(graph=graph, config=config) as session:

                def values(steps: Any) -> np.ndarray:
                    found = []
                    for step in steps:
                        session.run(setter, {given: int(step)})
                        found.append(float(session.run(rate)))
                    return np.array(found, "float64")

                yield values


def _is_computing(op: Any, step: str) -> bool:
    """Return whether an operation computes with its inputs alone, or is or reads the variable of the step."""
    if op.type in _VARIABLES:
        return bool(op.name == step)
    if op.type in (*_CONDITIONS, "ReadVariableOp", "Assert"):
        return True
    has_function = any(attribute.HasField("func") or attribute.list.func for attribute in op.node_def.attr.values())
    return not (has_function or op.op_def.is_stateful or op.type == "Placeholder")


def _is_pure(function: Any) -> bool:
    """Return whether a function of the graph neither draws random numbers, nor reads data or changes a variable."""
    return not any(SOURCES.search(node.op) or ASSIGNS.search(node.op) for node in function.node_def)


def computed_rates(training: ExaminedTraining) -> Iterator[ComputedRate]:
    """Yield the rates of the updates that the graph computes from the step; nothing if the step is not that of the library's trainers."""
    step, trainer = tf.train.get_global_step(), training.trainer
    is_known = training.cost is not None and root_of(type(trainer)) == _PACKAGE
    if step is None or not is_known or type(training.session_init) is not JustCurrentSession:
        return
    for rate in find_rates(training):
        if constant_of(rate) is None and rate.shape.rank == 0:
            with contextlib.suppress(ValueError):
                found = ComputedRate(training.graph, rate, step)
                if not (found.is_fed and runs_code_of_user(training)):
                    yield found


def computed_rate_of_another_length(training: ExaminedTraining) -> Iterator[Remark]:
    """
    G23: a learning rate that the graph computes from the step is always 0, or almost 0 for the last 30 % of training or longer; or
    all its changes come after the end of training, or in the first steps, because they were meant as epochs.

    Why: training has no learning rate, or the same one from beginning to end.

    Does not report trials: training runs of one epoch, or of fewer than 5 epochs if the changes come later.

    Source: `tf.train.exponential_decay(0.1, step, 1, 0.9)`.
    """
    arguments = training.trainer.arguments
    if arguments is None or arguments.starting_epoch != 1 or arguments.max_epoch >= ENDLESS:
        return
    for rate in computed_rates(training):
        with rate.evaluator() as values:
            found = _judge(values, max(1, arguments.steps_per_epoch), arguments.max_epoch)
        if found is not None:
            yield remark_on("G23", rate.tensor, f"the learning rate {found[0]}", found[1])


def _judge(values: Any, steps: int, epochs: int) -> tuple[str, str] | None:
    """Return what is wrong with a rate, and the advice; None if nothing is."""
    total = steps * epochs
    points = [*np.linspace(0, min(steps, total - 1), _NUM_SAMPLES), *np.linspace(0, total - 1, _NUM_SAMPLES)]
    times = np.unique(np.array(points).astype(int))
    curve = values(times)
    largest, end = np.abs(curve).max(), f"training ends after step {total}."
    if not np.isfinite(curve).all():
        return None
    if largest == 0:
        return f"is 0 at all steps; {end}", "Correct its values: with a rate of 0, nothing is learnt."
    if epochs < SHORTEST:
        return None
    later = values([total * factor for factor in _LATER])
    is_flat = np.ptp(curve) <= CONSTANT * largest
    if is_flat and epochs >= SHORTEST_TO_END and _changes(later, curve[-1]):
        return f"does not change: {end}", "Its schedule counts steps; give it the number of steps in training."
    if epochs >= SHORTEST_TO_END and rises(curve) and curve[-1] < CHANGED * later.max():
        return f"only rises: {end}", "Its warm-up counts steps; make it shorter than training."
    over = times[min(np.nonzero(np.abs(curve) > NOTHING * largest)[0].max() + 1, len(times) - 1)]
    if curve[-1] <= NOTHING * largest and 1 - over / total > _LONG:
        return (
            f"is almost 0 from step {over} on, but {end}",
            "Its schedule counts steps, not epochs; make it longer.",
        )
    (after,), rest = values([epochs + 1]), curve[times > epochs]
    if steps > 4 * epochs and np.ptp(rest) == 0 and after == curve[-1] < CHANGED * curve[0]:
        text = f"has its last change in the first {epochs} steps, but {end}"
        return text, "Its schedule counts steps, not epochs: multiply its points by the steps of an epoch."
    return None


def _changes(later: np.ndarray, last: float) -> bool:
    """Return whether a rate changes much after training."""
    return bool(np.isfinite(later).all() and np.abs(later - last).max() > CHANGED * abs(last))
