"""ranks/open_files.py: the limit of open files of a process with a hub."""

from __future__ import annotations

import pytest

resource = pytest.importorskip("resource")

from tensorpack_lite.ranks.channel import RankChannel  # noqa: E402
from tensorpack_lite.ranks.cluster import free_ports  # noqa: E402
from tensorpack_lite.ranks.open_files import allow_open_files  # noqa: E402


@pytest.fixture
def limits():
    """The limits of this process, which are restored after the test."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_limit_that_is_too_low_is_raised(limits):
    """The soft limit becomes the number of ranks plus 256, and is never lowered."""
    hard = limits[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, hard))
    for size, soft in ((1, 300), (44, 300), (45, 301), (100, 356), (2, 356)):
        allow_open_files(size)
        assert (soft, hard) == resource.getrlimit(resource.RLIMIT_NOFILE)


def test_a_limit_that_may_not_be_raised(limits):
    """If the system allows too few files for all ranks, rank 0 ends before it listens, with the command to type."""
    hard = limits[1]
    size = hard if hard != resource.RLIM_INFINITY else (1 << 62)
    told = f"too few files for {size} ranks .*ulimit -n {size + 256}"
    with pytest.raises(OSError, match=told):
        RankChannel(0, size, ("127.0.0.1", free_ports(1)[0]), time_limit=1.0)
    assert limits == resource.getrlimit(resource.RLIMIT_NOFILE)
