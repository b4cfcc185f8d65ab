"""The head of the page: what ran, how it ended, the best values, and errors."""

from __future__ import annotations

import re

import pytest
from fakes.reports import MANIFEST, check_safe, page_of, write_training


class TestHead:
    def test_first_sentence(self, tmp_path):
        """The page begins with what ran, how it ended, how long it took, and the best values."""
        page = page_of(write_training(tmp_path / "run"))
        expected = (
            "train.py finished after epoch 4 (40 steps) in 2 minutes 5 seconds. Best: val_error 0.125 (epoch 3), "
            "cost 0.5 (epoch 4)."
        )
        assert expected in page.text
        assert page.text.index(expected) < page.text.index("Curves")
        assert "8 GiB, 2x A100" in page.text
        check_safe(page)

    @pytest.mark.parametrize(
        ("ended", "expected"),
        [
            (("failed", "ValueError: a shape is wrong."), "failed in epoch 2 (25 steps), after 2 minutes 5 seconds: ValueError: a shape is wrong."),
            (("interrupted", "KeyboardInterrupt: "), "was interrupted in epoch 2"),
            (("preempted", "Preempted: SIGTERM"), "was preempted in epoch 2"),
            (("stopped", "StopTraining: enough"), "stopped early in epoch 2"),
            (("something new", None), "ended in epoch 2"),
        ],
    )  # fmt: skip
    def test_other_ends(self, tmp_path, ended, expected):
        """The sentence says that a training failed, and the error, or who ended it."""
        ending = {"outcome": ended[0], "error": ended[1], "epoch": 2, "global_step": 25}
        ending["when"] = "2026-11-23T01:02:05+0000"
        assert f"train.py {expected}" in page_of(write_training(tmp_path, manifest={"exit": ending})).text

    def test_a_long_error(self, tmp_path):
        """The headline has the first sentence of a long error; a note with all of it is shown once."""
        text = f"The cost is NaN. Because {'of this ' * 40}."
        ending = {**MANIFEST["exit"], "outcome": "failed", "error": f"FloatingPointError: {text}"}
        notes = [{"kind": "nan", "text": text}]
        page = page_of(write_training(tmp_path, manifest={"exit": ending}, notes=notes, log=""))
        assert "2 minutes 5 seconds: FloatingPointError: The cost is NaN. Best:" in page.text
        assert 1 == page.text.count("Because of this")

    @pytest.mark.parametrize(
        ("error", "sentence"),
        [
            ("ValueError: the label is 12.", "ValueError: the label is 12."),
            (f"ValueError: {'of this ' * 30}", "ValueError."),
            (f"ValueError: a label is wrong. Because {'of this ' * 30}", "ValueError: a label is wrong."),
        ],
    )
    def test_an_error_once(self, tmp_path, error, sentence):
        """A short error is in the headline only, and a long one is in a box."""
        ending = {**MANIFEST["exit"], "outcome": "failed", "error": error}
        page = page_of(write_training(tmp_path, manifest={"exit": ending}, log=""))
        assert f"2 minutes 5 seconds: {sentence} Best:" in page.text
        assert ("note bad" in page.source) == (error != sentence)
        assert 1 == page.source.count(f"{error.strip()}<") + (error == sentence)

    @pytest.mark.parametrize(
        ("names", "best"),
        [
            (["d_loss", "g_loss"], ""),
            (["d_loss", "g_loss", "accuracy_real", "val_fid"], " Best: val_fid 1 (epoch 2)."),
            (["box_loss", "class_loss", "total_loss"], " Best: box_loss 1 (epoch 2), class_loss 1 (epoch 2), total_loss 1 (epoch 2)."),
            (["loss", "train_loss"], " Best: loss 1 (epoch 2), train_loss 1 (epoch 2)."),
        ],
    )  # fmt: skip
    def test_several_losses(self, tmp_path, names, best):
        """Of several losses without a total, such as those of a GAN, none is called the best."""
        page = page_of(write_training(tmp_path, {name: [2.0, 1.0] for name in names}))
        assert f"in 2 minutes 5 seconds.{best} Directory" in re.sub(r"\s+", " ", page.text)

    def test_errors_first(self, tmp_path):
        """The errors of several training runs come before the other remarks; a training that has diverged has no best values."""
        speed = {"kind": "speed", "text": "the graph limits."}
        good = write_training(tmp_path / "good", notes=[speed])
        bad = write_training(tmp_path / "bad", {"cost": [float("nan")] * 2, "val_error": [0.5, 0.5]})
        page = page_of(good, bad)
        assert page.text.index("cost from step 10 on.") < page.text.index("the graph limits.")
        assert "best val_error" in page.text

    def test_killed(self, tmp_path):
        """A training without an end was killed; its last sign of life is the last line of the log."""
        log = "[1123 01:00:00 @base.py:1] Start\n[1123 01:00:10 @base.py:1] Epoch 1\nsome table\n"
        directory = write_training(tmp_path, manifest={"exit": None}, log=log)
        page = page_of(directory)
        assert "train.py was killed after epoch 4 (40 steps), after 10 seconds. Best:" in page.text
        assert "No end was recorded" in page.text

    def test_new_year(self, tmp_path):
        """The log has no year; a training may run on New Year's Eve."""
        log = "[1231 23:59:50 @base.py:1] Start\n[0101 00:00:20 @base.py:1] Epoch 1\n"
        manifest = {"started": "2026-12-31T23:59:50+0100", "exit": None}
        assert "after 30 seconds" in page_of(write_training(tmp_path, manifest=manifest, log=log)).text

    def test_diverged(self, tmp_path):
        """A training whose loss is NaN at its end has diverged, and only earlier values are its best ones."""
        scalars = {"cost": [2.0, 1.0, float("nan"), float("nan")], "val_error": [0.5, 0.4, 0.3, 0.3]}
        page = page_of(write_training(tmp_path, scalars))
        assert "and diverged: its loss is not finite from step 30 on. Best: val_error 0.4 (epoch 2)" in page.text
        assert "cost from step 30 on." in page.text

    def test_sometimes_nan(self, tmp_path):
        """A scalar that is infinite once is mentioned with its step, and the training has not diverged."""
        page = page_of(write_training(tmp_path, {"cost": [2.0, float("inf"), 1.0]}))
        assert "cost at 1 of 3 points, first at step 20 (inf)." in page.text
        assert "diverged" not in page.text

    def test_several(self, tmp_path):
        """With several training runs, each has its sentence and a row, and the best value of all is in bold type."""
        one = write_training(tmp_path / "one")
        other = write_training(tmp_path / "other", {"cost": [3.0, 0.25], "val_error": [0.5, 0.3]})
        page = page_of(one, other)
        assert "2 training runs" in page.text
        assert "<td><b>0.125</b></td>" in page.source
        assert "<td><b>0.25</b></td>" in page.source
        assert "<td>0.3</td>" in page.source
        assert ["one: learning_rate"] != [curve["label"] for curve in page.data["charts"][1]["curves"]]
        check_safe(page)
