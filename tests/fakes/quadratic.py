"""The smallest trainer there is, and a callback that writes down everything."""

from __future__ import annotations

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.train.base import Trainer


class QuadraticTrainer(Trainer):
    """Minimizes (x - 3)^2 by gradient descent with rate 0.25: the distance to 3 halves at each step."""

    def __init__(self):
        super().__init__()
        self.x = tf.get_variable("x", initializer=0.0, use_resource=True)
        self.train_op = tf.train.GradientDescentOptimizer(0.25).minimize((self.x - 3.0) ** 2, name="train_op")


class Trace(Callback):
    """Records each moment with the three counters; raises `error` at the moment `at`, at its n-th call."""

    _chief_only = False

    def __init__(self, name="t", at=None, error=None, nth=1, log=None):
        self.name, self.at, self.error, self.nth = name, at, error, nth
        self.log = [] if log is None else log
        self.seen = 0

    def _note(self, moment):
        self.log.append((self.name, moment, self.epoch_num, self.global_step, self.local_step))
        if moment == self.at:
            self.seen += 1
            if self.seen == self.nth:
                raise self.error

    def _setup_graph(self):
        self._note("setup_graph")

    def _before_train(self):
        self._note("before_train")

    def _before_epoch(self):
        self._note("before_epoch")

    def _before_run(self, ctx):
        self._note("before_run")

    def _after_run(self, ctx, run_values):
        self._note("after_run")

    def _trigger_step(self):
        self._note("trigger_step")

    def _after_epoch(self):
        self._note("after_epoch")

    def _trigger_epoch(self):
        self._note("trigger_epoch")

    def _after_train(self):
        self._note("after_train")

    def moments(self):
        return [moment for _, moment, *_ in self.log]

    def counters(self, moment):
        return [tuple(counters) for _, m, *counters in self.log if m == moment]
