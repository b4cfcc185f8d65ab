"""The configuration that also selects the GPUs."""

from __future__ import annotations

from typing import Any, Iterable, Sequence

from ..callbacks.concurrency import StartProcOrThread
from ..compat import tfv1 as tf
from ..loop.group import Callbacks
from ..train import config as today_config

_OLD_NAMES = {"dataset": "dataflow", "step_per_epoch": "steps_per_epoch"}


class TrainConfig(today_config.TrainConfig):
    """
    A configuration that also selects the GPUs.

    Args:
        args: as for `tensorpack_lite.TrainConfig`.
        nr_tower: the number of GPUs, starting with GPU 0.
        tower: a list of GPU numbers, instead of `nr_tower`.
        predict_tower: ignored; pass a device to `get_predictor` and `InferenceRunner` instead.
        optimizer: the optimizer of a model that does not define one.
        extra_threads_procs: threads and processes to start before training.
        kwargs: as for `tensorpack_lite.TrainConfig`. `dataset` and `step_per_epoch` are old names of `dataflow` and
            `steps_per_epoch`, and `callbacks` may be a `Callbacks`.

    Attributes:
        tower: a list of GPU numbers. Only trainers for several GPUs use it.

    Raises:
        ValueError: both `nr_tower` and `tower` were passed.
    """

    def __init__(
        self,
        *args: Any,
        nr_tower: int = 1,
        tower: Sequence[int] | None = None,
        predict_tower: object = None,
        optimizer: tf.train.Optimizer | None = None,
        extra_threads_procs: Iterable[Any] = (),
        **kwargs: Any,
    ) -> None:
        if tower is not None and nr_tower != 1:
            raise ValueError("TrainConfig: got both nr_tower and tower. Pass only one of them.")
        kwargs = {_OLD_NAMES.get(name, name): value for name, value in kwargs.items()}
        if isinstance(kwargs.get("callbacks"), Callbacks):
            kwargs["callbacks"] = kwargs["callbacks"].cbs
        super().__init__(*args, **kwargs)
        self.callbacks = [*self.callbacks, *map(StartProcOrThread, extra_threads_procs)]
        self.optimizer = optimizer
        self.set_tower(nr_tower, tower, predict_tower)

    def set_tower(self, nr_tower: int = 1, tower: Sequence[int] | None = None, predict_tower: object = None) -> None:
        """
        Select the GPUs.

        Args:
            nr_tower, tower, predict_tower: see the class.
        """
        self.tower = list(range(nr_tower)) if tower is None else list(tower)
        self.predict_tower = predict_tower

    @property
    def nr_tower(self) -> int:
        """The number of GPUs. Setting it selects the first GPUs."""
        return len(self.tower)

    @nr_tower.setter
    def nr_tower(self, number: int) -> None:
        self.set_tower(number, predict_tower=self.predict_tower)


class AutoResumeTrainConfig(today_config.AutoResumeTrainConfig, TrainConfig):
    """
    A TrainConfig that resumes the last training in the logger's directory.

    Args:
        always_resume: as for `tensorpack_lite.AutoResumeTrainConfig`.
        kwargs: as for this module's `TrainConfig`.
    """
