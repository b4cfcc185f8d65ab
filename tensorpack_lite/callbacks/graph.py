"""Callbacks that run operations or read tensors of the graph."""

from __future__ import annotations

import os
import re
from typing import Callable, Sequence

import numpy as np

from ..compat import tensorflow
from ..compat import tfv1 as tf
from ..loop.callback import Callback
from ..tfutils.collection import get_collection_to_run
from ..tfutils.dependency import operations_needed
from ..tfutils.skipped_steps import update_only_in_applied_steps
from ..tfutils.tower.copies import find_copies, has_copies
from ..utils import logger
from ..utils.checks import check_type
from ..utils.npz import write_npz
from ..utils.png import encode_png
from .directories import need_logger_dir

_ASSIGNS = re.compile("Assign|Apply|(?<!Tensor)Scatter(?!Nd$)")


class RunOp(Callback):
    """
    Callback that runs an operation before training, at triggers, or along with every step.

    If each tower has its own variables, the copies of those that the operation changes get the new values after it.

    Args:
        op: an operation or a tensor, or a function without arguments that creates one in `_setup_graph`.
        run_before: run the operation once before training. A training that resumes with `exact` has the result in its
            checkpoint, and does not run an operation that changes only variables in `GLOBAL_VARIABLES`.
        run_as_trigger: run it at each trigger.
        run_step: run it with each run of the hooked session. Its order relative to the rest of the step is undefined.
        verbose: log each run.

    Raises:
        TypeError: in `setup_graph`: `op` is not an operation or a tensor.

    Runs at: before_train, trigger, every run, as the arguments say. In every process of a distributed training.

    Example:
        >>> RunOp(lambda: tf.assign(target, source), run_before=True, run_as_trigger=True)
    """

    _chief_only = False
    _updates_copies = True

    def __init__(
        self,
        op: tf.Operation | tf.Tensor | Callable[[], tf.Operation | tf.Tensor],
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
        self._op: tf.Operation | tf.Tensor = None
        self._args: tf.train.SessionRunArgs | None = None
        self._copies: list[tf.Operation] = []

    def _setup_graph(self) -> None:
        self._op = self._given() if callable(self._given) else self._given
        # `tf.assign` of a resource variable returns a variable whose operation is the assignment
        if isinstance(self._op, tensorflow.Variable) and _changed_by(self._op.op):
            self._op = self._op.op
        expected = "an operation, a tensor, or a function that creates one"
        check_type(f"{type(self).__name__}: op", self._op, (tf.Operation, tf.Tensor), expected)
        self._args = tf.train.SessionRunArgs(self._op) if self.run_step else None
        if self._updates_copies and has_copies(self._op.graph):
            self._copies = find_copies(self._op.graph, _changed_by(self._op))
            if self._copies and self.run_step:
                # on the instance: without copies, a step has no call of this callback
                self._after_run = self._update_copies  # type: ignore[method-assign]

    def _before_train(self) -> None:
        is_done = self.trainer.exact and self.trainer.loop.is_resumed and _changes_only_saved(self._op)
        if self.run_before and not is_done:
            self._run()

    def _trigger(self) -> None:
        if self.run_as_trigger:
            self._run()

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        if self.verbose and self.run_step:
            self._log()
        return self._args

    def _run(self) -> None:
        if self.verbose:
            self._log()
        tf.get_default_session().run(self._op)
        if self._copies:
            self._update_copies()

    def _update_copies(self, ctx: object = None, run_values: object = None) -> None:
        tf.get_default_session().run(self._copies)

    def _log(self) -> None:
        logger.info("%s: running %s.", type(self).__name__, self._op.name)


def _changes_only_saved(op: tf.Operation | tf.Tensor) -> bool:
    """Return whether an operation changes variables, and all of them are in checkpoints."""
    changed = _changed_by(op)
    return bool(changed) and changed <= {variable.op.name for variable in tf.global_variables()}


def _changed_by(op: tf.Operation | tf.Tensor) -> set[str]:
    """Return the names of the variables that an operation changes."""
    needed = operations_needed([op if isinstance(op, tf.Operation) else op.op])
    return {op.inputs[0].op.name for op in needed if _ASSIGNS.search(op.type) and op.inputs}


class RunUpdateOps(RunOp):
    """
    Callback that runs the operations of a collection along with every step, for instance the updates of batch normalization.
    Where `DynamicLossScaleOptimizer` skips a step, additions and assignments to variables change nothing.

    Args:
        collection: the collection; None means `UPDATE_OPS`. Operations that are added after this callback's
            setup do not run.

    Runs at: every run. In every process of a distributed training.
    """

    _updates_copies = False  # a tower's own statistics may differ until the end of the epoch

    def __init__(self, collection: str | None = None) -> None:
        self._collection = tf.GraphKeys.UPDATE_OPS if collection is None else collection
        super().__init__(self._group_updates, run_before=False, run_as_trigger=False, run_step=True)

    def _setup_graph(self) -> None:
        super()._setup_graph()
        if not tf.get_collection(self._collection):
            self._args = None

    def _group_updates(self) -> tf.Operation:
        updates = get_collection_to_run(self._collection, "RunUpdateOps")
        update_only_in_applied_steps(updates)
        if not updates:
            return tf.no_op(name="empty_update_ops")
        operations = f"{len(updates)} operations of collection '{self._collection}'"
        logger.info(f"RunUpdateOps: running {operations} with every step.")
        return tf.group(*updates, name="update_ops")


class ProcessTensors(Callback):
    """
    Callback that calls a function with the values of tensors after every run.

    Args:
        names: a list of names of tensors, without a tower's prefix.
        fn: called with one argument for each name. The value of an operation without outputs is None.

    Raises:
        TypeError: `names` is not a list.
        KeyError: before training: a name does not exist.

    Runs at: before_train, every run.

    Example:
        >>> ProcessTensors(["cost"], lambda cost: logger.info("cost %s", cost))
    """

    def __init__(self, names: Sequence[str], fn: Callable[..., object]) -> None:
        check_type(f"{type(self).__name__}: names", names, (list, tuple), advice="Put a single name into a list.")
        self._names = list(names)
        self._fn = fn
        self._args: tf.train.SessionRunArgs | None = None

    def _before_train(self) -> None:
        self._args = tf.train.SessionRunArgs(self.get_tensors_maybe_in_tower(self._names))

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        return self._args

    def _after_run(self, ctx: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues) -> None:
        self._fn(*run_values.results)


class DumpTensors(ProcessTensors):
    """
    Callback that writes the values of tensors to `DumpTensor-<global_step>.npz` in the logger's directory after every run.

    Args:
        names: names of tensors, without a tower's prefix; they are the keys in the file.

    Raises:
        TypeError: `names` is not a list.
        RuntimeError: before training: there is no logger directory.

    Runs at: before_train, every run.

    Example:
        >>> PeriodicCallback(DumpTensors(["cost", "fc/W"]), every_k_steps=100)
    """

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names, self._dump)
        self._directory = ""

    def _before_train(self) -> None:
        super()._before_train()
        self._directory = need_logger_dir("DumpTensors")

    def _dump(self, *values: np.ndarray) -> None:
        path = os.path.join(self._directory, f"DumpTensor-{self.global_step}.npz")
        write_npz(path, dict(zip(self._names, values)))


