"""Inference over a data set on all ranks of a training, each with its shard of the data."""

from __future__ import annotations

import base64
import itertools
from contextlib import contextmanager
from typing import Any, Iterator, Sequence

import numpy as np

from ..compat import tfv1 as tf
from ..dataflow.base import DataFlow, ProxyDataFlow, length_or_none
from ..ranks.connecting import RankError
from ..tfutils.tower.func import TowerFunc
from ..utils import logger
from ..utils.errors import type_error
from ..utils.serialize import MsgpackSerializer
from ..utils.utils import get_tqdm
from .inference import Inferencer
from .inference_runner import InferenceRunner
from .replicas import checksum

_BYTES_A_GATHER = 1 << 18  # of values, from each rank
_MOST_A_GATHER = 256  # datapoints of each rank


class ShardedInferenceRunner(InferenceRunner):
    """
    Callback that runs the model over a data set at each trigger, on all ranks: like InferenceRunner, with a shard of the
    data on each rank.

    Of K ranks, rank r evaluates the datapoints r, r + K, r + 2 K, ...; every rank iterates over the whole
    data, so each datapoint is evaluated exactly once. The values are sent to the chief, whose inferencers
    receive them in the order of the data and compute the same results as in InferenceRunner. The results go
    to the monitors of every rank, so callbacks that depend on them, such as StatMonitorParamSetter, do the
    same on every rank. In a process that trains alone it is an InferenceRunner.

    Args:
        input: a DataFlow that yields the same datapoints in the same order on each rank.
        infs: an `Inferencer` or a list of them. Only those of the chief receive values.
        tower_name: name of the tower, unique in the graph.
        tower_func: the model. Default: the trainer's.
        device: number of the GPU to run on; negative means the CPU.

    Attributes:
        works_alone: whether the chief is currently working while the other ranks wait for it.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError, RuntimeError: in `setup_graph`, as in InferenceRunner.
        RankError: at a trigger: the datapoints of the ranks differ, or their number is not `len(input)`.

    Runs at: setup_graph, before_train, trigger, after_train.

    Example:
        >>> ShardedInferenceRunner(validation_df, ClassificationError("wrong-top1"))

    Note: each round logs the number of datapoints and samples. The ranks compare checksums of the datapoints.
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
        self._part = _Shard(input)
        self._channel: Any = None
        self._values: list[list[Any]] = []
        super().__init__(self._part, infs, tower_name, tower_func, device)

    def _setup_graph(self) -> None:
        ranks = self.trainer.ranks
        if ranks.size > 1:
            self._channel = ranks.channel
            self._part.rank, self._part.num_ranks = ranks.rank, ranks.size
        super()._setup_graph()

    def _take_values(self, values: list[Any]) -> None:
        if self._channel is None:
            super()._take_values(values)
        else:
            self._values = [*values[:-1], [values[-1]]]

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
        total, number = length_or_none(self._part.ds), 1
        self._num_run = self._num_samples = 0
        with get_tqdm(total=total, desc=self._tower_name, leave=False, disable=not is_chief) as bar:
            while True:
                packed = self._run_shard(number)
                number = self._agree([len(rows) for rows in packed])
                gathered = self._channel.gather(f"the values of {self}", packed)
                with self._alone():
                    for datapoint in _in_order(gathered or []):
                        *values, (count,) = _unpack(datapoint)
                        super()._take_values([*values, count])
                        bar.update()
                if self._part.has_ended:
                    break
        self._check_total(total)
        if is_chief:
            logger.info(
                f"{self}: counted {self._part.num_seen} datapoints, {self._num_samples} samples, on {self._part.num_ranks} ranks."
            )
        self._report(is_chief)

    def _run_shard(self, number: int) -> list[str]:
        """Run at most `number` datapoints of this rank, and return their values in packed form."""
        packed: list[str] = []
        while len(packed) < number and self._run_datapoint(len(packed), None):
            packed.append(_pack(self._values))
        return packed

    def _agree(self, sizes: Sequence[int]) -> int:
        """Compare the datapoints of all ranks so far, and return how many each rank runs before the next gather."""
        part = self._part
        mine = [part.num_seen, part.checksum, part.has_ended, max(sizes, default=1)]
        everywhere = self._channel.all_gather(f"the datapoints of {self}", mine)
        for rank, theirs in enumerate(everywhere):
            if theirs[:3] != everywhere[0][:3]:
                raise RankError(
                    f"{self}: among the first {max(theirs[0], everywhere[0][0])} datapoints, those of rank {rank} differ from those "
                    "of rank 0. Give each rank the same data in the same order: not shuffled, or with the same seed."
                )
        return max(1, min(_MOST_A_GATHER, _BYTES_A_GATHER // max(theirs[3] for theirs in everywhere)))

    def _check_total(self, total: int | None) -> None:
        if total is not None and self._part.num_seen != total:
            raise RankError(
                f"{self}: the input, a {type(self._part.ds).__name__}, ended early or late (expected {total} datapoints, its "
                f"length, got {self._part.num_seen}). Make len() of the DataFlow the number of datapoints that it yields."
            )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Context in which the chief works and the others wait for it without a time limit."""
        self.works_alone = True
        try:
            yield
        finally:
            self.works_alone = False

    def _report(self, is_chief: bool) -> None:
        """Send the results of the chief to the monitors of every rank."""
        with self._alone():
            mine = [list(inf.get_numbers().items()) for inf in self.infs] if is_chief else None
        for numbers in self._channel.all_gather(f"the results of {self}", mine)[0]:
            for name, number in numbers:
                self.trainer.monitors.put_scalar(name, number)


