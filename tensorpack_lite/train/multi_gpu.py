"""Trainers for several GPUs of one machine, with one tower on each."""

from __future__ import annotations

from typing import Any, Callable, Sequence

from ..callbacks.graph import RunOp
from ..compat import tensorflow
from ..compat import tfv1 as tf
from ..graph_builder.asynchronous import AsyncMultiGPUBuilder
from ..graph_builder.parameter_server import SyncMultiGPUParameterServerBuilder
from ..graph_builder.replicated import SyncMultiGPUReplicatedBuilder
from ..input_source.base import FeedfreeInput, InputSource
from ..input_source.batch_size import samples_per_datapoint
from ..input_source.staging import StagingInput
from ..loop.callback import Callback
from ..tfutils.gradproc import GradVars
from ..tfutils.sesscreate import NewSessionCreator
from ..tfutils.sessinit import SessionInit
from ..utils import logger
from ..utils.errors import type_error
from ..utils.gpu import get_num_gpu
from ..utils.inspection import call_within
from .config import TrainConfig
from .tower import CostFn, OptFn, SingleCostTrainer


class _MultiGPUTrainer(SingleCostTrainer):
    """
    Base class of the trainers below: checks the devices and the input, and logs how much data a step takes.

    Attributes:
        devices: a list of GPU numbers; each GPU has one tower.
    """

    _builder: Any  # builds the towers, and `train_op` from their gradients

    def __init__(self, gpus: int | Sequence[int]) -> None:
        super().__init__()
        self.devices = _gpu_list(type(self).__name__, gpus)
        _warn_of_missing_gpus(type(self).__name__, self.devices)
        self._source: InputSource | None = None

    def vs_name_for_predictor(self, device: int) -> str:
        """
        Return the variable scope of the training tower on a GPU; that of the first tower if the GPU has none.

        Args:
            device: the number of a GPU; negative means the CPU.
        """
        return super().vs_name_for_predictor(self.devices.index(device) if device in self.devices else -1)

    _vs_name_for_predictor = vs_name_for_predictor

    def main_loop(self, steps_per_epoch: int, starting_epoch: int, max_epoch: int) -> None:
        """Log how much data a step and an epoch take, then call `Trainer.main_loop`."""
        self._log_data(steps_per_epoch)
        super().main_loop(steps_per_epoch, starting_epoch, max_epoch)

    def _setup_graph(self, input: InputSource, get_cost_fn: CostFn, get_opt_fn: OptFn) -> list[Callback]:
        grad_list = self._builder.call_for_each_tower(self._make_get_grad_fn(input, get_cost_fn, get_opt_fn))
        self.train_op = self._builder.build(grad_list, get_opt_fn)
        return []

    def _setup_input(self, input_signature: Sequence[tf.TensorSpec], input: InputSource) -> list[Callback]:
        if len(self.devices) > 1 and not isinstance(input, FeedfreeInput):
            who, expected = type(self).__name__, "an input that gives each tower its own datapoint"
            raise type_error(f"{who} on {len(self.devices)} devices", expected, input, "Use QueueInput(df).")
        self._source = input
        return super()._setup_input(input_signature, input)

    def _make_get_grad_fn(self, input: InputSource, get_cost_fn: CostFn, get_opt_fn: OptFn) -> Callable[[], GradVars]:
        in_order: Any = input if isinstance(input, StagingInput) else _InOrder(input)
        return super()._make_get_grad_fn(in_order, get_cost_fn, get_opt_fn)

    def _log_data(self, steps_per_epoch: int) -> None:
        num_towers = len(self.devices)
        batch = samples_per_datapoint(list(self.towers.training()), self._source)
        text = f"{num_towers} tower{'s' if num_towers > 1 else ''} x "
        text += f"batch {batch} = total batch {num_towers * batch}" if batch else "the data's own batch"
        if self.steps_per_update > 1:
            text += f", and each update takes {self.steps_per_update} steps"
        text += f"; {num_towers * steps_per_epoch} datapoints per epoch"
        size = None if self._source is None else call_within(1.0, self._source.size)
        text += "; the size of the data is unknown" if size is None else f"; the data has {size}"
        logger.info(text + ".")


