"""
Throughput of RemoteDataZMQ: datapoints per second from one sender on this machine.

    python benchmarks/remote.py [--seconds 2] [--repetitions 5]

The reference sends the same messages through a plain PUSH and PULL socket, without decoding them.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time

import numpy as np
import zmq
from _measure import measure, print_table

from tensorpack_lite.dataflow import DataFromGenerator, RemoteDataZMQ, send_dataflow_zmq

SMALL = [np.zeros([28, 28], np.uint8), 3]
LARGE = [np.zeros([64, 224, 224, 3], np.uint8), np.zeros(64, np.int64)]


def forever(datapoint):
    while True:
        yield datapoint


def send_with_library(address, datapoint):
    send_dataflow_zmq(DataFromGenerator(lambda: forever(datapoint)), address)


def send_plainly(address, datapoint):
    socket = zmq.Context().socket(zmq.PUSH)
    socket.set_hwm(50)
    socket.connect(address)
    while True:
        socket.send_multipart([np.asarray(one).data for one in datapoint], copy=False)


def per_second(send, receive, datapoint, seconds):
    """Return a function that measures the datapoints per second of a new sender and receiver."""

    def run_once():
        address = f"ipc://{tempfile.mkdtemp()}/socket"
        sender = multiprocessing.Process(target=send, args=(address, datapoint), daemon=True)
        sender.start()
        received = receive(address)
        for _ in range(20):
            next(received)
        count, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            next(received)
            count += 1
        rate = count / (time.perf_counter() - start)
        received.close()
        sender.kill()
        sender.join()
        return rate

    return run_once


def receive_with_library(address):
    ds = RemoteDataZMQ(address)
    ds.reset_state()
    return iter(ds)


def receive_plainly(address):
    with zmq.Context() as context, context.socket(zmq.PULL) as socket:
        socket.linger = 0
        socket.set_hwm(50)
        socket.bind(address)
        while True:
            yield socket.recv_multipart(copy=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--repetitions", type=int, default=5)
    args = parser.parse_args()
    for title, datapoint in (("28x28 uint8 and a label", SMALL), ("9.6 MB", LARGE)):
        candidates = {
            "plain sockets": per_second(send_plainly, receive_plainly, datapoint, args.seconds),
            "RemoteDataZMQ": per_second(send_with_library, receive_with_library, datapoint, args.seconds),
        }
        figures = measure(candidates, args.repetitions)
        print_table(f"From another process, {title}", "per second", figures, "plain sockets")


if __name__ == "__main__":
    main()
