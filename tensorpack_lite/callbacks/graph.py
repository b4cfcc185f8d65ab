"""Callbacks that run operations or look at tensors of the graph."""

from __future__ import annotations

import os
from typing import Any, Callable, Sequence

import numpy as np

from ..compat import tfv1 as tf
from ..loop.callback import Callback
from ..tfutils.png import encode_png
from ..utils import logger
from ..utils.fs import write_npz
from .directories import need_logger_dir

__all__ = [
    "CheckNumerics",
    "DumpParamAsImage",
    "DumpTensor",
    "DumpTensorAsImage",
    "DumpTensors",
    "ProcessTensors",
    "RunOp",
    "RunUpdateOps",
]


class RunOp(Callback):
    """
    Run an operation before training, at triggers, or along with every step.

    Args:
        op: an operation or a tensor, or a function without arguments that creates one; it is called in `_setup_graph`.
        run_before: run it once before training.
        run_as_trigger: run it at each trigger.
        run_step: run it with each run of the hooked session, in no order with the rest of the step.
        verbose: log each time it runs.

    Raises:
        TypeError: in `setup_graph`, it is no operation.

    Runs at: before_train, trigger, every run: as told. In every process of a distributed training.

    Example:
        >>> RunOp(lambda: tf.assign(target, source), run_before=True, run_as_trigger=True)

    tensorpack: same; there a tensor is refused.
    """

    _chief_only = False

    def __init__(
        self,
        op: Any,
        run_before: bool = True,
        run_as_trigger: bool = True,
        run_step: bool = False,
        verbose: bool = False,
    ) -> None:
        self._given = op
        self.run_before = run_before
        self.run_as_trigger = run_as_trigger
        self.run_step = run_step
        self.verbose = verbose
        self._op: Any = None
        self._args: Any = None

    def _setup_graph(self) -> None:
        self._op = self._given() if callable(self._given) else self._given
        if not isinstance(self._op, (tf.Operation, tf.Tensor)):
            raise TypeError(
                f"{type(self).__name__}: takes an operation, a tensor, or a function that creates one; "
                f"got {type(self._op).__name__}."
            )
        self._args = tf.train.SessionRunArgs([self._op]) if self.run_step else None

    def _before_train(self) -> None:
        if self.run_before:
            self._run()

    def _trigger(self) -> None:
        if self.run_as_trigger:
            self._run()

    def _before_run(self, ctx: Any) -> Any:
        if self.verbose and self.run_step:
            self._log()
        return self._args

    def _run(self) -> None:
        if self.verbose:
            self._log()
        tf.get_default_session().run(self._op)

    def _log(self) -> None:
        logger.info("%s: runs %s.", type(self).__name__, self._op.name)


class RunUpdateOps(RunOp):
    """
    Run the operations of a collection along with every step; those of batch normalization, for instance.

    Args:
        collection: the collection, as it stands when this callback sets up; None means `UPDATE_OPS`.

    Runs at: every run. In every process of a distributed training.

    tensorpack: same.
    """

    def __init__(self, collection: str | None = None) -> None:
        self._collection = tf.GraphKeys.UPDATE_OPS if collection is None else collection
        super().__init__(self._group_updates, run_before=False, run_as_trigger=False, run_step=True)

    def _setup_graph(self) -> None:
        super()._setup_graph()
        if not tf.get_collection(self._collection):
            self._args = None

    def _group_updates(self) -> Any:
        updates = tf.get_collection(self._collection)
        if not updates:
            return tf.no_op(name="empty_update_ops")
        logger.info(
            "RunUpdateOps: %d operations of collection '%s' run with every step.",
            len(updates),
            self._collection,
        )
        return tf.group(*updates, name="update_ops")


class ProcessTensors(Callback):
    """
    Call a function with the values of tensors, after every run.

    Args:
        names: names of tensors, without a tower's prefix; a list.
        fn: called with one argument a name. The value of an operation without outputs is None.

    Raises:
        TypeError: `names` is no list.
        KeyError: before training, a name does not exist.

    Runs at: before_train, every run.

    Example:
        >>> ProcessTensors(["cost"], lambda cost: logger.info("cost %s", cost))

    tensorpack: same; there `fn` is given None for a name without `:0` when there is one tower.
    """

    def __init__(self, names: Sequence[str], fn: Callable[..., Any]) -> None:
        if not isinstance(names, (list, tuple)):
            raise TypeError(
                f"{type(self).__name__}: takes a list of names, got {type(names).__name__}. "
                "Put a single name into a list."
            )
        self._names = list(names)
        self._fn = fn
        self._args: Any = None

    def _before_train(self) -> None:
        self._args = tf.train.SessionRunArgs(self.get_tensors_maybe_in_tower(self._names))

    def _before_run(self, ctx: Any) -> Any:
        return self._args

    def _after_run(self, ctx: Any, run_values: Any) -> None:
        self._fn(*run_values.results)


