"""Running a model over a data set while it is being trained."""

from __future__ import annotations

import itertools
import re
from contextlib import contextmanager
from typing import Any, Iterator, Sequence

from ..compat import tfv1 as tf
from ..dataflow.base import DataFlow
from ..input_source.base import InputSource
from ..input_source.feed import FeedInput
from ..loop.callback import Callback
from ..loop.group import Callbacks
from ..loop.session import HookedSession
from ..tfutils.tower.context import PredictTowerContext
from ..tfutils.tower.func import TowerFunc
from ..utils import logger
from ..utils.errors import type_error
from ..utils.utils import get_tqdm
from .inference import Inferencer

__all__ = ["InferenceRunner", "InferenceRunnerBase"]


class InferenceRunnerBase(Callback):
    """
    Base class of inference runners: holds the input, the inferencers and the session with its hooks.

    The session is one of its own, around the trainer's raw session: callbacks of the trainer, the step counter among
    them, take no part in it.

    Args:
        input: where the datapoints come from.
        infs: an `Inferencer` or a list of them.

    Raises:
        TypeError: of another kind.

    tensorpack: same.
    """

    def __init__(self, input: InputSource, infs: Inferencer | Sequence[Inferencer]) -> None:
        name = type(self).__name__
        if not isinstance(input, InputSource):
            raise type_error(name, "a DataFlow or an InputSource", input)
        self._input_source = input
        self.infs: list[Any] = list(infs) if isinstance(infs, (list, tuple)) else [infs]
        for inf in self.infs:
            if not isinstance(inf, Inferencer):
                raise type_error(name, "an Inferencer or a list of them", inf)
        self._hooks: list[Any] = []
        self._extra_hooks: list[Any] = []
        self._input_callbacks = Callbacks([])
        self._hooked_sess: Any = None

    def register_hook(self, hook: Any) -> None:
        """
        Add a `SessionRunHook` to the inference runs.

        Raises:
            TypeError: it is no hook.
            RuntimeError: training has begun.
        """
        if not isinstance(hook, tf.train.SessionRunHook):
            raise type_error(f"{type(self).__name__}.register_hook", "a tf.train.SessionRunHook", hook)
        if self._hooked_sess is not None:
            raise RuntimeError(
                f"{type(self).__name__}.register_hook: training has begun. Register hooks before."
            )
        self._extra_hooks.append(hook)

    def _before_train(self) -> None:
        self._hooked_sess = HookedSession(self.trainer.sess, [*self._hooks, *self._extra_hooks])
        self._input_callbacks.before_train()
        size = self._num_datapoints()
        if size is None:
            logger.info("%s: runs until its input ends.", self)
        else:
            logger.info("%s: runs %d datapoints each time.", self, size)

    def _after_train(self) -> None:
        self._input_callbacks.after_train()

    def _num_datapoints(self) -> int | None:
        """Give the number of datapoints in a round; None if the input does not know it."""
        try:
            return self._input_source.size() or None
        except NotImplementedError:
            return None


