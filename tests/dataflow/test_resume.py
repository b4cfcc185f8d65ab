"""Tests of positions: `get_state`, `set_state` and `resume_report` of DataFlows in one process."""

from __future__ import annotations

import functools
import itertools
import random

import numpy as np
import pytest
from conformance.dataflow_rows import ROWS, SIZE, Source
from fakes.datasets import write_mnist
from fakes.positions import as_text, check_chain, check_cuts, passes, restored, run, text, through_json

from tensorpack_lite.dataflow import (
    AugmentImageComponent,
    BatchData,
    BatchDataByShape,
    CacheData,
    ConcatData,
    DataFlow,
    DataFromGenerator,
    DataFromList,
    DataFromQueue,
    FakeData,
    FixedSizeData,
    HDF5Data,
    JoinData,
    LMDBData,
    LMDBSerializer,
    LocallyShuffleData,
    MapData,
    ProxyDataFlow,
    RandomChooseData,
    RemoteDataZMQ,
    RepeatedData,
    RepeatedDataPoint,
    RNGDataFlow,
    TFRecordSerializer,
    dataset,
    imgaug,
)
from tensorpack_lite.dataflow.exact import numbered_source
from tensorpack_lite.dataflow.exact.holds_back import HoldsBack
from tensorpack_lite.utils.utils import fix_rng_seed, get_rng


@pytest.fixture(autouse=True)
def snapshots_often(monkeypatch):
    """Take a snapshot before every datapoint."""
    monkeypatch.setattr(numbered_source, "_SNAPSHOT_SECONDS", 0.0)


def number(datapoint) -> int:
    """Return a whole number that depends on the datapoint."""
    return int(100 * float(np.ravel(datapoint[0])[0]))


class Plain(DataFlow):
    """A user's class without anything for positions."""

    def __iter__(self):
        yield from ([k] for k in range(5))


class Drawing(RNGDataFlow):
    """A user's class that draws."""

    def __iter__(self):
        for _ in range(7):
            yield [int(self.rng.randint(50))]


class Counting(DataFlow):
    """A user's class with a counter and a list, which it changes in place."""

    state_attributes = ("count", "seen", "sums")

    def __init__(self):
        self.count, self.seen, self.sums = 0, [], np.zeros(2)

    def __iter__(self):
        for _ in range(6):
            self.count += 1
            self.seen.append(self.count)
            self.sums += self.count
            yield [self.count, len(self.seen), float(self.sums[0])]


class Custom(DataFlow):
    """A user's class that saves its position by itself."""

    position = 0

    def __iter__(self):
        while self.position < 9:
            self.position += 1
            yield [self.position]
        self.position = 0

    def get_state(self):
        return {"position": self.position}

    def set_state(self, state):
        self.position = 0 if state is None else state["position"]


class Innocent(DataFlow):
    """A user's class whose iteration has a parameter `start`, which is not about positions."""

    def __iter__(self, start=2):
        yield from ([k] for k in range(start, 9))


class Squares(DataFlow):
    """A user's class that continues at any datapoint."""

    begun = 0  # how many passes began or were continued

    def __iter__(self):
        return self.iter_from(0)

    def iter_from(self, num_done):
        self.begun += 1
        for k in range(num_done, 9):
            yield [k * k, self.begun > 0]


class Cubes(Squares):
    """A user's class that does not continue as its base class does."""

    def __iter__(self):
        yield from ([k**3] for k in range(5))


class Pairs(HoldsBack):
    """A user's class that yields each datapoint with the one before, which may be of the pass before."""

    def __init__(self, ds):
        super().__init__(ds, capacity=1)

    def advance(self, held, source, num_done):
        for pair in source:
            held.append(pair)
            if len(held) == 2:
                _, before = held.pop(0)
                yield [*before, *pair[1]]


