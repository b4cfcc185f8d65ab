"""Input that copies the next datapoint to each device while the current step computes."""

from __future__ import annotations

from typing import Any, Callable, Sequence

from ..compat import tensorflow
from ..compat import tfv1 as tf
from ..compat.replacement import replace
from ..loop.callback import Callback
from ..tfutils.dependency import dependency_of_fetches
from ..utils.checks import check_at_least
from ..utils.errors import type_error
from .base import FeedfreeInput, InputSource, ProxyInputSource


class StagingInput(ProxyInputSource, FeedfreeInput):
    """
    InputSource that keeps datapoints of another input ready on the device of each tower.

    Each step takes the oldest datapoint of every tower, and stages one more at the same time. A run that does
    not need the input takes no datapoint. The staging areas are filled before the first step that needs them.
    The placeholders of a remapped input are not staged.

    A run of the raw session, such as `trainer.sess.run(cost)` in a callback, sees the datapoints of the next step, and does not
    take them. Before the first step, such a run first fills the staging areas. Only callables of `sess.make_callable` do not, and
    would wait without end.

    Args:
        input: an input whose data comes from the graph, e.g. a QueueInput.
        nr_stage: number of datapoints to keep ready for each tower, >= 1.
        device: the device of the staging areas. Default: the device of each tower.

    Raises:
        TypeError: `input` is fed, or is a StagingInput.
        ValueError: `nr_stage` is below 1.

    Example:
        >>> StagingInput(QueueInput(df))

    Note: the last `nr_stage` datapoints of each tower remain unused. The fetches of the trainer and the
    callbacks determine whether a run needs the input. A trainer can have only one StagingInput.
    """

    def __init__(self, input: InputSource, nr_stage: int = 1, device: str | None = None) -> None:
        if isinstance(input, StagingInput):
            raise TypeError(
                "StagingInput: input is already a StagingInput. Increase nr_stage to keep more datapoints ready."
            )
        if not isinstance(input, FeedfreeInput):
            raise type_error("StagingInput", "an input without feeds", input, "Use StagingInput(QueueInput(df)).")
        super().__init__(input)
        self.flow.is_staged = True
        self.nr_stage = check_at_least("StagingInput: nr_stage", int(nr_stage), 1)
        self._device = device
        self._puts: list[Any] = []
        self._gets: list[Any] = []
        self._removals: list[Any] = []
        self._last_taken: list[Any] = []
        self._filled = False

    @property
    def is_empty(self) -> bool:
        """Whether the staging areas are empty, because no run has needed them yet."""
        return not self._filled

    def begin_filling(self) -> None:
        """Count the staging areas as filled: from now on, a run waits for data, and not for the first step."""
        self._filled = True

    def _get_input_tensors(self) -> Sequence[tf.Tensor]:
        # This order makes it deterministic which tower gets which datapoint.
        with tf.control_dependencies(self._last_taken):
            tensors = [_value(tensor) for tensor in super()._get_input_tensors()]
        positions = [i for i, tensor in enumerate(tensors) if tensor.op.type != "Placeholder"]
        if not positions:
            return tensors
        self._last_taken = [tensors[positions[0]].op]
        with tf.name_scope("StagingInput"), tf.device(self._device or ""):
            staged = self._stage([tensors[i] for i in positions])
        for i, tensor in zip(positions, staged):
            tensors[i] = tensor
        return tensors

    def _stage(self, tensors: list[tf.Tensor]) -> list[tf.Tensor]:
        dtypes = [tensor.dtype for tensor in tensors]
        area = tf.get_default_graph().unique_name("StagingArea", mark_as_used=False)
        # The additional place means that no operation has to wait in a thread that another operation needs.
        options = {"capacity": self.nr_stage + 1, "shared_name": area}
        put = tensorflow.raw_ops.Stage(values=tensors, name="StagingArea_put", **options)
        removing = self.flow.removing()
        # The tensors of the model do not remove the datapoint. Otherwise a run of the raw session, which stages no other
        # one, would leave the area empty, and the next step would wait forever.
        with put.graph.colocate_with(put):
            staged = tensorflow.raw_ops.StagePeek(index=0, dtypes=dtypes, name="StagingArea_get", **options)
            with removing, tf.control_dependencies([staged[0].op]):
                removed = tensorflow.raw_ops.Unstage(dtypes=dtypes, name="StagingArea_remove", **options)
        for inner, outer in zip(tensors, staged):
            outer.set_shape(inner.shape)
        self._puts.append(put)
        self._gets.append(staged[0].op)
        self._removals.append(removed[0].op)
        return list(staged)

    def _get_callbacks(self) -> list[Callback]:
        inner = super()._get_callbacks()
        return [*inner, _StagingCallback(self, inner)]


