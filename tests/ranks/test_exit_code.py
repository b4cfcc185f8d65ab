"""ranks/exit_code.py: the exit code of a rank that ends because of another one."""

from __future__ import annotations

import subprocess
import sys

import pytest
from fakes.processes import python_environment

HEAD = """
import sys
from tensorpack_lite.ranks.connecting import RankError
from tensorpack_lite.ranks.exit_code import end_with_code

def say(kind, error, traceback):
    print("own hook", kind.__name__)

SHOW
end_with_code(RankError)
end_with_code(RankError)
"""

pytestmark = pytest.mark.slow


def run(body, show=""):
    """Run a script, and return its exit code, stdout and stderr."""
    script = HEAD.replace("SHOW", show) + body
    ended = subprocess.run(
        [sys.executable, "-c", script],
        env=python_environment(),
        capture_output=True,
        check=False,
    )
    return ended.returncode, ended.stdout.decode(), ended.stderr.decode()


def test_an_error_of_another_rank():
    """A RankError that reaches the end of the script is shown once, and the exit code is 128."""
    code, _, err = run("raise RankError('Rank 1 died.')")
    assert 128 == code
    assert err.endswith("RankError: Rank 1 died.\n")
    assert 1 == err.count("Traceback")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("raise KeyError('x')", 1),
        ("sys.exit(7)", 7),
        ("try:\n    raise RankError('x')\nexcept RankError:\n    print('caught')", 0),
        ("try:\n    raise RankError('x')\nexcept RankError:\n    raise ValueError('y')", 1),
    ],
)
def test_other_ends(body, expected):
    """Other errors, and a RankError that the script catches, change nothing."""
    assert expected == run(body)[0]


def test_the_hook_of_the_script():
    """A hook that the script has installed before is called as well."""
    code, out, _ = run("raise RankError('x')", "sys.excepthook = say")
    assert (128, "own hook RankError\n") == (code, out)
