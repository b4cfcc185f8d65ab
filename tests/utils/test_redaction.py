"""Removal of secrets from texts."""

from __future__ import annotations

import sys

import pytest

from tensorpack_lite.utils import logger
from tensorpack_lite.utils.redaction import hide_secrets


@pytest.fixture(autouse=True)
def secrets(monkeypatch):
    """Environment variables, of which two are secrets."""
    monkeypatch.setenv("MY_API_KEY", 'very"secret\\value')
    monkeypatch.setenv("MY_PASSWORD", 'very"secret\\value and more')
    monkeypatch.setenv("SHORT_TOKEN", "a")
    monkeypatch.setenv("OMP_NUM_THREADS", "12345678")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('--key=very"secret\\value', "--key=<$MY_API_KEY>"),
        ('very"secret\\value and more', "<$MY_PASSWORD>"),
        ({'very"secret\\value': ["12345678", "a", 3, None]}, {"<$MY_API_KEY>": ["12345678", "a", 3, None]}),
        (3.5, 3.5),
    ],
)
def test_hide(value, expected):
    """Values of variables whose names are those of secrets are replaced in all texts, the longest ones first."""
    assert expected == hide_secrets(value)


def test_arguments_in_the_log(tmp_path, monkeypatch):
    """The log shows the arguments of the script without secrets."""
    monkeypatch.setattr(sys, "argv", ["train.py", 'very"secret\\value'])
    logger.set_logger_dir(str(tmp_path), "k")
    text = (tmp_path / "log.log").read_text()
    logger.reset()
    assert "Argv: train.py <$MY_API_KEY>" in text
    assert 'very"secret' not in text