class DumpTensors(ProcessTensors):
    """
    Write the values of tensors to a file, after every run: `DumpTensor-<global_step>.npz` in the logger's directory.

    Args:
        names: names of tensors, without a tower's prefix; they are the keys in the file.

    Raises:
        TypeError: `names` is no list.
        RuntimeError: before training, there is no logger directory.

    Runs at: before_train, every run.

    Example:
        >>> PeriodicCallback(DumpTensors(["cost", "fc/W"]), every_k_steps=100)

    tensorpack: same; there a missing logger directory is a TypeError in the first step.
    """

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names, self._dump)
        self._directory = ""

    def _before_train(self) -> None:
        super()._before_train()
        self._directory = need_logger_dir("DumpTensors")

    def _dump(self, *values: Any) -> None:
        path = os.path.join(self._directory, f"DumpTensor-{self.global_step}.npz")
        write_npz(path, dict(zip(self._names, values)))


DumpTensor = DumpTensors


class DumpTensorAsImage(Callback):
    """
    Write a tensor as an image at each trigger: `<prefix>-ep<epoch>.png` in the logger's directory, and to the monitors.

    Args:
        tensor_name: the tensor.
        prefix: the file's name before `-ep`, and the name for monitors; None means the tensor's name without `:0`.
        map_func: from the tensor's value to an image [H, W] or [H, W, C], or to a list of images, which are numbered
            from 0 behind the epoch; None means the value itself.
        scale: what the result is multiplied with to be in [0, 255]; values outside are clipped.

    Raises:
        RuntimeError: before training, there is no logger directory.

    Runs at: before_train, trigger.

    tensorpack: there the first image of a list has no number, a list cannot be given to monitors, and OpenCV must be
    installed, which takes channels for blue, green, red; here they are red, green, blue in the file too.
    """

    def __init__(
        self,
        tensor_name: str,
        prefix: str | None = None,
        map_func: Callable[[Any], Any] | None = None,
        scale: float = 255,
    ) -> None:
        self._tensor_name = tensor_name
        self._prefix = tensor_name.split(":")[0] if prefix is None else prefix
        self._map_func = map_func
        self._scale = scale
        self._tensor: Any = None
        self._directory = ""

    def _before_train(self) -> None:
        self._tensor = self.get_tensors_maybe_in_tower([self._tensor_name])[0]
        self._directory = need_logger_dir("DumpTensorAsImage")

    def _trigger(self) -> None:
        value = self.trainer.sess.run(self._tensor)
        if self._map_func is not None:
            value = self._map_func(value)
        if not isinstance(value, (list, tuple)):
            self._dump(value, self._prefix, "")
            return
        for index, image in enumerate(value):
            self._dump(image, f"{self._prefix}-{index}", f"-{index}")

    def _dump(self, image: Any, monitor_name: str, suffix: str) -> None:
        image = np.clip(np.asarray(image, dtype="float32") * self._scale, 0, 255)
        path = os.path.join(self._directory, f"{self._prefix}-ep{self.epoch_num:03d}{suffix}.png")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        pixels = image.astype("uint8")
        with open(path, "wb") as file:
            file.write(encode_png(pixels[..., np.newaxis] if pixels.ndim == 2 else pixels))
        self.trainer.monitors.put_image(monitor_name, image)


DumpParamAsImage = DumpTensorAsImage


class CheckNumerics(RunOp):
    """
    Check that no trained variable holds NaN or infinity; training ends with an `InvalidArgumentError` if one does.

    Args:
        run_as_trigger: check at each trigger.
        run_step: check with every step, which costs time.

    Runs at: before_train, trigger, every run: as told.

    tensorpack: same.
    """

    _chief_only = True

    def __init__(self, run_as_trigger: bool = True, run_step: bool = False) -> None:
        super().__init__(self._check_all, run_as_trigger=run_as_trigger, run_step=run_step)

    def _check_all(self) -> Any:
        checks = [
            tf.check_numerics(variable, f"CheckNumerics: variable '{variable.op.name}' has NaN or Inf").op
            for variable in tf.trainable_variables()
            if variable.dtype.base_dtype.is_floating
        ]
        return tf.group(*checks, name="check_numerics")
