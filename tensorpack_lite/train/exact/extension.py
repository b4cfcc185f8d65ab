"""The extension that resumes a training exactly, or at least with other random numbers than those of its beginning."""

from __future__ import annotations

from typing import Any

from ...compat import tfv1 as tf
from ...loop.extension import ExtendedTrainer, Extension
from ...tfutils.exact.state import find_exact
from ...utils.naming import CONSUMED_KEY
from ...utils.random_streams import advance_rng_seed
from .what_is_exact import say_what_is_exact


class ExactTraining(Extension):
    """
    Extension that continues the data, the random numbers and the callbacks where the checkpoint was saved; see `begin_exact_resume`.

    Attributes:
        not_exact: why this training cannot be resumed exactly; "" if it can.
    """

    state_name = "exact"
    not_exact = ""

    def before_setup(self, trainer: ExtendedTrainer) -> None:
        """Give streams of random numbers other seeds than at the beginning, unless they continue exactly."""
        if find_exact() is None and trainer.arguments is not None:
            advance_rng_seed(trainer.step_to_resume_at(trainer.arguments.session_init))

    def after_setup(self, trainer: ExtendedTrainer) -> None:
        """Let the checkpoints have the contents of all tables."""
        exact = find_exact()
        if exact is not None:
            exact.complete_graph()

    def after_initialize(self, trainer: ExtendedTrainer) -> None:
        """Initialize the counters of datapoints, which a session creator of the user may not know."""
        trainer.sess.run([counter.initializer for counter in tf.get_collection(CONSUMED_KEY)])

    def before_epochs(self, trainer: ExtendedTrainer) -> None:
        """Log what is not exact, and restore generators and local variables."""
        exact = find_exact()
        if exact is not None:
            say_what_is_exact(exact, trainer, trainer.callbacks.cbs, self.not_exact)
            exact.begin_loop()

    def state_dict(self, trainer: ExtendedTrainer) -> Any:
        """Return the positions of the inputs and the states of generators and local variables."""
        exact = find_exact()
        return None if exact is None else exact.state()
