"""utils/rank_auth.py: where the secret comes from, and who may connect without one. See test_rank_strangers.py for the greeting."""

from __future__ import annotations

import os

import pytest

from tensorpack_lite.utils import rank_auth
from tensorpack_lite.utils.rank_auth import Credentials, find_secret, make_secret

LONG = "0123456789abcdef"


@pytest.fixture(autouse=True)
def no_secret(monkeypatch):
    """The environment has no secret."""
    for name in ("TENSORPACK_LITE_SECRET", "TENSORPACK_LITE_SECRET_FILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A file with a secret, which the environment names."""
    path = tmp_path / "secret"
    path.write_text(LONG + "\n")
    path.chmod(0o600)
    monkeypatch.setenv("TENSORPACK_LITE_SECRET_FILE", str(path))
    return path


class TestSecret:
    def test_none(self):
        """Without variables the secret is empty."""
        assert "" == find_secret()

    def test_of_the_environment(self, file, monkeypatch):
        """The variable wins over the file."""
        monkeypatch.setenv("TENSORPACK_LITE_SECRET", "another secret of mine")
        assert "another secret of mine" == find_secret()

    def test_of_a_file(self, file):
        """The secret is what the file holds, without the end of its line."""
        assert LONG == find_secret()

    @pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
    def test_a_file_that_others_can_open(self, file, mode):
        """A file that others can read or write is refused with its mode and the command that mends it."""
        file.chmod(mode)
        with pytest.raises(
            PermissionError, match=rf"expected mode 600, got {mode:o}\). Run: chmod 600 .*secret"
        ):
            find_secret()

    def test_no_file(self, file):
        """A missing file is an error that names it."""
        file.unlink()
        with pytest.raises(FileNotFoundError, match="secret"):
            find_secret()

    def test_a_short_secret(self, file, monkeypatch):
        """A secret that could be guessed is refused, and the error does not show it."""
        file.write_text("swordfish")
        with pytest.raises(ValueError, match="at least 16 characters, got 9") as caught:
            find_secret()
        assert "swordfish" not in str(caught.value)

    def test_a_new_one(self):
        """Each new secret is another one, and long enough."""
        first, second = make_secret(), make_secret()
        assert first != second
        assert 64 == len(first)


class TestAddresses:
    def test_with_a_secret(self):
        """With a secret, every address may try to prove it."""
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
        assert "only from this machine and from 192.0.2.2 and from 192.0.2.3," in one.describe()

    def test_a_machine_that_starts_later(self, monkeypatch):
        """A host name that cannot be resolved yet is looked up again after a while, not for every stranger."""
        asked, known = [], []

        def look_up(host, port, type):
            asked.append(host)
            if not known:
                raise OSError("not known")
            return [(0, 0, 0, "", ("192.0.2.2", 0))]

        monkeypatch.setattr(rank_auth.socket, "getaddrinfo", look_up)
        one = Credentials("", ["worker-1"])
        assert [False] * 3 == [one.admits("192.0.2.2", "192.0.2.1") for _ in range(3)]
        assert ["worker-1"] == asked
        known.append(True)
        monkeypatch.setattr(rank_auth, "_RESOLVE_SECONDS", 0.0)
        assert one.admits("192.0.2.2", "192.0.2.1")

    def test_the_secret_is_not_shown(self):
        """The description that is logged does not contain the secret."""
        assert LONG not in Credentials(LONG).describe() + repr(Credentials(LONG))
        assert os.environ.get("TENSORPACK_LITE_SECRET") is None
