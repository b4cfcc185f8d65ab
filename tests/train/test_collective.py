"""train/collective.py with real processes: several ranks equal one process, and all end when one fails."""

from __future__ import annotations

import json
import socket

import numpy as np
import pytest
from fakes.launching import SCRIPT, launch, start, wait
from fakes.models import Mean, threes
from fakes.rank_cases import RanksThatFail, RanksThatTrain, train, weights
from fakes.trainers import run

from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.ranks.cluster import free_ports
from tensorpack_lite.train.collective import CollectiveTrainer


@pytest.fixture(scope="module", params=[2, 3])
def trained(request, tmp_path_factory):
    """Weights that several ranks, and one process, have trained."""
    return train("collective", request.param, tmp_path_factory.mktemp("ranks"))


class TestAlone:
    def test_without_a_cluster(self, monkeypatch):
        """Without a cluster it trains as SimpleTrainer does."""
        monkeypatch.delenv("TF_CONFIG", raising=False)
        trainer, model, seen = CollectiveTrainer(), Mean(), []

        class Watch(Callback):
            def _after_train(self):
                seen.append(self.trainer.sess.run(self.trainer.find_tensor("w")))

        trainer.setup_graph(model.get_input_signature(), FeedInput(threes()), model.build_graph, model.get_optimizer)
        run(trainer, [Watch()], epochs=1)
        assert (0, 1, True, 1) == (trainer.rank, trainer.size, trainer.is_chief, trainer.ranks.size)
        assert [2.25] == seen


@pytest.mark.slow
class TestRanks(RanksThatTrain):
    ENGINE = "collective"

    @pytest.mark.parametrize("trained", [2], indirect=True)
    @pytest.mark.any_tensorflow
    def test_a_second_training(self, trained, tmp_path):
        """A second training in the same processes, of another model, has the same result as a first one."""
        ended = launch(2, SCRIPT, "collective", tmp_path, "twice")
        assert 0 == ended.code, ended.out + ended.err
        assert 4 == ended.out.count("Training has finished.")
        for rank in range(2):
            second, wanted = weights(tmp_path, rank, 2), trained.weights(rank)
            assert sorted(wanted) == sorted(second)
            for name in wanted:
                np.testing.assert_allclose(second[name], wanted[name], atol=1e-5, err_msg=name)


@pytest.mark.slow
class TestFaults(RanksThatFail):
    ENGINE = "collective"

    @pytest.mark.nightly
    @pytest.mark.any_tensorflow
    def test_a_busy_port(self, tmp_path):
        """A port that is taken is an error on its rank, and the other rank ends."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen(1)
            ports = [free_ports(1)[0], taken.getsockname()[1]]
            ranks = [start(SCRIPT, "collective", tmp_path, "", "20", TF_CONFIG=config(ports, i)) for i in range(2)]
            first, second = [wait(rank) for rank in ranks]
        assert f"rank 1 cannot listen on 127.0.0.1:{ports[1]}" in second.err
        assert "Rank 1 failed after step 0, initializing the session" in first.err
        assert 0 != first.code
        assert 0 != second.code

    @pytest.mark.nightly
    @pytest.mark.any_tensorflow
    def test_a_port_that_a_firewall_blocks(self, tmp_path):
        """Before the first step, a rank whose neighbor's server cannot be reached is an error on all ranks, which names both."""
        ports = free_ports(2)
        cluster = {"worker": [f"127.0.0.1:{ports[0]}", f"192.0.2.1:{ports[1]}"]}  # no machine has the second address
        places = [json.dumps({"cluster": cluster, "task": {"type": "worker", "index": rank}}) for rank in range(2)]
        ranks = [start(SCRIPT, "collective", tmp_path, "", "6", TF_CONFIG=place) for place in places]
        ended = [wait(rank) for rank in ranks]
        assert [128, 128] == [each.code for each in ended], ended[0].err + ended[1].err
        for each in ended:
            assert f"Rank 0 cannot reach rank 1 at 192.0.2.1:{ports[1]}: " in each.err
        assert "Start epoch" not in ended[0].out + ended[1].out


@pytest.mark.slow
@pytest.mark.any_tensorflow
class TestWithoutTfConfig:
    @pytest.mark.matrix
    def test_ranks_of_torchrun(self, trained, tmp_path):
        """Ranks that only know where rank 0 is train as those of the launcher, to the same weights, byte for byte."""
        if trained.size != 2:
            pytest.skip("one size is enough")
        port = str(free_ports(1)[0])
        names = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        ranks = [
            start(SCRIPT, "collective", tmp_path, RANK=f"{rank}", LOCAL_RANK=f"{rank}", **names) for rank in range(2)
        ]
        ended = [wait(rank) for rank in ranks]
        assert [0, 0] == [each.code for each in ended], ended[0].err + ended[1].err
        told = f"started by torchrun. Rank 0: 127.0.0.1, port {port}. Secret: none; only this machine may connect."
        assert all(f"Rank {rank} of 2 (local {rank} of 2) on " in each.out for rank, each in enumerate(ended))
        assert all(told in each.out for each in ended)
        for rank in range(2):
            found, wanted = weights(tmp_path, rank, 2), trained.weights(rank)
            assert sorted(wanted) == sorted(found)
            assert [] == [name for name in wanted if not np.array_equal(found[name], wanted[name])]


def config(ports, index):
    """Return the TF_CONFIG of one of several local workers."""
    cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
    return json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
