"""The folder of a script."""

from __future__ import annotations

import textwrap

import pytest


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a module into the folder of the script."""

    def write_file(name, text):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text), encoding="utf-8")
        return file

    return write_file
