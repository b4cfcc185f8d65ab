"""
Helpers for training in several processes: the engine, the part of the data for each rank, and the log directory.

digits.py and resnet.py use them to distribute ../mnist_convnet.py and ../resnet_cifar.py. The batch of one process is
divided among the ranks, so the number of steps and the result of training stay the same.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path

from tensorpack_lite import *
from tensorpack_lite.dataflow import ShardData
from tensorpack_lite.train.horovod import HorovodTrainer

sys.path.append(str(Path(__file__).resolve().parents[1]))

import common

ENGINES = {"collective": CollectiveTrainer, "horovod": HorovodTrainer}


class Part(ProxyDataFlow):
    """
    The part of a DataFlow for one rank: datapoints rank, rank + size, rank + 2 * size, ...

    Ranks with the same seed shuffle in the same order, so each datapoint is used by exactly one rank in each epoch.
    """

    def __init__(self, ds: DataFlow, rank: int, size: int) -> None:
        super().__init__(ds)
        self.rank, self.num_ranks = rank, size

    def __len__(self) -> int:
        return len(range(self.rank, len(self.ds), self.num_ranks))

    def __iter__(self):
        return itertools.islice(self.ds, self.rank, None, self.num_ranks)


def get_parser(doc: str | None, name: str, max_epoch: int) -> argparse.ArgumentParser:
    """Return a parser with the options of both examples."""
    parser = common.get_parser(doc, f"distributed_{name}", max_epoch=max_epoch, has_resume=False)
    parser.add_argument("--engine", choices=sorted(ENGINES), default="collective")
    parser.add_argument("--fp16", action="store_true", help="send gradients as float16")
    return parser


def make_trainer(args: argparse.Namespace):
    """
    Return the trainer of this rank. Set the seeds and, on the chief, the log directory.

    Ranks have separate seeds in the graph, so that dropout differs; initial variables come from the chief. The seed of
    the data is the same, so that all ranks shuffle in the same order.
    """
    trainer = ENGINES[args.engine](compression="fp16" if args.fp16 else None)
    common.start(args, trainer.rank)
    return trainer


def divide(total: int, batch: int, args: argparse.Namespace, size: int) -> tuple:
    """Return a rank's batch size, and the steps per epoch, which must be equal on all ranks."""
    rank_batch = ShardData.share(batch, size)
    return rank_batch, args.steps_per_epoch or max(1, total // (rank_batch * size))


def report(args: argparse.Namespace, trainer: Trainer, statistic: str) -> None:
    """Print a statistic of the held-out images, on the chief only."""
    if trainer.is_chief:
        figures = {
            f"network, {trainer.size} rank{'s' if trainer.size > 1 else ''}": trainer.monitors.get_latest(statistic)
        }
        common.print_summary(args, f"held-out images, {statistic}", figures)
