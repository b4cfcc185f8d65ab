"""Where am I: the context under which a tower function builds one copy of the model."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import Any

from ...compat import ensure_graph_mode
from ...compat import tfv1 as tf
from ...utils.naming import MOVING_SUMMARY_OPS_KEY
from ..collection import CollectionGuard
from .ranks import TowerRanks

__all__ = [
    "BaseTowerContext",
    "PredictTowerContext",
    "TowerContext",
    "TrainTowerContext",
    "get_current_tower_context",
]


class _Current(threading.local):
    """The tower being built in this thread: one of the library's five ambient states."""

    context: BaseTowerContext | None = None


_current = _Current()


def get_current_tower_context() -> BaseTowerContext | None:
    """
    Get the tower context in effect, to ask whether this is training.

    Returns:
        The context, or None outside of every tower.

    tensorpack: same; here each thread has its own.
    """
    return _current.context


class BaseTowerContext:
    """
    One call of a tower function: its scopes, its variables, its collections. Entered once, never nested.

    Entering opens a variable scope (all variables made inside are resource variables, with names as ever) and, if
    the tower has a name, the top-level name scope of exactly that name.

    Args:
        ns_name: the name scope; "" stays in the current one, which must then be the root.
        vs_name: the variable scope; "" stays in the current one.

    Attributes:
        name, ns_name: the name scope.
        vs_name: the variable scope.
        is_training: whether this tower is trained.
        is_main_training_tower: whether it is the first of the trained ones: the one that writes summaries and
            updates statistics.
        has_own_variables: whether variables are created here, not reused from another tower.
        ranks: the `TowerRanks` that train together with this tower; None if it is alone, or not trained.

    Raises:
        ValueError: a variable scope without a name scope.
        RuntimeError: on entering: inside another tower, a second time, or in the wrong name scope; on leaving:
            the tower made trainable variables although it must reuse those of another one.

    tensorpack: same; there the errors are assertions, a failure on entering breaks every later tower, and
    one inside hides behind a complaint about scopes.
    """

    is_training: bool
    is_main_training_tower: bool
    has_own_variables: bool
    ranks: TowerRanks | None = None

    def __init__(self, ns_name: str, vs_name: str = "") -> None:
        ensure_graph_mode()
        if vs_name and not ns_name:
            raise ValueError(
                f"TowerContext: variable scope '{vs_name}' was given without a name. Give the tower a name too."
            )
        self._name = ns_name
        self._vs_name = vs_name
        self._entered = False
        self._scopes = ExitStack()
        self._guard: CollectionGuard | None = None

    @property
    def name(self) -> str:
        """The name scope of the tower, "" for none."""
        return self._name

    @property
    def ns_name(self) -> str:
        """The same as `name`: the name scope of the tower, "" for none."""
        return self._name

    @property
    def vs_name(self) -> str:
        """The variable scope of the tower, "" for that of the first tower."""
        return self._vs_name

    def get_collection_in_tower(self, key: str) -> list[Any]:
        """
        Get what this tower added to a collection.

        Args:
            key: the collection's name.

        Returns:
            Its new members in order; while the tower is being built, those so far; afterwards, those it had on
            leaving, whatever later towers add.

        Raises:
            RuntimeError: the tower was not entered yet.

        tensorpack: same; there, after the tower is left, members that came later count too.
        """
        if self._guard is None:
            raise RuntimeError(f"{self}: get_collection_in_tower was called before the tower was entered.")
        return self._guard.added(key)

    def __enter__(self) -> BaseTowerContext:
        if _current.context is not None:
            raise RuntimeError(f"{self}: cannot be entered inside {_current.context}. Towers do not nest.")
        if self._entered:
            raise RuntimeError(f"{self}: entered a second time. Make a new TowerContext for each call.")
        with ExitStack() as scopes:
            self._open_scopes(scopes)
            self._guard = CollectionGuard(self._name, self._frozen_collections)
            self._scopes = scopes.pop_all()
        self._entered = True
        _current.context = self
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> bool:
        _current.context = None
        self._scopes.__exit__(exc_type, exc_value, traceback)
        assert self._guard is not None, "bug: left without being entered"
        self._guard.close(log_changes=exc_type is None and not self.is_main_training_tower)
        if exc_type is None:
            self._refuse_new_trainable_variables()
        return False

    def _open_scopes(self, scopes: ExitStack) -> None:
        scope = self._vs_name or tf.get_variable_scope()
        scopes.enter_context(tf.variable_scope(scope, use_resource=True, auxiliary_name_scope=False))
        if self._name:
            scopes.enter_context(tf.name_scope(self._name + "/"))
        opened = tf.get_default_graph().get_name_scope() or ""  # None at the root on TF 1.15
        if opened != self._name:
            raise RuntimeError(
                f"{self}: its operations would go into name scope '{opened}', wanted '{self._name}'. Enter it outside of "
                "every tf.name_scope and tf.variable_scope."
            )

    @property
    def _frozen_collections(self) -> list[str]:
        raise NotImplementedError

    def _refuse_new_trainable_variables(self) -> None:
        if self.has_own_variables:
            return
        new = self.get_collection_in_tower(tf.GraphKeys.TRAINABLE_VARIABLES)
        if new:
            names = ", ".join(var.op.name for var in new)
            raise RuntimeError(
                f"{self}: must reuse the variables of the training tower, but created trainable variables: {names}. Create "
                "them with tf.get_variable, under a name that does not depend on name scopes or on is_training."
            )

    def __str__(self) -> str:
        return f"TowerContext(name={self._name}, is_training={self.is_training})"