class SyncMultiGPUTrainerParameterServer(_MultiGPUTrainer):
    """
    Trainer with one tower on each GPU. All towers share their variables, which are updated with the mean gradient.

    A step takes one datapoint for each tower, and has the same effect as a single tower with all of them in
    one batch. The names of variables, and so the checkpoints, are those of SimpleTrainer. A DataFlow is fed
    through a QueueInput, with a StagingInput around it if there are several GPUs.

    Args:
        gpus: the number of GPUs, from the first on, or a list of GPU numbers.
        ps_device: the device of the variables: "cpu", or "gpu" to spread them over the GPUs. None means "gpu"
            for one or two GPUs, otherwise "cpu".

    Attributes:
        devices: a list of GPU numbers.

    Raises:
        TypeError, ValueError: `gpus` is not valid. With several GPUs, in `setup_graph`: the input is fed
            through placeholders.

    Example:
        >>> launch_train_with_config(config, SyncMultiGPUTrainerParameterServer(4))
    """

    def __init__(self, gpus: int | Sequence[int], ps_device: str | None = None) -> None:
        super().__init__(gpus)
        if ps_device is None:
            ps_device = "gpu" if len(self.devices) <= 2 else "cpu"
        self._builder = SyncMultiGPUParameterServerBuilder(self.devices, ps_device)


def SyncMultiGPUTrainer(gpus: int | Sequence[int]) -> SyncMultiGPUTrainerParameterServer:  # noqa: N802
    """
    Return a trainer for any number of GPUs: a `SyncMultiGPUTrainerParameterServer` with its variables on the CPU.

    Args:
        gpus: the number of GPUs, from the first on, or a list of GPU numbers.
    """
    return SyncMultiGPUTrainerParameterServer(gpus, ps_device="cpu")


class AsyncMultiGPUTrainer(_MultiGPUTrainer):
    """
    Trainer with one tower on each GPU. All towers share their variables, which each tower updates independently.

    A step takes one datapoint for each tower, and updates each variable once for each tower, in no fixed
    order, so results vary. With four or more GPUs the variables are on the CPU, otherwise they are spread
    over the GPUs.

    Args:
        gpus: the number of GPUs, from the first on, or a list of GPU numbers.
        scale_gradient: divide gradients by the number of GPUs, so that a step changes variables about as much
            as with one GPU.

    Attributes:
        devices: a list of GPU numbers.

    Raises:
        TypeError, ValueError: `gpus` is not valid. With several GPUs, in `setup_graph`: the input is fed
            through placeholders.

    Note: gradient processors get the gradients of one tower at a time.
    """

    not_repeatable = "AsyncMultiGPUTrainer (its towers update the variables in any order)"

    updates_together = False

    def __init__(self, gpus: int | Sequence[int], scale_gradient: bool = True) -> None:
        super().__init__(gpus)
        self._builder = AsyncMultiGPUBuilder(self.devices, scale_gradient)


class SyncMultiGPUTrainerReplicated(_MultiGPUTrainer):
    """
    Trainer with one tower on each GPU, each with its own copy of the variables. The gradients are all-reduced, so the copies
    stay equal.

    A step takes one datapoint for each tower. The variables of the first tower have their usual names and are
    saved. Those of tower i are named `tower<i>/...`, are local and not saved, and get the first tower's
    values before training and after each epoch.

    Args:
        gpus: the number of GPUs, from the first on, or a list of GPU numbers.
        average: reduce gradients to their mean, which keeps the meaning of the learning rate; otherwise to their sum.
        mode: how gradients are reduced: "gpu" (on the GPUs in turn), "cpu", "nccl", "hierarchical" (8 GPUs),
            "collective" (TensorFlow's collective operations). None means "hierarchical" with 8 GPUs,
            otherwise "gpu".

    Attributes:
        devices: a list of GPU numbers.
        BROADCAST_EVERY_EPOCH: whether the copies also get the first tower's values after each epoch, because variables
            such as moving averages differ. True by default; set it before `setup_graph`.

    Raises:
        TypeError, ValueError: `gpus` is not valid. With several GPUs, in `setup_graph`: the input is fed through
            placeholders, or a trainable variable was not created by `tf.get_variable`.
        RuntimeError: in `initialize`, with mode "collective": the session has fewer devices than towers.

    Note: without GPUs, mode "collective" places the towers on virtual CPUs `/cpu:0`, `/cpu:1` ..., which it
    requests in the session's configuration.
    """

    def __init__(self, gpus: int | Sequence[int], average: bool = True, mode: str | None = None) -> None:
        super().__init__(gpus)
        self.BROADCAST_EVERY_EPOCH = True
        self._mode = _choose_mode(mode, len(self.devices))
        devices = None
        if self._mode == "collective" and len(self.devices) > 1 and get_num_gpu() == 0:
            devices = [f"/cpu:{index}" for index in range(len(self.devices))]
        self._builder = SyncMultiGPUReplicatedBuilder(self.devices, average, self._mode, devices)

    def _setup_graph(self, input: InputSource, get_cost_fn: CostFn, get_opt_fn: OptFn) -> list[Callback]:
        grad_list = self._builder.call_for_each_tower(self._make_get_grad_fn(input, get_cost_fn, get_opt_fn))
        self.train_op, sync_op = self._builder.build(grad_list, get_opt_fn)
        if sync_op is None:
            return []
        sync = RunOp(sync_op, run_before=True, run_as_trigger=self.BROADCAST_EVERY_EPOCH)
        sync.name_scope = "SyncVariables"
        return [sync]

    def initialize(self, session_creator: tf.train.SessionCreator, session_init: SessionInit) -> None:
        """Call `Trainer.initialize`; in mode "collective", check that each tower has a device."""
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
        how = "Use mode='gpu'."
        if kind == "CPU":
            how = f"Use TrainConfig(session_config=tf.ConfigProto(device_count={{'CPU': {needed}}})), or mode='gpu'."
        raise RuntimeError(
            f"{type(self).__name__}: mode 'collective' would hang (expected {needed} devices of type {kind} in the session, got "
            f"{len(found)}: {', '.join(found)}). {how}"
        )


