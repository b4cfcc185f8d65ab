"""
The state of a training that `exact` adds to a checkpoint: positions of data, random numbers, moving averages and local variables.

`begin_exact` is called before the graph is built. From then on, inputs that are set up in this graph register
here and keep the position of their data, random operations of the library become exact, and `ModelSaver`
saves `ExactResume.state()`.
"""

from __future__ import annotations

import random
from contextlib import contextmanager, nullcontext
from typing import Any, ContextManager, Dict, Iterator, List, Tuple

import numpy as np

from ...compat import tfv1 as tf
from ...utils import logger
from ...utils.argtools import graph_memoized
from ...utils.checks import check_choice
from ...utils.naming import MOVING_AVERAGES_KEY
from ...utils.random_streams import (
    collect_generators,
    derive_generator,
    derive_number,
    restore_generator,
    save_generator,
)
from ..checkpoint_state import is_number
from ..model_utils import static_bytes
from ..random import exact_entropy, make_exact
from ..varmanip import SessionUpdate
from .tables import MAX_TABLE_BYTES, SavedTables

State = Dict[str, Any]  # JSON values and NumPy arrays

_MAX_LOCAL_BYTES = 16 << 20


class ExactResume:
    """
    The state of a training that `begin_exact` added to the graph.

    Args:
        mode: True, or "require": whatever cannot be resumed exactly is an error.
        saved: what `state` returned; None if the training starts, or if its checkpoint has no such state.

    Attributes:
        mode: as given.
        is_resumed: whether there is a saved state.
        sources: the `InputInfo` of each input by name, in the order of their setup.
        tables: the mutable tables, whose contents are saved; None until the graph is complete.
    """

    def __init__(self, mode: bool | str, saved: State | None) -> None:
        self.mode = check_choice("exact", mode, [True, "require"])
        self.is_resumed = saved is not None
        self.sources: Dict[str, Any] = {}
        self.tables: SavedTables | None = None
        self._saved: State = saved or {}
        self._held: Dict[str, State] = {}
        # the inputs of inference, whose runs are not steps
        self._in_rounds = set(self._saved.get("rounds", ()))
        self._failed: Any = None
        self._setup = collect_generators()
        self._generators: List[Any] = self._setup.__enter__()

    @property
    def is_required(self) -> bool:
        """Whether whatever is not exact is an error."""
        return self.mode == "require"

    def add_source(self, kind: str, source: Any) -> State | None:
        """
        Register an input that is being set up.

        Args:
            kind: its class. The second one of a class is called "QueueInput#2".
            source: an `InputInfo`.

        Returns:
            The state that was saved for it; None if there is none.
        """
        count = 1 + sum(name.split("#")[0] == kind for name in self.sources)
        name = kind if count == 1 else f"{kind}#{count}"
        self.sources[name] = source
        state: State | None = self._saved.get("sources", {}).get(name)
        if state is None and self.is_resumed:
            self.warn_or_raise(f"The checkpoint has no position for {name}, so its data starts from the beginning.")
        return state

    def warn_or_raise(self, sentence: str) -> None:
        """Warn that something is not exact; raise RuntimeError if exactness is required."""
        if self.is_required:
            raise RuntimeError(f'{sentence} With exact="require" this is an error; exact=True continues.')
        logger.warning(sentence)

    def complete_graph(self) -> None:
        """Create the operations that save and restore tables. Call it when all tables exist."""
        self.tables = SavedTables()

    def begin_loop(self) -> None:
        """Return local variables, tables, Python's and NumPy's generators, and those that callbacks created to their saved states."""
        self._setup.__exit__(None, None, None)
        lost = [variable.op.name for variable in _local_variables()[1]]
        if lost:
            self.warn_or_raise(
                f"The local variables {', '.join(lost)} are not resumed (expected numbers of at most {_MAX_LOCAL_BYTES >> 20} MB "
                "in all). Put them into GLOBAL_VARIABLES, which checkpoints contain."
            )
        if not self._saved:
            return
        values = {**self._saved["averages"], **self._saved.get("local_variables", {})}
        fitting = [
            variable
            for variable in tf.local_variables()
            if variable.op.name in values and variable.shape.is_compatible_with(np.shape(values[variable.op.name]))
        ]
        update = SessionUpdate(tf.get_default_session(), fitting)
        update.update({variable.name: values[variable.op.name] for variable in fitting})
        self._restore_tables()
        saved = self._saved["generators"]
        if "entropy" in saved:  # of another number of ranks
            saved = _new_generators(saved["entropy"], len(self._generators))
        for generator, state in zip(self._generators, saved["created"]):
            restore_generator(generator, state)
        version, numbers, gauss = saved["python"]
        random.setstate((version, tuple(numbers), gauss))
        restore_generator(np.random, saved["numpy"])

    def _restore_tables(self) -> None:
        if self.tables is None:
            return
        saved = self._saved.get("tables", {})
        missing = [name for name in self.tables.names if name not in saved]
        if missing:
            self.warn_or_raise(f"The checkpoint does not have the contents of these tables: {', '.join(missing)}.")
        self.tables.restore(saved)

    def state(self) -> State:
        """Return what to save. Needs a default session; call it between two runs."""
        averages = {variable.op.name: variable for variable in tf.get_collection(MOVING_AVERAGES_KEY)}
        session = tf.get_default_session()
        return {
            "sources": {name: self._held.get(name) or self._state_of(name) for name in self.sources},
            "rounds": sorted(self._in_rounds),
            "entropy": exact_entropy(),
            "averages": {name: float(value) for name, value in session.run(averages).items()},
            "local_variables": {
                variable.op.name: np.asarray(session.run(variable)) for variable in _local_variables()[0]
            },
            "tables": self._table_contents(),
            "generators": {
                "created": [save_generator(generator) for generator in self._generators],
                "python": _python_state(random.getstate()),
                "numpy": save_generator(np.random),
            },
        }

    def _table_contents(self) -> State:
        contents, too_large = ({}, []) if self.tables is None else self.tables.state()
        if too_large:
            self.warn_or_raise(
                f"The checkpoint will not have the contents of these tables: {', '.join(too_large)} (expected at most "
                f"{MAX_TABLE_BYTES >> 20} MB in all). A resumed training is not exact."
            )
        return contents

    def _state_of(self, name: str) -> State:
        state: State = self.sources[name].get_state(None if name in self._in_rounds else self._failed)
        return state

    def undo_run(self, step: Any) -> None:
        """
        Count the datapoints of a run as not used, because it failed.

        Args:
            step: the prepared `Step` that it ran.
        """
        self._failed = step

    @contextmanager
    def holding(self, source: object) -> Iterator[None]:
        """Save the present position of an `InputInfo` until the block has ended. A block that is left by an error is repeated."""
        names = [name for name, info in self.sources.items() if info is source]
        self._in_rounds.update(names)
        self._held.update((name, self._state_of(name)) for name in names)
        yield
        for name in names:
            del self._held[name]


