"""train/rank_trainer.py in one process. test_collective.py and test_horovod.py start several ranks."""

from __future__ import annotations

import pytest
from fakes.models import Mean, threes

from tensorpack_lite.callbacks import EarlyStopping, ModelSaver
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.ranks.cluster import free_ports
from tensorpack_lite.train.collective import CollectiveTrainer
from tensorpack_lite.train.rank_connection import RankConnection


@pytest.fixture
def trainer(monkeypatch):
    """A trainer with a channel to other ranks, of which there are none."""
    monkeypatch.delenv("TF_CONFIG", raising=False)
    one, model = CollectiveTrainer(), Mean()
    one.ranks = RankConnection(0, 1, ("127.0.0.1", free_ports(1)[0]), 10.0)
    one.setup_graph(model.get_input_signature(), FeedInput(threes()), model.build_graph, model.get_optimizer)
    yield one
    one.ranks.channel.close()


@pytest.mark.parametrize("chief_only", [True, False])
def test_early_stopping(trainer, tmp_path, log_lines, chief_only):
    """EarlyStopping that runs only on the chief is a warning."""
    trainer.size = 2
    stopping = EarlyStopping("cost").set_chief_only(chief_only)
    trainer.setup_callbacks([ModelSaver(checkpoint_dir=str(tmp_path)), stopping], [])
    assert chief_only == any("EarlyStopping runs only on the chief" in line for line in log_lines)
