"""
An extension: a number of seconds for all training runs in one directory together, however often they are resumed.

Shows: the moments of an Extension; a value that checkpoints keep for it; an extension that brings its own callback.
Expect: run it twice with the same --log-dir. The second training continues with the seconds that the first one has left.
"""

from __future__ import annotations

import argparse
import time
from contextlib import contextmanager

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.loop.extension import Extension


class TimeBudget(Extension):
    """
    Ends training when all training runs of the directory have taken some seconds together.

    Args:
        seconds: the budget.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.earlier = 0.0  # what earlier training runs have taken
        self.began = 0.0  # the time at which the loop of this one began

    @property
    def spent(self) -> float:
        """The seconds that this training and those before it have taken."""
        return self.earlier + time.monotonic() - self.began

    def before_setup(self, trainer) -> None:
        """Add the callback that ends the loop. This is the moment at which callbacks can still be registered."""
        trainer.register_callback(EndsWithBudget(self))

    @contextmanager
    def around_loop(self, trainer):
        """Measure the loop; `finally`, because an exception ends a training that ends early or fails."""
        self.began = time.monotonic()
        try:
            yield
        finally:
            print(f"After step {trainer.global_step}, {self.spent:.3f} of {self.seconds:g} seconds are spent.")

    def before_epochs(self, trainer) -> None:
        """Report where training begins; here the counters are those of a resumed training."""
        print(
            f"Training begins with epoch {trainer.loop.starting_epoch}; {self.earlier:.3f} seconds were spent before."
        )

    def state_dict(self, trainer) -> dict:
        """Return what the checkpoint keeps."""
        return {"spent": self.spent}

    def load_state_dict(self, trainer, state) -> None:
        """Continue with what the checkpoint has kept."""
        self.earlier = state["spent"]


class EndsWithBudget(Callback):
    """Raises StopTraining, which ends training without an error, when the budget is spent."""

    def __init__(self, budget: TimeBudget) -> None:
        self.budget = budget

    def _trigger_step(self) -> None:
        if self.budget.spent > self.budget.seconds:
            raise StopTraining("the budget of seconds is spent")


class Line(Trainer):
    """Moves a slope towards 2."""

    def __init__(self) -> None:
        super().__init__()
        slope = tf.get_variable("slope", initializer=0.0, use_resource=True)
        self.train_op = tf.train.GradientDescentOptimizer(0.1).minimize(tf.square(slope - 2.0))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--steps-per-epoch", type=int, default=100)
    parser.add_argument("--max-epoch", type=int, default=3, help="the number of epochs of each training run")
    parser.add_argument("--log-dir", default="train_log/time_budget")
    args = parser.parse_args()

    logger.set_logger_dir(args.log_dir, action="k")
    found = AutoResumeTrainConfig(steps_per_epoch=args.steps_per_epoch)  # finds the latest checkpoint
    trainer = Line()
    trainer.extensions.append(TimeBudget(args.seconds))
    trainer.train_with_defaults(
        callbacks=[ModelSaver()],
        session_init=found.session_init,
        starting_epoch=found.starting_epoch,
        steps_per_epoch=args.steps_per_epoch,
        max_epoch=found.starting_epoch - 1 + args.max_epoch,
    )
