"""Rules about variables: what training updates, what inference must not do, and what a checkpoint has."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Collection, Iterator

from ...compat import tfv1 as tf
from ...loop.trainer import find_step_ops
from ...tfutils.dependency import elements_in
from ...tfutils.partitions import name_in_files, whole_shape
from ...tfutils.random import find_stateful_random_ops
from ...tfutils.sessinit import ChainInit, JustCurrentSession, SessionInit
from ...tfutils.varmanip import get_savename_from_varname, is_training_name
from ...utils.naming import list_names
from ..data_check.remarks import Remark
from ..speed.operation_threads import operations_not_repeatable
from .graph_view import ASSIGNS, operation, place_of, remark_on
from .training import ExaminedTraining

_AVERAGE = re.compile(r"(^|/)(moving_mean|moving_variance|mean/EMA|variance/EMA)(_\d+)?$")
_UNIFORM = ("RandomUniform", "StatelessRandomUniform", "StatelessRandomUniformV2")
_ARITHMETIC = ("Add", "AddV2", "Mul", "Sub", "Identity", "Cast")


def is_average(variable: tf.Variable) -> bool:
    """Return whether a variable is a moving average of batch normalization."""
    return _AVERAGE.search(variable.op.name) is not None


def updates_that_do_not_run(training: ExaminedTraining) -> Iterator[Remark]:
    """
    G05: operations in `UPDATE_OPS` that nothing runs.

    Why: the moving averages of batch normalization keep their initial values, and validation is as bad as chance.

    Source: tensorpack issues 1202, 1417.
    """
    if not training.targets:
        return
    updates = [operation(update) for update in tf.get_collection(tf.GraphKeys.UPDATE_OPS)]
    fetched = [element for cb in training.callbacks for element in elements_in(vars(cb))]
    run = training.step | training.graph.before(fetched)
    idle = [op for op in updates if op.name not in run]
    if idle:
        text = f"nothing runs {len(idle)} of the {len(updates)} operations in UPDATE_OPS."
        advice = "Add the callback RunUpdateOps(), which is one of the default extra_callbacks."
        yield remark_on("G05", idle, text, advice)


def averages_without_update(training: ExaminedTraining) -> Iterator[Remark]:
    """
    G05: batch normalization uses moving averages in training, and nothing updates or restores them.

    Why: the averages stay at 0 and 1, so the layer does not normalize. `tf.layers.batch_normalization` does this by default:
    its `training` is False.

    Does not report a layer if values are restored, because a pretrained model may be frozen.

    Source: tensorpack issues 1202, 1417.
    """
    if type(training.session_init) is not JustCurrentSession:
        return
    idle = []
    for variable in tf.global_variables():
        if not _AVERAGE.search(variable.op.name) or training.updates(variable):
            continue
        if any(op.name in training.step for op in training.reads(variable)):
            idle.append(variable)
    if idle:
        text = "batch normalization in training uses moving averages that are neither updated nor restored."
        advice = "Pass training=True in training towers, e.g. training=get_current_tower_context().is_training."
        yield remark_on("G05", idle, text, advice)


def training_mode_in_inference(training: ExaminedTraining) -> Iterator[Remark]:
    """
    G06: dropout, or batch normalization with the moments of the batch, in what an InferenceRunner evaluates.

    Why: the results of validation are random and worse than those of the model. The layer does not know that this tower is
    not for training: `tf.nn.dropout` always drops, and other layers need an argument.

    Source: tensorpack issues 246, 472, 718.
    """
    fetched = [tensor for runner in training.runners for tensor in runner.fetched]
    if not fetched:
        return
    scopes = tuple(f"{name}/" for name in training.inference_names)
    graph = training.graph
    evaluated = (op for op in graph.in_order(graph.before(fetched)) if op.name.startswith(scopes))
    dropping = [op for op in evaluated if _drops(training, op)]
    if dropping:
        in_training = any(_drops(training, graph.operations[name]) for name in training.step)
        text = f"dropout is active in inference{'' if in_training else ', and not in training'}."
        advice = "Use models.Dropout, or test get_current_tower_context().is_training."
        yield remark_on("G06", dropping, text, advice)
    in_towers = (op for op in graph.operations.values() if op.name.startswith(scopes))
    assigned = (op.inputs[0].op.name for op in in_towers if ASSIGNS.match(op.type) and op.inputs)
    changed = list(dict.fromkeys(filter(_AVERAGE.search, assigned)))
    if changed:
        variables = {variable.op.name: variable for variable in tf.global_variables()}
        text = "batch normalization in inference normalizes by the batch, and not by these moving averages."
        advice = "Pass training=get_current_tower_context().is_training, or nothing to models.BatchNorm."
        place = place_of(variables[changed[0]]) if changed[0] in variables else ""
        yield Remark("G06", list_names(changed), text, advice, place)


def _drops(training: ExaminedTraining, op: Any) -> bool:
    """Return whether an operation compares uniform noise with a rate, and the result switches values off."""
    if op.type not in ("GreaterEqual", "Floor") or not any(_is_noise(tensor.op) for tensor in op.inputs):
        return False
    users = training.graph.consumers(op)
    for cast in [user for user in users if user.type in ("Cast", "Identity")]:
        users += training.graph.consumers(cast)
    switches = [user for user in users if user.type in ("Mul", "Select", "SelectV2")]
    return any(switch.outputs[0].dtype.base_dtype.is_floating for switch in switches)


def _is_noise(op: Any, depth: int = 6) -> bool:
    if depth > 0 and op.type in _ARITHMETIC:
        return any(_is_noise(tensor.op, depth - 1) for tensor in op.inputs)
    return op.type in _UNIFORM


def variable_of_another_tower(training: ExaminedTraining) -> Iterator[Remark]:
    """
    G12: training updates a variable of `tf.Variable`, and the tower of an InferenceRunner or predictor has its own.

    Why: `tf.Variable` creates a variable in each tower. Validation reads one that keeps its initial value, e.g. a mean over
    batches that training has computed for another variable.

    Trainable variables of this kind raise an error already when the tower is built.

    Source: tensorpack issues 1181, 1234.
    """
    trained = training.towers[0].ns_name if training.towers else ""
    variables = {variable.op.name: variable for variable in tf.global_variables()}
    for name, variable in variables.items():
        scope, _, inner_name = name.partition("/")
        original = variables.get(f"{trained}/{inner_name}" if trained else inner_name)
        if scope not in training.inference_names or original is None or training.updates(variable):
            continue
        if training.updates(original) and training.reads(variable):
            text = f"training updates {original.op.name}, but tower '{scope}' reads this variable, which keeps its initial value."
            advice = "Create it with tf.get_variable, which shares it between towers, instead of tf.Variable."
            yield remark_on("G12", variable, text, advice)


def random_state_not_saved(training: ExaminedTraining) -> Iterator[Remark]:
    """
    G13: with exact resume, a step runs a random operation whose state is not in the checkpoint.

    Why: after a resumption, it draws other numbers than an uninterrupted training would, so the results differ.

    Source: docs/reproducibility.md#random.
    """
    if not training.trainer.exact:
        return
    operations = training.graph.operations
    for name in find_stateful_random_ops(find_step_ops(training.trainer)):
        text = "exact resume is on, but the state of this random operation is not saved."
        advice = "Use the function of the same name in tensorpack_lite.tfutils.random."
        yield Remark("G13", name, text, advice, place_of(operations[_outside_functions(name, operations)]))


def results_that_differ(training: ExaminedTraining) -> Iterator[Remark]:
    """
    G30: a step runs an operation whose results may differ between two runs on a CPU, although the inputs are the same.

    Why: two training runs with the same seeds have other weights, first in the last digits.

    Does not report an operation that repeats because it has one thread, few or unique rows, or TensorFlow's switch for
    deterministic operations; nor anything if the graph has no seed, so that nobody expects the same weights.

    Source: docs/reproducibility.md#cpu-threads; the causes are in TensorFlow's kernels.
    """
    if tf.get_default_graph().seed is None:
        return
    operations = training.graph.operations
    for name, reason in operations_not_repeatable(training.trainer):
        outer = _outside_functions(name, operations)
        advice = "To repeat a training to the last digit, see docs/reproducibility.md#cpu-threads."
        yield Remark("G30", name, f"{operations[outer].type}: {reason}.", advice, place_of(operations[outer]))


def _outside_functions(name: str, operations: Collection[str]) -> str:
    """Return the name of an operation, or of the operation of the graph that calls the function in which it is."""
    while name not in operations:
        name = name.rpartition("/")[0]
    return name


def little_restored(training: ExaminedTraining) -> Iterator[Remark]:
    """
    G10: less than half of the variables and less than half of the checkpoint match, or their names differ by a prefix.

    Why: the rest of the model keeps its random values, and the only sign is a long warning. A model inside another variable
    scope has a prefix in its names.

    Does not report a checkpoint if it has everything that the model needs, or if the model uses most of it.

    Source: tensorpack issues 117, 448, 693, 967.
    """
    parts = _parts(training.session_init)
    if any(part.offered_shapes() is None for part in parts):
        return  # a class of the user
    named = [(name_in_files(var), var) for var in tf.global_variables()]
    wanted = {name: var for name, var in named if _is_of_model(name)}
    offered: dict[str, Any] = {}
    matched: set[str] = set()
    for part in parts:
        shapes = part.offered_shapes() or {}
        saved_names = {name: get_savename_from_varname(name, varname_prefix=part.prefix) for name in wanted}
        used = {name: saved for name, saved in saved_names.items() if saved in shapes}
        matched |= set(used)
        unused = shapes.keys() - set(used.values())
        offered.update({name: shapes[name] for name in shapes if name in unused and _is_of_model(name)})
    missing = {
        name: tuple(whole_shape(variable).as_list())
        for name, variable in wanted.items()
        if name not in matched and variable.shape.rank is not None
    }
    if missing and offered:
        yield from _remarks_on_missing(missing, offered, len(wanted))


def _is_of_model(name: str) -> bool:
    return not is_training_name(name) and name != "global_step"


def _parts(init: SessionInit) -> list[SessionInit]:
    if isinstance(init, ChainInit):
        return [part for part_init in init.inits for part in _parts(part_init)]
    return [init]


def _remarks_on_missing(missing: dict[str, Any], unused: dict[str, Any], num_wanted: int) -> Iterator[Remark]:
    """Yield at most one remark, given the variables that are not restored and the values that are not used."""
    for of_graph in (True, False):
        longer, shorter = (missing, unused) if of_graph else (unused, missing)
        prefix, count = _common_prefix(longer, shorter)
        if count < 2 or count < min(len(missing), len(unused)) / 2:
            continue
        strip = f"{prefix}/"
        if of_graph:
            here = next(name for name in missing if name.startswith(strip) and name[len(strip) :] in unused)
            there = here[len(strip) :]
            advice = f"Pass SaverRestore(path, prefix='{prefix}')."
        else:
            here = next(name for name in missing if strip + name in unused)
            there = strip + here
            advice = f"Read the values with load_checkpoint_vars(path), remove '{prefix}/' from their names, and pass the dictionary."
        text = f"{count} variables are not restored, because {here} is called {there} in the file."
        yield Remark("G10", here, text, advice)
        return
    total = num_wanted - len(missing)
    if len(missing) > num_wanted / 2 and len(unused) > total:
        names = f"{list_names(list(missing))} of the model, and {list_names(list(unused))} of the file"
        text = f"only {total} of {num_wanted} variables are restored; these have no counterpart: {names}."
        advice = (
            "If they are the same variables, rename the values: load_checkpoint_vars(path), then pass a dictionary."
        )
        yield Remark("G10", next(iter(missing)), text, advice)


def _common_prefix(longer: dict[str, Any], shorter: dict[str, Any]) -> tuple[str, int]:
    """Return the scope without which most names of one dictionary are names of the other, with the same shapes."""
    found: Counter[str] = Counter()
    for name, shape in longer.items():
        parts = name.split("/")
        for index in range(1, len(parts)):
            inner_name = "/".join(parts[index:])
            if inner_name in shorter and tuple(shorter[inner_name]) == tuple(shape):
                found["/".join(parts[:index])] += 1
    return found.most_common(1)[0] if found else ("", 0)
