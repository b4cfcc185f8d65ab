"""Callbacks that run the model over a data set during training."""

from __future__ import annotations

import itertools
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Iterator, Sequence

from ..compat import tfv1 as tf
from ..dataflow.base import DataFlow
from ..graph_builder.placement import device_of_gpu
from ..input_source.base import InputSource
from ..input_source.feed import FeedInput
from ..input_source.queueing import QueueInput
from ..input_source.staging import StagingInput
from ..loop.callback import Callback
from ..loop.group import Callbacks
from ..loop.session import HookedSession
from ..tfutils.exact.state import held_position
from ..tfutils.tower.context import PredictTowerContext
from ..tfutils.tower.func import TowerFunc
from ..tfutils.tower.handle import TowerTensorHandle
from ..utils import logger
from ..utils.errors import type_error
from ..utils.utils import get_tqdm
from .inference import Inferencer, WithGuests
from .towers_hook import TowersHook, count_samples

if TYPE_CHECKING:
    from tqdm import tqdm


class InferenceRunnerBase(WithGuests, Callback):
    """
    Base class for inference runners; it holds the input, the inferencers and the session with its hooks.

    Inference runs in a separate hooked session around the trainer's raw session, so the trainer's callbacks,
    including the step counter, take no part in it.

    Args:
        input: where the datapoints come from.
        infs: an `Inferencer` or a list of them.
        tower_name: name of the tower, or prefix of the names of several towers.
        tower_func: the model; None means the trainer's tower function.

    Raises:
        TypeError: an argument has another type.
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
            raise ValueError(f"{name}: tower_name is empty. Give the tower a name.")
        if tower_func is not None and not isinstance(tower_func, TowerFunc):
            raise type_error(f"{name}: tower_func", "a TowerFunc", tower_func)
        if not isinstance(input, InputSource):
            raise type_error(name, "a DataFlow or an InputSource", input)
        input.require_exact_size()
        self._input_source = input
        self.infs: list[Any] = list(infs) if isinstance(infs, (list, tuple)) else [infs]
        for inf in self.infs:
            if not isinstance(inf, Inferencer):
                advice = f"Write ScalarStats({[inf]})." if isinstance(inf, str) else ""
                raise type_error(name, "an Inferencer or a list of them", inf, advice)
        self._tower_name = tower_name
        self._tower_func = tower_func
        self._hooks: list[TowersHook] = []
        self._extra_hooks: list[tf.train.SessionRunHook] = []
        self._input_callbacks = Callbacks([])
        self._hooked_sess: Any = None
        self.max_datapoints: int | None = None
        self._num_run = self._num_samples = 0  # of the round

    @property
    def input_source(self) -> InputSource:
        """The input."""
        return self._input_source

    @property
    def fetched(self) -> list[tf.Tensor]:
        """The tensors that are evaluated for the inferencers, in all towers; available from `setup_graph` on."""
        return [tensor for hook in self._hooks for tensor in hook.tensors]

    def register_hook(self, hook: tf.train.SessionRunHook) -> None:
        """
        Add a `SessionRunHook` to the inference runs.

        Raises:
            TypeError: `hook` is not a SessionRunHook.
            RuntimeError: training has started.
        """
        if not isinstance(hook, tf.train.SessionRunHook):
            raise type_error(f"{type(self).__name__}.register_hook", "a tf.train.SessionRunHook", hook)
        if self._hooked_sess is not None:
            raise RuntimeError(
                f"{type(self).__name__}.register_hook: training has started. Register hooks before training."
            )
        self._extra_hooks.append(hook)

    @property
    def reported_names(self) -> list[str]:
        """The names of the numbers that the inferencers report, as far as they are known before."""
        return [name for inf in self.infs for name in inf.reported_names]

    def state_dict(self) -> dict[str, Any] | None:
        """Return the states of the inferencers; None if they have none."""
        return Callbacks(self.infs).state_dict() or None

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the states of the inferencers."""
        Callbacks(self.infs).load_state_dict(state)

    def _setup_graph(self) -> None:
        tower_func = self._tower_func or getattr(self.trainer, "tower_func", None)
        if tower_func is None:
            raise RuntimeError(
                f"{type(self).__name__} '{self._tower_name}': the trainer has no tower function. Use a TowerTrainer that sets "
                "tower_func, or pass tower_func=..."
            )
        self._input_source.flow.user = type(self).__name__
        self._input_callbacks = Callbacks(self._input_source.setup(tower_func.input_signature))
        if self._input_source.flow.never_ends:
            raise ValueError(
                f"{type(self).__name__}: the data repeats without end, so a round would never end. Leave out RepeatedData, or "
                "limit the data: FixedSizeData(df, n)."
            )
        self._build_towers(tower_func)
        for inf in self._all_infs:
            inf.setup_graph(self.trainer)
        self._input_callbacks.setup_graph(self.trainer)

    def _build_towers(self, tower_func: TowerFunc) -> None:
        """Build the towers, and set the hooks of the inference runs."""
        raise NotImplementedError(f"{type(self).__name__}: define _build_towers().")

    def _build_tower(
        self, tower_func: TowerFunc, name: str, device: int, after: Sequence[tf.Operation] = ()
    ) -> TowerTensorHandle:
        """Build one tower that takes its input after the operations `after`; return its handle."""
        if any(op.name.startswith(f"{name}/") for op in self.graph.get_operations()):
            raise ValueError(
                f"{type(self).__name__}: the graph already has a tower named '{name}'. Give each runner its own name: "
                f"{type(self).__name__}(..., tower_name='InferenceTower2')."
            )
        place = device_of_gpu(device)
        logger.info("%s: building tower '%s' on device %s ...", self, name, place)
        reuse = tf.variable_scope(tf.get_variable_scope(), reuse=True, auxiliary_name_scope=False)
        scope = self.trainer.vs_name_for_predictor(device)
        with self._explain_missing_variable(name), tf.device(place), reuse, PredictTowerContext(name, scope):
            with tf.control_dependencies(after):
                inputs = self._input_source.get_input_tensors()
            tower_func(*inputs)
        return tower_func.towers[-1]

    def _make_hooks(self, tower_func: TowerFunc, towers: list[TowerTensorHandle]) -> list[TowersHook]:
        """Return the hook that evaluates the tensors of all inferencers, and the number of samples, in these towers."""
        tensors = [[self._find_tensors(inf, tower) for inf in self._all_infs] for tower in towers]
        shapes = [spec.shape for spec in tower_func.input_signature]
        counts = [count_samples(tower.inputs, shapes) for tower in towers]
        return [TowersHook(self._take_values, [[*some, count] for some, count in zip(tensors, counts)])]

    def _take_values(self, values: list[Any]) -> None:
        """Pass the values of a datapoint, the result of `count_samples` last, to the inferencers, unless it has no sample."""
        *results, (num_samples, is_certain) = values
        self._num_run += 1
        self._num_samples += int(num_samples)
        for inf, fetched in zip(self._all_infs, results) if num_samples else ():
            inf.begin_datapoint(int(num_samples), bool(is_certain))
            inf.on_fetches(fetched)

    def _find_tensors(self, inf: Inferencer, tower: TowerTensorHandle) -> list[tf.Tensor]:
        try:
            return inf._find_tensors(tower)
        except KeyError as error:
            raise KeyError(f"{type(self).__name__}: {inf} asks for a tensor. {error.args[0]}") from None

    def _make_session(self, hooks: list[TowersHook]) -> HookedSession:
        all_hooks = [*hooks, *self._input_callbacks.get_hooks(), *self._extra_hooks]
        return HookedSession(self.trainer.sess, all_hooks)

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
                "it cannot be reused. Does the model build its name from the name of a tensor?"
            ) from error

    def _before_train(self) -> None:
        self._hooked_sess = self._make_session(self._hooks)
        self._input_callbacks.before_train()
        size = self._num_datapoints()
        extent = "datapoints until the input ends" if size is None else f"{size} datapoints"
        logger.info(f"{self}: each run evaluates {extent}.")

    def _after_train(self) -> None:
        self._input_callbacks.after_train()

    def interrupt(self) -> None:
        """Interrupt the input."""
        self._input_callbacks.interrupt()

    def _num_datapoints(self) -> int | None:
        """Return the number of datapoints in a round; None if it is unknown."""
        size = self.num_datapoints_of_input()
        return size if self.max_datapoints is None else min(self.max_datapoints, size or self.max_datapoints)

    def num_datapoints_of_input(self) -> int | None:
        """Return the number of datapoints of the input; None if it is unknown."""
        try:
            return self._input_source.size() or None
        except NotImplementedError:
            return None

    def _trigger(self) -> None:
        self._num_run = self._num_samples = 0
        for inf in self._all_infs:
            inf.before_epoch()
        with held_position(self._input_source.flow):
            self._input_source.reset_state()
            with get_tqdm(total=self._num_datapoints(), desc=self._tower_name, leave=False) as bar:
                self._run_all(bar)
        for inf in self._all_infs:
            inf.trigger_epoch()

    def _run_all(self, bar: tqdm) -> None:
        """Run all datapoints of the input, and count them on the progress bar."""
        raise NotImplementedError(f"{type(self).__name__}: define _run_all().")

    def _run_datapoint(self, num_done: int, size: int | None, session: HookedSession | None = None) -> bool:
        """
        Run one datapoint, or one run of the given session. Return False when an input of unknown size has ended.

        Raises:
            RuntimeError: an input of known size has ended too early.
            Preempted: see `end_if_preempted`.
        """
        self.trainer.end_if_preempted()
        try:
            (session or self._hooked_sess).run([])
        except (tf.errors.OutOfRangeError, StopIteration) as end:
            if size is None:
                return False
            raise RuntimeError(
                f"{type(self).__name__} '{self._tower_name}': the {type(self._input_source).__name__} ended too early (expected "
                f"{size} datapoints, got {num_done}). Make its size (len() of the DataFlow) the number of datapoints that it "
                "produces."
            ) from end
        except tf.errors.CancelledError:
            logger.error(f"{type(self).__name__} '{self._tower_name}' was cancelled after {num_done} datapoints.")
            raise
        return True


