"""
Train the network of ../mnist_convnet.py in several processes.

Shows: a distributed trainer, a part of the data for each rank, log files from the chief only, validation on all ranks.
Expect: an accuracy of 0.99, like mnist_convnet.py. A support vector machine is as good.

    python -m tensorpack_lite.launch -n 2 examples/distributed/digits.py
    python -m tensorpack_lite.launch -n 2 examples/distributed/digits.py --engine horovod
    horovodrun --gloo -np 2 python examples/distributed/digits.py --engine horovod
    python examples/distributed/digits.py               the same training in one process

For several machines, see examples/README.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ranks import Part, divide, get_parser, make_trainer, report

from tensorpack_lite import *

sys.path.append(str(Path(__file__).resolve().parents[1]))

from mnist_convnet import BATCH, VALIDATION_BATCH, Model, RandomShift, get_raw_data


def main(argv=None) -> None:
    args = get_parser(__doc__, "digits", 40).parse_args(argv)
    trainer = make_trainer(args)
    train, validation = get_raw_data("digits")
    batch, steps = divide(len(train), BATCH, args, trainer.size)
    train = BatchData(RandomShift(Part(train, trainer.rank, trainer.size)), batch)
    config = TrainConfig(
        model=Model(steps, args.max_epoch),
        data=QueueInput(train),
        callbacks=[
            ModelSaver(),
            ShardedInferenceRunner(
                BatchData(validation, VALIDATION_BATCH),
                ScalarStats(["cross_entropy_loss", "accuracy"], prefix="val"),
            ),
            MaxSaver("val_accuracy"),
        ],
        steps_per_epoch=steps,
        max_epoch=args.max_epoch,
    )
    launch_train_with_config(config, trainer)
    report(args, trainer, "val_accuracy")


if __name__ == "__main__":
    main()
