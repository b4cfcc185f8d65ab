"""The one line for each epoch in a quiet log; see `logger.set_quiet`."""

from __future__ import annotations

import time

from ...loop.trainer import LoopMonitors, LoopTrainer
from ...utils import logger


class EpochLine:
    """
    Writer of lines such as `Epoch 3 of 10: 22 steps in 1.2 s, global_step 66. cost 0.3523, validation_error 0.061111`.

    Args:
        monitors: they know the scalars.
    """

    def __init__(self, monitors: LoopMonitors) -> None:
        self._monitors = monitors
        self._began_at, self._first_step = time.perf_counter(), -1

    def begin(self, trainer: LoopTrainer) -> None:
        """Note when an epoch begins."""
        self._began_at, self._first_step = time.perf_counter(), trainer.global_step

    def log(self, trainer: LoopTrainer) -> None:
        """Log the epoch that ends, with the last value of each scalar that was reported in it, in the order of their names."""
        if not (trainer.is_chief and logger.is_quiet()):
            return
        histories = {name: self._monitors.get_history(name) for name in sorted(self._monitors.scalar_names)}
        last = {name: history[-1] for name, history in histories.items() if history}
        values = [f"{name} {value:.5g}" for name, (step, value) in last.items() if step > self._first_step]
        seconds, loop = time.perf_counter() - self._began_at, trainer.loop
        logger.info(
            f"Epoch {loop.epoch_num} of {trainer.max_epoch}: {loop.local_step + 1} steps in {seconds:.3g} s, global_step "
            f"{loop.global_step}. {', '.join(values)}",
            extra=logger.FOR_QUIET,
        )
