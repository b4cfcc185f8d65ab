"""
Runs the scripts of the corpus with `tensorpack-lite run`, and reads what they leave behind.

`PYTHONPATH=. python tests/unmodified/corpus.py`, with TensorFlow 1.15, writes `reference.json` and `checkpoints/` anew.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

import tensorpack_lite
from tensorpack_lite.compat import tfv1 as tf

FOLDER = Path(__file__).resolve().parent
SCRIPTS = FOLDER / "scripts"
OLD_LIBRARIES = FOLDER / "old_libraries"
CHECKPOINTS = FOLDER / "checkpoints"
REFERENCE = FOLDER / "reference.json"
PACKAGES = str(Path(tensorpack_lite.__file__).parents[1])
COSTS = ["cross_entropy_loss", "xentropy-loss", "mse", "huber_loss/value", "GAN_loss/discrim/loss"]
WITH_CHECKPOINT = ["rnn_2018", "slim_2019"]  # they have --load and --eval


class Result(NamedTuple):
    """
    The results of a training.

    Attributes:
        figure: the number in the last line that the script prints.
        first_epoch: the cost at the end of the first epoch, from stats.json.
        variables: `{name: shape}` of the last checkpoint.
    """

    figure: float
    first_epoch: float
    variables: dict[str, list[int]]


def run_python(*arguments: str, cwd: str | Path, **environment: str) -> subprocess.CompletedProcess:
    """Run Python in a folder. Return the process, which has ended with success, with its stdout and stderr as text."""
    result = subprocess.run(
        [sys.executable, *arguments],
        cwd=str(cwd),
        env=dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3", PYTHONPATH=PACKAGES, **environment),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"
    return result


def run_script(name: str, *arguments: str, cwd: str | Path, folder: Path = SCRIPTS) -> str:
    """Run a script of the corpus, which is in `folder`, in another folder. Return what it prints to stdout."""
    script = str(folder / f"{name}.py")
    return run_python("-m", "tensorpack_lite", "run", script, *arguments, cwd=cwd).stdout


def last_number(output: str) -> float:
    """Return the number at the end of the last line that ends with one. TensorFlow's profiler prints lines after it."""
    return float(re.findall(r": ([\d.]+)$", output, re.MULTILINE)[-1])


def train(name: str, folder: str | Path) -> Result:
    """Run a script that trains, in an empty folder."""
    output = run_script(name, cwd=folder)
    statistics = json.loads(next(Path(folder).rglob("stats.json")).read_text())[0]
    cost = next(statistics[key] for key in COSTS if key in statistics)
    variables = {variable: list(shape) for variable, shape in tf.train.list_variables(str(find_checkpoint(folder)))}
    return Result(last_number(output), cost, variables)


def find_checkpoint(folder: str | Path) -> Path:
    """Return the path, without a suffix, of the newest checkpoint below a folder."""
    found = sorted(Path(folder).rglob("model-*.index"), key=lambda file: int(file.stem.split("-")[1]))
    return found[-1].with_suffix("")


def probabilities(name: str, checkpoint: Path, folder: str | Path) -> tuple[float, np.ndarray]:
    """Run a script that evaluates a checkpoint. Return the validation error and the predicted probabilities."""
    output = run_script(name, "--load", str(checkpoint), "--eval", "probabilities.npy", cwd=folder)
    return last_number(output), np.load(str(Path(folder) / "probabilities.npy"))


def _write_reference() -> None:
    reference = {}
    for script in sorted(file.stem for file in SCRIPTS.glob("*.py")):
        with tempfile.TemporaryDirectory() as folder:
            reference[script] = train(script, folder)._asdict()
            if script in WITH_CHECKPOINT:
                source = find_checkpoint(folder)
                CHECKPOINTS.mkdir(exist_ok=True)
                for part in (".index", ".data-00000-of-00001"):
                    shutil.copy(f"{source}{part}", str(CHECKPOINTS / f"{script}{part}"))
                error, values = probabilities(script, CHECKPOINTS / script, folder)
                reference[script]["loaded_figure"] = error
                np.save(str(CHECKPOINTS / f"{script}.npy"), values)
    REFERENCE.write_text(json.dumps(reference, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    _write_reference()