class HoldsFirst(HoldsBack):
    """A user's class that holds the first datapoint of a pass until the pass ends, or forever."""

    def __init__(self, ds, is_forever=False):
        super().__init__(ds, capacity=1)
        self.is_forever = is_forever

    def advance(self, held, source, num_done):
        for pair in source:
            if held:
                yield pair[1]
            else:
                held.append(pair)
        while held and not self.is_forever:
            yield held.pop()[1]


class Delay(HoldsBack):
    """A user's class that yields each datapoint when it has read the next three, and those that are left at the end."""

    def __init__(self, ds):
        super().__init__(ds, capacity=3)

    def advance(self, held, source, num_done):
        if num_done == 0:
            held.clear()
        for pair in source:
            held.append(pair)
            if len(held) > 3:
                yield held.pop(0)[1]
        while held:
            yield held.pop(0)[1]


class TwoEarly(HoldsBack):
    """A user's class that yields two datapoints before it reads."""

    def __init__(self, ds):
        super().__init__(ds, capacity=1)

    def advance(self, held, source, num_done):
        yield from ([-k] for k in range(num_done, 2))
        yield from (datapoint for _, datapoint in source)


class RandomDelay(HoldsBack, RNGDataFlow):
    """A user's class that delays datapoints at random, and counts them."""

    state_attributes = ("count",)
    count = 0

    def __init__(self, ds):
        super().__init__(ds, capacity=3, is_endless=True)

    def reset_state(self):
        super().reset_state()
        RNGDataFlow.reset_state(self)

    def advance(self, held, source, num_done):
        for pair in source:
            held.append(pair)
            if len(held) > 3 or self.rng.rand() < 0.3:
                self.count += 1
                yield [self.count, *held.pop(self.rng.randint(len(held)))[1]]


def through(method):
    """Decorate a method."""

    @functools.wraps(method)
    def decorated(self):
        return method(self)

    return decorated


class Decorated(DataFlow):
    """The methods that keep the position are decorated."""

    @through
    def reset_state(self):
        super().reset_state()
        self.rng = get_rng(self)

    @through
    def __iter__(self):
        for _ in range(6):
            yield [self.rng.randint(1000)]


class ReadsTwice:
    """A class that is not a DataFlow has the iteration."""

    def __iter__(self):
        for datapoint in self.ds:
            yield datapoint
            yield [-datapoint[0]]


class Mixed(ReadsTwice, ProxyDataFlow):
    """Inherits its iteration from a class that is not a DataFlow."""


class MixedAgain(Mixed):
    """Inherits the same iteration through a DataFlow."""


class Resets:
    """A class that is not a DataFlow has the reset."""

    def reset_state(self):
        self.factor = 3
        super().reset_state()


class MixedReset(Resets, ProxyDataFlow):
    """Inherits its reset from a class that is not a DataFlow."""

    def __iter__(self):
        for datapoint in self.ds:
            yield [self.factor * datapoint[0]]


class Differences(ProxyDataFlow):
    """A user's class that keeps the last datapoint and drops some."""

    def __iter__(self):
        last = None
        for datapoint in self.ds:
            if last is not None and (number(last) + number(datapoint)) % 5:
                yield [number(last) * 3 + number(datapoint)]
            last = datapoint


class Alternating(RNGDataFlow):
    """A user's class that wraps two DataFlows."""

    def __init__(self, first, second):
        self.first, self.second = first, second

    def reset_state(self):
        super().reset_state()
        self.first.reset_state()
        self.second.reset_state()

    def __iter__(self):
        for pair in zip(self.first, self.second):
            yield pair[self.rng.randint(2)]


class Shuffled(Source, RNGDataFlow):
    """The source of the rows of the laws, in a new random order in each pass."""

    def reset_state(self):
        super().reset_state()
        RNGDataFlow.reset_state(self)

    def __iter__(self):
        yield from (self.datapoints[k] for k in self.rng.permutation(SIZE))


def shuffled(num=8):
    """Numbers in a new random order in each pass."""
    return DataFromList([[k] for k in range(num)], shuffle=True)


def shaped():
    """Arrays of three shapes."""
    return MapData(shuffled(9), lambda dp: [np.full(dp[0] % 3, dp[0])])


