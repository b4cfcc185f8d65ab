"""ZMQInput: training on datapoints from other processes."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
import zmq
from fakes.models import FinalW, Mean
from fakes.remote import open_socket

from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow import DataFromList, MapData
from tensorpack_lite.dataflow.network.wire import encode_datapoint
from tensorpack_lite.dataflow.remote import send_dataflow_zmq
from tensorpack_lite.input_source import FeedfreeInput, ZMQInput
from tensorpack_lite.train import SimpleTrainer, TrainConfig, launch_train_with_config


@pytest.fixture
def address(tmp_path):
    """A socket in the test's directory."""
    return f"ipc://{tmp_path}/data"


@pytest.fixture
def send():
    """Return a function that sends datapoints. They wait until they are received; the sender lives as long as the test."""
    context, sockets = zmq.Context(), []

    def send(address, datapoints, bind=False):
        socket = open_socket(context, zmq.PUSH, address, 100, bind, "test")
        sockets.append(socket)
        for datapoint in datapoints:
            socket.send_multipart(encode_datapoint("test", datapoint))

    yield send
    context.destroy(linger=0)


def train(source):
    """Train for four steps. Each halves the distance of w to the mean of the data."""
    final = FinalW()
    config = TrainConfig(
        model=Mean(),
        data=source,
        callbacks=[final],
        steps_per_epoch=4,
        max_epoch=1,
        extra_callbacks=[],
        monitors=[],
    )
    launch_train_with_config(config, SimpleTrainer())
    return final.w


THREE = [np.full([4], 3, "float32")]


@pytest.mark.slow
@pytest.mark.parametrize("bind", [True, False])
def test_trains_on_what_is_sent(address, send, bind):
    """Training works whichever side binds."""
    if bind:
        send(address, [THREE] * 6)
        source = ZMQInput(address, 50)
    else:
        socket = threading.Thread(target=send, args=(address, [THREE] * 6, True))
        socket.start()  # a socket that binds waits for a receiver
        source = ZMQInput(address, 50, bind=False)
    assert 3 - 3 / 16 == train(source)
    if not bind:
        socket.join()


@pytest.mark.slow
def test_the_end_of_training_does_not_wait_for_data(address, send):
    """The end of training stops the thread that waits for data, and closes the socket."""
    send(address, [THREE] * 4)
    source = ZMQInput(address, 50)
    start = time.monotonic()
    train(source)
    assert time.monotonic() - start < 60
    assert not source.thread.is_alive()
    assert source.ds.context is None


def test_an_error_of_the_sender_ends_training(address):
    """Training raises the error of a sender, with its type and the sender's name."""

    def fails(dp):
        raise ValueError("mine")

    def send():
        try:
            send_dataflow_zmq(MapData(DataFromList([THREE]), fails), address)
        except ValueError:
            errors.append("sender")

    errors = []
    sender = threading.Thread(target=send)
    sender.start()
    with pytest.raises(ValueError, match=r"RemoteDataZMQ: MapData failed at the sender .*mine"):
        train(ZMQInput(address, 50))
    sender.join()
    assert ["sender"] == errors


def test_a_datapoint_that_does_not_fit(address, send):
    """A datapoint with too many components ends training."""
    send(address, [[THREE[0], 1]])
    with pytest.raises(ValueError, match="ZMQInput"):
        train(ZMQInput(address, 50))


def test_interface(address):
    """ZMQInput is a FeedfreeInput of unknown size, with operations under its name."""
    source = ZMQInput(address, 50)
    source.setup([TensorSpec([None], tf.float32, "x")])
    (tensor,) = source.get_input_tensors()
    assert isinstance(source, FeedfreeInput)
    assert tensor.name.startswith("ZMQInput/input_deque")
    with pytest.raises(NotImplementedError):
        source.size()


def test_as_a_dataset(address, send, sess):
    """to_dataset returns tuples of the signature's dtypes."""
    send(address, [[np.float32(1), np.int32(2)], [np.float32(3), np.int32(4)]])
    signature = [TensorSpec([], tf.float32, "a"), TensorSpec([], tf.int32, "b")]
    dataset = ZMQInput(address, 50).to_dataset(signature).take(2)
    values = tf.data.make_one_shot_iterator(dataset).get_next()
    assert [(1.0, 2), (3.0, 4)] == [sess.run(values), sess.run(values)]
