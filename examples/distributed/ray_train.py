"""
Train digits.py in the workers of Ray.

Shows: Ray Train starts the ranks; the script of a rank does not change.
Expect: the accuracy of digits.py.

    pip install "ray[train]"
    python examples/distributed/ray_train.py --workers 2
    python examples/distributed/ray_train.py --workers 2 -- --max-epoch 5 --log-dir /shared/run7
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

try:
    import ray
    from ray.train import ScalingConfig
    from ray.train.tensorflow import TensorflowTrainer
except ImportError as error:
    raise ImportError('ray_train.py needs Ray: pip install "ray[train]"') from error

HERE = Path(__file__).resolve().parent


def train_rank(config: dict) -> None:
    """Run digits.py in one of Ray's workers. Ray has set TF_CONFIG, which the trainer reads."""
    sys.path.insert(0, str(HERE))
    os.chdir(config["directory"])
    import digits

    digits.main(config["arguments"])


def main(argv=None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2, help="number of ranks")
    parser.add_argument("--address", help="of a running cluster; default: a new one on this machine")
    parser.add_argument("arguments", nargs="*", help="arguments of digits.py, after --")
    args = parser.parse_args(argv)
    ray.init(address=args.address, num_cpus=None if args.address else args.workers + 1)
    config = {"directory": os.getcwd(), "arguments": args.arguments}
    trainer = TensorflowTrainer(
        train_rank, train_loop_config=config, scaling_config=ScalingConfig(num_workers=args.workers)
    )
    trainer.fit()


if __name__ == "__main__":
    main()
