"""train/collective.py with real processes: several ranks equal one process, and no fault of one leaves another hanging."""

from __future__ import annotations

import json
import socket

import numpy as np
import pytest
from fakes.launching import SCRIPT, launch, running_with, start, wait
from fakes.models import Mean, threes

from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.train.collective import CollectiveTrainer
from tensorpack_lite.utils.cluster import free_ports


def weights(directory, rank, size):
    """What a rank wrote at the end of its epoch."""
    return dict(np.load(str(directory / f"rank-{rank}-of-{size}.npz")))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Where two ranks, and one process with the joint batch, left their weights after 20 steps."""
    directory = tmp_path_factory.mktemp("ranks")
    for size in (2, 1):
        ended = launch(size, SCRIPT, directory)
        assert 0 == ended.code, ended.out + ended.err
    return directory


class TestAlone:
    def test_without_a_cluster(self, monkeypatch):
        """It trains as SimpleTrainer does."""
        monkeypatch.delenv("TF_CONFIG", raising=False)
        trainer, model, seen = CollectiveTrainer(), Mean(), []

        class Watch(Callback):
            def _after_train(self):
                seen.append(self.trainer.sess.run(self.trainer.find_tensor("w")))

        trainer.setup_graph(
            model.get_input_signature(), FeedInput(threes()), model.build_graph, model.get_optimizer
        )
        trainer.train_with_defaults(
            callbacks=[Watch()], monitors=[], extra_callbacks=[], steps_per_epoch=2, max_epoch=1
        )
        assert (0, 1, True, None) == (trainer.rank, trainer.size, trainer.is_chief, trainer.ranks)
        assert [2.25] == seen

    def test_another_compression(self):
        """Is refused."""
        with pytest.raises(ValueError, match="compression is 'fp8', wanted None or 'fp16'"):
            CollectiveTrainer(compression="fp8")


@pytest.mark.slow
class TestTwoRanks:
    def test_ranks_are_equal(self, trained):
        """To the bit, although each began with weights of its own."""
        first, second = weights(trained, 0, 2), weights(trained, 1, 2)
        assert sorted(first) == sorted(second)
        assert 20 == first["global_step"]
        assert [] == [name for name in first if not np.array_equal(first[name], second[name])]

    def test_they_equal_one_process(self, trained):
        """With the joint batch, dense and sparse gradients alike."""
        several, one = weights(trained, 0, 2), weights(trained, 0, 1)
        assert sorted(several) == sorted(one)
        for name in one:
            np.testing.assert_allclose(several[name], one[name], atol=1e-5, err_msg=name)

    def test_fp16_on_the_wire(self, trained, tmp_path):
        """Differs a little from one process, and not between the ranks."""
        assert 0 == launch(2, SCRIPT, tmp_path, "fp16").code
        first, second, one = weights(tmp_path, 0, 2), weights(tmp_path, 1, 2), weights(trained, 0, 1)
        assert np.array_equal(first["w0"], second["w0"])
        assert 0 < np.abs(first["w0"] - one["w0"]).max() < 5e-3

    def test_resuming(self, tmp_path):
        """The chief's checkpoint and first epoch are every rank's."""
        assert 0 == launch(2, SCRIPT, tmp_path).code
        ended = launch(2, SCRIPT, tmp_path, "resume")
        assert 0 == ended.code, ended.out + ended.err
        first, second = weights(tmp_path, 0, 2), weights(tmp_path, 1, 2)
        assert 40 == first["global_step"] == second["global_step"]
        assert np.array_equal(first["w0"], second["w0"])
        assert "[1] " in ended.out
        assert 2 == ended.out.count("Start epoch 2")

    def test_a_chief_that_takes_long(self, tmp_path):
        """Its own callbacks may take longer than the time limit."""
        ended = launch(2, SCRIPT, tmp_path, "slow chief", "5")
        assert 0 == ended.code, ended.out + ended.err


def full(*values):
    """A fault that CI plants on the newest TensorFlow only: what notices it is the same on all."""
    return pytest.param(*values, marks=pytest.mark.full)


@pytest.mark.slow
class TestFaults:
    @pytest.mark.parametrize(
        ("fault", "limit", "told"),
        [
            ("kill", 20, "Rank 1 has died without a word, last seen after step"),
            full("stop", 6, "Rank 1 has been silent for 6 s, last seen after step"),
            full(
                "behind",
                6,
                "Rank 1 has kept others waiting for 6 s, last seen after step 5, in callback Faulty, _before_run",
            ),
            ("callback", 20, "Rank 1 failed after step 5, training: KeyError: 'planted in a callback'"),
            full("data", 20, "Rank 1 failed after step 5, training: ValueError"),
            full("graph error", 20, "Rank 1 has died without a word"),
            ("graph", 20, "Rank 1 does not fit to rank 0: variable w0 is ['float32', '(5, 7)'] there"),
            ("steps", 20, "Rank 1 does not fit to rank 0: steps_per_epoch is 21 there and 20 on rank 0"),
            full("early end", 6, "waiting for the others (the end of training)"),
            full("drift", 20, "after step 8 variable w1 of rank 1 differs from that of rank 0"),
            ("late", 4, "Rank 1 of 2 did not come within 4 s"),
        ],
    )
    def test_all_ranks_end(self, tmp_path, fault, limit, told):
        """Soon, with a code that is not 0 and a sentence that names the rank; nothing is left."""
        ended = launch(2, SCRIPT, tmp_path, fault, limit)
        assert 0 != ended.code
        assert told in ended.out + ended.err
        assert ended.seconds < 20 + limit
        assert [] == running_with(str(tmp_path))

    def test_a_busy_port(self, tmp_path):
        """Is named, by the rank whose it is; the other ends, too."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen(1)
            ports = [free_ports(1)[0], taken.getsockname()[1]]
            ranks = [start(SCRIPT, tmp_path, "", "20", TF_CONFIG=config(ports, i)) for i in range(2)]
            first, second = [wait(rank) for rank in ranks]
        assert f"rank 1 cannot serve at 127.0.0.1:{ports[1]}" in second.err
        assert "Rank 1 failed after step 0, initializing the session" in first.err
        assert 0 != first.code
        assert 0 != second.code


def config(ports, index):
    """TF_CONFIG of one of several local workers."""
    cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
    return json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