def begin_exact(mode: bool | str, saved: State | None, rank: int = 0) -> ExactResume:
    """
    Resume the training in the default graph exactly. Call it before the graph is built.

    Args:
        mode: True, or "require" to raise an error for whatever is not exact.
        saved: what `ExactResume.state` returned, from a checkpoint; None to start from the beginning.
        rank: the number of this process in a distributed training.

    Raises:
        ValueError: `mode` has another value.
        RuntimeError: it was called before in this graph.
    """
    if _holder():
        raise RuntimeError("begin_exact: this graph already has an exact training. Use a new graph for each training.")
    _holder().append(ExactResume(mode, saved))
    make_exact(None if saved is None else saved["entropy"], rank)
    return _holder()[0]


def find_exact() -> ExactResume | None:
    """Return the object that `begin_exact` added to the default graph, or None."""
    return next(iter(_holder()), None)


def exact_mode() -> bool | str:
    """Return the mode of `begin_exact` in the default graph; False if it was not called."""
    exact = find_exact()
    return False if exact is None else exact.mode


def held_position(source: object) -> ContextManager[None]:
    """Context manager for a round of inference: a training that is killed inside repeats the whole round."""
    exact = find_exact()
    return nullcontext() if exact is None else exact.holding(source)


def _new_generators(entropy: int, num_created: int) -> State:
    """Return states of generators that depend only on `entropy`, in the form of a checkpoint."""
    return {
        "created": [save_generator(derive_generator((entropy, "created", i))) for i in range(num_created)],
        "python": _python_state(random.Random(derive_number((entropy, "python"))).getstate()),
        "numpy": save_generator(derive_generator((entropy, "numpy"))),
    }


def _python_state(state: Tuple[Any, ...]) -> List[Any]:
    return [state[0], list(state[1]), state[2]]


def _local_variables() -> Tuple[List[tf.Variable], List[tf.Variable]]:
    """
    Return the local variables that may differ from their initial values after a resume: those of the user, and
    statistics of other towers. Averages are saved elsewhere, and copies of trained variables are equal to those in
    the checkpoint.

    Returns:
        Those to save, and those that cannot be saved.
    """
    trained = [variable.op.name for variable in tf.trainable_variables()]
    slots = tuple(f"{name}/" for name in trained)
    elsewhere = tf.get_collection(MOVING_AVERAGES_KEY)
    kept, lost, num_bytes = [], [], 0
    for variable in tf.local_variables():
        name = variable.op.name
        if any(variable is average for average in elsewhere) or name in trained or name.startswith(slots):
            continue
        size = static_bytes(variable)
        if is_number(variable.dtype.base_dtype) and num_bytes + size <= _MAX_LOCAL_BYTES:
            kept.append(variable)
            num_bytes += size
        else:
            lost.append(variable)
    return kept, lost


@graph_memoized
def _holder() -> List[ExactResume]:
    return []
