"""Running a model over a data set on all ranks of a training, each taking its part."""

from __future__ import annotations

import base64
import itertools
from contextlib import contextmanager
from typing import Any, Iterator, Sequence

import numpy as np

from ..compat import tfv1 as tf
from ..dataflow.base import DataFlow, ProxyDataFlow
from ..tfutils.tower.func import TowerFunc
from ..utils import logger
from ..utils.errors import type_error
from ..utils.ranks import RankError
from ..utils.serialize import MsgpackSerializer
from ..utils.utils import get_tqdm
from .inference import Inferencer
from .inference_runner import InferenceRunner
from .replicas import checksum

__all__ = ["ShardedInferenceRunner"]

_BYTES_A_ROUND = 1 << 18  # of values, from each rank
_MOST_A_ROUND = 256


class ShardedInferenceRunner(InferenceRunner):
    """
    Run the model over a data set at each trigger, on all ranks: as InferenceRunner, each rank with its part of the data.

    Of K ranks, rank r evaluates the datapoints r, r + K, r + 2 K, ...; all draw the whole stream, so nothing is lost or
    doubled, however many datapoints there are. The values travel to the chief, whose inferencers take them in, in the order of
    the data: they compute what InferenceRunner would. Their numbers go to the monitors of every rank, so callbacks that decide by
    them, such as StatMonitorParamSetter, decide alike everywhere. Without other ranks it is an InferenceRunner.

    Args:
        input: a DataFlow that gives the same datapoints in the same order on each rank.
        infs: an `Inferencer` or a list of them. Only those of the chief see values.
        tower_name: name of the tower; each tower of a graph needs one of its own.
        tower_func: the model; None means the trainer's.
        device: number of the GPU to run on; negative means the CPU.

    Attributes:
        works_alone: whether the chief is at work now while the others wait for it.

    Raises:
        TypeError: an argument of another kind.
        ValueError, RuntimeError: in `setup_graph`, as InferenceRunner.
        RankError: at a trigger: the ranks' datapoints differ, or there are fewer than `len(input)`.

    Runs at: setup_graph, before_train, trigger, after_train.

    Example:
        >>> ShardedInferenceRunner(validation_df, ClassificationError("wrong-top1"))

    Note: each round logs how many datapoints and samples it counted. What each rank drew is compared by checksums.

    tensorpack: new.
    """

    _chief_only = False
    works_alone = False

    def __init__(
        self,
        input: DataFlow,
        infs: Inferencer | Sequence[Inferencer],
        tower_name: str = "InferenceTower",
        tower_func: TowerFunc | None = None,
        device: int = 0,
    ) -> None:
        if not isinstance(input, DataFlow):
            raise type_error("ShardedInferenceRunner", "a DataFlow", input)
        self._part = _Part(input)
        self._channel: Any = None
        self._values: Any = None
        super().__init__(self._part, infs, tower_name, tower_func, device)

    def _setup_graph(self) -> None:
        ranks = getattr(self.trainer, "ranks", None)
        if ranks is not None and ranks.size > 1:
            self._channel = ranks.channel
            self._part.rank, self._part.num_ranks = ranks.rank, ranks.size
        super()._setup_graph()

    def _make_hooks(self, handle: Any) -> list[Any]:
        if self._channel is None:
            return super()._make_hooks(handle)
        image = handle.inputs[0]
        num_samples = tf.constant(1) if image.shape.ndims == 0 else tf.shape(image)[0]
        fetches = [handle.get_tensors(inf.get_fetches()) for inf in self.infs]
        self._values = _Values([*fetches, [num_samples]])
        return [self._values]

    # A round of all ranks --------------------------------------------------------------------------------------------
    def _trigger(self) -> None:
        if self._channel is None:
            super()._trigger()
            return
        is_chief = self._part.rank == 0
        with self._alone():
            for inf in self.infs if is_chief else []:
                inf.before_epoch()
        self._input_source.reset_state()
        total, number, num_samples = self._part.total(), 1, 0
        with get_tqdm(total=total, desc=self._tower_name, disable=not is_chief) as bar:
            while True:
                packed = self._run_some(number)
                number = self._agree([len(each) for each in packed])
                gathered = self._channel.gather(f"the values of {self}", packed)
                with self._alone():
                    for datapoint in _in_order(gathered or []):
                        num_samples += self._hand_on(_unpack(datapoint))
                        bar.update()
                if self._part.has_ended:
                    break
        self._check_total(total)
        if is_chief:
            logger.info(
                f"{self}: counted {self._part.num_seen} datapoints, {num_samples} samples, on {self._part.num_ranks} ranks."
            )
        self._report(is_chief)

    def _run_some(self, number: int) -> list[str]:
        """Run at most so many datapoints of this rank's part; returns their values, ready to travel."""
        packed: list[str] = []
        while len(packed) < number and self._run_datapoint(len(packed), None):
            packed.append(_pack(self._values.latest))
        return packed

    def _agree(self, sizes: Sequence[int]) -> int:
        """Compare what the ranks have drawn so far; returns how many datapoints each runs until they meet again."""
        part = self._part
        mine = [part.num_seen, part.checksum, part.has_ended, max(sizes, default=1)]
        everywhere = self._channel.all_gather(f"what {self} has drawn", mine)
        for rank, theirs in enumerate(everywhere):
            if theirs[:3] != everywhere[0][:3]:
                raise RankError(
                    f"{self}: among the first {max(theirs[0], everywhere[0][0])} datapoints, those of rank {rank} differ from those "
                    "of rank 0. Give each rank the same data in the same order: not shuffled, or with the same seed."
                )
        return max(1, min(_MOST_A_ROUND, _BYTES_A_ROUND // max(theirs[3] for theirs in everywhere)))

    def _hand_on(self, values: list[list[Any]]) -> int:
        """Give the inferencers the values of one datapoint; returns its number of samples."""
        for inf, results in zip(self.infs, values):
            inf.on_fetches(results)
        return int(values[-1][0])

    def _check_total(self, total: int | None) -> None:
        if total is not None and self._part.num_seen != total:
            raise RankError(
                f"{self}: its input, a {type(self._part.ds).__name__}, ended after {self._part.num_seen} datapoints, but its size is "
                f"{total}. Make len() of the DataFlow the number of datapoints it gives."
            )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Inside, the chief works and the others wait for it, as long as it takes."""
        self.works_alone = True
        try:
            yield
        finally:
            self.works_alone = False

    def _report(self, is_chief: bool) -> None:
        """Send the chief's numbers to the monitors of every rank."""
        with self._alone():
            mine = [list(inf.get_numbers().items()) for inf in self.infs] if is_chief else None
        for numbers in self._channel.all_gather(f"the results of {self}", mine)[0]:
            for name, number in numbers:
                self.trainer.monitors.put_scalar(name, number)


class _Part(ProxyDataFlow):
    """The datapoints of one rank. It counts all that pass by, and keeps a checksum of them."""

    def __init__(self, ds: DataFlow) -> None:
        super().__init__(ds)
        self.rank, self.num_ranks = 0, 1
        self.num_seen = self.checksum = 0
        self.has_ended = False

    def __len__(self) -> int:
        return len(range(self.rank, len(self.ds), self.num_ranks))

    def __iter__(self) -> Iterator[Any]:
        """Draw one datapoint for each rank, then give this rank's: so after each, all ranks have drawn the same."""
        self.num_seen = self.checksum = 0
        self.has_ended = False
        stream = itertools.islice(self.ds, self.total())
        while not self.has_ended:
            drawn = list(itertools.islice(stream, self.num_ranks))
            self.has_ended = len(drawn) < self.num_ranks
            self._note(drawn)
            yield from drawn[self.rank : self.rank + 1]

    def _note(self, drawn: Sequence[Any]) -> None:
        self.num_seen += len(drawn)
        if self.num_ranks > 1:
            for component in itertools.chain.from_iterable(drawn):
                self.checksum = checksum(component, self.checksum)

    def total(self) -> int | None:
        """How many datapoints all ranks have together; None if the data does not know."""
        try:
            return len(self.ds)
        except NotImplementedError:
            return None


class _Values(tf.train.SessionRunHook):
    """Evaluates tensors in each run, and keeps the latest values."""

    def __init__(self, tensors: list[list[Any]]) -> None:
        self.latest: list[list[Any]] = []
        self._args = tf.train.SessionRunArgs(tensors)

    def before_run(self, run_context: Any) -> Any:
        return self._args

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.latest = run_values.results


def _in_order(gathered: Sequence[Sequence[str]]) -> Iterator[str]:
    """From what each rank ran to the order of the data; ranks at the end may have one less."""
    for together in itertools.zip_longest(*gathered):
        yield from (each for each in together if each is not None)


def _pack(values: list[list[Any]]) -> str:
    """Write values as text that JSON holds."""
    return base64.b64encode(
        MsgpackSerializer.dumps([[_plain(each) for each in some] for some in values])
    ).decode("ascii")


def _unpack(text: str) -> list[list[Any]]:
    """Read what `_pack` wrote: the values that a run would have given."""
    return [[_array(*each) for each in some] for some in MsgpackSerializer.loads(base64.b64decode(text))]


def _plain(value: Any) -> list[Any]:
    array = np.asarray(value, dtype=object if isinstance(value, bytes) else None)
    data = array.ravel().tolist() if array.dtype == object else array.tobytes()
    return [tf.as_dtype(array.dtype).name, list(array.shape), data]


def _array(name: str, shape: list[int], data: Any) -> Any:
    dtype = tf.as_dtype(name).as_numpy_dtype
    array = np.array(data, dtype) if isinstance(data, list) else np.frombuffer(bytearray(data), dtype)
    return array.reshape(shape)[()]
