"""
What a script adds to train in several processes: an engine, a part of the data for each rank, and a directory for the chief.

digits.py and resnet.py are ../mnist_convnet.py and ../resnet_cifar.py with these. Ranks share the batch that one process has: so the same
training, in the same number of steps.
"""

from __future__ import annotations

import argparse
import itertools
import os

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.train.horovod import HorovodTrainer

ENGINES = {"collective": CollectiveTrainer, "horovod": HorovodTrainer}


class Part(ProxyDataFlow):
    """
    Each size-th datapoint, from number rank on.

    Ranks with the same seed shuffle alike: so in each epoch every datapoint is on one rank.
    """

    def __init__(self, ds: DataFlow, rank: int, size: int) -> None:
        super().__init__(ds)
        self.rank, self.num_ranks = rank, size

    def __len__(self) -> int:
        return len(range(self.rank, len(self.ds), self.num_ranks))

    def __iter__(self):
        return itertools.islice(self.ds, self.rank, None, self.num_ranks)


def get_parser(doc: str, name: str, max_epoch: int) -> argparse.ArgumentParser:
    """The options of both examples."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=sorted(ENGINES), default="collective")
    parser.add_argument("--fp16", action="store_true", help="send gradients as float16")
    parser.add_argument("--max-epoch", type=int, default=max_epoch)
    parser.add_argument("--steps-per-epoch", type=int, default=0, help="0: the whole data")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log-dir", default=os.path.join("train_log", "distributed_" + name))
    return parser


def make_trainer(args: argparse.Namespace):
    """The trainer of this rank; sets seeds, and on the chief the logger's directory."""
    trainer = ENGINES[args.engine](compression="fp16" if args.fp16 else None)
    if trainer.is_chief:
        logger.set_logger_dir(args.log_dir, action="b")
    tf.disable_eager_execution()  # so that the next line seeds the graph
    tf.set_random_seed(args.seed + trainer.rank)  # dropout differs; variables are the chief's
    fix_rng_seed(args.seed)  # data is shuffled alike
    return trainer


def divide(total: int, batch: int, args: argparse.Namespace, size: int) -> tuple:
    """A rank's batch, and the steps of an epoch: the same on all ranks, although their parts may differ by one datapoint."""
    own = max(1, batch // size)
    return own, args.steps_per_epoch or max(1, total // (own * size))
