"""Script that runs exact_ranks.py in Ray's workers. Arguments: the number of workers, then those of exact_ranks.py."""

from __future__ import annotations

import sys

import ray
from fakes.engines import rank_environment
from ray._private import parameter
from ray.train import ScalingConfig
from ray.train.tensorflow import TensorflowTrainer

from tensorpack_lite.ranks.cluster import free_ports


def train_rank(config: dict) -> None:
    """Run the script in a worker."""
    from fakes import exact_ranks

    exact_ranks.main(*config["arguments"])


def _choose_ports() -> None:
    """Give Ray's agents fixed ports. Otherwise Ray ends if one has not chosen a port within 15 seconds, as on a busy machine."""
    names = (
        "metrics_agent_port",
        "metrics_export_port",
        "dashboard_agent_listen_port",
        "runtime_env_agent_port",
    )
    make = parameter.RayParams.__init__

    def make_with_ports(self, *args, **kwargs):
        make(self, *args, **{**kwargs, **dict(zip(names, free_ports(len(names))))})

    parameter.RayParams.__init__ = make_with_ports


if __name__ == "__main__":
    size, arguments = int(sys.argv[1]), sys.argv[2:]
    _choose_ports()
    paths = {"PYTHONPATH": rank_environment()["PYTHONPATH"]}
    ray.init(num_cpus=size + 1, include_dashboard=False, runtime_env={"env_vars": paths})
    config = {"arguments": arguments}
    TensorflowTrainer(
        train_rank, train_loop_config=config, scaling_config=ScalingConfig(num_workers=size)
    ).fit()
