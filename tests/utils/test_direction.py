"""utils/direction.py: whether smaller or larger values of a statistic are better, by its name."""

from __future__ import annotations

import re
from functools import partial

import pytest
from fakes.launching import TESTS
from fakes.old_scripts import complete_for_old_scripts

from tensorpack_lite.callbacks.best_saver import MaxSaver, MinSaver
from tensorpack_lite.callbacks.early_stopping import EarlyStopping
from tensorpack_lite.callbacks.param.hyperparam import ObjAttrParam
from tensorpack_lite.callbacks.param.statistic import StatMonitorParamSetter
from tensorpack_lite.callbacks.top_k import TopKSaver
from tensorpack_lite.utils import direction
from tensorpack_lite.utils.direction import better_direction, certain_direction

SMALLER = """
    error validation_error val-error-top1 val_error_top5 val_mse val_loss train_loss cross_entropy_loss xentropy-loss cost
    validation_cost total_loss label_error_rate validation_perplexity val_mae validation_rmse losses validation/cost
"""
LARGER = """
    accuracy validation_accuracy val_acc acc5 validation_top5_accuracy val/F1 validation_f1 validation_auc validation_r2 mean_reward
    precision val_recall mIoU val_psnr ssim testAccuracy
"""
LIKELY_SMALLER = "d_loss box_loss wrong-top1 incorrect_vector one_wrong precision_loss adversary_error error_count validation_dog_mae"
LIKELY_LARGER = (
    "error_score mean_score mAP correct accuracy_real robust_accuracy validation_error_f1 validation_loss_recall"
)
UNKNOWN = """
    stat lossless QueueInput/queue_size learning_rate regularize_loss loss_scale accuracy_gap error_reduction policy_entropy costly
    loss_weight wd_cost_weight bits_per_character param-summary/fc/W-rms Throughput
"""


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (SMALLER, (-1, -1)),
        (LARGER, (1, 1)),
        (LIKELY_SMALLER, (-1, 0)),
        (LIKELY_LARGER, (1, 0)),
        (UNKNOWN, (0, 0)),
    ],
    ids=["smaller", "larger", "likely smaller", "likely larger", "unknown"],
)
def test_names(names, expected):
    """The last known word decides; it is certain only if all words are known and agree."""
    found = {name: (better_direction(name), certain_direction(name)) for name in names.split()}
    assert dict.fromkeys(names.split(), expected) == found


def plateau(name, **arguments):
    """Return a StatMonitorParamSetter of a statistic."""
    param = ObjAttrParam(EarlyStopping("cost"), "patience")
    return StatMonitorParamSetter(param, name, lambda value: value, 0, 1, **arguments)


CONTRADICTIONS = {
    "MinSaver": (
        lambda: MinSaver("val_accuracy"),
        "MinSaver treats smaller values of 'val_accuracy' as better, but the name shows that larger values are better. "
        "Use MaxSaver('val_accuracy'), or MinSaver('val_accuracy', reverse=False) to keep the smallest value.",
    ),
    "MaxSaver": (
        lambda: MaxSaver("validation_error", restore_best=True),
        "MaxSaver treats larger values of 'validation_error' as better, but the name shows that smaller values are "
        "better. Use MinSaver('validation_error'), or MinSaver('validation_error', reverse=True) to keep the largest "
        "value.",
    ),
    "StatMonitorParamSetter": (
        lambda: plateau("val_accuracy"),
        "StatMonitorParamSetter treats smaller values of 'val_accuracy' as better, but the name shows that larger "
        "values are better. Pass reverse=True or reverse=False.",
    ),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
class TestContradiction:
    def test_is_an_error(self, name):
        """A callback that treats the worst values as best raises an error that names the right class or argument."""
        make, message = CONTRADICTIONS[name]
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            make()

    def test_in_an_old_script(self, name, monkeypatch, log_lines):
        """In a script that `tensorpack-lite run` starts, it is a warning."""
        make, message = CONTRADICTIONS[name]
        complete_for_old_scripts(monkeypatch, direction)
        for module in ("callbacks.best_saver", "callbacks.param.statistic"):
            monkeypatch.setattr(f"tensorpack_lite.{module}.check_direction", direction.check_direction)
        make()
        assert message in log_lines


@pytest.mark.parametrize(
    "make",
    [
        lambda: MinSaver("val_accuracy", reverse=False),
        lambda: MinSaver("val_accuracy", reverse=True),
        lambda: MinSaver("error", True),
        lambda: MaxSaver("adversary_error"),
        lambda: MaxSaver("d_loss"),
        lambda: MinSaver("mean_score"),
        lambda: MinSaver("1-ssim"),
        lambda: MinSaver("validation_1-accuracy"),
        lambda: MaxSaver("-loss"),
        lambda: MinSaver("accuracy下降"),
        lambda: MinSaver("stat"),
        lambda: MaxSaver("stat"),
        lambda: plateau("val_accuracy", reverse=True),
        lambda: plateau("val_accuracy", reverse=False),
        lambda: plateau("stat"),
    ],
)
def test_no_contradiction(make, log_lines):
    """An argument of the user counts, and a name that is not certain contradicts nothing."""
    make()
    assert [] == [line for line in log_lines if "the name shows" in line]


@pytest.mark.parametrize("kind", [EarlyStopping, partial(TopKSaver, k=2)], ids=["EarlyStopping", "TopKSaver"])
class TestMode:
    def test_the_name_decides(self, kind):
        """Without a mode, the name of the statistic decides."""

        def is_max(name, **arguments):
            callback = kind(name, **arguments)
            return getattr(callback, "reverse", None) or getattr(callback, "mode", None) == "max"

        assert is_max("validation_accuracy")
        assert not is_max("validation_error")
        assert is_max("stat", mode="max")

    @pytest.mark.parametrize(
        "name",
        [
            "stat",
            "loss_dice",
            "losses/iou",
            "brier_score",
            "neg_mean_squared_error",
            "validation_1-ssim",
            "loss_scaler",
        ],
    )
    def test_an_unknown_name(self, kind, name):
        """If the name does not show the direction, an error asks for the mode."""
        with pytest.raises(ValueError, match=f"statistic, '{name}', does not show .*mode='min' or mode='max'"):
            kind(name)

    def test_the_mode_is_logged(self, kind, log_lines):
        """The log has the mode that was derived from the name."""
        kind("val_loss")
        assert any("smaller values of 'val_loss' are better (mode='min')" in line for line in log_lines)

    def test_a_mode_that_contradicts(self, kind, log_lines):
        """A given mode counts, with a warning if the name certainly says the opposite."""
        kind("validation_accuracy", mode="min")
        kind("gap_of_accuracies", mode="min")
        (line,) = (line for line in log_lines if "contradicts the name" in line)
        assert (
            "mode='min' contradicts the name of the statistic: larger values of 'validation_accuracy' are better."
            in line
        )


USE = re.compile(r"\b(MinSaver|MaxSaver)\(\s*[\"']([^\"']+)[\"']\s*[,)]")


def test_no_false_alarm():
    """No MinSaver or MaxSaver of the examples, the docs and the unmodified scripts contradicts the name of its statistic."""
    folders = [TESTS.parent / name for name in ("examples", "docs", "tests/unmodified")]
    paths = [path for folder in folders for path in folder.rglob("*") if path.suffix in (".py", ".md", ".ipynb")]
    uses = [use for path in paths for use in USE.findall(path.read_text(encoding="utf-8"))]
    wrong = [use for use in uses if certain_direction(use[1]) == {"MinSaver": 1, "MaxSaver": -1}[use[0]]]
    assert [] == wrong
    assert len(uses) >= 8
