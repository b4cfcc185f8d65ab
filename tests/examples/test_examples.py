"""Tests of the examples: each runs for two steps, and their functions are tested on small inputs."""

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
from tensorpack_lite.compat import tfv1 as tf

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
TWO_STEPS = ["--steps-per-epoch", "2", "--max-epoch", "1"]
SHORT = {
    "00_journey.py": [],
    "char_rnn.py": TWO_STEPS,
    "cifar_convnet.py": TWO_STEPS,
    "custom_trainer.py": TWO_STEPS,
    "imagenet/train.py": ["--fake", "--size", "32", "--batch", "4", *TWO_STEPS],
    "keras_digits.py": TWO_STEPS,
    "mnist_convnet.py": TWO_STEPS,
    "mnist_plain_tf.py": TWO_STEPS,
    "ptb_lstm.py": TWO_STEPS,
    "recompute.py": ["--recompute", "--blocks", "3", *TWO_STEPS],
    "resnet_cifar.py": ["--gpus", "2", *TWO_STEPS],
    "time_budget.py": TWO_STEPS,
    "trainv1_digits.py": TWO_STEPS,
}


def run(name: str, arguments: list, directory: Path) -> str:
    """Run an example in `directory`; return its output."""
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
        capture_output=True,  # TensorFlow 1.15 writes deprecation warnings to stderr
        timeout=600,
        check=False,
    )
    output = done.stdout.decode()
    assert 0 == done.returncode, output + done.stderr.decode()
    assert "Lint:" not in output, output  # no rule has a remark about an example
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
    """Return the first fenced code block after a sentence of the README."""
    return re.search(r"```\w*\n(.*?)```", text[text.index(sentence) :], re.DOTALL).group(1)


def latest(directory: Path) -> dict:
    """Return the last row of stats.json."""
    return json.loads((directory / "stats.json").read_text(encoding="utf-8"))[-1]


def test_every_example_is_tested_and_in_the_table():
    """Every example is in examples/README.md, and a test mentions it."""
    files = sorted(p.relative_to(EXAMPLES).as_posix() for p in EXAMPLES.rglob("*.py") if "__" not in p.name)
    tests = "".join(p.read_text(encoding="utf-8") for p in Path(__file__).parent.rglob("test_*.py"))
    assert [] == [name for name in files if Path(name).stem not in tests]
    table = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [] == [name for name in files if f"[{name}]({name})" not in table]


def test_examples_stay_short():
    """Every file of the examples has at most 150 lines."""
    counts = {path: path.read_text(encoding="utf-8").count("\n") for path in EXAMPLES.rglob("*.py")}
    long = sorted(path.relative_to(EXAMPLES).as_posix() for path in counts if counts[path] > 150)
    assert [] == long, f"Over 150 lines: {', '.join(long)}. Split the files by topic."


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SHORT))
def test_example_runs(name, tmp_path, run_example):
    """The example runs for two steps in a separate process, in an empty directory."""
    if name == "keras_digits.py" and TF_VERSION >= (2, 16):
        pytest.importorskip("tf_keras")
    assert run_example(name, SHORT[name], tmp_path)


@pytest.mark.slow
def test_journey_output_is_in_the_readme(tmp_path):
    """The README quotes the output of the example exactly."""
    told = code_block_after((ROOT / "README.md").read_text(encoding="utf-8"), "00_journey.py")
    assert told.strip() == run("00_journey.py", [], tmp_path).strip()


@pytest.mark.slow
def test_the_budget_is_shared_by_trainings(tmp_path):
    """The second training in a directory continues with the seconds of the first one; a spent budget ends training."""
    first, second = (run("time_budget.py", TWO_STEPS, tmp_path) for _ in range(2))
    assert "Training begins with epoch 1; 0.000 seconds were spent before." in first
    spent = re.search(r"begins with epoch 2; (\S+) seconds were spent before", second).group(1)
    before, after = (float(re.search(r"(\S+) of 60 seconds", text).group(1)) for text in (first, second))
    assert 0 < float(spent) <= before < after
    ended = run("time_budget.py", [*TWO_STEPS, "--seconds", "0"], tmp_path)
    assert "the budget of seconds is spent" in ended
    assert "After step 5," in ended