class InferenceRunner(InferenceRunnerBase):
    """
    Callback that runs the model over a data set at each trigger, in inference mode, with the current variables.

    The model is built as an additional tower that shares the variables of training. Each round restarts the input, runs
    all its datapoints (until it ends, if its size is unknown), and lets the inferencers report.

    Args:
        input: a DataFlow, or an InputSource that is not used for training.
        infs: an `Inferencer` or a list of them.
        tower_name: name of the tower; it must be unique in the graph.
        tower_func: the model; None means the trainer's tower function.
        device: number of the GPU to run on; negative means the CPU, which is also used on machines without GPUs.

    Raises:
        TypeError: an argument has another type.
        ValueError: in `setup_graph`: a tower of that name exists, the model needs a variable that training does not
            have, or the data repeats without end.
        RuntimeError: in `setup_graph`: the trainer has no tower function; at a trigger: the input ends before its size.

    Runs at: setup_graph, before_train, trigger, after_train.

    Example:
        >>> InferenceRunner(validation_df, [ScalarStats("cost"), ClassificationError("wrong-top1")])

    Note: an error in the data ends training with that error.

    Difference from tensorpack: in tensorpack 0.11, a second runner with the same tower name evaluates the
    first runner's tower. Here it is a ValueError.
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
            raise type_error("InferenceRunner", "an input without staging", input, "Pass the input inside it.")
        super().__init__(input, infs, tower_name, tower_func)
        self._device = device

    def _build_towers(self, tower_func: TowerFunc) -> None:
        self._hooks = self._make_hooks(tower_func, [self._build_tower(tower_func, self._tower_name, self._device)])

    def _run_all(self, bar: tqdm) -> None:
        size = self._num_datapoints()
        for num_done in range(size) if size is not None else itertools.count():
            if not self._run_datapoint(num_done, size):
                break
            bar.update()


class DataParallelInferenceRunner(InferenceRunnerBase):
    """
    Callback that runs the model over a data set at each trigger, like InferenceRunner, with a tower on each of several devices.

    Each datapoint goes to one tower. Datapoints that do not fill a run of all towers go to the first one, so
    every datapoint counts exactly once, whatever their number and batch size.

    Args:
        input: a DataFlow, or a QueueInput that is not used for training. Its length must be known and exact.
        infs: an `Inferencer` or a list of them.
        gpus: number of GPUs, or a list of their numbers.
        tower_name: prefix of the towers' names, which end in 0, 1, ...
        tower_func: the model; None means the trainer's tower function.

    Raises:
        TypeError: an argument has another type.
        ValueError: the length of the input is unknown; in `setup_graph`: as in InferenceRunner.
        RuntimeError: as in InferenceRunner.

    Runs at: setup_graph, before_train, trigger, after_train.

    Example:
        >>> DataParallelInferenceRunner(validation_df, [ClassificationError("wrong-top1")], gpus=2)

    Note: each round logs the number of datapoints and samples.
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
            raise ValueError(f"{type(self).__name__}: too few GPUs (expected at least 1, got {gpus}).")
        try:
            source.size()
        except NotImplementedError:
            raise ValueError(
                f"{type(self).__name__}: the number of datapoints is unknown. Give the DataFlow a len()."
            ) from None
        self._parallel_hooks: list[TowersHook] = []
        self._parallel_sess: Any = None

    def _build_towers(self, tower_func: TowerFunc) -> None:
        towers: list[TowerTensorHandle] = []
        for index, gpu in enumerate(self._gpus):
            # the towers take their datapoints in order
            after = [tower.inputs[0].op for tower in towers[-1:]]
            towers.append(self._build_tower(tower_func, f"{self._tower_name}{index}", gpu, after))
        self._hooks = self._make_hooks(tower_func, towers[:1])
        self._parallel_hooks = self._make_hooks(tower_func, towers)

    def _before_train(self) -> None:
        super()._before_train()
        self._parallel_sess = self._make_session(self._parallel_hooks)

    def _run_all(self, bar: tqdm) -> None:
        size, num_towers = self._input_source.size(), len(self._gpus)
        sessions = [(self._parallel_sess, num_towers)] * (size // num_towers)
        sessions += [(self._hooked_sess, 1)] * (size % num_towers)
        for session, number in sessions:
            self._run_datapoint(self._num_run, size, session)
            bar.update(number)
        counted = f"{self._num_run} datapoints, {self._num_samples} samples"
        logger.info(f"{self}: counted {counted}, on {num_towers} towers.")
