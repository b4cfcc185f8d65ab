"""
Functions that behaved differently in older versions of tensorpack.

Each public function here gets the module that has just been executed, and replaces one of its functions, methods or
constructors. `BEHAVIOR` lists the modules.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from typing import Any, Sequence

from ..startup.sitecustomize import replacement
from .names import load


def round_counts_down(checks: Any) -> None:
    """Round numbers of steps and epochs down, with a warning, because old scripts divide integers with `/`."""
    plain = checks.check_count

    @functools.wraps(plain)
    def check_count(name: str, value: Any, minimum: int = 0) -> int:
        try:
            number = int(value)
        except (TypeError, ValueError, OverflowError):
            return plain(name, value, minimum)
        if not isinstance(value, str) and number != value:
            load("utils.logger").warning(f"{name} is {value}, which is rounded down to {number}.")
        return plain(name, number, minimum)

    replacement.replace(checks, "check_count", check_count)


def behave_like_tf1(compat: Any) -> None:
    """Give TensorFlow the whole behavior of TensorFlow 1 before the first graph is built."""
    plain = compat.ensure_graph_mode

    @functools.wraps(plain)
    def ensure_graph_mode() -> None:
        load("tf1.tf1_behavior:prepare_tf1")()
        plain()

    replacement.replace(compat, "ensure_graph_mode", ensure_graph_mode)


def allow_no_steps(state: Any) -> None:
    """Allow epochs without steps, in which only callbacks are called."""
    replacement.replace(state, "check_steps", state.check_count)


def warn_of_missing_statistics(statistic_reader: Any) -> None:
    """Warn if a statistic has not been reported, instead of raising an error."""
    reader = statistic_reader.StatisticReader
    plain = reader.__init__

    @functools.wraps(plain)
    def construct(self: Any, callback: Any, name: str, strict: bool) -> None:
        plain(self, callback, name, False)

    replacement.replace(reader, "__init__", construct)


def warn_of_direction(direction: Any) -> None:
    """
    Log a warning, instead of raising an error, if a callback treats the worst values of a statistic as the best ones.
    """
    plain = direction.check_direction

    @functools.wraps(plain)
    def check_direction(*args: Any) -> None:
        try:
            plain(*args)
        except ValueError as error:
            load("utils.logger").warning(str(error))

    replacement.replace(direction, "check_direction", check_direction)


def accept_list_of_summaries(summary: Any) -> None:
    """
    Accept one list of pairs in `add_param_summary`, as in 2016, and lists of tensors in `add_moving_summary`.

    Tensors that already have an average are skipped.
    """
    plain, plain_average = summary.add_param_summary, summary.add_moving_summary

    @functools.wraps(plain)
    def add_param_summary(*summary_lists: Any, **kwargs: Any) -> None:
        if len(summary_lists) == 1 and isinstance(summary_lists[0], list):
            summary_lists = tuple(summary_lists[0])
        plain(*summary_lists, **kwargs)

    @functools.wraps(plain_average)
    def add_moving_summary(*scalars: Any, **kwargs: Any) -> Any:
        lists = [one if isinstance(one, (list, tuple)) else [one] for one in scalars]
        averages: list[Any] = []
        for scalar in itertools.chain(*lists):
            averages += [] if has_average(scalar) else plain_average(scalar, **kwargs)
        return averages

    def has_average(scalar: Any) -> bool:
        average = f"EMA/{summary.TOWER_PREFIX.sub('', getattr(scalar, 'name', ''))}".partition(":")[0]
        return any(average == variable.op.name for variable in summary.tf.local_variables())

    replacement.replace(summary, "add_param_summary", add_param_summary)
    replacement.replace(summary, "add_moving_summary", add_moving_summary)


def accept_datapoints(base: Any) -> None:
    """
    Let a predictor that is called with one list take it for the value of the only input, as since 0.8. If it cannot be that
    value, it is the datapoint, as before 0.8.
    """
    plain = base.PredictorBase.__call__

    @functools.wraps(plain)
    def call(self: Any, *dp: Any) -> Any:
        knows_inputs = isinstance(self, base.OnlinePredictor)
        if knows_inputs and len(dp) == 1 and isinstance(dp[0], (list, tuple)):
            shapes = self._prepare().shapes
            is_value = len(shapes) == 1 and shapes[0].is_compatible_with(_shape_of(dp[0]))
            if len(shapes) == len(dp[0]) and not is_value:
                return plain(self, *dp[0])
        return plain(self, *dp)

    replacement.replace(base.PredictorBase, "__call__", call)


def _shape_of(values: Any) -> tuple[int, ...]:
    """Return the shape of an array or of nested lists, which follows the first entry of each list."""
    if isinstance(values, (list, tuple)):
        return (len(values), *(_shape_of(values[0]) if values else ()))
    return tuple(getattr(values, "shape", ()))


def name_with_index(export: Any) -> None:
    """Keep the index in the names of a signature, as in "x:0", except in the default signature."""
    plain = export._make_signatures

    @functools.wraps(plain)
    def make_signatures(names: Sequence[str], inputs: Sequence[Any], outputs: Sequence[Any]) -> dict[str, Any]:
        signatures = plain(names, inputs, outputs)
        with_index = [{tensor.name: tensor for tensor in tensors} for tensors in (inputs, outputs)]
        old = [name for name in names if name != export._DEFAULT_SIGNATURE]
        return {**signatures, **dict.fromkeys(old, export._make_signature(*with_index))}

    replacement.replace(export, "_make_signatures", make_signatures)


def start_at_first_datapoint(module: Any) -> None:
    """Reset a DataFlow with workers at its first iteration. Until 2018, the constructor started the workers."""
    plain = module.require_workers

    @functools.wraps(plain)
    def require_workers(who: Any, owner: int | None) -> None:
        if owner is None:
            load("utils.logger").warning(
                f"{type(who).__name__}: reset_state() was not called, so the first iteration resets it."
            )
            who.reset_state()
        else:
            plain(who, owner)

    replacement.replace(module, "require_workers", require_workers)


def give_transaction(lmdb_format: Any) -> None:
    """Add `_txn` to LMDBData, so that classes that a script derives from it can read with `self._txn.get(key)`."""

    def begin(self: Any) -> Any:
        return (self._environment or lmdb_format.open_lmdb(self._path)).begin()

    replacement.add(lmdb_format.LMDBData, "_txn", property(begin))


def name_outputs(arguments: Any) -> None:
    """Pass the name "output" to an activation `nl` that requires a name, such as `lambda x, name: BatchNorm(name, x)`."""
    plain = arguments._with_name

    @functools.wraps(plain)
    def with_name(nonlinearity: Any) -> Any:
        return functools.partial(call, nonlinearity) if _requires_name(nonlinearity) else plain(nonlinearity)

    def call(nonlinearity: Any, x: Any) -> Any:
        with arguments.tf.name_scope("activation"):  # the layer itself has the name "output"
            return nonlinearity(x, name="output")

    replacement.replace(arguments, "_with_name", with_name)


def _requires_name(function: Any) -> bool:
    try:
        name = inspect.signature(function).parameters.get("name")
    except (TypeError, ValueError):  # it is not a function, or one in C
        return False
    return name is not None and name.default is inspect.Parameter.empty


# module -> what changes it
BEHAVIOR = {
    "callbacks.statistic_reader": warn_of_missing_statistics,
    "compat": behave_like_tf1,
    "dataflow.exact.runner": start_at_first_datapoint,
    "dataflow.format": give_transaction,
    "dataflow.map_and_batch": start_at_first_datapoint,
    "dataflow.map_engine": start_at_first_datapoint,
    "loop.state": allow_no_steps,
    "models.arguments": name_outputs,
    "predict.base": accept_datapoints,
    "predict.export": name_with_index,
    "tfutils.summary": accept_list_of_summaries,
    "utils.checks": round_counts_down,
    "utils.direction": warn_of_direction,
}
