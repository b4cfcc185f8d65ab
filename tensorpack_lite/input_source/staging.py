"""Staging: the next datapoint is brought to each device while the present one is computed."""

from __future__ import annotations

from typing import Any, Sequence

from ..compat import tensorflow
from ..compat import tfv1 as tf
from ..loop.callback import Callback
from ..tfutils.dependency import dependency_of_fetches
from ..utils.errors import type_error
from ..utils.naming import STAGING_OPS_KEY
from .base import FeedfreeInput, InputSource, ProxyInputSource

__all__ = ["StagingInput"]


class StagingInput(ProxyInputSource, FeedfreeInput):
    """
    Keep datapoints of another input ready on the device of each tower.

    Each step takes the oldest one of every tower, and brings one more in at the same time. A run that does not need the
    input takes none. The staging areas are filled before the first run that needs them. Placeholders, which an input made
    by `remap_input_source` has, stay what they are.

    Args:
        input: an input whose data is in the graph, e.g. a QueueInput.
        nr_stage: how many datapoints are kept ready for each tower, >= 1.
        device: where; None means the device of each tower.

    Raises:
        TypeError: `input` is fed, or is a StagingInput itself.
        ValueError: `nr_stage` is below 1.

    Example:
        >>> StagingInput(QueueInput(df))

    Note: `nr_stage` datapoints for each tower are never used at the end. Whether a run needs the input is told by what the
    trainer and the callbacks fetch. Don't evaluate a staged tensor in the raw session. A trainer can have one StagingInput.

    tensorpack: same; there `nr_stage` above 1 never returns.
    """

    def __init__(self, input: InputSource, nr_stage: int = 1, device: str | None = None) -> None:
        if isinstance(input, StagingInput):
            raise TypeError("StagingInput: got a StagingInput. Raise nr_stage to keep more datapoints ready.")
        if not isinstance(input, FeedfreeInput):
            raise type_error(
                "StagingInput", "an input that needs no feed", input, "Use StagingInput(QueueInput(df))."
            )
        if int(nr_stage) < 1:
            raise ValueError(f"StagingInput: nr_stage is {nr_stage}, wanted at least 1.")
        super().__init__(input)
        self.nr_stage = int(nr_stage)
        self._device = device
        self._puts: list[Any] = []
        self._gets: list[Any] = []
        self._last_taken: list[Any] = []

    def _get_input_tensors(self) -> Sequence[Any]:
        # Without this order, it would be chance which tower gets which datapoint.
        with tf.control_dependencies(self._last_taken):
            tensors = [_value(tensor) for tensor in self._input.get_input_tensors()]
        positions = [i for i, tensor in enumerate(tensors) if tensor.op.type != "Placeholder"]
        if not positions:
            return tensors
        self._last_taken = [tensors[positions[0]].op]
        with tf.name_scope("StagingInput"), tf.device(self._device or ""):
            staged = self._stage([tensors[i] for i in positions])
        for i, tensor in zip(positions, staged):
            tensors[i] = tensor
        return tensors

    def _stage(self, tensors: list[Any]) -> list[Any]:
        dtypes = [tensor.dtype for tensor in tensors]
        area = tf.get_default_graph().unique_name("StagingArea", mark_as_used=False)
        # With room for one more than are kept, no operation ever waits in a thread that another one needs.
        options = {"capacity": self.nr_stage + 1, "shared_name": area}
        put = tensorflow.raw_ops.Stage(values=tensors, name="StagingArea_put", **options)
        with tf.colocate_with(put):
            staged = tensorflow.raw_ops.Unstage(dtypes=dtypes, name="StagingArea_get", **options)
        for inner, outer in zip(tensors, staged):
            outer.set_shape(inner.shape)
        self._puts.append(put)
        self._gets.append(staged[0].op)
        for op in (staged[0].op, put):
            tf.add_to_collection(STAGING_OPS_KEY, op)
        return list(staged)

    def _get_callbacks(self) -> list[Callback]:
        inner = super()._get_callbacks()
        return [*inner, _StagingCallback(self, inner)]


class _StagingCallback(Callback):
    """Fills the areas once; then, in each run that takes datapoints from them, brings the next ones in."""

    def __init__(self, source: StagingInput, inner_callbacks: Sequence[Callback]) -> None:
        self._source = source
        self._inner_callbacks = inner_callbacks
        self._args: Any = None
        self._filled = False
        self._last_fetches: Any = None
        self._last_answer = False

    def _setup_graph(self) -> None:
        with tf.name_scope("StagingInput/"):
            self._stage_all = tf.group(*self._source._puts)
        unstage_all = tf.group(*self._source._gets, name="unstage_all")
        self._args = tf.train.SessionRunArgs([self._stage_all, unstage_all])

    def _before_run(self, ctx: Any) -> Any:
        return self._arguments(ctx) if self._needs_input(ctx.original_args.fetches) else None

    def complete_run(self, ctx: Any, fetches: Any) -> Any:
        """Take part in a run of which only a callback's fetches need the input; see HookedSession."""
        needed = any(dependency_of_fetches(fetches, op) for op in self._source._gets)
        return self._arguments(ctx) if needed else None

    def _arguments(self, ctx: Any) -> Any:
        if not self._filled:
            self._fill(ctx.session)
        return self._args

    def _needs_input(self, fetches: Any) -> bool:
        if fetches is None or fetches is not self._last_fetches:
            self._last_answer = any(dependency_of_fetches(fetches, op) for op in self._source._gets)
            self._last_fetches = fetches
        return self._last_answer

    def _fill(self, session: Any) -> None:
        self._filled = True
        try:
            for _ in range(self._source.nr_stage):
                session.run(self._stage_all)
        except tf.errors.OpError as error:
            causes = [cause for cause in (cb.background_error() for cb in self._inner_callbacks) if cause]
            if causes:
                raise causes[0] from (causes[0].__cause__ or error)
            raise


def _value(tensor: Any) -> Any:
    """Give the tensor; a copy if it is a reference, which a staging area does not take."""
    return tf.identity(tensor) if tensor.dtype != tensor.dtype.base_dtype else tensor
