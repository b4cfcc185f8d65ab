"""
Script that the network tests run in each rank: a training that has started, and a plain server next to it.

Prints `port N NAME` for this rank's TensorFlow server and for the plain server, then waits to be terminated.
"""

from __future__ import annotations

import signal
import socket

from fakes.models import Mean, threes

from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.ranks.cluster import Cluster, parse_address
from tensorpack_lite.train.collective import CollectiveTrainer


class PrintPorts(Callback):
    """Prints the ports after a step of all ranks."""

    _chief_only = False

    def _trigger_step(self):
        cluster = Cluster.from_environment()
        with socket.socket() as server:
            server.bind(("0.0.0.0", 0))
            server.listen(5)
            rank = self.trainer.rank
            print(f"port {parse_address(cluster.addresses[rank])[1]} tensorflow-{rank}", flush=True)
            print(f"port {server.getsockname()[1]} plain-{rank}", flush=True)
            signal.pause()


if __name__ == "__main__":
    trainer, model = CollectiveTrainer(), Mean()
    trainer.setup_graph(
        model.get_input_signature(), FeedInput(threes()), model.build_graph, model.get_optimizer
    )
    trainer.train_with_defaults(
        callbacks=[PrintPorts()], monitors=[], extra_callbacks=[], steps_per_epoch=2, max_epoch=1
    )
