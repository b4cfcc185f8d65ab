"""Training on several devices of one machine: one tower on each."""

from __future__ import annotations

from typing import Any, Callable, Sequence

from ..callbacks.graph import RunOp
from ..compat import tfv1 as tf
from ..graph_builder.asynchronous import AsyncMultiGPUBuilder
from ..graph_builder.parameter_server import SyncMultiGPUParameterServerBuilder
from ..graph_builder.replicated import SyncMultiGPUReplicatedBuilder
from ..input_source.base import FeedfreeInput, InputSource
from ..input_source.staging import StagingInput
from ..loop.callback import Callback
from ..tfutils.optimizer import AccumGradOptimizer, ProxyOptimizer
from ..tfutils.sesscreate import NewSessionCreator
from ..tfutils.sessinit import SessionInit
from ..utils import logger
from ..utils.errors import type_error
from ..utils.gpu import get_num_gpu
from .config import TrainConfig
from .tower import SingleCostTrainer

__all__ = [
    "AsyncMultiGPUTrainer",
    "SyncMultiGPUTrainer",
    "SyncMultiGPUTrainerParameterServer",
    "SyncMultiGPUTrainerReplicated",
]


class _MultiGPUTrainer(SingleCostTrainer):
    """
    What the trainers below share: a list of devices, an input that has a datapoint for each, and what is said of both.

    Attributes:
        devices: the GPU numbers, a list; there is one tower for each.
    """

    _builder: Any  # builds the towers, and `train_op` from their gradients

    def __init__(self, gpus: int | Sequence[int]) -> None:
        super().__init__()
        self.devices = _gpu_list(type(self).__name__, gpus)
        self._source: InputSource | None = None
        self._get_opt_fn: Callable[[], Any] | None = None

    def vs_name_for_predictor(self, device: int) -> str:
        """
        Say which variables a tower on that GPU reads: those of the training tower there, or of the first one.

        Args:
            device: number of a GPU; negative means the CPU.
        """
        return super().vs_name_for_predictor(self.devices.index(device) if device in self.devices else -1)

    _vs_name_for_predictor = vs_name_for_predictor

    def main_loop(self, steps_per_epoch: int, starting_epoch: int, max_epoch: int) -> None:
        """Say how much data a step and an epoch take, then run the loop as `Trainer.main_loop` does."""
        self._log_data(steps_per_epoch)
        super().main_loop(steps_per_epoch, starting_epoch, max_epoch)

    def _setup_graph(
        self, input: InputSource, get_cost_fn: Callable[..., Any], get_opt_fn: Callable[[], Any]
    ) -> list[Callback]:
        grad_list = self._builder.call_for_each_tower(self._make_get_grad_fn(input, get_cost_fn, get_opt_fn))
        self.train_op = self._builder.build(grad_list, get_opt_fn)
        return []

    def _setup_input(self, input_signature: Sequence[Any], input: InputSource) -> list[Callback]:
        if len(self.devices) > 1 and not isinstance(input, FeedfreeInput):
            raise type_error(
                f"{type(self).__name__} on {len(self.devices)} devices",
                "an input that gives each tower a datapoint of its own",
                input,
                "Use QueueInput(df).",
            )
        self._source = input
        return super()._setup_input(input_signature, input)

    def _make_get_grad_fn(
        self, input: InputSource, get_cost_fn: Callable[..., Any], get_opt_fn: Callable[[], Any]
    ) -> Callable[[], Any]:
        self._get_opt_fn = get_opt_fn
        in_order: Any = input if isinstance(input, StagingInput) else _InOrder(input)
        return super()._make_get_grad_fn(in_order, get_cost_fn, get_opt_fn)

    def _log_data(self, steps_per_epoch: int) -> None:
        num_towers = len(self.devices)
        batch = _batch_size(self.towers, self._source)
        text = f"{num_towers} tower{'s' if num_towers > 1 else ''} x "
        text += f"batch {batch} = total batch {num_towers * batch}" if batch else "the data's own batch"
        # a subclass may build its towers without our `_make_get_grad_fn`, or set its input up itself
        accumulated = 1 if self._get_opt_fn is None else _steps_per_update(self._get_opt_fn())
        if accumulated > 1:
            text += f", and {accumulated} steps make an update"
        text += f"; {num_towers * steps_per_epoch} datapoints an epoch"
        try:
            size = None if self._source is None else self._source.size()
        except NotImplementedError:
            size = None
        text += "; how many the data holds is not known" if size is None else f"; the data holds {size}"
        logger.info(text + ".")


