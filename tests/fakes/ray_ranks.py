"""Script that runs exact_ranks.py in Ray's workers. Arguments: the number of workers, then those of exact_ranks.py."""

from __future__ import annotations

import sys

import ray
from fakes.engines import rank_environment
from ray.train import ScalingConfig
from ray.train.tensorflow import TensorflowTrainer


def train_rank(config: dict) -> None:
    """Run the script in a worker."""
    from fakes import exact_ranks

    exact_ranks.main(*config["arguments"])


if __name__ == "__main__":
    size, arguments = int(sys.argv[1]), sys.argv[2:]
    paths = {"PYTHONPATH": rank_environment()["PYTHONPATH"]}
    ray.init(num_cpus=size + 1, include_dashboard=False, runtime_env={"env_vars": paths})
    config = {"arguments": arguments}
    TensorflowTrainer(train_rank, train_loop_config=config, scaling_config=ScalingConfig(num_workers=size)).fit()