@pytest.mark.slow
def test_custom_trainers_fit_the_line(tmp_path):
    """Both trainers fit the line exactly."""
    output = run("custom_trainer.py", [], tmp_path)
    for trainer in ("TenLineTrainer", "AlternatingTrainer"):
        assert f"{trainer}: y = 2.00 x + 1.00" in output


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["mnist_convnet.py", pytest.param("char_rnn.py", marks=pytest.mark.any_tensorflow)]
)
def test_resume(name, tmp_path):
    """`--resume` continues with the epoch after the last checkpoint, and keeps the files of the first run."""
    arguments = ["--steps-per-epoch", "2", "--log-dir", "log"]
    run(name, [*arguments, "--max-epoch", "2"], tmp_path)
    output = run(name, [*arguments, "--max-epoch", "3", "--resume"], tmp_path)
    assert "Epoch 3 (global_step 6)" in output
    assert "Epoch 2 (global_step 4)" not in output
    stats = json.loads((tmp_path / "log" / "stats.json").read_text(encoding="utf-8"))
    assert [1, 2, 3] == [line["epoch_num"] for line in stats]
    names = {p.name for p in (tmp_path / "log").iterdir()}
    assert {"checkpoint", "model-2.index", "model-4.index", "model-6.index", "log.log", "stats.json"} <= names
    assert any(name.startswith("events.out.tfevents") for name in names)


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.parametrize(
    "name", ["mnist_convnet.py", pytest.param("mnist_plain_tf.py", marks=pytest.mark.proof)]
)
def test_convnet_accuracy(name, tmp_path):
    """On digits, the validation accuracy is at least 0.98 after the last epoch."""
    run(name, ["--log-dir", "log"], tmp_path)
    assert latest(tmp_path / "log")["val_accuracy"] >= 0.98


@pytest.mark.slow
@pytest.mark.proof
def test_keras_and_trainv1_accuracy(tmp_path):
    """On digits, the validation accuracy is at least 0.975 after the last epoch."""
    run("trainv1_digits.py", ["--log-dir", "old"], tmp_path)
    assert latest(tmp_path / "old")["validation_error"] <= 0.025
    run("keras_digits.py", ["--log-dir", "keras"], tmp_path)
    assert latest(tmp_path / "keras")["validation_accuracy"] >= 0.975


@pytest.mark.slow
@pytest.mark.proof
def test_trainv1_resume(tmp_path):
    """`--resume` continues with the epoch after the last one."""
    arguments = ["--steps-per-epoch", "2", "--log-dir", "log"]
    run("trainv1_digits.py", [*arguments, "--max-epoch", "1"], tmp_path)
    run("trainv1_digits.py", [*arguments, "--max-epoch", "2", "--resume"], tmp_path)
    assert (2, 4) == tuple(latest(tmp_path / "log")[key] for key in ("epoch_num", "global_step"))


@pytest.mark.slow
@pytest.mark.full
def test_mnist_test_images_are_split(tmp_path):
    """On the 10,000 test images of MNIST, the accuracy is at least 0.975 on the 2,000 validation images."""
    directory = ROOT.parent / "shared" / "data" / "mnist"
    if not directory.exists():
        pytest.skip("the test images of MNIST are not available")
    arguments = ["--data", "mnist", "--mnist-dir", str(directory), "--max-epoch", "6", "--log-dir", "log"]
    run("mnist_convnet.py", arguments, tmp_path)
    assert latest(tmp_path / "log")["val_accuracy"] >= 0.975


class TestFunctions:
    def test_random_shift_moves_by_whole_pixels(self):
        """A single bright pixel moves by at most two pixels and stays bright."""
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
        """The same seed gives the same shifts."""
        example = load("mnist_convnet.py")
        image = np.random.RandomState(0).rand(28, 28).astype("float32")

        def shifted():
            tensorpack_lite.fix_rng_seed(5)
            flow = example.RandomShift(tensorpack_lite.DataFromList([[image, 0]] * 5, shuffle=False))
            flow.reset_state()
            return np.stack([moved for moved, _ in flow])

        np.testing.assert_array_equal(shifted(), shifted())

    def test_batches_of_digits(self):
        """Batches are [32, 28, 28] float32 in [0, 1] with int32 labels, and validation contains each image once."""
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


