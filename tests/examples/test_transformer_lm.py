"""Tests of examples/transformer_lm.py: causality, the cache, mixed precision, the schedule, and the comparison with an LSTM."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.programs import read_figures, read_stats

pytest.importorskip("matplotlib")

from tensorpack_lite import OfflinePredictor, PredictConfig
from tensorpack_lite import tfv1 as tf


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
    text, train, held_out, _ = example.get_data(str(tmp_path / "text.txt"))
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


class TestCounts:
    def test_unigrams(self, load_example):
        """Without a context, the bits are those of the frequencies, mixed with equal ones by the number of characters."""
        module = load_example("data/text.py")
        text = module.Text("aaab")
        p = (np.array([3, 1]) + 2 * 0.5) / (4 + 2)
        assert -np.log2(p).sum() / 2 == pytest.approx(module.ngram_bits(text, text.encode("ab"), 0))

    def test_bigrams(self, load_example):
        """A context of one character corrects the frequencies; one that was never seen leaves them."""
        module = load_example("data/text.py")
        text = module.Text("abacab")  # b follows a in two of three cases; a: 2, b: 2, c: 1 after the first character
        single = (np.array([2, 2, 1]) + 3 / 3) / (5 + 3)
        after_a = (2 + 2 * single[1]) / (3 + 2)  # two different characters follow a
        assert -np.log2(after_a) == pytest.approx(module.ngram_bits(text, text.encode("ab"), 1))

    def test_the_text_is_fixed(self, load_example):
        """The text does not change with the documentation: the figures in README stay comparable."""
        module = load_example("data/text.py")
        pages = module.read_pages(with_source=True)
        assert (36 + 102, 996722) == (len(pages), sum(map(len, pages)))


@pytest.mark.slow
@pytest.mark.gallery
def test_fewer_bits_than_an_lstm_and_than_counts(tmp_path, run_example):
    """On the same text, the transformer needs at least 10 % fewer bits per held-out character than the LSTM, which beats counts."""
    run_example("transformer_lm.py", ["--log-dir", "gpt"], tmp_path)
    run_example("char_rnn.py", ["--source", "--max-epoch", "60", "--log-dir", "lstm"], tmp_path)
    gpt, lstm = read_figures(tmp_path / "gpt"), read_figures(tmp_path / "lstm")
    counts = min(value for name, value in lstm.items() if name.startswith("counts"))
    assert gpt["GPT"] <= 0.9 * lstm["LSTM"] <= 0.9 * counts
