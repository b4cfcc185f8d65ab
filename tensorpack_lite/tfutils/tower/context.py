"""The context in which a tower function builds one copy of the model."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from ...compat import ensure_graph_mode
from ...compat import tfv1 as tf
from ...compat.old_methods import give_old_methods
from ...utils.naming import MOVING_SUMMARY_OPS_KEY
from ..collection import CollectionGuard
from .foreign_layers import advice_on_keras, refuse_keras3
from .tower_ranks import TowerRanks


class _Current(threading.local):
    """The tower that this thread is building."""

    context: BaseTowerContext | None = None


_current = _Current()


def get_current_tower_context() -> BaseTowerContext | Any:  # scripts do not check for None
    """
    Return the tower context of this thread, e.g. to check `is_training`.

    Returns:
        The context, or None outside of all towers.
    """
    return _current.context


class BaseTowerContext:
    """
    Context of one call of a tower function: its scopes, variables and collections.

    A context is entered once, and not inside another tower. On entering, it opens a variable scope in which
    all variables are resource variables, with the usual names. If the tower has a name, it also opens the
    top-level name scope of exactly that name.

    Args:
        ns_name: the name scope. "" uses the current one, which must be the root.
        vs_name: the variable scope. "" uses the current one.

    Attributes:
        name, ns_name: the name scope.
        vs_name: the variable scope.
        is_training: whether this tower is trained.
        is_main_training_tower: whether it is the first training tower, which writes summaries and updates statistics.
        has_own_variables: whether the tower creates variables instead of reusing those of another tower.
        ranks: the `TowerRanks` that train together with this tower, or None.

    Raises:
        ValueError: a variable scope is given without a name scope.
        RuntimeError: on entering, the context is inside another tower or in the wrong name scope, or was
            entered before. On leaving, the tower created trainable variables although it must reuse those of
            another tower.
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
        self.name = self.ns_name = ns_name
        self.vs_name = vs_name

        self._frozen_collections: list[str] = []  # restored on leaving
        self._scopes = ExitStack()
        self._guard: CollectionGuard | None = None

    def get_collection_in_tower(self, key: str) -> list[Any]:
        """
        Return what this tower added to a collection.

        Args:
            key: the collection's name.

        Returns:
            The added members in order: those so far while the tower is being built, and those at the end afterwards.

        Raises:
            RuntimeError: the tower has not been entered yet.
        """
        if self._guard is None:
            raise RuntimeError(f"{self}: get_collection_in_tower was called before the tower was entered.")
        return self._guard.added(key)

    def __enter__(self) -> BaseTowerContext:
        if _current.context is not None:
            raise RuntimeError(f"{self}: cannot be entered inside {_current.context}. Leave that tower first.")
        if self._guard is not None:
            raise RuntimeError(f"{self}: entered a second time. Create a new TowerContext for each call.")
        with ExitStack() as scopes:
            scope = self.vs_name or tf.get_variable_scope()
            options = {"use_resource": True, "custom_getter": give_old_methods}
            scopes.enter_context(tf.variable_scope(scope, auxiliary_name_scope=False, **options))
            scopes.enter_context(tf.variable_creator_scope(give_old_methods))  # for tf.Variable(...)
            if self.name:
                scopes.enter_context(tf.name_scope(self.name + "/"))
            opened = tf.get_default_graph().get_name_scope() or ""  # None at the root on TF 1.15
            if opened != self.name:
                raise RuntimeError(
                    f"{self}: the name scope is wrong (expected '{self.name}', got '{opened}'). Enter it outside of all "
                    "tf.name_scope and tf.variable_scope contexts."
                )
            self._guard = CollectionGuard(self.name, self._frozen_collections)
            self._scopes = scopes.pop_all()

        _current.context = self
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _current.context = None
        self._scopes.__exit__(exc_type, exc_value, traceback)
        assert self._guard is not None, "bug: left without being entered"
        self._guard.close(log_changes=exc_type is None and not self.is_main_training_tower)
        if exc_type is None:
            refuse_keras3(str(self))
        if exc_type is not None or self.has_own_variables:
            return
        new = self.get_collection_in_tower(tf.GraphKeys.TRAINABLE_VARIABLES)
        if new:
            names = ", ".join(var.op.name for var in new)
            raise RuntimeError(
                f"{self}: must reuse the variables of the training tower, but created trainable variables: {names}. Create "
                "them with tf.get_variable, under names that do not depend on name scopes or is_training. "
                + advice_on_keras()
            )

    def __str__(self) -> str:
        return f"TowerContext(name={self.name}, is_training={self.is_training})"


class TrainTowerContext(BaseTowerContext):
    """
    Context of a training tower.

    Args:
        ns_name, vs_name: as in BaseTowerContext.
        index: the number of this tower, from 0.
        total: the number of training towers.
        ranks: the processes that train together, for distributed trainers.

    Raises:
        RuntimeError: the current variable scope has a name, or `vs_name` is given while variables are reused.
        ValueError: `index` is not less than `total`.
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
                f"TrainTowerContext '{ns_name}': index is out of range (expected 0 <= index < total = {total}, got {index})."
            )
        scope = tf.get_variable_scope()
        if scope.name:
            raise RuntimeError(
                f"TrainTowerContext '{ns_name}': the variable scope is wrong (expected the root, got '{scope.name}'). Build "
                "training towers outside of all tf.variable_scope contexts."
            )
        if vs_name and scope.reuse:
            raise RuntimeError(
                f"TrainTowerContext '{ns_name}': vs_name '{vs_name}' cannot be used while variables are reused. Leave it out, or "
                "build the tower outside of the scope with reuse."
            )
        self.index = index
        self.total = total
        self.ranks = ranks
        self.is_training = True
        self.is_main_training_tower = index == 0
        self.has_own_variables = not scope.reuse and (index == 0 or bool(vs_name))
        if not self.is_main_training_tower:
            self._frozen_collections = [tf.GraphKeys.SUMMARIES, MOVING_SUMMARY_OPS_KEY]


class PredictTowerContext(BaseTowerContext):
    """
    Context of an inference tower, e.g. of InferenceRunner or a predictor.

    On leaving, everything the tower added to summaries, moving averages and `UPDATE_OPS` is removed.

    Args:
        ns_name, vs_name: as in BaseTowerContext.
    """

    def __init__(self, ns_name: str, vs_name: str = "") -> None:
        super().__init__(ns_name, vs_name)
        self.is_training = False
        self.is_main_training_tower = False
        self.has_own_variables = not tf.get_variable_scope().reuse
        self._frozen_collections = [tf.GraphKeys.SUMMARIES, MOVING_SUMMARY_OPS_KEY, tf.GraphKeys.UPDATE_OPS]


def TowerContext(tower_name: str, is_training: bool, vs_name: str = "") -> BaseTowerContext:  # noqa: N802
    """
    Function: returns a context in which a tower function can be called.

    Args:
        tower_name: the name scope. "" means none.
        is_training: whether the tower is trained.
        vs_name: the variable scope. "" means the current one.

    Returns:
        A `TrainTowerContext` or a `PredictTowerContext`.

    Example:
        >>> with TowerContext("", is_training=True):
        ...     cost = tower_func(image, label)
    """
    kind = TrainTowerContext if is_training else PredictTowerContext
    return kind(tower_name, vs_name=vs_name)
