"""The checks of fetches that `Session.run` makes, for callables of TensorFlow's runtime, which omit them."""

from __future__ import annotations

from typing import Callable, Iterable, Sequence

import numpy as np

from ..compat import private
from ..compat import tfv1 as tf
from ..utils.naming import list_names
from .update_gate import is_gate

_ADVICE = (
    "Return it from the branch, and use what tf.cond returns; call tf.summary after tf.cond, with what it returns."
)


def prepare_run(
    who: str,
    session: tf.Session,
    fetches: Sequence[tf.Tensor],
    targets: Sequence[tf.Operation] = (),
    feeds: Sequence[tf.Tensor] = (),
    run_options: tf.RunOptions | None = None,
) -> Callable[..., list[np.ndarray]]:
    """
    Prepare a step of a session as a function, as `private.make_callable` does, which never returns an invented value.

    TensorFlow's callables return an empty array for a tensor that has no value, because it is in a branch of `tf.cond` that
    was not taken. So a step that fetches a tensor which may lack a value uses `Session.run`, which is slower.

    Args:
        who: the function that runs the step, for messages.
        session, fetches, targets, feeds, run_options: as in `private.make_callable`.

    Returns:
        The function. It raises ValueError if a fetch has no value in a run.

    Raises:
        ValueError: a fetch is inside a branch or a loop of TensorFlow 1.
    """
    for element in [*fetches, *targets]:
        if not session.graph.is_fetchable(element if isinstance(element, tf.Operation) else element.op):
            raise ValueError(
                f"{who}: '{element.name}' cannot be fetched (expected a tensor outside of branches and loops, got one that has a "
                f"value only inside of one). {_ADVICE}"
            )
    conditional = find_conditional(fetches)
    run = private.make_callable(session, fetches, targets, feeds, run_options, bool(conditional))
    if not conditional:
        return run

    def run_checked(*arrays: np.ndarray, run_metadata: tf.RunMetadata | None = None) -> list[np.ndarray]:
        try:
            return run(*arrays, run_metadata=run_metadata)
        except tf.errors.InvalidArgumentError as error:
            if "does not have value" not in error.message:
                raise
            lacking = [tensor for tensor in fetches if find_conditional([tensor])]
            raise ValueError(
                f"{who}: {_quote(lacking)} has no value in this run, because it depends on {_quote(conditional)}, which is in a "
                f"branch that was not taken. {_ADVICE}"
            ) from error

    return run_checked


def find_conditional(tensors: Iterable[tf.Tensor]) -> list[tf.Operation]:
    """
    List the operations which may leave tensors without a value.

    Args:
        tensors: tensors of one graph, outside of branches and loops.

    Returns:
        The nearest operations that run only if a branch of TensorFlow 1 is taken, and on which the tensors depend other than
        through the result of `tf.cond`. TensorFlow 2's branches are functions, so their tensors cannot be used outside. The
        switch of `let_updates_pass_if` is omitted: TerminateOnNaN ends a training in which it does not let updates pass.
    """
    found = []
    waiting = [tensor.op for tensor in tensors]
    seen = {op.name for op in waiting}
    while waiting:
        op = waiting.pop()
        if private.inside_branch(op) or op.type in ("Switch", "RefSwitch"):
            found += [] if is_gate(op) else [op]
        elif op.type not in ("Merge", "RefMerge", "Exit", "RefExit"):  # the results of branches and loops
            for parent in [*(tensor.op for tensor in op.inputs), *op.control_inputs]:
                if parent.name not in seen:
                    seen.add(parent.name)
                    waiting.append(parent)
    return found


def _quote(elements: Sequence[tf.Tensor | tf.Operation]) -> str:
    """Return the names of up to three elements."""
    return list_names([f"'{element.name}'" for element in elements])
