"""DataPosition, snapshots and witnesses of a DataFlow, without a graph."""

from __future__ import annotations

import queue

import numpy as np
import pytest
from fakes.exact_inputs import through_file

from tensorpack_lite.dataflow.base import DataFlow, RNGDataFlow
from tensorpack_lite.dataflow.raw import DataFromList, DataFromQueue
from tensorpack_lite.dataflow.repeat import RepeatedData
from tensorpack_lite.input_source.exact import data_position as module
from tensorpack_lite.input_source.exact.data_position import DataPosition
from tensorpack_lite.utils.packed_state import pack_state


class Shuffled(RNGDataFlow):
    """Yields 0 to 9 in another order in each pass; it is replayed."""

    def __iter__(self):
        yield from ([np.array(n)] for n in self.rng.permutation(10))


class Changed(DataFlow):
    """Yields the numbers from `start` on, like a file that was changed between two runs."""

    def __init__(self, start) -> None:
        self.start = start

    def __iter__(self):
        yield from ([np.array(n), np.array([0])] for n in range(self.start, self.start + 10))


class Arrays(DataFlow):
    """Yields an array."""

    def __init__(self, array) -> None:
        self.array = array

    def __iter__(self):
        yield [np.array(0), self.array]


def check_noticed(array, others):
    """Check that a resumed run notices arrays that are not the one that was due, and accepts its copy."""
    position = begin(Arrays(array))
    read(position, 1)
    assert [0] == read(begin(Arrays(array.copy()), position.state(0)), 1)
    for other in others:
        with pytest.raises(RuntimeError, match="datapoint 1 is not the one that was due: component 1 "):
            read(begin(Arrays(other), position.state(0)), 1)


def begin(flow, saved=None, is_strict=True):
    """Return a DataPosition that is reset. `saved` comes from a file."""
    position = DataPosition("Test", RepeatedData(flow, -1), saved and through_file(saved), is_strict)
    position.reset()
    return position


def read(position, num):
    """Return the numbers of the next datapoints, and stamp each."""
    values = []
    for datapoint in position:
        position.stamp([np.asarray(one) for one in datapoint])
        values.append(int(datapoint[0]))
        if len(values) == num:
            break
    return values


@pytest.fixture
def at_each_datapoint(monkeypatch):
    """Snapshots are taken after each datapoint."""
    monkeypatch.setattr(module, "_SNAPSHOT_SECONDS", -1.0)


class TestPosition:
    def test_numbers_count_from_one_over_all_passes(self):
        """The number of a datapoint is its number in all passes together."""
        position = begin(DataFromList([[n] for n in range(3)], shuffle=False))
        datapoints = iter(position)

        assert [1, 2, 3, 4, 5] == [position.stamp([np.array(next(datapoints))]) for _ in range(5)]
        assert 5 == position.last

    @pytest.mark.parametrize("used", [0, 1, 7, 9, 10, 11, 19, 20, 25])
    def test_continues_after_the_last_used_datapoint(self, used):
        """Datapoints that were read but not used come again, at any position in a pass."""
        uninterrupted = begin(Shuffled())
        state_at_begin = uninterrupted.state(0)
        expected = read(uninterrupted, 60)
        resumed = begin(Shuffled(), {**state_at_begin, "used": used})

        assert expected[used:] == read(resumed, 60 - used)
        assert 60 == resumed.last

    def test_a_snapshot_saves_work(self, at_each_datapoint):
        """The newest snapshot that is not after the last used datapoint is saved; then older ones are dropped."""
        position = begin(Shuffled())
        expected = read(position, 30)
        state = position.state(17)
        read(position, 1)

        assert (17, 17) == (state["used"], state["snapshot"])
        assert 17 == position._snapshots[0].number
        assert expected[17:] == read(begin(Shuffled(), state), 13)

    def test_without_time_there_is_no_snapshot(self):
        """Within a second no further snapshot is taken, and the datapoints in between are replayed."""
        position = begin(Shuffled())
        read(position, 30)

        assert (17, 0) == (position.state(17)["used"], position.state(17)["snapshot"])

    def test_snapshots_are_thinned(self, at_each_datapoint, monkeypatch):
        """If nothing is used for long, every second one of the older snapshots is dropped, but not the first."""
        monkeypatch.setattr(module, "_MAX_SNAPSHOTS", 8)
        position = begin(Shuffled())
        expected = read(position, 100)
        kept = [snapshot.number for snapshot in position._snapshots]

        assert len(kept) <= 8
        assert 0 == kept[0]
        assert 100 == kept[-1]
        for used in (0, 3, 50, 95, 99):
            assert expected[used:] == read(begin(Shuffled(), position.state(used)), 100 - used)

    def test_a_state_right_after_a_restore_is_the_restored_one(self):
        """A training that is killed twice before its first step loses nothing, witnesses included."""
        position = begin(Shuffled())
        read(position, 23)
        state = position.state(14)

        resumed = begin(Shuffled(), state)
        assert pack_state(state, "") == pack_state(resumed.state(14), "")
        read(resumed, 5)
        assert pack_state(state, "") == pack_state(resumed.state(14), "")

    def test_leave_pass(self):
        """After leave_pass a new pass begins; what was read ahead is not replayed."""
        position = begin(DataFromList([[n] for n in range(10)], shuffle=False))
        read(position, 4)
        position.leave_pass()
        state = position.state(position.start)
        read(position, 2)

        assert 4 == state["used"]
        for used in (4, 5, 6):
            resumed = begin(DataFromList([[n] for n in range(10)], shuffle=False), position.state(used))
            assert used - 4 == read(resumed, 1)[0]

    def test_leave_pass_that_was_restored(self):
        """A restored pass can be left before it is continued; the random numbers that it had drawn stay drawn."""
        uninterrupted = begin(Shuffled())
        state = uninterrupted.state(0)
        read(uninterrupted, 4)
        uninterrupted.leave_pass()
        resumed = begin(Shuffled(), {**state, "used": 4})
        resumed.leave_pass()

        assert read(uninterrupted, 20) == read(resumed, 20)

    def test_data_without_a_position(self, capsys):
        """No datapoint of a queue is dropped after a resume, and none is compared with a witness."""
        filled = queue.Queue()
        for k in range(6):
            filled.put([k])
        before = begin(DataFromQueue(filled))
        assert [0, 1, 2] == read(before, 3)
        after = begin(DataFromQueue(filled), before.state(2))
        assert [3, 4, 5] == read(after, 3)
        assert 5 == after.last
        assert "not the one that was due" not in capsys.readouterr().err

    def test_the_data_has_become_shorter(self):
        """Data that ends before the saved position raises an error."""
        position = DataPosition("Test", DataFromList([[1]] * 9, shuffle=False), None, True)
        position.reset()
        read(position, 9)
        position = DataPosition("Test", DataFromList([[1]] * 5, shuffle=False), position.state(9), True)
        position.reset()

        with pytest.raises(RuntimeError, match="Test: the data ends 4 datapoints before the saved position"):
            read(position, 1)