class _Shard(ProxyDataFlow):
    """
    The shard of one rank. It counts the datapoints of all ranks, and computes a checksum of them.

    Its position is that of `ds`, where all ranks are together, so it can also be resumed by another number of ranks.
    """

    state_attributes = ("num_seen", "checksum", "has_ended")

    def __init__(self, ds: DataFlow) -> None:
        super().__init__(ds)
        self.rank, self.num_ranks = 0, 1
        self.num_seen = self.checksum = 0
        self.has_ended = False

    def __len__(self) -> int:
        return len(range(self.rank, len(self.ds), self.num_ranks))

    def iter_from(self, num_done: int) -> Iterator[Any]:
        """Draw a datapoint for each rank and yield the one for this rank, so that all ranks draw equally many."""
        if num_done == 0:
            self.num_seen = self.checksum = 0
            self.has_ended = False
        length = length_or_none(self.ds)
        stream = itertools.islice(self.ds, None if length is None else length - self.num_seen)
        while not self.has_ended:
            drawn = list(itertools.islice(stream, self.num_ranks))
            self.has_ended = len(drawn) < self.num_ranks
            self.num_seen += len(drawn)
            if self.num_ranks > 1:
                for component in itertools.chain.from_iterable(drawn):
                    self.checksum = checksum(component, self.checksum)
            yield from drawn[self.rank : self.rank + 1]

    def _restore_own_state(self, state: dict[str, Any]) -> None:
        if state:  # earlier versions saved none
            super()._restore_own_state(state)


def _in_order(gathered: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the values of all ranks in the order of the data; at the end, some ranks may have one less."""
    for together in itertools.zip_longest(*gathered):
        yield from (output for output in together if output is not None)


def _pack(values: list[list[Any]]) -> str:
    """Encode values as text for JSON."""
    return base64.b64encode(MsgpackSerializer.dumps([[_plain(value) for value in some] for some in values])).decode(
        "ascii"
    )


def _unpack(text: str) -> list[list[Any]]:
    """Decode the text of `_pack`."""
    return [[_array(*value) for value in some] for some in MsgpackSerializer.loads(base64.b64decode(text))]


def _plain(value: object) -> list[object]:
    array = np.asarray(value, dtype=object if isinstance(value, bytes) else None)
    data = array.ravel().tolist() if array.dtype == object else array.tobytes()
    return [tf.as_dtype(array.dtype).name, list(array.shape), data]


def _array(name: str, shape: list[int], data: bytes | list[Any]) -> np.ndarray | np.generic:
    dtype = tf.as_dtype(name).as_numpy_dtype
    array = np.array(data, dtype) if isinstance(data, list) else np.frombuffer(bytearray(data), dtype)
    return array.reshape(shape)[()]
