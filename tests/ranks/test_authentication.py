"""ranks/authentication.py: which addresses may connect. test_hub.py tests the greeting."""

from __future__ import annotations

import os

import pytest

from tensorpack_lite.ranks import authentication
from tensorpack_lite.ranks.authentication import Credentials

LONG = "0123456789abcdef"


@pytest.fixture(autouse=True)
def no_secret(monkeypatch):
    """Remove the secret from the environment."""
    for name in ("TENSORPACK_LITE_SECRET", "TENSORPACK_LITE_SECRET_FILE"):
        monkeypatch.delenv(name, raising=False)


class TestAddresses:
    def test_with_a_secret(self):
        """With a secret, every address may try to authenticate."""
        assert Credentials(LONG).admits("203.0.113.7", "192.0.2.1")

    @pytest.mark.parametrize("peer", ["127.0.0.1", "127.8.8.8", "::1", "192.0.2.1"])
    def test_this_machine(self, peer):
        """Without a secret, connections from this machine are admitted, whichever of its addresses they use."""
        assert Credentials("").admits(peer, "192.0.2.1")

    def test_the_cluster(self):
        """Without a secret, the machines of the cluster are admitted, and no others."""
        one = Credentials("", ["192.0.2.2", "localhost", "192.0.2.2", "192.0.2.3"])
        assert [True, True, False] == [
            one.admits(peer, "192.0.2.1") for peer in ("192.0.2.2", "192.0.2.3", "192.0.2.4")
        ]
        assert "Secret: none; only this machine, 192.0.2.2, 192.0.2.3 may connect." == one.describe()

    def test_many_machines(self):
        """The log line names the first machines of a large cluster, and the number of the others."""
        one = Credentials("", [f"node{i}" for i in range(1000)])
        assert "only this machine, node0, node1, node2, node3 and 996 more may connect" in one.describe()

    def test_a_machine_that_starts_later(self, monkeypatch):
        """A host name that cannot be resolved yet is looked up again after a while, not for every connection."""
        asked, known = [], []

        def look_up(host, port, type):
            asked.append(host)
            if not known:
                raise OSError("not known")
            return [(0, 0, 0, "", ("192.0.2.2", 0))]

        monkeypatch.setattr(authentication.socket, "getaddrinfo", look_up)
        one = Credentials("", ["worker-1"])
        assert [False] * 3 == [one.admits("192.0.2.2", "192.0.2.1") for _ in range(3)]
        assert ["worker-1"] == asked
        known.append(True)
        monkeypatch.setattr(authentication, "_RESOLVE_SECONDS", 0.0)
        assert one.admits("192.0.2.2", "192.0.2.1")

    def test_the_secret_is_not_shown(self):
        """The description that is logged does not contain the secret."""
        assert LONG not in Credentials(LONG).describe() + repr(Credentials(LONG))
        assert os.environ.get("TENSORPACK_LITE_SECRET") is None
