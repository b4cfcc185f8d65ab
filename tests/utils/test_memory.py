"""Tests of utils/memory.py: the limits of a container."""

from __future__ import annotations

import psutil
import pytest

from tensorpack_lite.utils.memory import available_memory


@pytest.mark.parametrize(
    ("limit", "usage", "folder"),
    [
        ("memory.max", "memory.current", ""),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory"),
    ],
    ids=["version 2", "version 1"],
)
def test_the_limit_of_a_container(tmp_path, limit, usage, folder):
    """The limit less the usage counts; cached files that can be dropped are not usage."""
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / folder / limit).write_text("5000\n")
    (tmp_path / folder / usage).write_text("3000\n")
    (tmp_path / folder / "memory.stat").write_text("anon 1000\ninactive_file 700\n")
    assert 2700 == available_memory(str(tmp_path))

    (tmp_path / folder / usage).write_text("6000\n")
    assert 0 == available_memory(str(tmp_path))


def test_no_limit(tmp_path):
    """Without a limit, the memory of the machine counts."""
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("3000\n")
    (tmp_path / "memory.stat").write_text("")
    assert (
        psutil.virtual_memory().total // 100
        < available_memory(str(tmp_path))
        <= psutil.virtual_memory().total
    )
