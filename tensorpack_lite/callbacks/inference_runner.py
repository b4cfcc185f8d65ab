"""Running a model over a data set while it is being trained."""

from __future__ import annotations

import itertools
import re
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Sequence

from ..compat import tfv1 as tf
from ..dataflow.base import DataFlow
from ..input_source.base import InputSource
from ..input_source.feed import FeedInput
from ..input_source.queueing import QueueInput
from ..input_source.staging import StagingInput
from ..loop.callback import Callback
from ..loop.group import Callbacks
from ..loop.session import HookedSession
from ..tfutils.tower.context import PredictTowerContext
from ..tfutils.tower.func import TowerFunc
from ..utils import logger
from ..utils.errors import type_error
from ..utils.utils import get_tqdm
from .inference import Inferencer

__all__ = ["DataParallelInferenceRunner", "InferenceRunner", "InferenceRunnerBase"]


class InferenceRunnerBase(Callback):
    """
    Base class of inference runners: holds the input, the inferencers and the session with its hooks.

    The session is one of its own, around the trainer's raw session: callbacks of the trainer, the step counter among
    them, take no part in it.

    Args:
        input: where the datapoints come from.
        infs: an `Inferencer` or a list of them.
        tower_name: name of the tower, or the beginning of the names of several.
        tower_func: the model; None means the trainer's.

    Raises:
        TypeError: of another kind.
        ValueError: `tower_name` is empty.
    """

    def __init__(
        self,
        input: InputSource,
        infs: Inferencer | Sequence[Inferencer],
        tower_name: str = "InferenceTower",
        tower_func: TowerFunc | None = None,
    ) -> None:
        name = type(self).__name__
        if not tower_name:
            raise ValueError(f"{name}: tower_name is empty, wanted a name of its own for the tower.")
        if tower_func is not None and not isinstance(tower_func, TowerFunc):
            raise type_error(f"{name}: tower_func", "a TowerFunc", tower_func)
        if not isinstance(input, InputSource):
            raise type_error(name, "a DataFlow or an InputSource", input)
        input.require_exact_size()
        self._input_source = input
        self.infs: list[Any] = list(infs) if isinstance(infs, (list, tuple)) else [infs]
        for inf in self.infs:
            if not isinstance(inf, Inferencer):
                raise type_error(name, "an Inferencer or a list of them", inf)
        self._tower_name = tower_name
        self._tower_func = tower_func
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

    def _find_tower_func(self) -> TowerFunc:
        tower_func = self._tower_func or getattr(self.trainer, "tower_func", None)
        if tower_func is None:
            raise RuntimeError(
                f"{type(self).__name__} '{self._tower_name}': the trainer has no tower function to build the model with. Use a "
                "TowerTrainer that sets tower_func, or pass tower_func=..."
            )
        return tower_func

    def _build_tower(self, tower_func: TowerFunc, name: str, device: int, after: Sequence[Any] = ()) -> Any:
        """Build one tower under that name, whose input is taken after some operations; returns its handle."""
        self._refuse_existing_tower(name)
        place = f"/gpu:{device}" if device >= 0 else "/cpu:0"
        variable_scope = self.trainer.vs_name_for_predictor(device)
        logger.info("%s: building the graph of tower '%s' on device %s ...", self, name, place)
        with self._explain_missing_variable(name), tf.device(place), _reuse_variables():
            context = PredictTowerContext(name, variable_scope)
            with context:
                with tf.control_dependencies(after):
                    inputs = self._input_source.get_input_tensors()
                tower_func(*inputs)
        return tower_func.towers[-1]

    def _refuse_existing_tower(self, name: str) -> None:
        prefix = f"{name}/"
        if any(op.name.startswith(prefix) for op in self.graph.get_operations()):
            raise ValueError(
                f"{type(self).__name__}: a tower named '{name}' exists in this graph, and names of tensors would mean "
                f"that one's. Give each runner a name: {type(self).__name__}(..., tower_name='InferenceTower2')."
            )

    @contextmanager
    def _explain_missing_variable(self, name: str) -> Iterator[None]:
        try:
            yield
        except ValueError as error:
            match = re.search(r"Variable (\S+) does not exist", str(error))
            if match is None:
                raise
            raise ValueError(
                f"{type(self).__name__} '{name}': variable '{match.group(1)}' does not exist in the training graph, so "
                "it cannot be reused. Is its name built from a tensor's name?"
            ) from error

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

    def interrupt(self) -> None:
        """Pass on to the input."""
        self._input_callbacks.interrupt()

    def _num_datapoints(self) -> int | None:
        """Give the number of datapoints in a round; None if the input does not know it."""
        try:
            return self._input_source.size() or None
        except NotImplementedError:
            return None

    def _run_datapoint(self, num_done: int, size: int | None, session: Any = None) -> bool:
        """
        Run one datapoint, or what another session runs at once.

        Returns:
            False when an input without a size has ended.

        Raises:
            RuntimeError: an input with a size has ended before it.
        """
        try:
            (session or self._hooked_sess).run([])
        except (tf.errors.OutOfRangeError, StopIteration) as end:
            if size is None:
                return False
            raise RuntimeError(
                f"{type(self).__name__} '{self._tower_name}': its input, a {type(self._input_source).__name__}, ended after "
                f"{num_done} datapoints were evaluated, but its size is {size}. Make its size (len() of the DataFlow) the "
                "number of datapoints it gives."
            ) from end
        except tf.errors.CancelledError:
            logger.error(
                "%s '%s' was cancelled after %d datapoints.", type(self).__name__, self._tower_name, num_done
            )
            raise
        return True


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
        RuntimeError: in `setup_graph`, the trainer has no tower function; at a trigger, the input ended before its size.

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
        if isinstance(input, StagingInput):
            raise type_error(
                "InferenceRunner", "an input without staging", input, "Pass the input inside it."
            )
        super().__init__(input, infs, tower_name, tower_func)
        self._device = device

    def _setup_graph(self) -> None:
        tower_func = self._find_tower_func()
        input_callbacks = self._input_source.setup(tower_func.input_signature)
        handle = self._build_tower(tower_func, self._tower_name, self._device)
        self._input_callbacks = Callbacks(input_callbacks)
        self._hooks = [*self._make_hooks(handle), *self._input_callbacks.get_hooks()]
        for inf in self.infs:
            inf.setup_graph(self.trainer)
        self._input_callbacks.setup_graph(self.trainer)

    def _make_hooks(self, handle: Any) -> list[Any]:
        return [_InferencerHook(inf, handle.get_tensors(inf.get_fetches())) for inf in self.infs]

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