class InferenceRunner(InferenceRunnerBase):
    """
    Run the model over a data set at each trigger, in inference mode, with the variables as they are.

    The model is built once more, as a tower that shares the variables of training. Each round starts the input anew, runs
    as many datapoints as it has (or until it ends, if it does not know), and lets the inferencers report.

    Args:
        input: a DataFlow, or an InputSource that no training uses.
        infs: an `Inferencer` or a list of them.
        tower_name: name of the tower; each tower of a graph needs one of its own.
        tower_func: the model; None means the trainer's.
        device: number of the GPU to run on; negative means the CPU.

    Raises:
        TypeError: an argument of another kind.
        ValueError: in `setup_graph`, a tower of that name exists, or the model needs variables that training has not.
        RuntimeError: in `setup_graph`, the trainer has no tower function.

    Runs at: setup_graph, before_train, trigger, after_train.

    Example:
        >>> InferenceRunner(validation_df, [ScalarStats("cost"), ClassificationError("wrong-top1")])

    Note: an error in the data ends training with that error.

    tensorpack: same; there a second runner with the same tower name silently evaluates the first one's tower, and a
    DataFlow without length is an error at its end.
    """

    def __init__(
        self,
        input: DataFlow | InputSource,
        infs: Inferencer | Sequence[Inferencer],
        tower_name: str = "InferenceTower",
        tower_func: TowerFunc | None = None,
        device: int = 0,
    ) -> None:
        if isinstance(input, DataFlow):
            input = FeedInput(input, infinite=False)
        super().__init__(input, infs)
        if not tower_name:
            raise ValueError("InferenceRunner: tower_name is empty, wanted a name of its own for the tower.")
        if tower_func is not None and not isinstance(tower_func, TowerFunc):
            raise type_error("InferenceRunner: tower_func", "a TowerFunc", tower_func)
        self._tower_name = tower_name
        self._tower_func = tower_func
        self._device = device

    def _setup_graph(self) -> None:
        tower_func = self._find_tower_func()
        self._refuse_existing_tower()
        input_callbacks = self._input_source.setup(tower_func.input_signature)
        handle = self._build_tower(tower_func)
        self._input_callbacks = Callbacks(input_callbacks)
        self._hooks = [_InferencerHook(inf, handle.get_tensors(inf.get_fetches())) for inf in self.infs]
        self._hooks += self._input_callbacks.get_hooks()
        for inf in self.infs:
            inf.setup_graph(self.trainer)
        self._input_callbacks.setup_graph(self.trainer)

    def _find_tower_func(self) -> TowerFunc:
        tower_func = self._tower_func or getattr(self.trainer, "tower_func", None)
        if tower_func is None:
            raise RuntimeError(
                f"InferenceRunner '{self._tower_name}': the trainer has no tower function to build the model with. Use a "
                "TowerTrainer that sets tower_func, or pass tower_func=..."
            )
        return tower_func

    def _refuse_existing_tower(self) -> None:
        prefix = f"{self._tower_name}/"
        if any(op.name.startswith(prefix) for op in self.graph.get_operations()):
            raise ValueError(
                f"InferenceRunner: a tower named '{self._tower_name}' exists in this graph, and names of tensors would mean "
                "that one's. Give each runner a name: InferenceRunner(..., tower_name='InferenceTower2')."
            )

    def _build_tower(self, tower_func: TowerFunc) -> Any:
        device = f"/gpu:{self._device}" if self._device >= 0 else "/cpu:0"
        variable_scope = self.trainer.vs_name_for_predictor(self._device)
        logger.info("%s: building the graph of tower '%s' on device %s ...", self, self._tower_name, device)
        with self._explain_missing_variable(), tf.device(device), _reuse_variables():
            context = PredictTowerContext(self._tower_name, variable_scope)
            with context:
                tower_func(*self._input_source.get_input_tensors())
        return tower_func.towers[-1]

    @contextmanager
    def _explain_missing_variable(self) -> Iterator[None]:
        try:
            yield
        except ValueError as error:
            match = re.search(r"Variable (\S+) does not exist", str(error))
            if match is None:
                raise
            raise ValueError(
                f"InferenceRunner '{self._tower_name}': variable '{match.group(1)}' does not exist in the training graph, so "
                "it cannot be reused. Is its name built from a tensor's name?"
            ) from error

    def _trigger(self) -> None:
        for inf in self.infs:
            inf.before_epoch()
        self._input_source.reset_state()
        size = self._num_datapoints()
        with get_tqdm(total=size, desc=self._tower_name) as bar:
            for num_done in range(size) if size is not None else itertools.count():
                if not self._run_datapoint(num_done, size):
                    break
                bar.update()
        for inf in self.infs:
            inf.trigger_epoch()

    def _run_datapoint(self, num_done: int, size: int | None) -> bool:
        """Run one datapoint; returns False when the input has ended, which it may only where its size allows."""
        try:
            self._hooked_sess.run([])
        except tf.errors.OutOfRangeError:
            return False
        except StopIteration as end:
            if size is None:
                return False
            message = (
                f"InferenceRunner '{self._tower_name}': the input ended after {num_done} datapoints, but its size is {size}. "
                "Make len() of the DataFlow the number of datapoints it gives."
            )
            logger.error(message)
            raise StopIteration(message) from end
        except tf.errors.CancelledError:
            logger.error(
                "InferenceRunner '%s' was cancelled after %d datapoints.", self._tower_name, num_done
            )
            raise
        return True


def _reuse_variables() -> Any:
    return tf.variable_scope(tf.get_variable_scope(), reuse=True, auxiliary_name_scope=False)


class _InferencerHook(tf.train.SessionRunHook):
    """Evaluates an inferencer's tensors in each run, and hands it their values."""

    def __init__(self, inferencer: Inferencer, tensors: list[Any]) -> None:
        self._inferencer = inferencer
        self._args = tf.train.SessionRunArgs(tensors)

    def before_run(self, run_context: Any) -> Any:
        return self._args

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._inferencer.on_fetches(run_values.results)
