"""Tests of examples/tabular.py: columns, preparation, a short run with predictions, and the stated results."""

from __future__ import annotations

import csv
import re

import numpy as np
import pytest

pytest.importorskip("tensorflow")
pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")

LINES = [
    ["size", "city", "code", "price"],
    ["1", "Bern", "7", "10"],
    ["", "Basel", "8", "20"],
    ["3", "Bern", "7", "60"],
]


def write_csv(path, lines):
    with open(str(path), "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(lines)
    return str(path)


@pytest.fixture
def example(load_example):
    return load_example("tabular.py")


class TestColumns:
    def test_types(self, example, tmp_path):
        """Columns of numbers are float with NaN for missing values; columns of words and named categories are strings."""
        columns = example.get_data(write_csv(tmp_path / "a.csv", LINES), categorical=["code"])
        assert ["size", "city", "code", "price"] == list(columns)
        np.testing.assert_array_equal([1, np.nan, 3], columns["size"].astype(float))
        assert ["Bern", "Basel", "Bern"] == columns["city"].tolist()
        assert ["7", "8", "7"] == columns["code"].tolist()
        np.testing.assert_array_equal([10, 20, 60], columns["price"])

    def test_embedded_data(self, example):
        """The embedded data sets have a column named target: numbers of diabetes, two classes of breast cancer."""
        diabetes, cancer = example.get_data("diabetes"), example.get_data("breast_cancer")
        assert (11, 31) == (len(diabetes), len(cancer))
        assert (442, 152.13) == (len(diabetes["target"]), round(diabetes["target"].mean(), 2))
        assert {"benign", "malignant"} == set(cancer["target"])

    def test_preparation(self, example, tmp_path):
        """Numbers are standardized by fitted moments, a missing one becomes 0, and an unknown category only zeros."""
        columns = example.get_data(write_csv(tmp_path / "a.csv", LINES))
        del columns["code"], columns["price"]
        prepare = example.make_preparation(columns)
        x = np.stack(list(columns.values()), axis=1)
        np.testing.assert_allclose(
            [[-1.22474487, 0, 1], [0, 1, 0], [1.22474487, 0, 1]], prepare.fit_transform(x)
        )
        other = np.array([[2.0, "Genf"]], object)
        np.testing.assert_allclose([[0, 0, 0]], prepare.transform(other), atol=1e-12)


def read_scores(output):
    """Return {model: mean score} from the last lines of an output."""
    return {
        name: float(value) for name, value in re.findall(r"^([a-z ]+): (?:R2|AUC) (-?[\d.]+)", output, re.M)
    }


@pytest.mark.slow
def test_two_steps_and_predictions(tmp_path, run_example):
    """A short run with words as classes writes a model, which predicts rows with other columns and unknown categories."""
    rng = np.random.RandomState(0)
    rows = [
        [f"{x:.3f}", city, "yes" if x > 0 else "no"] for x, city in zip(rng.randn(60), 30 * ["Bern", "Basel"])
    ]
    write_csv(tmp_path / "train.csv", [["x", "city", "big"], *rows])
    write_csv(tmp_path / "new.csv", [["city", "other", "x"], ["Genf", "1", "2.5"], ["Bern", "2", ""]])
    steps = ["--steps-per-epoch", "2", "--max-epoch", "1", "--folds", "2", "--log-dir", "log"]
    output = run_example(
        "tabular.py", ["--csv", "train.csv", "--target", "big", "--compare", *steps], tmp_path
    )
    assert {"network", "boosted trees"} == set(read_scores(output))
    assert (tmp_path / "log" / "curves.png").stat().st_size > 1000
    assert (tmp_path / "log" / "fold1" / "min-validation_cost.index").exists()
    (tmp_path / "output.txt").unlink()
    run_example("tabular.py", ["--predict", "new.csv", "--log-dir", "log"], tmp_path)
    lines = (tmp_path / "log" / "predictions.csv").read_text(encoding="utf-8").split()
    assert 2 == len(lines)
    assert set(lines) <= {"yes", "no"}


@pytest.mark.slow
@pytest.mark.any_tensorflow
def test_resume(tmp_path, run_example):
    """`--resume` continues each fold with the epoch after its last checkpoint."""
    arguments = ["--steps-per-epoch", "2", "--folds", "2", "--log-dir", "log"]
    run_example("tabular.py", [*arguments, "--max-epoch", "1"], tmp_path)
    (tmp_path / "output.txt").unlink()
    output = run_example("tabular.py", [*arguments, "--max-epoch", "2", "--resume"], tmp_path)
    assert 3 == output.count("Epoch 2 (global_step 4)")
    assert "Epoch 1 (global_step 2)" not in output


@pytest.mark.slow
@pytest.mark.gallery
@pytest.mark.parametrize("name", ["diabetes", "breast_cancer"])
def test_scores_of_boosted_trees_are_reached(name, tmp_path, run_example):
    """The mean score over the folds is at most 0.03 below that of HistGradientBoosting on the same folds."""
    scores = read_scores(
        run_example("tabular.py", ["--csv", name, "--compare", "--log-dir", "log"], tmp_path)
    )
    assert scores["network"] >= scores["boosted trees"] - 0.03
    assert scores["network"] >= {"diabetes": 0.4, "breast_cancer": 0.98}[name]
