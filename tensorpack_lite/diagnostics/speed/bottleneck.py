"""
The model of a pipeline's speed: which part limits it, and what a change would bring.

In:  a `Load`, which is what each part did in a period, and how many steps that period had.
Out: the limit, and the predicted gain of changes.

It is operational analysis, without fitting. Parts work at the same time, so a step cannot take less than the longest
of these intervals:

- of each part, the time of its work for a step, divided by its number of workers;
- of all processes, their CPU time for a step, divided by the number of cores;
- of the threads of this process, the CPU time that may hold the interpreter's lock;
- of the consumer, the time of a step whose data is ready.
"""

from __future__ import annotations

from dataclasses import replace
from typing import List, NamedTuple, Optional, Sequence

from .pipeline_load import HERE, PROCESSES, THREADS, Part, StageWork

_REACHABLE = 0.9  # the smallest change is advised that reaches this share of what is reachable
_WORKERS_PER_CORE = 4  # at most: workers may wait for disks or networks
_MIN_GAIN = 1.1
_SECONDS_TO_SEND = 1e-4  # a datapoint from a worker, in the process that receives it
_SECONDS_OF_NOTHING = 1e-5  # a datapoint of a pipeline whose stages cost nothing
_CERTAIN = 0.8  # a prediction is withheld if what is not known could change it by more


class Load(NamedTuple):
    """
    The work of a pipeline and its consumer in a period. Times are in seconds.

    Attributes:
        parts: the parts of the pipeline, that of the consumer's thread first.
        num_steps: number of steps of the consumer.
        seconds: length of the period.
        graph: time of a step whose data is ready; 0 without a consumer, None if unknown.
        cpu: CPU time of all processes; None if unknown.
        cores: number of cores that they may use.
        is_contended: whether threads often wait for a core.
        free_memory: bytes that more workers may use; None if unknown.
        pass_steps: number of steps in a pass over the data; None if unknown.
    """

    parts: Sequence[Part]
    num_steps: int
    seconds: float
    graph: Optional[float]
    cpu: Optional[float]
    cores: float
    is_contended: bool = False
    free_memory: Optional[int] = None
    pass_steps: Optional[int] = None

    @property
    def interval(self) -> float:
        """Seconds of a step."""
        return self.seconds / self.num_steps

    def interval_of(self, part: Part) -> float:
        """Return the least time of a step that a part allows."""
        return part.busy / part.num_workers / self.num_steps

    @property
    def interval_of_cores(self) -> float:
        """The least time of a step that the cores allow."""
        return (self.cpu or 0.0) / self.cores / self.num_steps

    @property
    def interval_of_lock(self) -> float:
        """The least time of a step if all Python threads of this process always hold the interpreter's lock."""
        return sum(part.cpu for part in self.parts if part.kind != PROCESSES) / self.num_steps

    @property
    def slowest(self) -> Part:
        """The part with the longest interval."""
        return max(self.parts, key=self.interval_of)

    @property
    def is_known(self) -> bool:
        """Whether all parts were timed, and the slowest of them explains the time of a step."""
        if not all(part.is_known for part in self.parts):
            return False
        least = max(self.interval_of(self.slowest), self.interval_of_cores, self.graph or 0.0)
        return _CERTAIN * self.interval <= least <= self.interval / _CERTAIN

    @property
    def cores_are_full(self) -> bool:
        """Whether there is hardly any CPU time left."""
        return self.interval_of_cores >= 0.9 * self.interval

    def least_interval(self, parts: Sequence[Part], is_lock_held: bool = True) -> float:
        """Return the predicted time of a step with other parts."""
        least = [self.interval_of(part) for part in parts]
        if is_lock_held:
            least.append(self.interval_of_lock)
        return max(*least, self.interval_of_cores, self.graph or 0.0)


class Advice(NamedTuple):
    """
    A change and its prediction.

    Attributes:
        part: the part that is changed.
        num_workers: how many workers it should have.
        gain: present time of a step, divided by the predicted one.
        busy_cores: number of cores that are then busy; None if unknown.
        limit: what limits the speed then: "cores", "graph", "lock", or the name of a stage.
        is_certain: False if it depends on how long threads hold the interpreter's lock.
        more_memory: bytes that the added workers need; 0 if unknown.
    """

    part: Part
    num_workers: int
    gain: float
    busy_cores: Optional[float]
    limit: str
    is_certain: bool = True
    more_memory: int = 0


