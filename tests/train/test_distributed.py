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
    """Whatever the arguments were."""
    for arguments in ((), ([0, 1], None)):
        with pytest.raises(
            NotImplementedError, match=rf"{kind.__name__}: .*HorovodTrainer, or CollectiveTrainer"
        ):
            kind(*arguments)


@pytest.mark.parametrize("kind", KINDS)
def test_isinstance_checks_of_scripts_work(kind):
    """They are classes, and trainers."""
    assert issubclass(kind, SingleCostTrainer)