class TestWitnesses:
    def test_the_next_eight(self):
        """A state has the checksums of the next eight datapoints, of those that were read ahead."""
        position = begin(Shuffled())
        read(position, 30)

        assert [str(n) for n in range(18, 26)] == list(position.state(17)["witnesses"])
        assert ["29", "30"] == list(position.state(28)["witnesses"])

    def test_the_same_data_is_confirmed(self, capsys):
        """If the datapoints that were due come, one line confirms it."""
        position = begin(Shuffled())
        read(position, 30)
        read(begin(Shuffled(), position.state(17)), 10)
        made_again, confirmed = capsys.readouterr().out.splitlines()

        assert "Test: 17 datapoints were replayed in " in made_again
        assert confirmed.endswith("Test: the next 8 datapoints are the ones that were due.")

    def test_other_data_is_an_error(self):
        """If another datapoint comes, the error names its number, its component and the stage to suspect."""
        position = begin(Changed(0))
        read(position, 6)
        with pytest.raises(
            RuntimeError, match="datapoint 5 is not the one that was due: component 0 .*Suspect Changed"
        ):
            read(begin(Changed(100), position.state(4)), 1)

    def test_other_data_is_a_warning(self, capsys):
        """Without exact="require" it is one warning, and the training continues."""
        position = begin(Changed(0))
        read(position, 8)
        assert [104, 105, 106] == read(begin(Changed(100), position.state(4), is_strict=False), 3)
        assert 1 == capsys.readouterr().out.count("is not the one that was due")

    @pytest.mark.parametrize(
        ("array", "other"),
        [
            (np.zeros(5), np.zeros(5, "float32")),
            (np.zeros(6), np.zeros((2, 3))),
            (np.array(["a", "b"], object), np.array(["a", "c"], object)),
            (np.zeros((100, 100), "uint8"), np.zeros((100, 101), "uint8")),
            (np.zeros((64, 99)), np.ones((64, 99))),
        ],
    )
    def test_arrays_that_differ(self, array, other):
        """Arrays that differ in dtype, shape or content are noticed; copies are not."""
        check_noticed(array, [other])

    def test_one_image_of_a_batch(self):
        """It is noticed that one of the images of a large batch is another one."""
        batch = np.random.RandomState(0).randint(0, 256, (64, 224, 224, 3)).astype("uint8")
        others = np.stack([batch] * 3)
        for other, number in zip(others, (0, 31, 63)):
            other[number] = 255 - other[number]
        check_noticed(batch, others)

    def test_memory_is_not_shared(self):
        """A DataFlow may reuse an array for each datapoint: what is compared later is a copy."""
        array = np.zeros(3)
        position = begin(Arrays(array))
        read(position, 1)
        copy = array.copy()
        array[:] = 1

        assert [0] == read(begin(Arrays(copy), position.state(0)), 1)