def images():
    """Images, augmented at random."""
    small = DataFromList([[np.full((4, 4, 3), k, np.uint8), k] for k in range(6)], shuffle=True)
    return AugmentImageComponent(small, [imgaug.Flip(horiz=True), imgaug.Brightness(30), imgaug.RandomCrop((2, 2))])


NOT_HERE = ("DataFromQueue", "TestDataSpeed")  # one has no position, one resets itself
HERE = [row for row in ROWS if not row.needs_reset and row.name not in NOT_HERE]  # the others have workers
STAGES = {
    **{row.name: lambda build=row.build: build(Shuffled()) for row in HERE},
    "list in order": lambda: DataFromList([[k] for k in range(8)], shuffle=False),
    "generator": lambda: DataFromGenerator(lambda: ([k] for k in range(5))),
    "plain": Plain,
    "drawing": Drawing,
    "counting": Counting,
    "custom": Custom,
    "custom below": lambda: RepeatedData(MapData(Custom(), lambda dp: [dp[0] + 1]), 2),
    "proxy": lambda: Differences(Drawing()),
    "decorated methods": Decorated,
    "mixin": lambda: Mixed(shuffled()),
    "subclass of a mixed one": lambda: MixedAgain(shuffled()),
    "mixed reset": lambda: Mixed(MixedReset(Mixed(shuffled()))),
    "two flows": lambda: Alternating(shuffled(), Drawing()),
    "map": lambda: MapData(shuffled(), lambda dp: dp if dp[0] % 3 else None),
    "batch": lambda: BatchData(shuffled(), 3, remainder=True),
    "by shape": lambda: BatchDataByShape(shaped(), 2, 0),
    "without end": lambda: RepeatedData(Drawing(), -1),
    "fixed size anew": lambda: FixedSizeData(shuffled(), 5, keep_state=False),
    "choose": lambda: RandomChooseData([RepeatedData(shuffled(), -1), RepeatedData(Drawing(), -1)]),
    "shuffle": lambda: LocallyShuffleData(shuffled(), 5, num_reuse=2),
    "shuffle, replayed": lambda: LocallyShuffleData(Counting(), 20),
    "images": images,
    "a parameter called start": lambda: RepeatedData(Innocent(), 2),
    "iter_from": lambda: MapData(Squares(), lambda dp: [dp[0] + 1]),
    "iter_from of a base class": lambda: RepeatedData(Cubes(), 2),
    "pairs": lambda: Pairs(shuffled()),
    "pairs, replayed": lambda: FixedSizeData(Pairs(Pairs(Drawing())), 5),
    "random delay": lambda: RandomDelay(Pairs(Drawing())),
    **{f"delay of {num}": lambda num=num: Delay(shuffled(num)) for num in (0, 1, 3, 4, 9)},
    **{f"delays of {num}": lambda num=num: RepeatedData(Delay(Delay(shuffled(num))), 2) for num in (0, 1, 3, 4, 9)},
    "shuffle, left early": lambda: FixedSizeData(LocallyShuffleData(shuffled(), 4, num_reuse=2), 7, keep_state=False),
    "by shape, left early": lambda: FixedSizeData(BatchDataByShape(shaped(), 2, 0), 3, keep_state=False),
}


@pytest.mark.parametrize("name", STAGES)
def test_cut_after_every_event(name):
    """Each stage, cut anywhere and restored in a new object, continues with what followed; the state stays the same."""
    check_cuts(STAGES[name], 26)


@pytest.mark.parametrize("name", ["shuffle", "shuffle, left early", "by shape, left early", "pairs"])
def test_cut_long_after_a_snapshot(name, monkeypatch):
    """A stage that holds datapoints back, and reads its source again from the first snapshot, continues with what followed."""
    monkeypatch.setattr(numbered_source, "_SNAPSHOT_SECONDS", 1e9)
    check_cuts(STAGES[name], 40)


