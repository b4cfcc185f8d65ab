"""train/distributed.py: names that point to other trainers."""

from __future__ import annotations

import pytest

from tensorpack_lite.train import SingleCostTrainer
from tensorpack_lite.train.distributed import (
    BytePSTrainer,
    DistributedTrainerParameterServer,
    DistributedTrainerReplicated,
)

KINDS = [BytePSTrainer, DistributedTrainerParameterServer, DistributedTrainerReplicated]


@pytest.mark.parametrize("kind", KINDS)
def test_says_what_to_use(kind):
    """Constructing a removed trainer raises an error that names the replacements, with any arguments."""
    for arguments in ((), ([0, 1], None)):
        with pytest.raises(NotImplementedError, match=rf"{kind.__name__}: .*HorovodTrainer, or CollectiveTrainer"):
            kind(*arguments)


@pytest.mark.parametrize("kind", KINDS)
def test_isinstance_checks_of_scripts_work(kind):
    """The names are subclasses of SingleCostTrainer."""
    assert issubclass(kind, SingleCostTrainer)
