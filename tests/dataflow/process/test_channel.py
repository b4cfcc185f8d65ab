"""Tests for the channel that carries datapoints between two processes."""

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
    """Return a function that makes a reader and a writer in this process."""
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
    """Return the address of the memory of an array."""
    return array.__array_interface__["data"][0]


def send_through_the_socket(reader, writer):
    """Send and receive at the same time, because LARGE does not fit into the buffer of a socket."""
    thread = threading.Thread(target=writer.send, args=([[LARGE]],))
    thread.start()
    np.testing.assert_array_equal(LARGE, reader.receive()[0][0])
    thread.join()


class TestMessages:
    def test_a_small_message_uses_the_socket(self, ends):
        """A small message uses the socket, and no shared memory is allocated."""
        reader, writer = ends
        writer.send([[1, "a"], [2, "b"]])
        assert [[1, "a"], [2, "b"]] == reader.receive()
        assert writer._memory is None

    def test_large_arrays_are_not_copied(self, ends):
        """Large arrays lie in their slot, which is used again once they are deleted."""
        reader, writer = ends
        places = set()
        for k in range(12):
            writer.send([[LARGE + k, k]])
            ((array, number),) = reader.receive()
            places.add(address(array))
            assert (k, k) == (array[0], number)
            del array
        assert len(places) <= 4

    @pytest.mark.parametrize(
        "use", [lambda array: memoryview(array), lambda array: array.view(np.float32).reshape(100, -1)[3:, ::2].T]
    )
    def test_a_view_keeps_its_memory(self, ends, use):
        """The memory of an array is not used again while a view or a buffer of it exists, as torch and TensorFlow use it."""
        reader, writer = ends
        writer.send([[LARGE]])
        view = use(reader.receive()[0][0])
        before = np.array(view)
        for k in range(12):
            writer.send([[LARGE - k]])
            reader.receive()
        np.testing.assert_array_equal(before, view)

    def test_arrays_stay_after_both_ends_are_closed(self, ends):
        """Arrays stay valid after both ends of the channel are closed."""
        reader, writer = ends
        writer.send([[LARGE]])
        ((array,),) = reader.receive()
        reader.close()
        writer.close()
        np.testing.assert_array_equal(LARGE, array)

    def test_a_long_text_uses_shared_memory(self, ends):
        """A large message without arrays also uses shared memory."""
        reader, writer = ends
        writer.send([["x" * 10**6]])
        assert [["x" * 10**6]] == reader.receive()
        assert writer._memory is not None