DumpTensor = DumpTensors


class DumpTensorAsImage(Callback):
    """
    Callback that writes a tensor as an image at each trigger, to `<prefix>-ep<epoch>.png` in the logger's directory and to
    the monitors.

    Args:
        tensor_name: name of the tensor.
        prefix: the part of the file name before `-ep`, and the name for monitors; None means the tensor's
            name without `:0`.
        map_func: converts the tensor's value to an image [H, W] or [H, W, C], or to a list of images, whose
            file names end in -0, -1, ...; None uses the value as it is.
        scale: factor that brings the image to [0, 255]; values outside are clipped.

    Raises:
        RuntimeError: before training: there is no logger directory.

    Runs at: before_train, trigger.

    Difference from tensorpack: tensorpack 0.11 writes the channels as blue, green, red. Here they are red, green, blue.
    """

    def __init__(
        self,
        tensor_name: str,
        prefix: str | None = None,
        map_func: Callable[[np.ndarray], np.ndarray | Sequence[np.ndarray]] | None = None,
        scale: float = 255,
    ) -> None:
        self._tensor_name = tensor_name
        self._prefix = tensor_name.split(":")[0] if prefix is None else prefix
        self._map_func = map_func
        self._scale = scale
        self._tensor: tf.Tensor = None
        self._directory = ""

    def _before_train(self) -> None:
        self._tensor = self.get_tensors_maybe_in_tower([self._tensor_name])[0]
        self._directory = need_logger_dir("DumpTensorAsImage")

    def _trigger(self) -> None:
        value = self.trainer.sess.run(self._tensor)
        if self._map_func is not None:
            value = self._map_func(value)
        if not isinstance(value, (list, tuple)):
            self._dump(value, "")
            return
        for index, image in enumerate(value):
            self._dump(image, f"-{index}")

    def _dump(self, image: np.ndarray, suffix: str) -> None:
        image = np.clip(np.asarray(image, dtype="float32") * self._scale, 0, 255)
        path = os.path.join(self._directory, f"{self._prefix}-ep{self.epoch_num:03d}{suffix}.png")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        pixels = image.astype("uint8")
        with open(path, "wb") as file:
            file.write(encode_png(pixels[..., np.newaxis] if pixels.ndim == 2 else pixels))
        self.trainer.monitors.put_image(self._prefix + suffix, image)


DumpParamAsImage = DumpTensorAsImage


class CheckNumerics(RunOp):
    """
    Callback that ends training with an `InvalidArgumentError` if a trainable variable holds NaN or infinity.

    Args:
        run_as_trigger: check at each trigger.
        run_step: check with every step, which takes time.

    Runs at: before_train, trigger, every run, as the arguments say.
    """

    _chief_only = True

    def __init__(self, run_as_trigger: bool = True, run_step: bool = False) -> None:
        super().__init__(self._check_all, run_as_trigger=run_as_trigger, run_step=run_step)

    def _check_all(self) -> tf.Operation:
        checks = [
            tf.check_numerics(variable, f"CheckNumerics: variable '{variable.op.name}' has NaN or Inf").op
            for variable in tf.trainable_variables()
            if variable.dtype.base_dtype.is_floating
        ]
        return tf.group(*checks, name="check_numerics")
