"""`logger.set_logger_dir` in several processes that were started together: only the chief changes the directory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import pytest
from fakes.processes import python_environment, run_python

# Each rank waits for its turn, so that the order does not depend on time.
SCRIPT = textwrap.dedent(
    """
    import os, sys, time
    from tensorpack_lite.utils import logger
    from tensorpack_lite.utils.own_rank import given_rank

    directory, action, order = sys.argv[1:]
    rank = given_rank()
    while not all(os.path.exists(f"{directory}.{before}") for before in order.split(str(rank))[0]):
        time.sleep(0.01)
    logger.set_logger_dir(directory, action if action != "None" else None)
    logger.info(f"line of rank {rank}")
    open(f"{directory}.{rank}", "w").close()
    while not all(os.path.exists(f"{directory}.{other}") for other in order):
        time.sleep(0.01)
    logger.info(f"last line of rank {rank}")
    print("directory", logger.get_logger_dir())
    """
)
OLD_LINE = "[1126 22:30:36 @logger.py:191] Argv: old.py\n"


def tf_config(rank):
    cluster = {"worker": ["127.0.0.1:1", "127.0.0.1:2"]}
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": rank}})}


def slurm(rank):
    return {"SLURM_PROCID": str(rank), "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2"}


ENGINES = {"TF_CONFIG": tf_config, "SLURM": slurm}  # test_own_rank.py tests all of them


def write(path, text):
    os.makedirs(os.path.dirname(str(path)), exist_ok=True)
    with open(str(path), "w") as file:
        file.write(text)


def read(path):
    with open(str(path)) as file:
        return file.read()


def run_both(variables, directory, action, order):
    """Run two ranks and return their outputs."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(directory), action, order],
            env=python_environment(**variables(rank)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            universal_newlines=True,
        )
        for rank in (0, 1)
    ]
    outputs = [process.communicate(timeout=60)[0] for process in processes]
    assert [0, 0] == [process.returncode for process in processes]
    return outputs


@pytest.fixture
def directory(tmp_path):
    """The directory of an earlier training with two ranks, and a file of the user."""
    for name, text in (("log.log", OLD_LINE), ("log-rank1.log", OLD_LINE), ("thesis.tex", "precious")):
        write(tmp_path / "train" / name, text)
    return tmp_path / "train"


@pytest.mark.law
@pytest.mark.parametrize("variables", ENGINES.values(), ids=ENGINES)
def test_the_second_rank_arrives_later(directory, variables):
    """With "d", a rank that arrives when the chief has begun deletes nothing and writes to its own file."""
    run_both(variables, directory, "d", "01")
    log, log_of_rank = read(directory / "log.log"), read(directory / "log-rank1.log")
    assert "] line of rank 0\n" in log
    assert "] last line of rank 0\n" in log
    assert "rank 1" not in log
    assert "] last line of rank 1\n" in log_of_rank
    assert "old.py" not in log
    assert "precious" == read(directory / "thesis.tex")


@pytest.mark.slow
def test_the_second_rank_arrives_first(directory):
    """The log of a rank that arrives before the chief stays when the chief deletes the earlier training."""
    run_both(slurm, directory, "d", "10")
    assert "] last line of rank 0\n" in read(directory / "log.log")
    assert "] line of rank 1\n" in read(directory / "log-rank1.log")


@pytest.mark.slow
def test_a_new_directory(tmp_path):
    """The log of a rank that arrives first does not make a new directory one with files."""
    run_both(slurm, tmp_path / "train", "d", "10")
    assert ["train", "train.0", "train.1"] == sorted(os.listdir(str(tmp_path)))


def test_the_log_of_a_running_training(directory, monkeypatch):
    """With "d", rank 1 appends to its log, which may be that of a training that still runs and that the chief refuses to delete."""
    from tensorpack_lite.utils import logger

    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "1")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    logger.set_logger_dir(str(directory), "d")
    logger.reset()
    assert read(directory / "log-rank1.log").startswith(OLD_LINE)


@pytest.mark.slow
def test_keep(directory):
    """With "k", each rank appends to its own file."""
    run_both(slurm, directory, "k", "01")
    for name, rank in (("log.log", 0), ("log-rank1.log", 1)):
        assert read(directory / name).startswith(OLD_LINE)
        assert f"] last line of rank {rank}\n" in read(directory / name)


@pytest.mark.law
@pytest.mark.parametrize(("action", "order"), [("b", "01"), ("b", "10"), ("n", "10"), ("None", "01")])
def test_other_actions(directory, action, order):
    """With another action, the chief alone renames or chooses a directory; the other rank neither asks nor writes a file."""
    _, output = run_both(slurm, directory, action, order)
    directories = sorted(path for path in os.listdir(str(directory.parent)) if "." not in path)
    assert 2 == len(directories)
    logs = [read(directory.parent / name / "log.log") for name in directories]
    assert OLD_LINE in logs
    assert "] last line of rank 0\n" in "".join(logs)
    assert "rank 1" not in "".join(logs)
    assert [OLD_LINE] == [
        read(directory.parent / name / "log-rank1.log")
        for name in directories
        if os.path.exists(str(directory.parent / name / "log-rank1.log"))
    ]
    assert "Rank 1 (by SLURM_PROCID) logs to no file." in output
    assert f"directory {directory}\n" in output


def test_the_error_is_that_of_the_chief(directory, monkeypatch):
    """With "q", only the chief raises an error."""
    from tensorpack_lite.utils import logger

    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "1")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    logger.set_logger_dir(str(directory), "q")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    with pytest.raises(OSError, match="contains files"):
        logger.set_logger_dir(str(directory), "q")


def test_processes_that_train_separately(directory, monkeypatch):
    """With TENSORPACK_RANKS_SIZE=1, each process is a chief."""
    from tensorpack_lite.utils import logger

    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "1")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    monkeypatch.setenv("TENSORPACK_RANKS_SIZE", "1")
    logger.set_logger_dir(str(directory), "d")
    assert ["log.log", "thesis.tex"] == sorted(os.listdir(str(directory)))


@pytest.mark.slow
def test_the_launcher(directory, tmp_path):
    """Under the library's launcher, with its logs in the same directory, each rank has its files."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = ["-m", "tensorpack_lite.launch", "-n", "2", "--log-dir", str(directory), str(script)]
    run_python(*command, directory, "d", "01")
    assert ["log-rank1.log", "log.log", "rank-0.log", "rank-1.log", "thesis.tex"] == sorted(os.listdir(str(directory)))
    assert "last line of rank 0" in read(directory / "log.log")
    assert "last line of rank 1" in read(directory / "rank-1.log")
