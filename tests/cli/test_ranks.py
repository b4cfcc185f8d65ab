"""cli/ranks.py: processes that meet without training."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest
from fakes.processes import python_environment

from tensorpack_lite.cli.main import main
from tensorpack_lite.ranks.cluster import free_ports

MAIN = (
    "import sys; from tensorpack_lite.cli.main import main; code = main(); "
    "sys.stderr.write(str('tensorflow' in sys.modules)); sys.exit(code)"
)


@pytest.fixture(autouse=True)
def torchrun(monkeypatch):
    """The variables of torchrun for rank 0 of two, without a secret."""
    for name in ("TENSORPACK_LITE_SECRET", "TENSORPACK_LITE_SECRET_FILE", "TF_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    variables = {
        "RANK": "0",
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_ports(1)[0]),
    }
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    return variables


@pytest.mark.slow
def test_they_meet(torchrun):
    """Rank 0 prints a table with a line for each rank. No process imports TensorFlow."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", MAIN, "ranks"],
            env=python_environment(**{**torchrun, "RANK": str(rank)}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
        )
        for rank in range(2)
    ]
    ended = [process.communicate(timeout=120) for process in processes]
    assert [0, 0] == [process.returncode for process in processes], ended
    assert ["False", "False"] == [err for _, err in ended]
    head, *rows = [line for line in ended[0][0].splitlines() if "Rank" not in line and "---" not in line]
    assert ["rank", "host", "address", "launcher", "round", "trip"] == head.split()
    here = [socket.gethostname(), "127.0.0.1", "torchrun"]
    assert [["0", *here], ["1", *here]] == [row.split()[:4] for row in rows]
    assert all(row.split()[5] == "ms" and 0 < float(row.split()[4]) < 10_000 for row in rows)
    assert 1 == len(ended[1][0].splitlines())


def test_a_rank_that_does_not_come(capsys):
    """If a rank does not come in time, the exit code is 2, and the error names the rank."""
    assert 2 == main(["ranks", "--time-limit", "0.5"])
    out, err = capsys.readouterr()
    assert "Rank 0 of 2 on" in out
    assert err.startswith("tensorpack-lite ranks: Rank 1 of 2 did not connect within 0.5 s.")


def test_variables_that_are_not_valid(monkeypatch, capsys):
    """A mistake in the variables of the launcher has exit code 2, too."""
    monkeypatch.setenv("RANK", "2")
    assert 2 == main(["ranks"])
    assert "tensorpack-lite ranks: RANK=2 is not below WORLD_SIZE=2 (torchrun)." in capsys.readouterr().err


def test_alone(monkeypatch, capsys):
    """A process that no launcher has started together with others says that it trains alone, with a remark in a batch script."""
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name)
    assert 0 == main(["ranks"])
    assert "This process trains alone.\n" == capsys.readouterr().out
    for name, text in (("SLURM_JOB_ID", "7"), ("SLURM_NTASKS", "2")):
        monkeypatch.setenv(name, text)
    assert 0 == main(["ranks"])
    assert "This process trains alone. SLURM allocated 2 tasks," in capsys.readouterr().out