def _reuse_variables() -> Any:
    return tf.variable_scope(tf.get_variable_scope(), reuse=True, auxiliary_name_scope=False)


class DataParallelInferenceRunner(InferenceRunnerBase):
    """
    Run the model over a data set at each trigger, on several devices: as InferenceRunner, one tower on each.

    Each datapoint goes to one tower. What does not fill a run of all towers goes to the first one, so every datapoint is
    counted once, however many there are, and of whatever batch size.

    Args:
        input: a DataFlow, or a QueueInput that no training uses, whose length is known and exact.
        infs: an `Inferencer` or a list of them.
        gpus: how many GPUs, from the first on, or a list of their numbers.
        tower_name: the towers are named so, with 0, 1, ... at the end.
        tower_func: the model; None means the trainer's.

    Raises:
        TypeError: an argument of another kind.
        ValueError: the length of the input is not known; in `setup_graph`: as InferenceRunner.
        RuntimeError: as InferenceRunner.

    Runs at: setup_graph, before_train, trigger, after_train.

    Example:
        >>> DataParallelInferenceRunner(validation_df, [ClassificationError("wrong-top1")], gpus=2)

    Note: each round logs how many datapoints and samples it counted.
    """

    def __init__(
        self,
        input: DataFlow | InputSource,
        infs: Inferencer | Sequence[Inferencer],
        gpus: int | Sequence[int],
        tower_name: str = "InferenceTower",
        tower_func: TowerFunc | None = None,
    ) -> None:
        source: Any = QueueInput(input) if isinstance(input, DataFlow) else input
        if not isinstance(source, QueueInput):
            raise type_error(type(self).__name__, "a DataFlow or a QueueInput", source)
        super().__init__(source, infs, tower_name, tower_func)
        self._gpus = list(range(gpus)) if isinstance(gpus, int) else list(gpus)
        if not self._gpus:
            raise ValueError(f"{type(self).__name__}: gpus is {gpus}, wanted at least one.")
        if self._num_datapoints() is None:
            raise ValueError(
                f"{type(self).__name__}: does not know how many datapoints its input has. Give the DataFlow a len()."
            )
        self._parallel_hooks: list[Any] = []
        self._parallel_sess: Any = None

    def _setup_graph(self) -> None:
        tower_func = self._find_tower_func()
        input_callbacks = self._input_source.setup(tower_func.input_signature)
        towers: list[Any] = []
        for index, gpu in enumerate(self._gpus):
            # so that towers take their datapoints in order
            after = [tower.inputs[0].op for tower in towers[-1:]]
            towers.append(self._build_tower(tower_func, f"{self._tower_name}{index}", gpu, after))
        self._input_callbacks = Callbacks(input_callbacks)
        self._count = _Count()
        self._hooks = self._make_hooks(towers[:1])
        self._parallel_hooks = self._make_hooks(towers)
        for inf in self.infs:
            inf.setup_graph(self.trainer)
        self._input_callbacks.setup_graph(self.trainer)

    def _make_hooks(self, towers: list[Any]) -> list[Any]:
        hooks: list[Any] = [
            _TowersHook(inf.on_fetches, [tower.get_tensors(inf.get_fetches()) for tower in towers])
            for inf in self.infs
        ]
        hooks.append(_TowersHook(self._count, [[_num_samples(tower.inputs[0])] for tower in towers]))
        return hooks + self._input_callbacks.get_hooks()

    def _before_train(self) -> None:
        super()._before_train()
        self._parallel_sess = HookedSession(self.trainer.sess, [*self._parallel_hooks, *self._extra_hooks])

    def _trigger(self) -> None:
        for inf in self.infs:
            inf.before_epoch()
        self._input_source.reset_state()
        size, num_towers = self._input_source.size(), len(self._gpus)
        self._count.datapoints = self._count.samples = 0
        sessions = [(self._parallel_sess, num_towers)] * (size // num_towers)
        sessions += [(self._hooked_sess, 1)] * (size % num_towers)
        with get_tqdm(total=size, desc=self._tower_name) as bar:
            for session, number in sessions:
                self._run_datapoint(self._count.datapoints, size, session)
                bar.update(number)
        logger.info(
            f"{self}: counted {self._count.datapoints} datapoints, {self._count.samples} samples, on {num_towers} towers."
        )
        for inf in self.infs:
            inf.trigger_epoch()


class _TowersHook(tf.train.SessionRunHook):
    """Evaluates tensors of several towers in each run, and hands each tower's values on, in order."""

    def __init__(self, on_fetches: Callable[[list[Any]], None], tensors: list[list[Any]]) -> None:
        self._on_fetches = on_fetches
        self._args = tf.train.SessionRunArgs(tensors)

    def before_run(self, run_context: Any) -> Any:
        return self._args

    def after_run(self, run_context: Any, run_values: Any) -> None:
        for values in run_values.results:
            self._on_fetches(values)


class _Count:
    """Counts the datapoints and samples of a round."""

    datapoints = samples = 0

    def __call__(self, values: list[Any]) -> None:
        self.datapoints += 1
        self.samples += int(values[0])


def _num_samples(tensor: Any) -> Any:
    """Give the size of the first dimension; 1 for a scalar."""
    return tf.constant(1) if tensor.shape.ndims == 0 else tf.shape(tensor)[0]


class _InferencerHook(tf.train.SessionRunHook):
    """Evaluates an inferencer's tensors in each run, and hands it their values."""

    def __init__(self, inferencer: Inferencer, tensors: list[Any]) -> None:
        self._inferencer = inferencer
        self._args = tf.train.SessionRunArgs(tensors)

    def before_run(self, run_context: Any) -> Any:
        return self._args

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._inferencer.on_fetches(run_values.results)
