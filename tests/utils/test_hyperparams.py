"""Hyper-parameters, from a manifest."""

from __future__ import annotations

import pytest

from tensorpack_lite.utils.hyperparams import hyperparams_of, is_own_place, is_seed, parse_arguments

MANIFEST = {
    "hyperparameters": {"lr": 0.5, "inner": {"depth": 3}},
    "code": {"arguments": ["train", "--lr", "0.1", "--max-epoch=7", "--fast", "--api-key", "abc123"]},
    "settings": {
        "trainer": "SimpleTrainer",
        "model": {"type": "__main__.Net", "arguments": {"rates": [1, 2], "args": {"type": "argparse.Namespace", "arguments": {"k": 5}}}},
    },
    "data": [{"type": "QueueInput", "arguments": {"ds": {"type": "BatchData", "arguments": {"batch_size": 32, "rng": "x", "ds": {"type": "Digits", "arguments": {"size": 8, "a": {"array": "y"}}}}}}}],
    "schedules": [{"type": "Setter", "arguments": {"k": 1}}, {"type": "Setter", "arguments": {"k": 2}}],
    "graph": {"optimizer": {"ResourceApplyAdam": [{"lr": "rate, initially 0.01", "beta1": 0.9, "beta1_power": "b, initially 0.9"}, {"lr": "mul_2", "beta1": 0.8}]}},
    "length": {"steps_per_epoch": 44, "max_epoch": 3, "starting_epoch": 1},
    "seeds": {"fix_rng_seed": 7},
}  # fmt: skip


def test_each_source():
    """The user's values come first; each other source has separate names."""
    assert {
        "lr": 0.5, "inner.depth": 3, "argument 1": "train", "max_epoch": 7, "fast": True, "api_key": "<hidden>",
        "optimizer": "Adam", "Adam.learning_rate": 0.01, "Adam.beta1": 0.9, "Adam 2.beta1": 0.8,
        "config.steps_per_epoch": 44, "config.max_epoch": 3, "trainer": "SimpleTrainer",
        "Net.rates": "[1, 2]", "Net.args.k": 5, "BatchData.batch_size": 32, "Digits.size": 8,
        "Setter.k": 1, "Setter#2.k": 2, "seed": 7,
    } == hyperparams_of(MANIFEST)  # fmt: skip


@pytest.mark.parametrize("wrong", [None, 3, "x", [1], {"arguments": 3}, [{"type": 3}], {"optimizer": {"A": [3, None]}}])
def test_a_damaged_manifest(wrong):
    """Parts of another type are not an error, and all values are plain."""
    found = hyperparams_of(dict.fromkeys(MANIFEST, wrong))
    assert all(isinstance(value, (bool, int, float, str)) for value in found.values())


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--lr", "-1e-3", "-v", "-n", "3"], {"lr": -1e-3, "v": True, "n": 3}),
        (["--size", "8", "--size", "16"], {"size": "8, 16"}),
        (["model.depth=3", "+name=a=b", "x/y=1"], {"model.depth": 3, "name": "a=b", "argument 1": "x/y=1"}),
        (["--", "1e999", "1_000", "0x10"], {"argument 1": float("inf"), "argument 2": "1_000", "argument 3": "0x10"}),
        (["--empty="], {"empty": ""}),
    ],
)
def test_arguments(words, expected):
    """Options, `name=value` and other words are told apart; numbers are numbers."""
    assert expected == parse_arguments(words)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("log_dir", "train_log/adam", True),
        ("run_name", "adam", True),
        ("where", "train_log/adam", True),
        ("x", "/home/me/train_log/adam/samples", True),
        ("optimizer", "adam", False),
        ("out", "other/adam", False),
        ("data_dir", "/data", False),
        ("log_every", 3, False),
    ],
)
def test_own_place(name, value, expected):
    """The directory of a training is told apart from values that happen to be its name."""
    assert expected == is_own_place(name, value, "/home/me/train_log/adam")


def test_seeds():
    """A seed is a whole word of the name."""
    assert [True, True, True, False] == [is_seed(name) for name in ("seed", "Net.rng_seed", "seeds", "seedling")]