@pytest.mark.parametrize("name", ["counting", "custom below", "shuffle", "CacheData", "by shape", "JoinData"])
def test_again_and_again(name):
    """A pipeline may be cut and restored many times."""
    check_chain(STAGES[name], 26, [3, 1, 7, 2])


# Random pipelines ----------------------------------------------------------------------------------------------------
def random_source(r):
    """Return a random source."""
    kind, num = r.randint(0, 4), r.randint(3, 12)
    if kind == 0:
        return DataFromList([[k] for k in range(num)], shuffle=r.random() < 0.7)
    return [lambda: FakeData([[2]], num, random=True), Drawing, Counting, STAGES["generator"]][kind - 1]()


def random_stage(r, ds):
    """Return a random stage over a DataFlow."""
    shapes = MapData(ds, lambda dp: [np.zeros(number(dp) % 3) + number(dp)])
    stages = [
        lambda: MapData(ds, lambda dp: [np.add(dp[0], 1)]),
        lambda: BatchData(MapData(ds, lambda dp: [number(dp)]), r.randint(1, 3), remainder=True),
        lambda: RepeatedData(ds, r.randint(1, 3)),
        lambda: FixedSizeData(ds, r.randint(1, 9), keep_state=r.random() < 0.5),
        lambda: FixedSizeData(
            LocallyShuffleData(ds, r.randint(1, 6), num_reuse=r.randint(1, 3)), 11, keep_state=r.random() < 0.5
        ),
        lambda: CacheData(ds, shuffle=r.random() < 0.5),
        lambda: ConcatData([ds, random_source(r)]),
        lambda: ConcatData([random_source(r), ds]),
        lambda: FixedSizeData(RandomChooseData([RepeatedData(ds, -1), RepeatedData(random_source(r), -1)]), 8),
        lambda: JoinData([ds, random_source(r)]),
        lambda: JoinData([ds, ds]),
        lambda: RepeatedDataPoint(ds, 2),
        lambda: FixedSizeData(
            BatchDataByShape(MapData(shapes, lambda dp: [dp[0]] if len(dp[0]) else [np.ones(4)]), 2, 0), 5
        ),
    ]
    return stages[r.randint(0, 12)]()


def random_pipeline(seed):
    """Return the pipeline of a seed: a source and 1 to 5 stages."""
    r = random.Random(seed)
    ds = random_source(r)
    for _ in range(r.randint(1, 5)):
        ds = random_stage(r, ds)
    return ds


NOT_ITERABLE = ("no datapoint", "cannot be stacked", "batch_size", "already being iterated")


def check_random_pipelines(seeds):
    """Cut random pipelines at random places. Pipelines that cannot be iterated at all are skipped; return their number."""
    num_left_out = 0
    for seed in seeds:
        fix_rng_seed(seed)
        try:
            run(restored(lambda: random_pipeline(seed), None), 60)  # noqa: B023
        except (RuntimeError, ValueError) as error:
            if not any(reason in str(error) for reason in NOT_ITERABLE):
                raise
            num_left_out += 1
            continue
        r = random.Random(seed)
        cuts = sorted({0, 1, 2, 59, *(r.randint(0, 59) for _ in range(4))})
        check_cuts(lambda: random_pipeline(seed), 60, cuts)  # noqa: B023
    return num_left_out


@pytest.mark.slow
def test_random_pipelines():
    """Random pipelines, cut at random places and restored, continue with what followed."""
    assert check_random_pipelines(range(60)) < 20


@pytest.mark.nightly
def test_many_random_pipelines():
    """As above, with many more pipelines."""
    assert check_random_pipelines(range(1000, 1300)) < 100


