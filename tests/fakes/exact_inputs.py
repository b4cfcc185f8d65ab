"""Inputs that are resumed inside the test's process."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.input_source.staging import StagingInput
from tensorpack_lite.loop.group import Callbacks
from tensorpack_lite.loop.session import HookedSession
from tensorpack_lite.tfutils.checkpoint_state import read_state, write_state
from tensorpack_lite.tfutils.common import get_global_step_var
from tensorpack_lite.tfutils.exact.state import begin_exact


def through_file(state):
    """Return a state as it is read from a state file."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "model-1.state")
        write_state(path, state)
        return read_state(path)


class Run:
    """
    A running input in a graph with exact resume.

    Attributes:
        source: the input.
        towers: for each tower its tensors.
        session: the raw session.
        hooked: the session with the hooks of the input.
    """

    def __init__(self, source, towers, session, callbacks) -> None:
        self.source, self.towers, self.session = source, towers, session
        self.hooked = HookedSession(session, callbacks.get_hooks())
        self._increment = get_global_step_var().assign_add(1, read_value=False)

    def next(self, towers=None):
        """Run a step. Return the first number of the first component, for each tower."""
        values = self.hooked.run([tensors[0] for tensors in (towers or self.towers)])
        self.session.run(self._increment)
        return [value.ravel()[0].item() for value in values]

    def take(self, num):
        """Return the results of the next steps."""
        return [self.next() for _ in range(num)]

    def state(self, failed=None):
        """Return the position, as it is read from a file."""
        with self.session.as_default():
            return through_file(self.source.flow.get_state(failed))

    def reset(self):
        """Begin another round of inference."""
        with self.session.as_default():
            self.source.reset_state()


@contextmanager
def running(make_input, signature, state=None, num_towers=1):
    """Create and set up an input at a saved position in a new graph, and start it."""
    with tf.Graph().as_default():
        source = make_input()
        saved = None if state is None else {"sources": {type(source).__name__: state}, "entropy": 1}
        begin_exact("require", saved)
        callbacks = Callbacks(source.setup(signature))
        towers = []
        for _ in range(num_towers):
            # the towers take their datapoints in order, as in trainers with several towers
            with tf.control_dependencies([] if isinstance(source, StagingInput) else towers[-1:] and towers[-1]):
                towers.append(source.get_input_tensors())
        callbacks.setup_graph(None)
        get_global_step_var()
        with tf.Session() as session:
            variables = [tf.global_variables_initializer(), tf.local_variables_initializer()]
            session.run([*variables, tf.tables_initializer()])
            with session.as_default():
                try:
                    callbacks.before_train()
                    yield Run(source, towers, session, callbacks)
                finally:
                    callbacks.after_train()
