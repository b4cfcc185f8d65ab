"""One row for each public trainer, with a function that builds a minimal one."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

from fakes.fake_horovod import FakeHorovod, installed
from fakes.models import Mean, threes
from fakes.quadratic import QuadraticTrainer

from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.input_source.queueing import QueueInput
from tensorpack_lite.tfutils.tower.context import TowerContext
from tensorpack_lite.tfutils.tower.func import TowerFunc
from tensorpack_lite.train import (
    AsyncMultiGPUTrainer,
    CollectiveTrainer,
    HorovodTrainer,
    NoOpTrainer,
    QueueInputTrainer,
    SimpleTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
    TowerTrainer,
)


class Row(NamedTuple):
    """
    A trainer, ready for `train_with_defaults`, that minimizes (w - 3)^2 from w = 0 with learning rate 0.25, by one update and one
    run of the hooked session in each step. With `data`, a DataFlow of `[x]`, it minimizes mean((w - x)^2).
    """

    name: str
    make: Callable[..., Any]  # with no argument, or data
    variable: str = "w"
    trains: bool = True
    has_tower: bool = True


class UsersTowerTrainer(TowerTrainer):
    """A TowerTrainer as users write it."""

    def __init__(self, data=None):
        super().__init__()
        model = Mean()
        source = QueueInput(data or threes())
        self.register_callback(source.setup(model.get_input_signature()))
        self.tower_func = TowerFunc(model.build_graph, model.get_input_signature())
        with TowerContext("", is_training=True):
            cost = self.tower_func(*source.get_input_tensors())
            self.train_op = model.get_optimizer().minimize(cost, name="train_op")


class UsersSingleCostTrainer(SimpleTrainer):
    """A user's subclass that overrides `run_step`."""

    def run_step(self):
        super().run_step()


def _launched(kind: Any, source: Any = None) -> Callable[[], Any]:
    def make(data: Any = None) -> Any:
        trainer, model = kind(), Mean()
        trainer.setup_graph(
            model.get_input_signature(),
            (source or QueueInput)(data or threes()),
            model.build_graph,
            model.get_optimizer,
        )
        return trainer

    return make


def _horovod_trainer() -> Any:
    with installed(FakeHorovod()):
        return HorovodTrainer()


ROWS = [
    Row("Trainer", QuadraticTrainer, variable="x", has_tower=False),
    Row("TowerTrainer", UsersTowerTrainer),
    Row("SingleCostTrainer", _launched(UsersSingleCostTrainer, FeedInput)),
    Row("SimpleTrainer", _launched(SimpleTrainer, FeedInput)),
    Row("NoOpTrainer", _launched(NoOpTrainer), trains=False),
    Row("QueueInputTrainer", _launched(QueueInputTrainer)),
    Row("SyncMultiGPUTrainerParameterServer", _launched(lambda: SyncMultiGPUTrainerParameterServer(2))),
    Row("SyncMultiGPUTrainerReplicated", _launched(lambda: SyncMultiGPUTrainerReplicated(2))),
    Row("CollectiveTrainer", _launched(CollectiveTrainer)),
    Row("HorovodTrainer", _launched(_horovod_trainer)),
    Row("AsyncMultiGPUTrainer", _launched(lambda: AsyncMultiGPUTrainer(1))),
]

NO_ROW = {
    "BytePSTrainer": "the constructor raises an error that names the replacements",
    "DistributedTrainerParameterServer": "as BytePSTrainer",
    "DistributedTrainerReplicated": "as BytePSTrainer",
}
"""Public trainers without a row, and the reasons."""

__all__ = ["NO_ROW", "ROWS", "Row"]
