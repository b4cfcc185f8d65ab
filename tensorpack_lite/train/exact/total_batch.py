"""The extension that compares the total batch of a training with that of the checkpoint from which it resumes."""

from __future__ import annotations

from typing import Any

from ...loop.extension import ExtendedTrainer, Extension
from ...tfutils.exact.state import find_exact


class TotalBatch(Extension):
    """Extension that warns if the number of samples in an update, of all ranks, is not that of the checkpoint; an error with exact="require"."""

    state_name = "total_batch"

    def state_dict(self, trainer: ExtendedTrainer) -> Any:
        """Return the number of ranks, the batch of each and the steps of an update; None if the batch is unknown."""
        exact = find_exact()
        # the first input is that of training
        source = None if exact is None else next(iter(exact.sources.values()), None)
        batch = None if source is None else source.batch_size
        return None if batch is None else {"size": trainer.size, "batch": batch, "steps": trainer.steps_per_update}

    def load_state_dict(self, trainer: ExtendedTrainer, state: Any) -> None:
        """Compare the batch with the saved one."""
        exact, now = find_exact(), self.state_dict(trainer)
        state = {"steps": trainer.steps_per_update, **state}  # earlier versions did not save it
        if exact is None or now is None or _total(now) == _total(state):
            return
        exact.warn_or_raise(
            f"The total batch was {_describe(state)} and is {_describe(now)}. The learning rate does not change, and an epoch still has "
            f"{trainer.steps_per_epoch} steps. To keep the total batch, use {_advice(state, now)}."
        )


def _total(state: Any) -> int:
    return int(state["size"]) * int(state["batch"]) * int(state["steps"])


def _describe(state: Any) -> str:
    steps = "" if state["steps"] == 1 else f", and each update takes {state['steps']} steps"
    return f"{_total(state)} ({state['size']} ranks, {state['batch']} each{steps})"


def _advice(state: Any, now: Any) -> str:
    if (state["size"], state["batch"]) == (now["size"], now["batch"]):
        return "AccumGradOptimizer with the same number of steps"
    also = "" if state["steps"] == now["steps"] else f" and AccumGradOptimizer with {state['steps']} steps"
    return f"ShardData.share({state['size'] * state['batch']}, trainer.size){also}"