class SyncMultiGPUTrainerParameterServer(_MultiGPUTrainer):
    """
    Train one tower on each GPU; all share their variables, which are updated by the mean gradient.

    A step takes one datapoint for each tower, and does what a single tower does with all of them in one batch. Names of
    variables, and so checkpoints, are those of SimpleTrainer. A DataFlow given to it is fed through a QueueInput, and with
    several GPUs a StagingInput around that.

    Args:
        gpus: how many GPUs, from the first on, or a list of their numbers.
        ps_device: where the variables live: "cpu", or "gpu" for being spread over the GPUs; None means "gpu" for one or two.

    Attributes:
        devices: the GPU numbers.

    Raises:
        TypeError, ValueError: of another kind; with several GPUs, in `setup_graph`: the input is fed.

    Example:
        >>> launch_train_with_config(config, SyncMultiGPUTrainerParameterServer(4))

    tensorpack: same; there "cpu" means the first GPU on TF 2, and it is chance which tower gets which datapoint.
    """

    def __init__(self, gpus: int | Sequence[int], ps_device: str | None = None) -> None:
        super().__init__(gpus)
        if ps_device is None:
            ps_device = "gpu" if len(self.devices) <= 2 else "cpu"
        self._builder = SyncMultiGPUParameterServerBuilder(self.devices, ps_device)


def SyncMultiGPUTrainer(gpus: int | Sequence[int]) -> SyncMultiGPUTrainerParameterServer:  # noqa: N802
    """
    Function: returns the trainer for several GPUs that always works, a `SyncMultiGPUTrainerParameterServer` with its variables
    on the CPU.

    Args:
        gpus: how many GPUs, from the first on, or a list of their numbers.

    tensorpack: same.
    """
    return SyncMultiGPUTrainerParameterServer(gpus, ps_device="cpu")


class AsyncMultiGPUTrainer(_MultiGPUTrainer):
    """
    Train one tower on each GPU; all share their variables, which each tower's gradients update by themselves.

    A step takes one datapoint for each tower and makes as many updates of each variable, in no order. The variables live on
    the CPU with four GPUs or more, else they are spread over the GPUs.

    Args:
        gpus: how many GPUs, from the first on, or a list of their numbers.
        scale_gradient: divide gradients by the number of GPUs, so that a step goes about as far as that of one GPU.

    Attributes:
        devices: the GPU numbers.

    Raises:
        TypeError, ValueError: of another kind; with several GPUs, in `setup_graph`: the input is fed.

    Note: gradient processors see the gradients of each tower. The result depends on chance.

    tensorpack: same; there they see one variable at a time.
    """

    def __init__(self, gpus: int | Sequence[int], scale_gradient: bool = True) -> None:
        super().__init__(gpus)
        self._builder = AsyncMultiGPUBuilder(self.devices, scale_gradient)


class SyncMultiGPUTrainerReplicated(_MultiGPUTrainer):
    """
    Train one tower on each GPU, with variables of its own; gradients are reduced over all, so that the copies stay equal.

    A step takes one datapoint for each tower. The variables of the first tower have their usual names and are saved; those
    of tower i are `tower<i>/...`, local, never saved, and get the first tower's values before training and after each epoch.

    Args:
        gpus: how many GPUs, from the first on, or a list of their numbers.
        average: reduce gradients to their mean, which keeps the meaning of the learning rate; else to their sum.
        mode: how gradients are reduced: "gpu" (the GPUs take turns), "cpu", "nccl", "hierarchical" (8 GPUs), "collective"
            (TensorFlow's collective operations); None means "hierarchical" with 8 GPUs, else "gpu".

    Attributes:
        devices: the GPU numbers.
        BROADCAST_EVERY_EPOCH: whether copies get the first tower's values after each epoch, too: those of moving averages,
            for instance, differ. True; can be set before `setup_graph`.

    Raises:
        TypeError, ValueError: of another kind; with several GPUs, in `setup_graph`: the input is fed, or a trainable variable
            was not made by `tf.get_variable`.
        RuntimeError: in `initialize`, mode "collective": the session has not as many devices as there are towers.

    Note: where there are no GPUs, mode "collective" places the towers on virtual CPUs `/cpu:0`, `/cpu:1` ..., and asks the
    session for them.

    tensorpack: same; there mode "collective" never returns without GPUs, and Adam's beta powers advance once a tower.
    """

    def __init__(self, gpus: int | Sequence[int], average: bool = True, mode: str | None = None) -> None:
        super().__init__(gpus)
        self.BROADCAST_EVERY_EPOCH = True
        self._mode = _choose_mode(mode, len(self.devices))
        devices = None
        if self._mode == "collective" and len(self.devices) > 1 and get_num_gpu() == 0:
            devices = [f"/cpu:{index}" for index in range(len(self.devices))]
        self._builder = SyncMultiGPUReplicatedBuilder(self.devices, average, self._mode, devices)

    def _setup_graph(
        self, input: InputSource, get_cost_fn: Callable[..., Any], get_opt_fn: Callable[[], Any]
    ) -> list[Callback]:
        grad_list = self._builder.call_for_each_tower(self._make_get_grad_fn(input, get_cost_fn, get_opt_fn))
        self.train_op, sync_op = self._builder.build(grad_list, get_opt_fn)
        if sync_op is None:
            return []
        sync = RunOp(sync_op, run_before=True, run_as_trigger=self.BROADCAST_EVERY_EPOCH, verbose=True)
        sync.name_scope = "SyncVariables"
        return [sync]

    def initialize(self, session_creator: Any, session_init: SessionInit) -> None:
        """Initialize as `Trainer.initialize` does; in mode "collective", see that there is a device for each tower."""
        needed = len(self.devices) if self._mode == "collective" else 1
        is_on_cpu = self._builder.devices[0].startswith("/cpu")
        if needed > 1 and is_on_cpu and isinstance(session_creator, NewSessionCreator):
            count = session_creator.config.device_count
            if "CPU" not in count:
                count["CPU"] = needed
        super().initialize(session_creator, session_init)
        if needed > 1:
            self._check_devices("CPU" if is_on_cpu else "GPU", needed)

    def _check_devices(self, kind: str, needed: int) -> None:
        found = [device.name for device in self.sess.list_devices() if device.device_type == kind]
        if len(found) >= needed:
            return
        self.hooked_sess.close()
        how = (
            f"Use TrainConfig(session_config=tf.ConfigProto(device_count={{'CPU': {needed}}})), or mode='gpu'."
            if kind == "CPU"
            else "Use mode='gpu'."
        )
        raise RuntimeError(
            f"{type(self).__name__}: mode 'collective' needs {needed} distinct devices of kind {kind}, the session has "
            f"{len(found)} ({', '.join(found)}); its steps would never end. {how}"
        )