class TestSlots:
    def test_every_message_occupies_a_slot(self, ends):
        """A small message also occupies a slot until it is received, so the writer cannot run ahead further."""
        reader, writer = ends
        for k in range(4):
            assert writer.has_room()
            writer.send([[k]])
        assert not writer.has_room()
        reader.receive()
        assert writer.has_room()

    def test_sending_waits_for_a_slot(self, ends):
        """A writer without a free slot waits, and continues when the reader returns a slot."""
        reader, writer = ends
        thread = threading.Thread(target=lambda: [writer.send([[k]]) for k in range(9)])
        thread.start()
        assert [[[k]] for k in range(9)] == [reader.receive() for _ in range(9)]
        thread.join()

    def test_a_lent_slot_is_occupied(self, ends):
        """A lent slot is not free until its array is deleted."""
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
    def test_it_grows_with_the_datapoints(self, ends, log_lines):
        """Larger datapoints make the memory grow, which is logged once; arrays in the old memory stay valid."""
        reader, writer = ends
        kept = []
        for size in (1, 2, 3, 4):
            array = np.full(size * 10**6, size, np.uint8)
            writer.send([[array]])
            kept += reader.receive()
        assert [1, 2, 3, 4] == [int(array.mean()) for (array,) in kept]
        assert 1 == sum("datapoints grew" in line for line in log_lines)

    def test_late_slots_of_the_old_memory_are_ignored(self, ends):
        """A slot of the old memory that is returned late is not mistaken for a slot of the new memory."""
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

    def test_messages_above_the_limit_use_the_socket(self, monkeypatch, log_lines, make_ends):
        """Messages above the limit use the socket; one warning names their size and the variable to set."""
        monkeypatch.setenv(memory.LIMIT_VARIABLE, "2")
        reader, writer = make_ends()
        send_through_the_socket(reader, writer)
        send_through_the_socket(reader, writer)
        (line,) = log_lines
        assert "Stage: a message of 1.5 MB uses a socket" in line
        assert f"Set {memory.LIMIT_VARIABLE} to 4 or more" in line

    def test_a_system_without_memory(self, monkeypatch, log_lines, ends):
        """If the system refuses memory, as in some containers, one warning is logged and every message still arrives."""

        def refuse(num_bytes):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(channel, "allocate", refuse)
        reader, writer = ends
        send_through_the_socket(reader, writer)
        send_through_the_socket(reader, writer)
        (line,) = log_lines
        assert "The system refused" in line
        assert "No space left on device" in line
        assert memory.LIMIT_VARIABLE in line

    def test_a_reader_that_ends_while_memory_is_sent(self, monkeypatch, make_ends):
        """If the reader has ended when memory is allocated, its file descriptor is closed."""
        handles, (reader, writer) = [], make_ends()
        monkeypatch.setattr(channel, "allocate", lambda size: handles.append(memory.allocate(size)) or handles[0])
        reader.close()
        with pytest.raises(ChannelClosed):
            writer.send([[LARGE]])
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(handles[0])

    def test_it_can_be_turned_off(self, monkeypatch, make_ends):
        """With a limit of 0, no shared memory is allocated."""
        monkeypatch.setenv(memory.LIMIT_VARIABLE, "0")
        reader, writer = make_ends()
        thread = threading.Thread(target=writer.send, args=([[LARGE]],))
        thread.start()
        np.testing.assert_array_equal(LARGE, reader.receive()[0][0])
        thread.join()
        assert writer._memory is None

    def test_file_descriptors_are_closed(self, ends):
        """Growing and receiving a hundred times leaves no file descriptor open."""
        reader, writer = ends
        writer.send([[LARGE]])
        reader.receive()
        before = len(os.listdir("/proc/self/fd"))
        for k in range(100):
            writer.send([[np.zeros(10**6 + k * 50000, np.uint8)]])
            reader.receive()
        assert len(os.listdir("/proc/self/fd")) <= before


class TestEnds:
    def test_the_reader_receives_all_messages_of_a_closed_writer(self, ends):
        """After the writer was closed, the reader receives the remaining messages, then raises ChannelClosed."""
        reader, writer = ends
        writer.send([[1]])
        writer.close()
        assert [[1]] == reader.receive()
        with pytest.raises(ChannelClosed):
            reader.receive()

    def test_send_raises_when_the_reader_was_closed(self, ends):
        """Sending to a closed reader raises ChannelClosed."""
        reader, writer = ends
        reader.close()
        with pytest.raises(ChannelClosed):
            writer.send([[1]])

    def test_waiting_raises_when_the_reader_was_closed(self, ends):
        """A writer that waits for a free slot raises ChannelClosed when the reader is closed."""
        reader, writer = ends
        for _ in range(4):
            writer.send([[1]])
        reader.close()
        with pytest.raises(ChannelClosed):
            writer.has_room()
        with pytest.raises(ChannelClosed):
            writer.send([[1]])

    def test_an_error_is_raised_in_order(self, ends):
        """An error is raised by the reader after the datapoints that were sent before it."""
        reader, writer = ends
        writer.send([[1]])
        writer.send_error(describe_error(ValueError("bad"), "Stage: worker 0 (pid 1)"))
        assert [[1]] == reader.receive()
        with pytest.raises(ValueError, match=r"Stage: worker 0 \(pid 1\): bad"):
            reader.receive()