class _InOrder:
    """An input whose towers take their datapoints in order, so that results are reproducible."""

    def __init__(self, input: InputSource) -> None:
        self._input = input
        self._last_taken: list[tf.Operation] = []

    def get_input_tensors(self) -> Sequence[tf.Tensor]:
        """Create the input tensors of the next tower."""
        with tf.control_dependencies(self._last_taken):
            tensors = self._input.get_input_tensors()
        self._last_taken = [tensor.op for tensor in tensors[:1]]
        return tensors


def _choose_mode(mode: str | None, num_towers: int) -> str:
    """Return the given mode if it is possible, otherwise the default."""
    default = "hierarchical" if num_towers == 8 else "gpu"
    mode = default if mode is None else mode.lower()
    if mode == "hierarchical" and num_towers != 8:
        logger.warning(f"Mode 'hierarchical' is for 8 GPUs, got {num_towers}. Mode 'gpu' is used instead.")
        mode = default
    if mode == "nccl" and num_towers > 1:
        logger.warning("Mode 'nccl' can give wrong results with TensorFlow >= 1.15. Mode 'gpu' is safe.")
    return mode


def _gpu_list(trainer: str, gpus: object) -> list[int]:
    if isinstance(gpus, TrainConfig):
        raise TypeError(
            f"{trainer}: expected a number of GPUs or a list of their numbers, got a TrainConfig. Call "
            f"launch_train_with_config(config, {trainer}(gpus)). A script that calls Trainer(config).train() imports its "
            "trainers from tensorpack_lite.trainv1."
        )
    if isinstance(gpus, int) and not isinstance(gpus, bool):
        if gpus < 1:
            raise ValueError(f"{trainer}: expected at least 1 GPU, got {gpus}.")
        return list(range(gpus))
    if not isinstance(gpus, (list, tuple, range)) or not all(isinstance(gpu, int) for gpu in gpus):
        raise type_error(trainer, "a number of GPUs or a list of their numbers", gpus)
    if not gpus or len(set(gpus)) < len(gpus):
        raise ValueError(f"{trainer}: expected distinct numbers of GPUs, at least one, got {list(gpus)}.")
    return list(gpus)


def _warn_of_missing_gpus(trainer: str, gpus: Sequence[int]) -> None:
    existing = get_num_gpu() or len(tensorflow.config.experimental.list_physical_devices("GPU"))
    if len(gpus) > 1 and max(gpus) >= existing:
        found = f"{existing} GPU{'s' if existing > 1 else ''}" if existing else "no GPU"
        logger.warning(
            f"{trainer}: {len(gpus)} towers, on GPUs {', '.join(map(str, gpus))}, but this process sees {found}. Towers of missing GPUs "
            "share the devices that exist, so more of them are not faster. If there are more GPUs, look at CUDA_VISIBLE_DEVICES."
        )