# Sources of files ----------------------------------------------------------------------------------------------------
class TestFiles:
    @pytest.mark.parametrize("shuffle", [False, True])
    def test_lmdb(self, shuffle, tmp_path):
        """An LMDB file, in order and shuffled."""
        pytest.importorskip("lmdb")
        path = str(tmp_path / "data.lmdb")
        LMDBSerializer.save(shuffled(9), path)
        check_cuts(lambda: LMDBSerializer.load(path, shuffle=shuffle), 24)
        check_cuts(lambda: MapData(LMDBData(path, shuffle=shuffle), lambda dp: [dp[0].decode()]), 24)

    @pytest.mark.parametrize("shuffle", [False, True])
    def test_hdf5(self, shuffle, tmp_path):
        """An HDF5 file, in order and shuffled."""
        h5py = pytest.importorskip("h5py")
        with h5py.File(str(tmp_path / "data.h5"), "w") as file:
            file["a"] = np.arange(9)
        check_cuts(lambda: HDF5Data(str(tmp_path / "data.h5"), ["a"], shuffle=shuffle), 24)

    def test_tfrecord(self, tmp_path):
        """A TFRecord file."""
        path = str(tmp_path / "data.tfrecords")
        TFRecordSerializer.save(shuffled(9), path)
        check_cuts(lambda: TFRecordSerializer.load(path), 24)

    def test_dataset(self, tmp_path):
        """A data set, shuffled."""
        write_mnist(tmp_path)
        check_cuts(lambda: dataset.Mnist("train", shuffle=True, dir=str(tmp_path)), 16)


# Rules ---------------------------------------------------------------------------------------------------------------
class TestRules:
    @pytest.mark.parametrize("method", ["get_state", "resume_report"])
    def test_without_set_state(self, method):
        """Without `set_state`, there is no position; the error names the method to call."""
        flow = shuffled()
        flow.reset_state()
        with pytest.raises(RuntimeError, match=r"Call set_state\(None\) before reset_state\(\)"):
            getattr(flow, method)()

    def test_reset_without_set_state_switches_off(self):
        """A second `reset_state` without `set_state` ends the recording of positions."""
        flow = restored(shuffled, None)
        flow.reset_state()
        with pytest.raises(RuntimeError, match="not recorded"):
            flow.get_state()

    def test_other_pipeline(self):
        """A state of another pipeline is refused, and the first difference is named."""
        _, states = run(restored(lambda: BatchData(MapData(shuffled(), number), 2), None), 0)
        with pytest.raises(
            ValueError, match=r"BatchData > RepeatedData: .*expected one of RepeatedData, got 'MapData'"
        ):
            restored(lambda: BatchData(RepeatedData(shuffled(), 2), 2), states[0])
        with pytest.raises(ValueError, match="MapData: the saved position belongs to another DataFlow"):
            restored(lambda: MapData(shuffled(), number), states[0])

    def test_other_number_of_stages(self):
        """A state with another number of stages is refused."""
        _, states = run(restored(lambda: ConcatData([shuffled(), shuffled()]), None), 1)
        with pytest.raises(ValueError, match="expected 3 stages and 0 random generators below it, got 2 and 0"):
            restored(lambda: ConcatData([shuffled(), shuffled(), shuffled()]), states[1])

    def test_data_that_became_shorter(self):
        """If less data is left than the state requires, an error is raised."""
        _, states = run(restored(STAGES["generator"], None), 4)
        shorter = restored(lambda: DataFromGenerator(lambda: iter([[1]])), states[4])
        with pytest.raises(RuntimeError, match="after 4 datapoints of a pass, but this pass has only 1"):
            next(iter(shorter))

    @pytest.mark.parametrize(
        "name", ["DataFromList", "drawing", "counting", "shuffle", "by shape", "CacheData", "FixedSizeData"]
    )
    @pytest.mark.parametrize("num", [0, 1, 3])
    def test_a_pass_that_was_left(self, name, num):
        """A pass that is left after some datapoints has the same effect, also if the left pass was a restored one."""
        flow = restored(STAGES[name], None)
        start = through_json(flow.get_state())
        iterator = iter(flow)
        for _ in range(num):
            next(iterator)
        inside = through_json(flow.get_state())
        del iterator
        left = through_json(flow.get_state())
        expected = [event for event, _ in zip(passes(flow), range(20))]
        for state, num_first in ((start, num), (inside, 0), (left, None)):
            again = restored(STAGES[name], state)
            if num_first is not None:
                iterator = iter(again)
                for _ in range(num_first):
                    next(iterator)
                del iterator
            assert expected == [event for event, _ in zip(passes(again), range(20))]

    def test_two_open_passes(self):
        """With two open passes there is no position; afterwards there is one again."""
        flow = restored(shuffled, None)
        first, second = iter(flow), iter(flow)
        next(first), next(second)
        with pytest.raises(RuntimeError, match="two passes are open at once"):
            flow.get_state()
        del first
        flow.get_state()

    def test_values_that_change_in_place(self):
        """A state keeps its values when the stage changes an attribute in place."""
        flow = restored(Counting, None)
        state = flow.get_state()
        before = text(state)
        list(flow)
        assert before == text(state)
        again = Counting()
        again.set_state(state)
        again.reset_state()
        list(again)
        assert before == text(state)

    @pytest.mark.slow
    def test_a_stage_is_deleted_at_once(self):
        """A recorded stage has no reference cycle, so deleting it stops its workers."""
        import gc
        import weakref

        gc.collect()
        gc.disable()
        try:
            flow = restored(shuffled, None)
            next(iter(flow))
            reference = weakref.ref(flow)
            del flow
            assert reference() is None
        finally:
            gc.enable()

    def test_a_pass_keeps_its_stage(self):
        """A running pass keeps its stage, also if nothing else does."""
        iterator = iter(restored(Drawing, None))
        assert 7 == len([as_text(datapoint) for datapoint in iterator])


