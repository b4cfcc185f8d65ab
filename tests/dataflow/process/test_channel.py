"""A one-way road of datapoints."""

from __future__ import annotations

import multiprocessing
import os
import threading

import numpy as np
import pytest

from tensorpack_lite.dataflow.process import channel, memory
from tensorpack_lite.dataflow.process.channel import ChannelClosed, Reader, Writer
from tensorpack_lite.dataflow.process.errors import describe_error

LARGE = np.arange(200000, dtype=np.int64)  # 1.6 MB


@pytest.fixture
def make_ends():
    """Makes a reader and a writer in this process."""
    made = []

    def make():
        here, there = multiprocessing.Pipe()
        made.extend([Reader(here), Writer(there, "Stage", num_slots=4)])
        return made[-2:]

    yield make
    for end in made:
        end.close()


@pytest.fixture
def ends(make_ends):
    """A reader and a writer."""
    return make_ends()


def address(array) -> int:
    """Where the memory of an array begins."""
    return array.__array_interface__["data"][0]


def send_through_the_socket(reader, writer):
    """Send and receive at the same time, because LARGE is more than a socket holds."""
    thread = threading.Thread(target=writer.send, args=([[LARGE]],))
    thread.start()
    np.testing.assert_array_equal(LARGE, reader.receive()[0][0])
    thread.join()


class TestMessages:
    def test_a_small_one_goes_through_the_socket(self, ends):
        """No shared memory is made for it."""
        reader, writer = ends
        writer.send([[1, "a"], [2, "b"]])
        assert [[1, "a"], [2, "b"]] == reader.receive()
        assert writer._memory is None

    def test_large_arrays_are_handed_out_in_place(self, ends):
        """Two arrays that die at once lie at one place; each is right."""
        reader, writer = ends
        places = set()
        for k in range(12):
            writer.send([[LARGE + k, k]])
            ((array, number),) = reader.receive()
            places.add(address(array))
            assert (k, k) == (array[0], number)
            del array
        assert len(places) <= 4

    def test_who_keeps_everything_sees_nothing_change_and_stops_nothing(self, ends):
        """From the third on (half of four slots are lent) arrays are copied out."""
        reader, writer = ends
        kept = []
        for k in range(12):
            writer.send([[LARGE + k]])
            kept += reader.receive()
        assert all((array == LARGE + k).all() for k, (array,) in enumerate(kept))

    def test_arrays_stay_after_both_ends_are_closed(self, ends):
        """They keep their memory."""
        reader, writer = ends
        writer.send([[LARGE]])
        ((array,),) = reader.receive()
        reader.close()
        writer.close()
        np.testing.assert_array_equal(LARGE, array)

    def test_arrays_can_be_written_to(self, ends):
        """They are the consumer's own."""
        reader, writer = ends
        writer.send([[LARGE]])
        ((array,),) = reader.receive()
        array += 1
        np.testing.assert_array_equal(LARGE + 1, array)

    def test_a_long_text_goes_through_shared_memory(self, ends):
        """Not only arrays are large."""
        reader, writer = ends
        writer.send([["x" * 10**6]])
        assert [["x" * 10**6]] == reader.receive()
        assert writer._memory is not None


class TestSlots:
    def test_every_message_takes_one(self, ends):
        """Small ones too: that is how far the writer runs ahead."""
        reader, writer = ends
        for k in range(4):
            assert writer.has_room()
            writer.send([[k]])
        assert not writer.has_room()
        reader.receive()
        assert writer.has_room()

    def test_sending_waits_for_a_slot(self, ends):
        """And goes on when one is given back."""
        reader, writer = ends
        thread = threading.Thread(target=lambda: [writer.send([[k]]) for k in range(9)])
        thread.start()
        assert [[[k]] for k in range(9)] == [reader.receive() for _ in range(9)]
        thread.join()

    def test_a_lent_slot_is_taken(self, ends):
        """Until its array is gone."""
        reader, writer = ends
        writer.send([[LARGE]])
        kept = reader.receive()
        for _ in range(3):
            writer.send([[0]])
            reader.receive()
        free_with_one_lent = len(writer._free)
        del kept
        writer.send([[0]])
        reader.receive()
        writer._free.clear()
        assert writer.has_room()
        assert 0 == free_with_one_lent


