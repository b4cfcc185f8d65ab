"""One tower function, called once for each device."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from contextlib import ExitStack
from typing import Any, Callable, ContextManager, Sequence

from ..compat import private
from ..compat import tfv1 as tf
from ..tfutils.gradproc import GradVars
from ..tfutils.tower.context import TrainTowerContext
from ..tfutils.tower.joint import require_all_towers
from ..tfutils.varreplace import custom_getter_scope, override_to_local_variable
from ..utils import logger
from ..utils.argtools import graph_memoized
from .placement import LeastLoadedDeviceSetter

__all__ = [
    "DataParallelBuilder",
    "GraphBuilder",
    "SharedVariablesBuilder",
    "apply_one_after_another",
    "shared_zeros",
]

_TOWER_PREFIX = re.compile(r"tower[0-9]+/")


class GraphBuilder(ABC):
    """
    Builds the training part of a graph from a function that builds one tower.

    tensorpack: same.
    """

    @abstractmethod
    def build(self, *args: Any, **kwargs: Any) -> Any:
        """Build the graph; what it takes and returns is the subclass's choice."""


class DataParallelBuilder(GraphBuilder):
    """
    Builder of graphs with one tower on each device.

    Args:
        towers: a list of GPU numbers.

    Attributes:
        towers: as given.

    Example:
        >>> devices = [LeastLoadedDeviceSetter(f"/gpu:{k}", [f"/gpu:{k}" for k in range(2)]) for k in range(2)]
        >>> costs = DataParallelBuilder.call_for_each_tower([0, 1], build_tower, devices)

    Note: a GPU that is not there is replaced by the CPU, by soft placement, so every graph runs anywhere.

    tensorpack: same.
    """

    def __init__(self, towers: Sequence[int]) -> None:
        self.towers = list(towers)
        if len(self.towers) > 1:
            logger.info(f"A model of {len(self.towers)} towers is built.")
            if not tf.test.is_built_with_cuda():
                logger.error(
                    f"There are {len(self.towers)} towers, but this TensorFlow was built without GPU support: they all "
                    "run on the CPU, and are no faster than one."
                )

    def build(self, *args: Any, **kwargs: Any) -> Any:
        """Build the graph; a subclass defines it."""
        raise NotImplementedError(f"{type(self).__name__}: define build().")

    @staticmethod
    def call_for_each_tower(
        towers: Sequence[int],
        func: Callable[[], Any],
        devices: Sequence[Any] | None = None,
        use_vs: Sequence[bool] | None = None,
    ) -> list[Any]:
        """
        Call a function once for each tower, under its device and its tower context.

        Tower i is named `tower<i>`, whatever the number of its GPU. The first one creates variables, the later ones reuse
        them; a tower whose `use_vs` is True has variables of its own in scope `tower<i>`, in LOCAL_VARIABLES.

        Args:
            towers: a list of GPU numbers.
            func: builds one tower; takes nothing.
            devices: for each tower a device or a device function; None means `/gpu:<number>`.
            use_vs: for each tower, whether it has variables of its own; None means that none has.

        Returns:
            What the calls returned, a list.

        Raises:
            ValueError: the lists have different lengths.
            RuntimeError: towers that share statistics were built differently.

        tensorpack: same.
        """
        devices = [f"/gpu:{gpu}" for gpu in towers] if devices is None else list(devices)
        use_vs = [False] * len(towers) if use_vs is None else list(use_vs)
        if not len(towers) == len(devices) == len(use_vs):
            raise ValueError(
                f"DataParallelBuilder: got {len(towers)} towers, {len(devices)} devices and use_vs for {len(use_vs)}; wanted "
                "as many of each."
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
    """`call_for_each_tower` under a name that subclasses don't override."""

    @staticmethod
    def _check_grad_list(grad_list: Sequence[GradVars]) -> None:
        """Raise ValueError unless all towers have gradients of the same variables, in the same order."""
        names = [[_TOWER_PREFIX.sub("", var.op.name) for _, var in pairs] for pairs in grad_list]
        for index, of_tower in enumerate(names):
            if of_tower == names[0]:
                continue
            different = sorted(set(of_tower) ^ set(names[0]))
            raise ValueError(
                f"The towers have gradients of different variables: tower 0 of {len(names[0])}, tower {index} of "
                f"{len(of_tower)}; {', '.join(different) or 'in another order'}. A tower function must build the same model "
                "at each call, and create its trainable variables inside, with tf.get_variable."
            )

    @staticmethod
    def _describe_raw_variables(variables: Sequence[Any]) -> str:
        """Say what becomes of variables that a tower made as `tf.Variable(...)`, and what to do."""
        names = [var.op.name for var in variables]
        of_graph = tf.global_variables()
        saved = [var.op.name for var in variables if any(var is one for one in of_graph)]
        text = f"These variables of a tower were not made with tf.get_variable: {', '.join(names)}. So they are neither shared nor "
        text += "replicated: each tower has its own, "
        if saved:
            text += f"{'they' if saved == names else ', '.join(saved)} are saved under these names, "
        return text + "and they are never made equal. Make them with tf.get_variable(name, ...)."


class SharedVariablesBuilder(DataParallelBuilder):
    """
    Base of builders whose towers share their variables; a subclass defines `_build_train_op`.

    Args:
        towers: a list of GPU numbers.
        homes: the devices that the variables are spread over; None means those of the towers.
    """

    def __init__(self, towers: Sequence[int], homes: Sequence[str] | None = None) -> None:
        super().__init__(towers)
        self._workers = [f"/gpu:{gpu}" for gpu in self.towers]
        self._homes = self._workers if homes is None else list(homes)

    def call_for_each_tower(self, tower_fn: Callable[[], Any]) -> list[Any]:  # type: ignore[override]
        """
        Build the towers.

        Args:
            tower_fn: builds one tower; returns its `(gradient, variable)` pairs.

        Returns:
            The pairs of each tower.
        """
        devices = [LeastLoadedDeviceSetter(worker, self._homes) for worker in self._workers]
        return self.build_on_towers(self.towers, tower_fn, devices)

    def build(self, grad_list: Sequence[GradVars], get_opt_fn: Callable[[], Any]) -> Any:  # type: ignore[override]
        """
        Build the update of the variables; warn of those that a tower has for itself.

        Args:
            grad_list: the pairs of each tower.
            get_opt_fn: gives the optimizer.

        Returns:
            The operation `train_op`.

        Raises:
            ValueError: the towers have gradients of different variables.
        """
        self._check_grad_list(grad_list)
        raw = [var for var in tf.global_variables() if _TOWER_PREFIX.match(var.op.name)]
        if raw:
            logger.warning(self._describe_raw_variables(raw))
        with shared_zeros():
            return self._build_train_op(grad_list, get_opt_fn())

    def _build_train_op(self, grad_list: Sequence[GradVars], optimizer: Any) -> Any:
        """Build the operation `train_op` from gradients of the same variables."""
        raise NotImplementedError(f"{type(self).__name__}: define _build_train_op().")


def apply_one_after_another(optimizer: Any, applications: Sequence[Callable[[], Any]]) -> list[Any]:
    """
    Apply an optimizer several times within one step, to several lists of variables.

    What the optimizer advances once a step, such as Adam's beta powers, is advanced once, after all have read it. An
    optimizer that advances nothing puts no order between the applications.

    Args:
        optimizer: the `tf.train.Optimizer` that they use.
        applications: functions without arguments that call `optimizer.apply_gradients` and return its operation.

    Returns:
        Their operations.
    """
    with private.without_finish(optimizer) as advances:
        updates = [apply() for apply in applications[:-1]]
    with tf.control_dependencies(updates if advances else []):
        return [*updates, applications[-1]()]


def shared_zeros() -> ContextManager[None]:
    """
    Let variables that are made inside the context, slots of optimizers for instance, begin with the same zeros.

    Those of one shape have one constant then, where each would have up to three operations of its own.
    """

    def use_the_same(getter: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if isinstance(kwargs.get("initializer"), tf.zeros_initializer):
            kwargs["initializer"] = _zeros
        return getter(*args, **kwargs)

    return custom_getter_scope(use_the_same)


def _zeros(shape: Sequence[int], dtype: Any = tf.float32, partition_info: Any = None) -> Any:
    return _zeros_once(tuple(shape), tf.as_dtype(dtype))


@graph_memoized
def _zeros_once(shape: tuple[int, ...], dtype: Any) -> Any:
    return tf.zeros(shape, dtype)


def _reuse_variables() -> Any:
    return tf.variable_scope(tf.get_variable_scope(), reuse=True, auxiliary_name_scope=False)
