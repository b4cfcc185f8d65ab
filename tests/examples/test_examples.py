"""The examples run: each for two steps as a user runs it, and their functions with tiny inputs."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tensorflow")

import tensorpack_lite
from tensorpack_lite.compat import TF_VERSION

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
SHORT = {
    "00_journey.py": [],
    "custom_trainer.py": ["--steps-per-epoch", "2", "--max-epoch", "1"],
    "keras_digits.py": ["--steps-per-epoch", "2", "--max-epoch", "1"],
    "mnist_convnet.py": ["--steps-per-epoch", "2", "--max-epoch", "1"],
    "mnist_plain_tf.py": ["--steps-per-epoch", "2", "--max-epoch", "1"],
    "trainv1_digits.py": ["--steps-per-epoch", "2", "--max-epoch", "1"],
}


def run(name: str, arguments: list, directory: Path) -> str:
    """Run an example in `directory`; gives what it printed."""
    if name == "keras_digits.py" and TF_VERSION >= (2, 16):
        pytest.importorskip("tf_keras")
    environment = dict(
        os.environ, PYTHONPATH=str(Path(tensorpack_lite.__file__).parents[1]), TF_CPP_MIN_LOG_LEVEL="3"
    )
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        cwd=str(directory),
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,  # apart: on stderr TensorFlow 1.15 warns of its own deprecations
        timeout=600,
        check=False,
    )
    output = done.stdout.decode()
    assert 0 == done.returncode, output + done.stderr.decode()
    return output


def load(name: str):
    """Import an example without running it."""
    sys.path.insert(0, str(EXAMPLES))
    try:
        spec = importlib.util.spec_from_file_location(name[:-3].lstrip("0_"), str(EXAMPLES / name))
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(EXAMPLES))
    return module


def code_block_after(text: str, sentence: str) -> str:
    """The first fenced block below a sentence of the README."""
    return re.search(r"```\w*\n(.*?)```", text[text.index(sentence) :], re.DOTALL).group(1)


def latest(directory: Path) -> dict:
    """The last line of stats.json."""
    return json.loads((directory / "stats.json").read_text(encoding="utf-8"))[-1]


def test_every_example_is_tested_and_in_the_table():
    """No example without a row in examples/README.md, none without a test."""
    files = sorted(p.name for p in EXAMPLES.glob("*.py"))
    assert sorted(SHORT) == files
    table = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [] == [name for name in files if f"[{name}]({name})" not in table]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SHORT))
def test_example_runs(name, tmp_path):
    """Two steps in a process of its own, in an empty directory."""
    assert run(name, SHORT[name], tmp_path)


@pytest.mark.slow
def test_the_journey_is_as_the_readme_tells_it(tmp_path):
    """Its output is quoted word for word."""
    told = code_block_after((ROOT / "README.md").read_text(encoding="utf-8"), "00_journey.py")
    assert told.strip() == run("00_journey.py", [], tmp_path).strip()


@pytest.mark.slow
def test_own_trainers_fit_the_line(tmp_path):
    """Both print the line that the points lie on."""
    output = run("custom_trainer.py", [], tmp_path)
    for trainer in ("TenLineTrainer", "AlternatingTrainer"):
        assert f"{trainer}: y = 2.00 x + 1.00" in output


@pytest.mark.slow
def test_a_second_run_resumes(tmp_path):
    """`--resume` goes on with the epoch after the last checkpoint; the files of the first run are still there."""
    arguments = ["--steps-per-epoch", "2", "--log-dir", "log"]
    run("mnist_convnet.py", [*arguments, "--max-epoch", "2"], tmp_path)
    output = run("mnist_convnet.py", [*arguments, "--max-epoch", "3", "--resume"], tmp_path)
    assert "Epoch 3 (global_step 6)" in output
    assert "Epoch 2 (global_step 4)" not in output
    stats = json.loads((tmp_path / "log" / "stats.json").read_text(encoding="utf-8"))
    assert [1, 2, 3] == [line["epoch_num"] for line in stats]
    names = {p.name for p in (tmp_path / "log").iterdir()}
    assert {"checkpoint", "model-2.index", "model-4.index", "model-6.index", "log.log", "stats.json"} <= names
    assert any(name.startswith("events.out.tfevents") for name in names)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mnist_convnet.py", "mnist_plain_tf.py"])
def test_the_convnets_reach_what_is_claimed(name, tmp_path):
    """Digits: a validation accuracy of at least 0.98 after all epochs."""
    run(name, ["--log-dir", "log"], tmp_path)
    assert latest(tmp_path / "log")["val_accuracy"] >= 0.98


@pytest.mark.slow
def test_keras_and_the_first_generation_reach_what_is_claimed(tmp_path):
    """Digits: at least 0.975 of the validation images are right after all epochs."""
    run("trainv1_digits.py", ["--log-dir", "old"], tmp_path)
    assert latest(tmp_path / "old")["validation_error"] <= 0.025
    run("keras_digits.py", ["--log-dir", "keras"], tmp_path)
    assert latest(tmp_path / "keras")["validation_accuracy"] >= 0.975


@pytest.mark.slow
def test_the_first_generation_resumes(tmp_path):
    """Its `--resume` goes on with the epoch after the last one."""
    arguments = ["--steps-per-epoch", "2", "--log-dir", "log"]
    run("trainv1_digits.py", [*arguments, "--max-epoch", "1"], tmp_path)
    run("trainv1_digits.py", [*arguments, "--max-epoch", "2", "--resume"], tmp_path)
    assert (2, 4) == tuple(latest(tmp_path / "log")[key] for key in ("epoch_num", "global_step"))


@pytest.mark.slow
def test_mnist_is_split_when_only_half_is_there(tmp_path):
    """On the 10,000 real MNIST images beside the repository: at least 0.975 on the 2,000 that are kept apart."""
    directory = ROOT.parent / "shared" / "data" / "mnist"
    if not directory.exists():
        pytest.skip("the ten thousand images are not beside this checkout")
    arguments = ["--data", "mnist", "--mnist-dir", str(directory), "--max-epoch", "6", "--log-dir", "log"]
    run("mnist_convnet.py", arguments, tmp_path)
    assert latest(tmp_path / "log")["val_accuracy"] >= 0.975


class TestFunctions:
    def test_random_shift_moves_by_whole_pixels(self):
        """A single bright pixel stays bright, within two pixels of where it was."""
        example = load("mnist_convnet.py")
        image = np.zeros((28, 28), "float32")
        image[10, 20] = 1
        flow = example.RandomShift(tensorpack_lite.DataFromList([[image, 3]] * 50, shuffle=False))
        flow.reset_state()
        places = set()
        for moved, label in flow:
            assert (28, 28) == moved.shape
            assert 3 == label
            down, right = np.argwhere(moved)[0] - (10, 20)
            places.add((int(down), int(right)))
        assert max(abs(v) for place in places for v in place) == 2
        assert len(places) > 10

    def test_random_shift_repeats_with_the_seed(self):
        """The same seed, the same shifts."""
        example = load("mnist_convnet.py")
        image = np.random.RandomState(0).rand(28, 28).astype("float32")

        def shifted():
            tensorpack_lite.fix_rng_seed(5)
            flow = example.RandomShift(tensorpack_lite.DataFromList([[image, 0]] * 5, shuffle=False))
            flow.reset_state()
            return np.stack([moved for moved, _ in flow])

        np.testing.assert_array_equal(shifted(), shifted())

    def test_digits_come_as_the_model_wants_them(self):
        """Batches of [32, 28, 28] float32 in [0, 1] with int32 labels; validation has each image once."""
        example = load("mnist_convnet.py")
        train, validation = example.get_data("digits")
        train.reset_state()
        images, labels = next(iter(train))
        assert (32, 28, 28) == images.shape
        assert np.float32 == images.dtype
        assert 0 <= images.min() < images.max() <= 1
        assert (32,) == labels.shape
        validation.reset_state()
        assert 1797 == sum(len(batch[1]) for batch in validation) + len(example.get_raw_data("digits")[0])
