"""Small DataFlows, and helpers that run an InputSource without a trainer, as FeedfreePredictor and InferenceRunner do."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.base import DataFlow
from tensorpack_lite.loop.group import Callbacks
from tensorpack_lite.loop.session import HookedSession


class Driven:
    """
    A running input.

    Attributes:
        tensors: the input tensors of the first tower.
        session: the raw session.
        hooked: the session with the input's hooks.
    """

    def __init__(self, tensors, session, callbacks) -> None:
        self.tensors, self.session = tensors, session
        self.hooked = HookedSession(session, callbacks.get_hooks())

    def next(self):
        """Run the session once and return the values of all tensors."""
        return self.hooked.run(list(self.tensors))


@contextmanager
def driven(source, signature):
    """Set up an input and start it; end it when the context is left. The trainer of its callbacks is None."""
    callbacks = Callbacks(source.setup(signature))
    tensors = source.get_input_tensors()
    callbacks.setup_graph(None)
    init = [tf.global_variables_initializer(), tf.local_variables_initializer()]
    with tf.Session() as session:
        session.run(init)
        try:
            callbacks.before_train()
            yield Driven(tensors, session, callbacks)
        finally:
            callbacks.after_train()


class Numbers(DataFlow):
    """
    Yields `[n, n]` for n = 0, 1, ...; counts its resets and passes.

    Args:
        size: number of datapoints in a pass.
        error: raised at the end of a pass, or None.
        dtype: dtype of the arrays.
    """

    def __init__(self, size=5, error=None, dtype="float32") -> None:
        self.num, self.error, self.dtype = size, error, dtype
        self.resets = self.passes = 0

    def reset_state(self) -> None:
        self.resets += 1

    def __iter__(self):
        self.passes += 1
        for n in range(self.num):
            yield [np.array([n, n], self.dtype)]
        if self.error is not None:
            raise self.error

    def __len__(self) -> int:
        return self.num


class AfterUse(DataFlow):
    """Yields a datapoint only after the previous one has been used: `used` must be called between them."""

    def __init__(self, event) -> None:
        self.event = event

    def __iter__(self):
        n = 0
        while True:
            yield [np.array([n, n], "float32")]
            self.event.wait(10)
            self.event.clear()
            n += 1
