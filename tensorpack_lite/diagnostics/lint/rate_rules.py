"""The learning rates of a graph, which are what updates of variables read, or variables with such a name; and the rule about them."""

from __future__ import annotations

import re
from typing import Collection, Iterator

from ...callbacks.param.hyperparam import GraphVarParam
from ...callbacks.param.setter import HyperParamSetter
from ...compat import tfv1 as tf
from ...loop.callback_factory import CallbackFactory
from ...loop.hooks import HookToCallback
from ...tfutils.sessinit import JustCurrentSession
from ...utils.inspection import root_of
from ..data_check.remarks import Remark
from .graph_view import constant_of, remark_on, trace_back
from .training import ExaminedTraining

_NAME = re.compile(r"(^|/)(learning_?rate|lr)(_\d+)?$", re.IGNORECASE)
_PACKAGE = __name__.split(".")[0]
_INPUTS = ("lr", "alpha")
_UPDATE = re.compile("^(Resource)?(Sparse)?Apply")


def has_rate_name(name: str) -> bool:
    """Return whether a variable has the name of a learning rate."""
    return _NAME.search(name) is not None


def find_rates(training: ExaminedTraining, types: Collection[str] = ()) -> list[tf.Tensor]:
    """
    Return the learning rates of the updates that training steps run, each once.

    Args:
        training: the training.
        types: the types of the operations; empty means all of them.
    """
    rates = {}
    for op in training.graph.in_order(training.step):
        if op.type in types if types else _UPDATE.match(op.type):
            arguments = [argument.name for argument in op.op_def.input_arg]
            tensors = [op.inputs[arguments.index(name)] for name in _INPUTS if name in arguments]
            rates.update({tensor.name: tensor for tensor in tensors})
    return list(rates.values())


def variable_behind(tensor: tf.Tensor) -> tf.Variable | None:
    """Return the variable whose value a tensor has, perhaps with another dtype; None if something was computed with it."""
    op = trace_back(tensor).op
    if op.type == "ReadVariableOp":
        op = trace_back(op.inputs[0]).op
    return next((variable for variable in tf.global_variables() if variable.op.name == op.name), None)


def initial_number(value: tf.Tensor | tf.Variable) -> float | None:
    """Return the number that a scalar tensor or variable begins with; None if it is computed."""
    variable = variable_behind(value) if isinstance(value, tf.Tensor) else value
    number = constant_of(value if variable is None else variable.initial_value)
    return None if number is None or number.ndim else float(number)


def rate_of_zero(training: ExaminedTraining) -> Iterator[Remark]:
    """
    G28: the learning rate of an update is 0, and nothing sets it.

    Why: nothing is learnt. A division of integers gave 0, or the rate was to be set by a callback that is missing.

    Does not report a variable that is restored, or that a callback or operation may set.

    Source: rates such as `1 // 10`.
    """
    text, advice = "the learning rate is 0, so the update changes nothing.", "Give the optimizer a rate above 0."
    rates = [(rate, variable_behind(rate)) for rate in find_rates(training)]
    if any(variable is None and initial_number(rate) == 0 for rate, variable in rates):
        yield Remark("G28", "optimizer", text, advice)
    if type(training.session_init) is JustCurrentSession:
        variables = [variable for _, variable in rates if variable is not None]
        variables += [var for var in tf.global_variables() if has_rate_name(var.op.name) and _is_used(training, var)]
        zeros = [var for var in variables if initial_number(var) == 0 and not _may_be_set(training, var)]
        if zeros:
            yield remark_on("G28", zeros, text, advice)


def _is_used(training: ExaminedTraining, variable: tf.Variable) -> bool:
    return any(op.name in training.step for op in training.reads(variable))


def _may_be_set(training: ExaminedTraining, variable: tf.Variable) -> bool:
    """Return whether an operation of the graph or a callback may set a variable."""
    if training.updates(variable):
        return True
    setters = training.find(HyperParamSetter)
    return runs_code_of_user(training) or any(_sets(setter, variable) for setter in setters)


def runs_code_of_user(training: ExaminedTraining) -> bool:
    """Return whether a callback of the user, or functions or hooks of the user in a callback, may set variables or feed tensors."""
    return any(
        callback.is_triggered
        if isinstance(callback, CallbackFactory)
        else isinstance(callback, HookToCallback) or root_of(type(callback)) != _PACKAGE
        for callback in training.callbacks
    )


def _sets(setter: HyperParamSetter, variable: tf.Variable) -> bool:
    return not isinstance(setter.param, GraphVarParam) or setter.param.var is variable