class TestMemory:
    def test_it_grows_and_says_so_once(self, ends, log_lines):
        """What was handed out of the old memory stays."""
        reader, writer = ends
        kept = []
        for size in (1, 2, 3, 4):
            array = np.full(size * 10**6, size, np.uint8)
            writer.send([[array]])
            kept += reader.receive()
        assert [1, 2, 3, 4] == [int(array.mean()) for (array,) in kept]
        assert 1 == sum("datapoints grew" in line for line in log_lines)

    def test_slots_of_the_old_memory_do_not_count(self, ends):
        """An old slot that comes back late is not taken for a new one."""
        reader, writer = ends
        writer.send([[np.zeros(10**6, np.uint8)]])
        old = reader.receive()
        writer.send([[np.zeros(3 * 10**6, np.uint8)]])
        reader.receive()
        del old
        for _ in range(20):
            writer.send([[np.zeros(10**6, np.uint8)]])
            reader.receive()
            assert len(set(writer._free)) == len(writer._free) <= 4

    def test_what_is_too_large_for_the_limit_goes_through_the_socket(self, monkeypatch, log_lines, make_ends):
        """One warning names the size and the option."""
        monkeypatch.setenv(memory.LIMIT_VARIABLE, "2")
        reader, writer = make_ends()
        send_through_the_socket(reader, writer)
        send_through_the_socket(reader, writer)
        (line,) = log_lines
        assert "Stage: a message of 1.5 MB goes through a socket" in line
        assert f"set {memory.LIMIT_VARIABLE} to 4 or more" in line

    def test_no_memory_to_be_had(self, monkeypatch, log_lines, ends):
        """Containers: one warning, and everything still arrives."""

        def refuse(num_bytes):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(channel, "allocate", refuse)
        reader, writer = ends
        send_through_the_socket(reader, writer)
        send_through_the_socket(reader, writer)
        (line,) = log_lines
        assert "the system refused" in line
        assert "No space left on device" in line
        assert memory.LIMIT_VARIABLE in line

    def test_a_reader_that_is_gone_when_memory_is_made(self, monkeypatch, make_ends):
        """Nothing of it stays open."""
        handles, (reader, writer) = [], make_ends()
        monkeypatch.setattr(
            channel, "allocate", lambda size: handles.append(memory.allocate(size)) or handles[0]
        )
        reader.close()
        with pytest.raises(ChannelClosed):
            writer.send([[LARGE]])
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(handles[0])

    def test_it_can_be_turned_off(self, monkeypatch, make_ends):
        """With 0 nothing is shared."""
        monkeypatch.setenv(memory.LIMIT_VARIABLE, "0")
        reader, writer = make_ends()
        thread = threading.Thread(target=writer.send, args=([[LARGE]],))
        thread.start()
        np.testing.assert_array_equal(LARGE, reader.receive()[0][0])
        thread.join()
        assert writer._memory is None

    def test_no_file_descriptor_is_left(self, ends):
        """Growing and receiving a hundred times opens none."""
        reader, writer = ends
        writer.send([[LARGE]])
        reader.receive()
        before = len(os.listdir("/proc/self/fd"))
        for k in range(100):
            writer.send([[np.zeros(10**6 + k * 50000, np.uint8)]])
            reader.receive()
        assert len(os.listdir("/proc/self/fd")) <= before


class TestEnds:
    def test_the_reader_takes_what_is_left_then_learns_it(self, ends):
        """A writer that closed has sent what it has sent."""
        reader, writer = ends
        writer.send([[1]])
        writer.close()
        assert [[1]] == reader.receive()
        with pytest.raises(ChannelClosed):
            reader.receive()

    def test_the_writer_learns_it_when_sending(self, ends):
        """There is no reader any more."""
        reader, writer = ends
        reader.close()
        with pytest.raises(ChannelClosed):
            writer.send([[1]])

    def test_the_writer_learns_it_when_waiting(self, ends):
        """It waits for a slot that nobody will give back."""
        reader, writer = ends
        for _ in range(4):
            writer.send([[1]])
        reader.close()
        with pytest.raises(ChannelClosed):
            writer.has_room()
        with pytest.raises(ChannelClosed):
            writer.send([[1]])

    def test_an_error_is_raised_where_it_is_read(self, ends):
        """After the datapoints that were sent before it."""
        reader, writer = ends
        writer.send([[1]])
        writer.send_error(describe_error(ValueError("bad"), "Stage: worker 0 (pid 1)"))
        assert [[1]] == reader.receive()
        with pytest.raises(ValueError, match=r"Stage: worker 0 \(pid 1\): bad"):
            reader.receive()
