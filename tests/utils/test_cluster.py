"""utils/cluster.py: who trains together, from TF_CONFIG."""

from __future__ import annotations

import json
import socket

import pytest

from tensorpack_lite.utils.cluster import Cluster, free_ports, given_rank


@pytest.fixture
def cluster(monkeypatch):
    """Reads a cluster and a task from the environment."""
    monkeypatch.delenv("TENSORPACK_RANKS_ADDRESS", raising=False)

    def read(jobs, job="worker", index=0, **more):
        config = {"cluster": jobs, "task": {"type": job, "index": index}, **more}
        monkeypatch.setenv("TF_CONFIG", json.dumps(config))
        return Cluster.from_environment()

    return read


TWO_HOSTS = ["a:2222", "a:2223", "b:2222", "b:2223"]


class TestCluster:
    def test_workers(self, cluster):
        """Ranks are numbers of workers; those of one host are counted by themselves."""
        third = cluster({"worker": TWO_HOSTS}, index=3)
        assert (3, 4, 1, 2) == (third.rank, third.size, third.local_rank, third.local_size)
        assert "/job:worker/replica:0/task:0" == third.leader

    def test_a_chief(self, cluster):
        """Is rank 0; the workers follow; an evaluator is not a rank."""
        jobs = {"worker": ["b:1", "c:1"], "chief": ["a:1"], "evaluator": ["e:1"]}
        assert 0 == cluster(jobs, "chief").rank
        second = cluster(jobs, "worker", 1)
        assert (2, ["a:1", "b:1", "c:1"]) == (second.rank, second.addresses)
        assert "/job:chief/replica:0/task:0" == second.leader

    def test_where_ranks_meet(self, cluster, monkeypatch):
        """At the chief's host, at the first port that no task has; or where the environment says."""
        found = cluster({"worker": TWO_HOSTS})
        assert ("a", 2224) == found.watch_address
        monkeypatch.setenv("TENSORPACK_RANKS_ADDRESS", "c:99")
        assert ("c", 99) == found.watch_address

    @pytest.mark.parametrize("text", ["", "  ", "{}", '{"task": {"type": "worker", "index": 0}}'])
    def test_no_cluster(self, monkeypatch, text):
        """Means a process that trains alone."""
        monkeypatch.setenv("TF_CONFIG", text)
        assert Cluster.from_environment() is None

    @pytest.mark.parametrize(
        ("jobs", "index", "told"),
        [
            ({"worker": ["a:1"], "ps": ["b:1"]}, 0, r"jobs \['ps'\], wanted only chief and worker"),
            ({"worker": ["a:1"]}, 1, "this task is worker 1, which its cluster does not have"),
            ({"worker": ["a"]}, 0, "'a' is no address, wanted host:port"),
            ({"worker": ["a:1"], "chief": ["b:1", "c:1"]}, 0, "one chief at most"),
        ],
    )
    def test_mistakes(self, cluster, jobs, index, told):
        """Are named, with an example of how it should look."""
        with pytest.raises(ValueError, match=f"(?s){told}.*It looks like"):
            cluster(jobs, index=index)

    def test_no_json(self, monkeypatch):
        """Neither is text that is no JSON understood."""
        monkeypatch.setenv("TF_CONFIG", "{worker: a:1}")
        with pytest.raises(ValueError, match="TF_CONFIG is not as TensorFlow wants it"):
            Cluster.from_environment()


def test_free_ports():
    """They differ, and can be listened on."""
    ports = free_ports(5)
    assert 5 == len(set(ports))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", ports[0]))


@pytest.mark.parametrize(
    ("environment", "rank"),
    [
        ({}, None),
        ({"HOROVOD_RANK": "2"}, 2),
        ({"TF_CONFIG": '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}'}, 1),
        ({"TF_CONFIG": '{"cluster": {"ps": ["a:1"]}, "task": {"type": "ps", "index": 0}}'}, None),
        ({"TF_CONFIG": "{"}, None),
    ],
)
def test_given_rank(monkeypatch, environment, rank):
    """The rank is read from HOROVOD_RANK or TF_CONFIG; it is not known if neither tells, or TF_CONFIG is not valid."""
    for name in ("HOROVOD_RANK", "TF_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert rank == given_rank()