class TrainTowerContext(BaseTowerContext):
    """
    A tower that is trained.

    Args:
        ns_name, vs_name: as in BaseTowerContext.
        index: the number of this tower, from 0.
        total: how many there are.
        ranks: the processes that train together, for trainers that have several.

    Raises:
        RuntimeError: inside a variable scope that has a name, or with a variable scope of its own where variables
            are being reused.
        ValueError: `index` is not below `total`.
    """

    def __init__(
        self,
        ns_name: str,
        vs_name: str = "",
        index: int = 0,
        total: int = 1,
        ranks: TowerRanks | None = None,
    ) -> None:
        super().__init__(ns_name, vs_name)
        if not 0 <= index < total:
            raise ValueError(
                f"TrainTowerContext '{ns_name}': index is {index}, wanted 0 <= index < total = {total}."
            )
        scope = tf.get_variable_scope()
        if scope.name:
            raise RuntimeError(
                f"TrainTowerContext '{ns_name}': the current variable scope is '{scope.name}', wanted the root. Build training "
                "towers outside of every tf.variable_scope."
            )
        if vs_name and scope.reuse:
            raise RuntimeError(
                f"TrainTowerContext '{ns_name}': cannot have variable scope '{vs_name}' while variables are being reused."
            )
        self.index = index
        self.total = total
        self.ranks = ranks
        self.is_training = True
        self.is_main_training_tower = index == 0
        self.has_own_variables = not scope.reuse and (index == 0 or bool(vs_name))

    @property
    def _frozen_collections(self) -> list[str]:
        return [] if self.is_main_training_tower else [tf.GraphKeys.SUMMARIES, MOVING_SUMMARY_OPS_KEY]


class PredictTowerContext(BaseTowerContext):
    """
    A tower that is evaluated, in training (inference, predictors) or without it.

    What it adds to summaries, moving averages and `UPDATE_OPS` is taken back when it is left.

    Args:
        ns_name, vs_name: as in BaseTowerContext.
    """

    def __init__(self, ns_name: str, vs_name: str = "") -> None:
        super().__init__(ns_name, vs_name)
        self.is_training = False
        self.is_main_training_tower = False
        self.has_own_variables = not tf.get_variable_scope().reuse

    @property
    def _frozen_collections(self) -> list[str]:
        return [tf.GraphKeys.SUMMARIES, MOVING_SUMMARY_OPS_KEY, tf.GraphKeys.UPDATE_OPS]


def TowerContext(tower_name: str, is_training: bool, vs_name: str = "") -> BaseTowerContext:  # noqa: N802
    """
    Function: returns a context in which a tower function can be called.

    Args:
        tower_name: the name scope, "" for none.
        is_training: whether the tower is trained.
        vs_name: the variable scope, "" for the current one.

    Returns:
        A `TrainTowerContext` or a `PredictTowerContext`.

    Example:
        >>> with TowerContext("", is_training=True):
        ...     cost = tower_func(image, label)

    tensorpack: same.
    """
    kind = TrainTowerContext if is_training else PredictTowerContext
    return kind(tower_name, vs_name=vs_name)
