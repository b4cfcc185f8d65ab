"""Tests of examples/transformer_lm.py: causality, the cache, mixed precision, the schedule, and the comparison with an LSTM."""

from __future__ import annotations

import math
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fakes.processes import python_environment
from fakes.programs import read_stats

pytest.importorskip("tensorflow")
pytest.importorskip("matplotlib")

from tensorpack_lite import OfflinePredictor, PredictConfig, SmartInit
from tensorpack_lite import tfv1 as tf

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def example(load_example):
    return load_example("transformer_lm.py")


@pytest.fixture
def predict(example):
    """A predictor (text, cache) -> [logits, new_cache] of a model of 11 characters with large random weights."""
    with tf.Graph().as_default():
        tf.set_random_seed(3)
        config = PredictConfig(
            model=example.Model(11),
            input_names=["text", "cache"],
            output_names=["logits", "new_cache"],
            create_graph=False,
        )
        predictor = OfflinePredictor(config)
        for variable in tf.trainable_variables():  # 0.02 would make attention nearly uniform
            if variable.op.name.endswith(("query/W", "key/W", "value/W")):
                variable.load(5 * predictor.sess.run(variable), predictor.sess)
    return predictor


def no_past(example, batch=2):
    return np.zeros([batch, example.LAYERS, 0, example.UNITS], "float32")


class TestAttention:
    @pytest.mark.slow
    def test_the_cache_does_not_change_the_logits(self, example, predict):
        """A text in one call, in pieces, and character by character gives the same logits and the same cache."""
        text = np.random.RandomState(0).randint(11, size=[2, 12]).astype("int32")
        whole, cache = predict(text, no_past(example))
        whole = whole.reshape(2, 12, 11)
        assert whole.std(axis=1).mean() > 0.01  # the logits depend on the text
        for lengths in ([5, 4, 3], [1] * 12):
            past, start = no_past(example), 0
            for length in lengths:
                logits, past = predict(text[:, start : start + length], past)
                expected = whole[:, start : start + length]
                np.testing.assert_allclose(expected, logits.reshape(expected.shape), rtol=1e-4, atol=1e-5)
                start += length
            np.testing.assert_allclose(cache, past, rtol=1e-4, atol=1e-5)

    @pytest.mark.slow
    def test_attention_is_causal(self, example, predict):
        """A change of one character changes the logits at its position and later, but not before."""
        text = np.zeros([2, 10], "int32")
        text[1, 6] = 4
        logits = predict(text, no_past(example))[0].reshape(2, 10, 11)
        np.testing.assert_allclose(logits[0, :6], logits[1, :6], rtol=1e-5, atol=1e-6)
        assert (np.abs(logits[0, 6:] - logits[1, 6:]).max(axis=1) > 1e-4).all()


def test_held_out_text(example, tmp_path):
    """The last tenth of a file is held out: validation batches are pieces of it, and labels are the next characters."""
    words = "".join(chr(97 + k % 7) for k in range(9000)) + "".join(chr(97 + k % 5) for k in range(1000))
    (tmp_path / "text.txt").write_text(words, encoding="utf-8")
    text, train, held_out = example.get_data(str(tmp_path / "text.txt"))
    assert words[:9000] == "".join(text.characters[k] for k in text.numbers)
    for data, length, period in ((train, example.LENGTH, 7), (held_out, 2 * example.LENGTH, 5)):
        data.reset_state()
        pieces, following = next(iter(data))
        assert length == pieces.shape[1] == following.shape[1]
        np.testing.assert_array_equal(pieces[:, 1:], following[:, :-1])
        np.testing.assert_array_equal((pieces + 1) % period, following)


@pytest.mark.slow
def test_two_steps_and_a_sample(tmp_path, run_example):
    """Two steps write a curve and a checkpoint, from which `--sample` continues a text."""
    (tmp_path / "text.txt").write_text(200 * "to be, or not to be: ", encoding="utf-8")
    arguments = ["--text", "text.txt", "--log-dir", "log"]
    steps = ["--steps-per-epoch", "2", "--max-epoch", "1"]
    run_example("transformer_lm.py", [*arguments, *steps], tmp_path)
    stats = read_stats(tmp_path / "log")[-1]
    assert 0 < stats["validation_bits_per_character"] < 6
    assert (tmp_path / "log" / "curve.png").stat().st_size > 1000
    (tmp_path / "output.txt").unlink()
    assert "not to" in run_example("transformer_lm.py", [*arguments, "--sample", "not to"], tmp_path)


def cpu_seconds(directory, name, *arguments) -> float:
    """Run an example in a new process, and return its user and system time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    path = str(ROOT / "examples" / name)
    subprocess.run(
        [sys.executable, path, *arguments],
        cwd=str(directory),
        env=python_environment(),
        stdin=subprocess.DEVNULL,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.slow
@pytest.mark.gallery
def test_fewer_bits_than_an_lstm_in_the_same_time(example, load_example, tmp_path):
    """
    After the same CPU time on the same text, the transformer needs at least 10 % fewer bits per held-out character.

    char_rnn.py trains for as many epochs as take the time of transformer_lm.py. Both are measured by their tensor
    `bits_per_character` on the same 256 pieces of 128 characters, each without a past.
    """
    text, _, held_out = example.get_data()
    (tmp_path / "train.txt").write_text("".join(text.characters[k] for k in text.numbers), encoding="utf-8")
    limit = cpu_seconds(tmp_path, "transformer_lm.py", "--log-dir", "gpt")
    stats = read_stats(tmp_path / "gpt")
    of_transformer = stats[-1]["validation_bits_per_character"]

    def train_lstm(epochs):
        arguments = ["--text", "train.txt", "--max-epoch", str(epochs), "--log-dir", "lstm"]
        return cpu_seconds(tmp_path, "char_rnn.py", *arguments)

    one, five = train_lstm(1), train_lstm(5)
    epochs = math.ceil(1 + 4 * (limit - one) / (five - one))
    seconds = train_lstm(epochs)
    config = PredictConfig(
        model=load_example("char_rnn.py").Model(len(text.characters)),
        session_init=SmartInit(str(tmp_path / "lstm" / "checkpoint")),
        input_names=["text", "next"],
        output_names=["bits_per_character"],
    )
    predictor = OfflinePredictor(config)
    held_out.reset_state()
    of_lstm = np.mean([predictor(*batch)[0] for batch in held_out])
    print(f"GPT: {of_transformer:.3f} in {limit:.0f} s; LSTM: {of_lstm:.3f} in {seconds:.0f} s, {epochs} epochs")
    assert of_transformer <= 0.9 * of_lstm
