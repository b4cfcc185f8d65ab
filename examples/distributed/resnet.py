"""
Train the residual network of ../resnet_cifar.py in several processes.

Shows: BatchNorm with statistics over all ranks (--sync-bn), a learning rate schedule.
Expect: an error of 0.01 to 0.03, like resnet_cifar.py. A support vector machine has 0.008.

    python -m tensorpack_lite.launch -n 2 examples/distributed/resnet.py
    python -m tensorpack_lite.launch -n 2 examples/distributed/resnet.py --engine horovod
    python -m tensorpack_lite.launch -n 2 examples/distributed/resnet.py --data cifar10 -n 3

For several machines, see examples/README.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ranks import Part, divide, get_parser, make_trainer, report

from tensorpack_lite import *

sys.path.append(str(Path(__file__).resolve().parents[1]))

from cifar_convnet import BATCH, augment, get_raw_data
from resnet_cifar import RATE, Model


def get_args(argv=None):
    """Parse the command line."""
    parser = get_parser(__doc__, "resnet", 24)
    parser.add_argument("--data", choices=["digits", "cifar10"], default="digits")
    parser.add_argument("--cifar-dir", dest="data_dir", default="", help="directory of CIFAR-10")
    parser.add_argument("-n", type=int, default=1, help="blocks per stage; the network has 6 n + 2 layers")
    parser.add_argument("--sync-bn", action="store_true", help="compute BatchNorm statistics over all ranks")
    return parser.parse_args(argv)


def main(argv=None) -> None:
    args = get_args(argv)
    trainer = make_trainer(args)
    train, validation = get_raw_data(args.data, args.data_dir)
    batch, steps = divide(len(train), BATCH, args, trainer.size)
    train = BatchData(augment(Part(train, trainer.rank, trainer.size), args.data), batch)
    schedule = [(args.max_epoch // 2, RATE / 10), (args.max_epoch * 5 // 6, RATE / 100)]
    config = TrainConfig(
        model=Model(args.n),
        data=QueueInput(train),
        callbacks=[
            ModelSaver(),
            ShardedInferenceRunner(
                BatchData(validation, BATCH, remainder=True),
                [ScalarStats("cross_entropy_loss", prefix="val"), ClassificationError("wrong")],
            ),
            ScheduledHyperParamSetter("learning_rate", schedule),
        ],
        steps_per_epoch=steps,
        max_epoch=args.max_epoch,
    )
    with argscope(BatchNorm, sync_statistics="horovod" if args.sync_bn else None):
        launch_train_with_config(config, trainer)
    report(args, trainer, "validation_error")


if __name__ == "__main__":
    main()