def advise(load: Load) -> list[Advice]:
    """
    Return changes of the number of workers of the slowest part, the smallest change first.

    Returns:
        Up to two: one more worker, and as many as reach 90 % of what is reachable. Empty if no number of workers
        would bring 10 %, if no other worker fits into the free memory, or if the gain is not known, e.g. because other
        programs use the cores, too.
    """
    if not load.is_known or load.is_contended:
        return []
    part = load.slowest
    most = max(part.num_workers + 1, int(_WORKERS_PER_CORE * load.cores))
    if part.memory and load.free_memory is not None:
        most = min(most, part.num_workers + load.free_memory // part.memory)
    best = _predict(load, part, most)
    options: List[Advice] = []
    for num in range(2 if part.kind == HERE else part.num_workers + 1, most + 1):
        advice = _predict(load, part, num)
        if not advice.is_certain or advice.gain < _MIN_GAIN:
            continue
        if advice.gain >= _REACHABLE * best.gain:
            return [*options[:1], advice]
        options.append(advice)
    return options[:1]


class Saving(NamedTuple):
    """
    Gain from less work in the stage with the most work.

    Attributes:
        stage: the stage.
        gain: present time of a step, divided by the predicted one if the stage cost nothing.
        gain_of_cache: the same, if its datapoints were in memory, so that the stages that it reads cost nothing, too.
        cache_memory: bytes of its datapoints in a pass; 0 if unknown.
    """

    stage: StageWork
    gain: float
    gain_of_cache: float
    cache_memory: int


def find_saving(load: Load) -> Optional[Saving]:
    """Return what less work in the slowest stage would bring; None if unknown."""
    if not load.is_known or load.is_contended:
        return None
    stage = load.slowest.slowest
    memory = stage.num_bytes * stage.count / load.num_steps * (load.pass_steps or 0)
    gain = _gain_without(load, [stage])
    below = [upstream for part in load.parts for upstream in part.stages if upstream.depth >= stage.depth]
    return Saving(stage, gain, _gain_without(load, below), int(memory))


def _gain_without(load: Load, stages: Sequence[StageWork]) -> float:
    """Predict the gain if some stages cost nothing."""
    names = set(map(id, stages))
    parts = [
        replace(part, stages=[replace(s, wall=0.0, cpu=0.0) if id(s) in names else s for s in part.stages])
        for part in load.parts
    ]
    saved = sum(part.cpu for part in load.parts) - sum(part.cpu for part in parts)
    changed = load._replace(parts=parts, cpu=None if load.cpu is None else max(0.0, load.cpu - saved))
    return load.interval / max(changed.least_interval(parts), _SECONDS_OF_NOTHING)


def _predict(load: Load, part: Part, num_workers: int) -> Advice:
    """Predict the speed with another number of workers."""
    other_parts = [other_part for other_part in load.parts if other_part is not part]
    kind = PROCESSES if part.kind == HERE else part.kind
    changed = [*other_parts, replace(part, num_workers=num_workers, kind=kind)]
    # a part that moves to workers leaves the receiving of its datapoints behind
    sending = part.stages[0].count * _SECONDS_TO_SEND / load.num_steps if part.kind == HERE else 0.0
    fast, slow = (max(load.least_interval(changed, is_held), sending) for is_held in (False, True))
    interval = slow if part.kind == THREADS else fast
    is_certain = part.kind != THREADS or fast >= _CERTAIN * slow
    busy_cores = None if load.cpu is None else load.cpu / load.num_steps / interval
    gain = load.interval / interval
    more_memory = part.memory * (num_workers - part.num_workers)
    limit = _limit(load, changed, interval)
    return Advice(part, num_workers, gain, busy_cores, limit, is_certain, more_memory)


def _limit(load: Load, parts: Sequence[Part], interval: float) -> str:
    if load.interval_of_cores >= 0.999 * interval:
        return "cores"
    if (load.graph or 0.0) >= 0.999 * interval:
        return "graph"
    slowest = max(parts, key=load.interval_of)
    return slowest.owner if load.interval_of(slowest) >= 0.999 * interval else "lock"
