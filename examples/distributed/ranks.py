"""
Helpers for training in several processes: the engine, the part of the data for each rank, and the log directory.

digits.py and resnet.py use them to distribute ../mnist_convnet.py and ../resnet_cifar.py. The batch of one process is
divided among the ranks, so the number of steps and the result of training stay the same.
"""

from __future__ import annotations

import argparse
import itertools
import os

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.dataflow import ShardData
from tensorpack_lite.train.horovod import HorovodTrainer

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
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=sorted(ENGINES), default="collective")
    parser.add_argument("--fp16", action="store_true", help="send gradients as float16")
    parser.add_argument("--max-epoch", type=int, default=max_epoch)
    parser.add_argument("--steps-per-epoch", type=int, default=0, help="0: all training images")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log-dir", default=os.path.join("train_log", "distributed_" + name))
    return parser


def make_trainer(args: argparse.Namespace):
    """Return the trainer of this rank. Set the seeds and, on the chief, the log directory."""
    trainer = ENGINES[args.engine](compression="fp16" if args.fp16 else None)
    if trainer.is_chief:
        logger.set_logger_dir(args.log_dir, action="b")
    tf.disable_eager_execution()  # so that the next line seeds the graph
    tf.set_random_seed(args.seed + trainer.rank)  # dropout differs between ranks; initial variables come from the chief
    fix_rng_seed(args.seed)  # all ranks shuffle in the same order
    return trainer


def divide(total: int, batch: int, args: argparse.Namespace, size: int) -> tuple:
    """Return a rank's batch size, and the steps per epoch, which must be equal on all ranks."""
    rank_batch = ShardData.share(batch, size)
    return rank_batch, args.steps_per_epoch or max(1, total // (rank_batch * size))
