"""Removal of secrets from what a training writes about itself: its manifest, and the arguments in its log."""

from __future__ import annotations

import os
import re
from typing import Any

_SECRET_NAME = re.compile("KEY|TOKEN|SECRET|PASS|AUTH|CRED", re.IGNORECASE)
_MIN_CHARS = 8


def hide_secrets(value: Any) -> Any:
    """
    Return a value in which those of environment variables that may be secrets are replaced by `<$NAME>`.

    A variable may be a secret if its name contains KEY, TOKEN, SECRET, PASS, AUTH or CRED. Values of less than 8 characters
    are not replaced.

    Args:
        value: a text, or any other JSON value, of which all texts are searched. It is not changed.
    """
    secrets = {
        content: f"<${name}>"
        for name, content in os.environ.items()
        if len(content) >= _MIN_CHARS and _SECRET_NAME.search(name)
    }
    longest_first = sorted(secrets, key=len, reverse=True)  # one may contain another one
    return _replace(value, {secret: secrets[secret] for secret in longest_first}) if secrets else value


def _replace(value: Any, secrets: dict[str, str]) -> Any:
    if isinstance(value, str):
        for secret, name in secrets.items():
            value = value.replace(secret, name)
        return value
    if isinstance(value, (list, tuple)):
        return [_replace(item, secrets) for item in value]
    if isinstance(value, dict):
        return {_replace(key, secrets): _replace(item, secrets) for key, item in value.items()}
    return value
