"""Base classes of builders that call a tower function once per device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import ExitStack
from typing import Any, Callable, ContextManager, Sequence, TypeVar

from ..compat import private
from ..compat import tfv1 as tf
from ..tfutils.gradproc import GradVars
from ..tfutils.tower.context import TrainTowerContext
from ..tfutils.tower.cross_tower import require_all_towers
from ..tfutils.tower.foreign_layers import advice_on_keras
from ..tfutils.varreplace import custom_getter_scope, override_to_local_variable
from ..utils import logger
from ..utils.argtools import graph_memoized
from ..utils.naming import TOWER_PREFIX
from .placement import LeastLoadedDeviceSetter, device_of_gpu

T = TypeVar("T")


class GraphBuilder(ABC):
    """Base class for builders of the training part of a graph."""

    @abstractmethod
    def build(self, *args: Any, **kwargs: Any) -> Any:
        """Build the graph. Subclasses choose the arguments and the result."""


class DataParallelBuilder(GraphBuilder):
    """
    Base class for builders of graphs with one tower on each device.

    Args:
        towers: a list of GPU numbers.

    Attributes:
        towers: the same list.

    Example:
        >>> devices = [LeastLoadedDeviceSetter(f"/gpu:{k}", [f"/gpu:{k}" for k in range(2)]) for k in range(2)]
        >>> costs = DataParallelBuilder.call_for_each_tower([0, 1], build_tower, devices)

    Note: soft placement replaces a missing GPU by the CPU, so every graph runs on every machine.
    """

    def __init__(self, towers: Sequence[int]) -> None:
        self.towers = list(towers)
        if len(self.towers) > 1:
            logger.info(f"Building a model with {len(self.towers)} towers.")
            if not tf.test.is_built_with_cuda():
                logger.error(
                    f"This TensorFlow has no GPU support: the {len(self.towers)} towers on the CPU are not faster than one."
                )

    def build(self, *args: Any, **kwargs: Any) -> Any:
        """Build the graph; subclasses override it."""
        raise NotImplementedError(f"{type(self).__name__}: define build().")

    @staticmethod
    def call_for_each_tower(
        towers: Sequence[int],
        func: Callable[[], T],
        devices: Sequence[str | Callable[[tf.Operation], str]] | None = None,
        use_vs: Sequence[bool] | None = None,
    ) -> list[T]:
        """
        Call a function once per tower, with the tower's device and context.

        Tower i is named `tower<i>`, whatever the number of its GPU. The first tower creates variables, and
        the later towers reuse them. A tower whose `use_vs` is True creates copies in the scope `tower<i>`, in
        LOCAL_VARIABLES.

        Args:
            towers: a list of GPU numbers.
            func: a function without arguments that builds one tower.
            devices: for each tower, a device or a device function. None means `/gpu:<number>`.
            use_vs: for each tower, whether it has copies of the variables. None means that no tower has.

        Returns:
            A list of the results of `func`.

        Raises:
            ValueError: the lists have different lengths.
            RuntimeError: towers that share statistics were built differently.
        """
        devices = [f"/gpu:{gpu}" for gpu in towers] if devices is None else list(devices)
        use_vs = [False] * len(towers) if use_vs is None else list(use_vs)
        if not len(towers) == len(devices) == len(use_vs):
            raise ValueError(
                "DataParallelBuilder.call_for_each_tower: the lists have different lengths (expected a device and a use_vs per "
                f"tower, got {len(towers)} towers, {len(devices)} devices and {len(use_vs)} use_vs)."
            )
        results = []
        for index, (device, has_own) in enumerate(zip(devices, use_vs)):
            name = f"tower{index}"
            with ExitStack() as stack:
                stack.enter_context(tf.device(device))
                if index > 0 and not has_own:
                    stack.enter_context(_reuse_variables())
                stack.enter_context(
                    TrainTowerContext(name, vs_name=name if has_own else "", index=index, total=len(towers))
                )
                stack.enter_context(override_to_local_variable(enable=has_own))
                logger.info(f"Building the graph of training tower {index} on device {device} ...")
                results.append(func())
        require_all_towers(len(towers))
        return results

    build_on_towers = call_for_each_tower
    """The same function under a name that subclasses do not override."""

    @staticmethod
    def _check_grad_list(grad_list: Sequence[GradVars]) -> None:
        """Raise a ValueError unless all towers have gradients of the same variables in the same order."""
        names = [[TOWER_PREFIX.sub("", var.op.name) for _, var in pairs] for pairs in grad_list]
        for index, of_tower in enumerate(names):
            if of_tower == names[0]:
                continue
            different = sorted(set(of_tower) ^ set(names[0]))
            raise ValueError(
                f"The towers have gradients of different variables: tower 0 has {len(names[0])}, tower {index} has "
                f"{len(of_tower)} ({', '.join(different) or 'in another order'}). Build the same model in each tower, with "
                "trainable variables that the tower function creates with tf.get_variable. " + advice_on_keras()
            )

    @staticmethod
    def _describe_raw_variables(variables: Sequence[tf.Variable]) -> str:
        """Return a message about variables that a tower created with `tf.Variable(...)`."""
        names = [var.op.name for var in variables]
        of_graph = tf.global_variables()
        saved = [var.op.name for var in variables if any(var is variable for variable in of_graph)]
        text = f"These variables of towers were not created with tf.get_variable: {', '.join(names)}. "
        text += "They are neither shared nor synchronized between towers. "
        if saved:
            text += f"{'All' if saved == names else ', '.join(saved)} are saved in checkpoints under these names. "
        text += "Create them with tf.get_variable(name, ...). "
        return text + advice_on_keras()


class SharedVariablesBuilder(DataParallelBuilder):
    """
    Base class for builders whose towers share their variables; subclasses define `_build_train_op`.

    Args:
        towers: a list of GPU numbers.
        homes: the devices of the variables. None means those of the towers.
    """

    def __init__(self, towers: Sequence[int], homes: Sequence[str] | None = None) -> None:
        super().__init__(towers)
        self._workers = [device_of_gpu(gpu) for gpu in self.towers]
        self._homes = self._workers if homes is None else list(homes)

    def call_for_each_tower(self, tower_fn: Callable[[], GradVars]) -> list[GradVars]:  # type: ignore[override]
        """
        Build the towers.

        Args:
            tower_fn: builds one tower and returns its `(gradient, variable)` pairs.

        Returns:
            The pairs of each tower.
        """
        devices = [LeastLoadedDeviceSetter(worker, self._homes) for worker in self._workers]
        return self.build_on_towers(self.towers, tower_fn, devices)

    def build(self, grad_list: Sequence[GradVars], get_opt_fn: Callable[[], tf.train.Optimizer]) -> tf.Operation:
        """
        Build the update of the variables. Log a warning about variables that are not shared.

        Args:
            grad_list: the pairs of each tower.
            get_opt_fn: returns the optimizer.

        Returns:
            The operation `train_op`.

        Raises:
            ValueError: the towers have gradients of different variables.
        """
        self._check_grad_list(grad_list)
        of_towers = [var for var in tf.global_variables() if TOWER_PREFIX.match(var.op.name)]
        raw = [var for var in of_towers if not _is_used_by_other_towers(var)]
        if raw:
            logger.warning(self._describe_raw_variables(raw))
        with shared_zeros():
            return self._build_train_op(grad_list, get_opt_fn())

    def _build_train_op(self, grad_list: Sequence[GradVars], optimizer: tf.train.Optimizer) -> tf.Operation:
        """Build the operation `train_op` from gradients of the same variables."""
        raise NotImplementedError(f"{type(self).__name__}: define _build_train_op().")


def apply_one_after_another(
    optimizer: tf.train.Optimizer, applications: Sequence[Callable[[], tf.Operation]]
) -> list[tf.Operation]:
    """
    Apply an optimizer several times in one step, to several lists of variables.

    State that advances once per step, such as Adam's beta powers, advances once, after all applications have
    read it. An optimizer without such state applies gradients in any order.

    Args:
        optimizer: a `tf.train.Optimizer`.
        applications: functions without arguments that call `optimizer.apply_gradients` and return its operation.

    Returns:
        The operations of the applications.
    """
    with private.without_finish(optimizer) as advances:
        updates = [apply() for apply in applications[:-1]]
    with tf.control_dependencies(updates if advances else []):
        return [*updates, applications[-1]()]


def shared_zeros() -> ContextManager[None]:
    """
    Context manager: variables that start at zero, e.g. slots of optimizers, share one constant per shape.

    Otherwise, each variable would add up to three operations.
    """

    def use_the_same(getter: Callable[..., tf.Variable], *args: object, **kwargs: Any) -> tf.Variable:
        if isinstance(kwargs.get("initializer"), tf.zeros_initializer):
            kwargs["initializer"] = _zeros
        return getter(*args, **kwargs)

    return custom_getter_scope(use_the_same)


def _zeros(shape: Sequence[int], dtype: tf.DType = tf.float32, partition_info: object = None) -> tf.Tensor:
    return _zeros_once(tuple(shape), tf.as_dtype(dtype))


@graph_memoized
def _zeros_once(shape: tuple[int, ...], dtype: tf.DType) -> tf.Tensor:
    return tf.zeros(shape, dtype)


def _is_used_by_other_towers(variable: tf.Variable) -> bool:
    """Return whether towers share a variable that one of them created, such as those of one Keras model."""
    tensor = variable.op.outputs[0]
    towers = {TOWER_PREFIX.match(op.name) for op in [variable.op, *tensor.consumers()]}
    return len({match.group() for match in towers if match is not None}) > 1


def _reuse_variables() -> ContextManager[tf.VariableScope]:
    return tf.variable_scope(tf.get_variable_scope(), reuse=True, auxiliary_name_scope=False)