def levels(flow):
    """Return the stages and levels of a pipeline."""
    flow.set_state(None)
    flow.reset_state()
    return [(report.stage, report.level) for report in flow.resume_report()]


class Foreign:
    """An object with the methods of a DataFlow that is not one."""

    def __iter__(self):
        return iter([[1], [2]])

    def __len__(self):
        return 2

    def reset_state(self):
        """Do nothing."""


class Forgetful(ProxyDataFlow):
    """A user's class that does not reset the stage below."""

    def reset_state(self):
        """Do nothing."""


class TestReports:
    def test_levels(self):
        """Stages that continue are "state", others are replayed."""
        flow = BatchData(MapData(Differences(shuffled()), number), 2)
        assert [
            ("BatchData", "state"),
            ("MapData", "state"),
            ("Differences", "replay"),
            ("DataFromList", "state"),
        ] == levels(flow)
        assert ("Custom", "state") == levels(MapData(Custom(), number))[1]
        assert [("Drawing", "replay")] == levels(Drawing())
        assert ("Pairs", "state") == levels(Pairs(Drawing()))[0]

    def test_a_stage_continues_if_it_says_so_by_a_method(self):
        """`iter_from` decides how a stage is resumed, if it belongs to the iteration; the name of a parameter does not."""
        assert [("Squares", "state")] == levels(Squares())
        assert [("Innocent", "replay")] == levels(Innocent())
        assert [("Cubes", "replay")] == levels(Cubes())

    def test_a_position_that_an_earlier_version_saved_differently(self, log_lines):
        """If a position does not tell what was yielded before, the log says that the replay was not compared."""
        flow = restored(Innocent, None)
        datapoints = iter(flow)
        first = [next(datapoints), next(datapoints)]
        state = dict(flow.get_state())
        again = iter(restored(Innocent, state))
        expected = next(again)
        assert expected not in first
        assert not any("an earlier version" in line for line in log_lines)
        del state["checksum"]
        assert expected == next(iter(restored(Innocent, state)))
        assert any("Innocent: an earlier version saved the position" in line for line in log_lines)

    def test_sources_that_cannot_begin_again(self):
        """A running generator, a queue and remote senders are "none", with a reason."""
        import queue

        assert [("DataFromGenerator", "none")] == levels(DataFromGenerator(iter([[1]])))
        assert [("DataFromQueue", "none")] == levels(DataFromQueue(queue.Queue()))
        remote = RemoteDataZMQ("ipc:///tmp/nobody")
        assert [("RemoteDataZMQ", "none")] == levels(remote)
        assert "its senders continue while this process is not running" == remote.resume_report()[0].reason

    def test_a_queue_is_not_replayed(self):
        """A restored DataFromQueue yields what is in the queue now."""
        import queue

        filled = queue.Queue()
        for k in range(4):
            filled.put([k])
        flow = restored(lambda: DataFromQueue(filled), None)
        iterator = iter(flow)
        assert [[0], [1]] == [next(iterator), next(iterator)]
        assert [2] == next(iter(restored(lambda: DataFromQueue(filled), flow.get_state())))

    @pytest.mark.parametrize("make", [lambda: MapData(Foreign(), number), lambda: Forgetful(shuffled())])
    def test_stages_that_are_not_recorded(self, make):
        """A stage over something that is not a DataFlow, or that it does not reset, is "none"."""
        assert "none" == levels(make())[0][1]


