"""A fake Horovod in one process: the other ranks have the same gradients, and rank 0 has the variables that a test chooses."""

from __future__ import annotations

import os
import sys
import types
from contextlib import ExitStack, contextmanager
from unittest import mock

from tensorpack_lite.compat import tfv1 as tf


class FakeHorovod(types.ModuleType):
    """
    Replacement for `horovod.tensorflow`.

    Args:
        size, rank, local_size, local_rank: the place of this process.
        of_rank_0: maps the name of a broadcast to the value that rank 0 sends; other broadcasts return their input.

    Attributes:
        calls: the calls made while building the graph, with their options.
        sent: how often each broadcast of a variable has run.
        has_mpi: whether it was built with MPI.
    """

    Average, Sum = "Average", "Sum"

    class Compression:
        """Compression of gradients."""

        fp16 = "fp16 of Horovod"

    def __init__(self, size=1, rank=0, local_size=None, local_rank=None, of_rank_0=None):
        super().__init__("horovod.tensorflow")
        self._place = (
            size,
            rank,
            size if local_size is None else local_size,
            rank if local_rank is None else local_rank,
        )
        self._of_rank_0 = of_rank_0 or {}
        self.calls, self.sent, self.has_mpi = [], {}, False

    def init(self):
        self.calls.append(("init",))

    def size(self):
        return self._place[0]

    def rank(self):
        return self._place[1]

    def local_size(self):
        return self._place[2]

    def local_rank(self):
        return self._place[3]

    def mpi_enabled(self):
        return False

    def mpi_built(self):
        return self.has_mpi

    def allreduce(self, tensor, **options):
        """Reduce a tensor that is equal on all ranks."""
        self.calls.append(("allreduce", isinstance(tensor, tf.IndexedSlices), options))
        if options["op"] == self.Average or isinstance(tensor, tf.IndexedSlices):
            return tensor
        return tensor * tf.cast(self.size(), tensor.dtype)

    def broadcast(self, tensor, root_rank, name, ignore_name_scope):
        """Return the value of rank 0, and count the runs."""
        assert root_rank == 0
        assert ignore_name_scope
        self.calls.append(("broadcast", name, tensor.dtype.name))

        def send(value):
            if name.startswith("variable."):
                self.sent[name] = self.sent.get(name, 0) + 1
            return self._of_rank_0.get(name, value)

        received = tf.py_func(send, [tensor], tensor.dtype)
        received.set_shape(tensor.shape)
        return received


class AgreeingRanks:
    """Replacement for a `RankConnection` whose other ranks have the same values as this one, and do not fail."""

    def __init__(self, rank, size, address, time_limit, credentials, other_ports=()):
        self.rank, self.size = rank, size
        self.place, self.address, self.time_limit, self.compared = (rank, size), address, time_limit, {}
        self.credentials = credentials
        self.failure = None
        self.channel = self
        self.others_lack = []

    def report_end_of_script(self):
        """Do nothing: no other rank needs the report."""

    def end_data(self):
        """Do nothing."""

    def reporting(self, trainer, place):
        return ExitStack()

    def compare(self, values):
        self.compared.update(values)

    def all_gather(self, name, value):
        """Return the values of the chief and of another rank. If this rank leaves the chief's value out, the fake knows it."""
        if "lacks" in name:
            return [value, self.others_lack]
        names = [var.op.name for var in tf.global_variables()]
        of_chief = {
            "the first epoch": 1,
            "the step to resume at": 0,
            "the names of the chief's variables": names,
            "the variables of all ranks": names,
        }
        return [of_chief.get(name) if value is None else value, value]

    def gather(self, name, value):
        """Return the values on the chief only."""
        return self.all_gather(name, value) if self.place[0] == 0 else None

    def waiting(self, place):
        return ExitStack()

    def describe_with(self, describe):
        """Do nothing, because no test asks where this rank is."""

    def check(self):
        """Do nothing: no rank fails."""

    def explain(self, error):
        raise AssertionError("nothing fails here") from error

    def finish(self, step):
        self.ended = step


@contextmanager
def installed(fake):
    """Make `import horovod.tensorflow` import the fake in this context. The ranks agree, and no launcher is needed."""
    package = types.ModuleType("horovod")
    package.tensorflow = fake
    with ExitStack() as stack:
        stack.enter_context(mock.patch.dict(sys.modules, {"horovod": package, "horovod.tensorflow": fake}))
        stack.enter_context(mock.patch.dict("os.environ"))
        for name in list(os.environ):
            if name.startswith("HOROVOD_") or name == "TENSORPACK_RANKS_ADDRESS":
                del os.environ[name]
        stack.enter_context(mock.patch("tensorpack_lite.train.rank_trainer.RankConnection", AgreeingRanks))
        stack.enter_context(mock.patch("atexit.register"))
        yield fake