class _StagingCallback(Callback):
    """Callback that fills the staging areas once, then replaces the oldest datapoints in each run that needs them."""

    def __init__(self, source: StagingInput, inner_callbacks: Sequence[Callback]) -> None:
        self._source = source
        self._inner_callbacks = inner_callbacks
        self._args: Any = None
        self._last_fetches: Any = None
        self._last_answer = False
        self._undo: Callable[[], None] = lambda: None

    def _setup_graph(self) -> None:
        with tf.name_scope("StagingInput/"):
            self._stage_all = tf.group(*self._source._puts)
        unstage_all = tf.group(*self._source._removals, name="unstage_all")
        self._args = tf.train.SessionRunArgs([self._stage_all, unstage_all])

    def _before_train(self) -> None:
        """Let runs of the raw session fill the staging areas, until they are full. Otherwise such runs would wait without end."""
        session = tf.get_default_session()
        run = session.run

        def fill_and_run(fetches: object, *args: object, **kwargs: object) -> object:
            if self._source.is_empty and self._depends_on_input(fetches):
                self._fill(session)
            return run(fetches, *args, **kwargs)

        self._undo = lambda: replace(session, "run", run)
        replace(session, "run", fill_and_run)

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        return self._arguments(ctx) if self._needs_input(ctx.original_args.fetches) else None

    def complete_run(self, ctx: tf.train.SessionRunContext, fetches: object) -> tf.train.SessionRunArgs | None:
        """Take part in a run in which only the fetches of a callback need the input. See HookedSession."""
        return self._arguments(ctx) if self._depends_on_input(fetches) else None

    def _arguments(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs:
        if self._source.is_empty:
            self._fill(ctx.session)
        return self._args

    def _needs_input(self, fetches: object) -> bool:
        if fetches is None or fetches is not self._last_fetches:
            self._last_answer = self._depends_on_input(fetches)
            self._last_fetches = fetches
        return self._last_answer

    def _depends_on_input(self, fetches: object) -> bool:
        return any(dependency_of_fetches(fetches, op) for op in self._source._gets)

    def _fill(self, session: tf.Session) -> None:
        self._source.begin_filling()
        self._undo()
        try:
            for _ in range(self._source.nr_stage):
                session.run(self._stage_all)
        except tf.errors.OpError as error:
            causes = [cause for cause in (cb.background_error() for cb in self._inner_callbacks) if cause]
            if causes:
                raise causes[0] from (causes[0].__cause__ or error)
            raise


def _value(tensor: tf.Tensor) -> tf.Tensor:
    """Return the tensor, or a copy of a reference, which a staging area does not accept."""
    if not isinstance(tensor, tf.Tensor):
        raise TypeError(
            f"StagingInput: an input has the wrong type (expected a tensor, got {type(tensor).__name__}). Pass its parts as "
            "separate inputs, or use a trainer that does not stage its input, such as SimpleTrainer."
        )
    return tf.identity(tensor) if tensor.dtype != tensor.dtype.base_dtype else tensor