class TestSmallImages:
    def test_random_colors(self, load_example):
        """Strokes are brighter than the background in each channel."""
        data = load_example("cifar_convnet.py").get_raw_data("digits")[1]
        assert 360 == len(data)
        data.reset_state()
        image, label = next(iter(data))
        assert ((32, 32, 3), np.uint8) == (image.shape, image.dtype)
        assert 0 == label
        middle, corner = image.max(axis=(0, 1)), image[0, 0]
        assert (middle > corner).all()
        assert (corner < 128).all()

    def test_training_stops_when_the_rate_is_tiny(self, load_example):
        """The learning rate is divided by three, and a tiny one stops training."""
        example = load_example("cifar_convnet.py")
        assert 1e-3 == pytest.approx(example.lower(3e-3))
        with pytest.raises(tensorpack_lite.StopTraining):
            example.lower(9e-5)

    def test_residual_block_with_zero_weights(self, load_example):
        """With zero weights, a residual block returns its shortcut: the pooled input with additional zero channels."""
        example = load_example("resnet_cifar.py")
        images = np.random.RandomState(0).rand(2, 8, 8, 4).astype("float32")
        zeros = tf.zeros_initializer()
        with tensorpack_lite.TowerContext("", is_training=False), tensorpack_lite.argscope(
            tensorpack_lite.Conv2D, kernel_size=3, kernel_initializer=zeros
        ):
            made = example.residual_block("block", tf.constant(images), 8, strides=2)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            values = session.run(made)
        pooled = images.reshape(2, 4, 2, 4, 2, 4).mean(axis=(2, 4))
        np.testing.assert_allclose(
            np.pad(pooled, [(0, 0)] * 3 + [(2, 2)], mode="constant"), values, rtol=1e-5
        )

    @pytest.mark.slow
    @pytest.mark.parametrize(("depth", "millions"), [(18, 11.69), (50, 25.56)])
    def test_size_of_resnets(self, load_example, depth, millions):
        """ResNet-18 and ResNet-50 have the published number of weights."""
        model = load_example("imagenet/resnet_model.py").Model(depth, 64, total_batch=256)
        with tensorpack_lite.TowerContext("", is_training=True):
            model.get_logits(tf.zeros([1, 64, 64, 3]))
        count = sum(v.shape.num_elements() for v in tf.trainable_variables())
        assert millions == round(count / 1e6, 2)


class TestRecurrent:
    def test_pieces_of_text(self, load_example):
        """The second component is the first one, shifted by one character."""
        example = load_example("char_rnn.py")
        text = example.Text("abcabcabcabc")
        assert ["a", "b", "c"] == text.characters
        pieces = example.RandomPieces(text, length=5)
        pieces.reset_state()
        for piece, following in pieces:
            np.testing.assert_array_equal((piece + 1) % 3, following)

    def test_write_keeps_the_state(self, load_example):
        """The predictor gets each character with the state that it returned for the previous one."""
        example, seen = load_example("char_rnn.py"), []

        def predictor(piece, state):
            seen.append((piece.item(), state.max()))
            prob = np.zeros([1, 3])
            prob[0, (piece.item() + 1) % 3] = 1
            return prob, state + 1

        assert "abcab" == example.write(predictor, example.Text("abc"), "ab", 3)
        assert [(0, 0), (1, 1), (2, 2), (0, 3)] == seen

    def test_synthetic_text(self, load_example):
        """At most four words follow each word two positions later, the most likely in about 0.55 of all cases."""
        words = load_example("ptb_lstm.py").make_text(20000, num_words=10)
        for word in range(10):
            after = words[2:][words[:-2] == word]
            assert len(set(after)) <= 4
            assert np.bincount(after).max() / len(after) > 0.5

    def test_batches_continue_the_rows(self, load_example):
        """Each batch continues the rows of the previous one, and labels are the next words."""
        example = load_example("ptb_lstm.py")
        source = example.make_input(np.arange(20 * 33, dtype="int32"))
        source.setup([tf.TensorSpec([20, 16], tf.int32, name) for name in ("words", "next")])
        words, following = source.get_input_tensors()
        assert 2 == source.size()
        rows = np.arange(20 * 33).reshape(20, 33)
        with tf.Session() as session:
            for start in (0, 16, 0):
                values = session.run([words, following])
                np.testing.assert_array_equal(rows[:, start : start + 16], values[0])
                np.testing.assert_array_equal(rows[:, start + 1 : start + 17], values[1])


@pytest.mark.slow
@pytest.mark.full
def test_ptb_lstm_learns(tmp_path, run_example):
    """After one of its eight epochs, the perplexity is below 5; the optimum is 3.03."""
    run_example("ptb_lstm.py", ["--max-epoch", "1", "--log-dir", "log"], tmp_path)
    assert 3.0 < latest(tmp_path / "log")["validation_perplexity"] < 5


@pytest.mark.slow
@pytest.mark.full
def test_char_rnn_learns_and_writes(tmp_path, run_example):
    """After two of ten epochs, the model needs less than 4 bits per character; `--sample` continues a given text."""
    run_example("char_rnn.py", ["--max-epoch", "2", "--log-dir", "log"], tmp_path)
    assert latest(tmp_path / "log")["bits_per_character"] < 4
    (tmp_path / "output.txt").unlink()
    output = run_example(
        "char_rnn.py", ["--sample", "A trainer", "--count", "50", "--log-dir", "log"], tmp_path
    )
    assert "A trainer" in output
