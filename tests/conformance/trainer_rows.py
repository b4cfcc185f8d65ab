"""One row for each public trainer, with a function that builds a minimal one."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Sequence, Tuple

from fakes.fake_horovod import FakeHorovod, installed
from fakes.models import Mean, threes
from fakes.quadratic import QuadraticTrainer

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.input_source.queueing import QueueInput
from tensorpack_lite.tfutils.accumulation import AccumGradOptimizer
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


def halving(step: int) -> float:
    """Return w after some steps, each of which halves the distance to 3."""
    return 3 - 3 * 0.5**step


class Row(NamedTuple):
    """
    A trainer, ready for `train_with_defaults`, that minimizes (w - 3)^2 from w = 0, by one run of the hooked session in each step. With
    `data`, a DataFlow of `[x]`, it minimizes mean((w - x)^2).

    Attributes:
        make: returns the trainer; takes no argument, or data.
        variable: the name of w.
        weight: returns w after some steps. By default, each step makes one update with learning rate 0.25.
        state: the names of the variables that a checkpoint has beside w: those of the trainer and of its optimizer.
        trains: whether w changes.
        has_tower: whether it has a tower function, and takes data.
        refused: wrong arguments: what the ValueError says, and a function that raises it.
    """

    name: str
    make: Callable[..., Any]
    variable: str = "w"
    weight: Callable[[int], float] = halving
    state: tuple = ()
    trains: bool = True
    has_tower: bool = True
    refused: Sequence[Tuple[str, Callable[[], Any]]] = ()


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


class Accumulating(Mean):
    """A model whose optimizer updates w every second step."""

    def optimizer(self):
        return AccumGradOptimizer(tf.train.GradientDescentOptimizer(0.125), 2)


class UsersSingleCostTrainer(SimpleTrainer):
    """A user's subclass that overrides `run_step`."""

    def run_step(self):
        super().run_step()


def _launched(kind: Any, source: Any = None, kind_of_model: Any = None) -> Callable[..., Any]:
    def make(data: Any = None) -> Any:
        trainer, model = kind(), (kind_of_model or Mean)()
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
    Row(
        "SingleCostTrainer",
        _launched(UsersSingleCostTrainer, FeedInput, Accumulating),
        weight=lambda step: halving(step // 2),
        state=("w/AccumGrad", "AccumGrad/counter"),
    ),
    Row("SimpleTrainer", _launched(SimpleTrainer, FeedInput)),
    Row("NoOpTrainer", _launched(NoOpTrainer), trains=False),
    Row("QueueInputTrainer", _launched(QueueInputTrainer)),
    Row(
        "SyncMultiGPUTrainerParameterServer",
        _launched(lambda: SyncMultiGPUTrainerParameterServer(2)),
        refused=[
            (
                "ps_device is unknown .expected 'cpu' or 'gpu', got 'tpu'",
                lambda: SyncMultiGPUTrainerParameterServer(2, ps_device="tpu"),
            )
        ],
    ),
    Row(
        "SyncMultiGPUTrainerReplicated",
        _launched(lambda: SyncMultiGPUTrainerReplicated(2)),
        refused=[
            (
                "mode is unknown .expected 'nccl', 'cpu', 'hierarchical', 'gpu' or 'collective', got 'ring'",
                lambda: SyncMultiGPUTrainerReplicated(2, mode="ring"),
            )
        ],
    ),
    Row(
        "CollectiveTrainer",
        _launched(CollectiveTrainer),
        refused=[
            ("unknown compression .expected None or 'fp16', got 'fp8'", lambda: CollectiveTrainer(compression="fp8"))
        ],
    ),
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
