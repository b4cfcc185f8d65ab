"""ranks/cluster.py: the processes of a training, from TF_CONFIG."""

from __future__ import annotations

import json
import socket

import pytest

from tensorpack_lite.ranks.cluster import Cluster, format_address, free_ports, parse_address


@pytest.fixture
def cluster(monkeypatch):
    """Function: read a cluster and a task from the environment."""

    def read(jobs, job="worker", index=0, **more):
        config = {"cluster": jobs, "task": {"type": job, "index": index}, **more}
        monkeypatch.setenv("TF_CONFIG", json.dumps(config))
        return Cluster.from_environment()

    return read


TWO_HOSTS = ["a:2222", "a:2223", "b:2222", "b:2223"]


class TestCluster:
    def test_workers(self, cluster):
        """The rank is the number of the worker; local ranks count the workers of one host."""
        third = cluster({"worker": TWO_HOSTS}, index=3)
        assert (3, 4, 1, 2) == (third.rank, third.size, third.local_rank, third.local_size)
        assert "/job:worker/replica:0/task:0" == third.leader

    def test_a_chief(self, cluster):
        """The chief is rank 0, and the workers follow; an evaluator is not a rank."""
        jobs = {"worker": ["b:1", "c:1"], "chief": ["a:1"], "evaluator": ["e:1"]}
        assert 0 == cluster(jobs, "chief").rank
        second = cluster(jobs, "worker", 1)
        assert (2, ["a:1", "b:1", "c:1"]) == (second.rank, second.addresses)
        assert "/job:chief/replica:0/task:0" == second.leader

    def test_watch_address(self, cluster):
        """The channel uses the first port of the chief's host that no task has."""
        assert ("a", 2224) == cluster({"worker": TWO_HOSTS}).watch_address

    def test_ipv6(self, cluster):
        """An IPv6 address is written in brackets, which its host does not contain."""
        found = cluster({"worker": ["[fd00::1]:2222", "[fd00::2]:2222"]}, index=1)
        assert ["fd00::1", "fd00::2"] == found.hosts
        assert ("fd00::1", 2223) == found.watch_address

    @pytest.mark.parametrize("text", ["", "  ", "{}", '{"task": {"type": "worker", "index": 0}}'])
    def test_no_cluster(self, monkeypatch, text):
        """Without a cluster in TF_CONFIG the process trains alone."""
        monkeypatch.setenv("TF_CONFIG", text)
        assert Cluster.from_environment() is None

    @pytest.mark.parametrize(
        ("jobs", "index", "told"),
        [
            ({"worker": ["a:1"], "ps": ["b:1"]}, 0, r"expected only chief and worker, got \['ps'\]"),
            ({"worker": ["a:1"]}, 1, "the task worker 1 is not in the cluster"),
            ({"worker": ["a"]}, 0, "expected an address host:port or .*, got 'a'"),
            ({"worker": ["fd00::1:2222"]}, 0, r"or \[IPv6 address\]:port, got 'fd00::1:2222'"),
            ({"worker": ["a:1"], "chief": ["b:1", "c:1"]}, 0, "at most one chief"),
        ],
    )
    def test_mistakes(self, cluster, jobs, index, told):
        """An invalid cluster is a ValueError that names the fault and shows an example."""
        with pytest.raises(ValueError, match=f"(?s){told}.*Example:"):
            cluster(jobs, index=index)

    def test_invalid_json(self, monkeypatch):
        """Text that is not JSON is a ValueError."""
        monkeypatch.setenv("TF_CONFIG", "{worker: a:1}")
        with pytest.raises(ValueError, match="TF_CONFIG: cannot be parsed"):
            Cluster.from_environment()


def test_addresses():
    """An address that is formatted is parsed to the same host and port."""
    for address in ("a", 1), ("10.0.0.1", 2222), ("fd00::1", 65535):
        assert address == parse_address(format_address(*address))


def test_free_ports():
    """The ports differ, and a server can listen on them."""
    ports = free_ports(5)
    assert 5 == len(set(ports))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", ports[0]))