HELD_LONG = {
    "numbers": lambda k: [k, 0.5, 1j, True, None, "a", b"b"],
    "of NumPy": lambda k: [np.float32(k), np.arange(k), np.datetime64("2020-01-01"), np.array(["a", "bc"])],
    "ragged": lambda k: [[[1], [2, 3]], k],
    "tuple": lambda k: (k, 2),
    "tuple inside": lambda k: [(k, 2)],
    "dict": lambda k: {"a": k, 1: [k]},
    "one number": lambda k: k,
    "objects": lambda k: [{1, k}, np.array([1, None], object)],
    "large": lambda k: [2**70 + k],
}


@pytest.mark.parametrize("name", HELD_LONG)
def test_what_is_held_for_long(name):
    """A datapoint that is held for very long is the same after a resume, types included, whatever it consists of."""

    def make():
        return HoldsFirst(DataFromList([HELD_LONG[name](k) for k in range(40)], shuffle=False))

    flow = restored(make, None)
    datapoints = iter(flow)
    for _ in range(30):
        next(datapoints)
    last = list(restored(make, through_json(flow.get_state())))[-1]
    assert repr(HELD_LONG[name](0)) == repr(last)


@pytest.mark.parametrize("is_recorded", [False, True])
def test_pass_left_early(is_recorded):
    """After a pass that was left early, wherever that was, comes a whole one."""
    fix_rng_seed(1)
    for num_read in range(8):
        flow = Delay(shuffled(7))
        if is_recorded:
            flow.set_state(None)
        flow.reset_state()
        assert num_read == len(list(itertools.islice(flow, num_read)))
        assert list(range(7)) == sorted(k for (k,) in flow)


def test_recording_does_not_change_a_stage_that_yields_before_it_reads():
    """A pass of the source begins at its first datapoint, with and without recording."""

    def read(is_recorded):
        fix_rng_seed(3)
        flow = TwoEarly(DataFromList([[k] for k in range(9)], shuffle=True))
        if is_recorded:
            flow.set_state(None)
        flow.reset_state()
        # passes of two datapoints are left before they read
        return [[next(datapoints) for _ in range(num)] for num in (2, 4, 2, 2, 5) for datapoints in [iter(flow)]]

    assert read(False) == read(True)


def test_the_number_of_snapshots_is_bounded(monkeypatch):
    """A datapoint that is held forever and cannot be saved does not keep a snapshot for each second; passes left meanwhile count."""
    monkeypatch.setattr(numbered_source, "_MAX_SNAPSHOTS", 8)

    def make():
        return HoldsFirst(DataFromList([[(k, 0)] for k in range(9)], shuffle=True), is_forever=True)

    fix_rng_seed(3)
    flow = restored(make, None)
    for num in (3, 5, 2, 7, 4, 9, 8):  # passes that are left early
        datapoints = iter(flow)
        for _ in range(num):
            next(datapoints, None)
        del datapoints
    assert len(flow._numbered._snapshots) <= 8
    state = through_json(flow.get_state())
    resumed = restored(make, state)
    assert [list(flow), list(flow)] == [list(resumed), list(resumed)]
