"""utils/secret.py: where the secret of a job is found."""

from __future__ import annotations

import pytest

from tensorpack_lite.utils.secret import (
    JOB_SECRET_VARIABLE,
    SECRET_FILE_VARIABLE,
    SECRET_VARIABLE,
    find_job_secret,
    find_secret,
    make_secret,
)

LONG = "0123456789abcdef"


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    """Remove the variables from the environment."""
    for name in (SECRET_VARIABLE, SECRET_FILE_VARIABLE, JOB_SECRET_VARIABLE):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def file(tmp_path):
    """A file with the secret that only its owner can read."""
    path = tmp_path / "secret"
    path.write_text(f"{LONG}\n")
    path.chmod(0o600)
    return path


def test_no_secret(monkeypatch):
    """Without an argument and variables there is no secret; an empty variable counts as not set."""
    assert "" == find_secret(None, "me")
    monkeypatch.setenv(SECRET_VARIABLE, "")
    assert "" == find_secret(None, "me")


def test_order(file, monkeypatch):
    """The argument wins over the variable, and the variable over the file; False wins over all."""
    monkeypatch.setenv(SECRET_FILE_VARIABLE, str(file))
    assert LONG == find_secret(None, "me")
    monkeypatch.setenv(SECRET_VARIABLE, "v" * 16)
    assert "v" * 16 == find_secret(None, "me")
    assert "a" * 16 == find_secret("a" * 16, "me")
    assert LONG == find_secret(file, "me")
    assert "" == find_secret(False, "me")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_file_that_others_can_read(mode, file):
    """A file that others can read or write is refused."""
    file.chmod(mode)
    with pytest.raises(PermissionError, match=f"me: others can read or write .* got {mode:o}.*chmod 600"):
        find_secret(file, "me")


@pytest.mark.parametrize("short", ["", "a", "x" * 15])
def test_a_short_secret(short, file, monkeypatch):
    """A secret of fewer than 16 characters is refused, also an empty one, which would disable authentication."""
    with pytest.raises(ValueError, match=f"from the argument is too short .* got {len(short)}"):
        find_secret(short, "me")
    file.write_text(short)
    with pytest.raises(ValueError, match="too short"):
        find_secret(file, "me")


def test_other_types():
    """Bytes and True are not secrets."""
    for wrong in (b"0123456789abcdef", True, 5):
        with pytest.raises(TypeError, match="me: the secret has the wrong type"):
            find_secret(wrong, "me")


def test_a_missing_file(tmp_path):
    """A file that does not exist is an error; it does not mean that there is no secret."""
    with pytest.raises(FileNotFoundError):
        find_secret(tmp_path / "none", "me")


def test_the_secret_of_a_job(monkeypatch):
    """Ranks use the launcher's secret only if the user has set none; senders of data never use it."""
    assert "" == find_job_secret()
    monkeypatch.setenv(JOB_SECRET_VARIABLE, "made by the launcher")
    assert "made by the launcher" == find_job_secret()
    assert "" == find_secret(None, "me")
    monkeypatch.setenv(SECRET_VARIABLE, "set by the user!")
    assert "set by the user!" == find_job_secret()


def test_a_new_secret():
    """Each new secret is different and has 64 characters."""
    first, second = make_secret(), make_secret()
    assert first != second
    assert 64 == len(first)