class _InOrder:
    """An input whose towers take their datapoints one after another; without this it is chance which one gets which."""

    def __init__(self, input: InputSource) -> None:
        self._input = input
        self._last_taken: list[Any] = []

    def get_input_tensors(self) -> Sequence[Any]:
        """Create the input tensors of the next tower."""
        with tf.control_dependencies(self._last_taken):
            tensors = self._input.get_input_tensors()
        self._last_taken = [tensor.op for tensor in tensors[:1]]
        return tensors


def _choose_mode(mode: str | None, num_towers: int) -> str:
    """Say how gradients are reduced: as asked for, where that is possible."""
    mode = mode.lower() if mode is not None else None
    if mode == "hierarchical" and num_towers != 8:
        logger.warning(
            f"Mode 'hierarchical' is for 8 GPUs, there are {num_towers}. A mode is chosen for you."
        )
        mode = None
    if mode is None:
        mode = "hierarchical" if num_towers == 8 else "gpu"
    if mode == "nccl" and num_towers > 1:
        logger.warning(
            "Mode 'nccl' has been seen to give wrong results with TensorFlow >= 1.15. Mode 'gpu' is safe."
        )
    return mode


def _gpu_list(trainer: str, gpus: Any) -> list[int]:
    if isinstance(gpus, TrainConfig):
        raise TypeError(
            f"{trainer}: the first argument is how many GPUs, or a list of them, got a TrainConfig. Write "
            f"launch_train_with_config(config, {trainer}(gpus)); scripts written as Trainer(config).train() import their "
            "trainers from tensorpack_lite.trainv1."
        )
    if isinstance(gpus, int) and not isinstance(gpus, bool):
        if gpus < 1:
            raise ValueError(f"{trainer}: gpus is {gpus}, wanted at least 1.")
        return list(range(gpus))
    if not isinstance(gpus, (list, tuple, range)) or not all(isinstance(gpu, int) for gpu in gpus):
        raise type_error(trainer, "a number of GPUs or a list of their numbers", gpus)
    if not gpus or len(set(gpus)) < len(gpus):
        raise ValueError(f"{trainer}: gpus is {list(gpus)}, wanted distinct numbers of GPUs, at least one.")
    return list(gpus)


def _steps_per_update(optimizer: Any) -> int:
    """Find how many steps an optimizer accumulates gradients for."""
    while isinstance(optimizer, ProxyOptimizer):
        if isinstance(optimizer, AccumGradOptimizer):
            return optimizer._niter
        optimizer = optimizer._opt
    return 1


def _batch_size(towers: Any, source: Any) -> int | None:
    """
    Find how many samples a datapoint holds: the first dimension that all inputs of a tower have in the graph, or else what a
    DataFlow says of itself.
    """
    shapes = [tensor.shape for tensor in towers.training()[0].inputs] if len(towers.training()) else []
    # a scalar has no samples, so it agrees with no other input
    first = {0 if shape.ndims == 0 else shape.as_list()[0] for shape in shapes if shape.ndims is not None}
    first.discard(None)
    size = first.pop() if len(first) == 1 else None
    return size or _batch_size_of_data(source)


def _batch_size_of_data(source: Any) -> int | None:
    """Find the outermost batch size in an input and the DataFlows behind it; parts that are joined must agree."""
    size = getattr(source, "batch_size", None)
    if isinstance(size, int):
        return size
    behind = [getattr(source, name, None) for name in ("_input", "ds")]
    sizes = {_batch_size_of_data(part) for part in behind if part is not None}
    sizes |= {_batch_size_of_data(part) for part in getattr(source, "df_lists", ())}
    return sizes.pop() if len(sizes) == 1 else None
