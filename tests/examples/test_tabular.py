"""Tests of examples/tabular.py: columns, preparation, a short run with predictions, and the stated results."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from fakes.programs import read_figures

pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")

from threadpoolctl import threadpool_limits  # scikit-learn requires it

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
def tables(load_example):
    return load_example("data/tables.py")


class TestColumns:
    def test_types(self, tables, tmp_path):
        """Columns of numbers are float with NaN for missing values; columns of words and named categories are strings."""
        columns = tables.read_columns(write_csv(tmp_path / "a.csv", LINES), categorical=["code"])
        assert ["size", "city", "code", "price"] == list(columns)
        np.testing.assert_array_equal([1, np.nan, 3], columns["size"].astype(float))
        assert ["Bern", "Basel", "Bern"] == columns["city"].tolist()
        assert ["7", "8", "7"] == columns["code"].tolist()
        np.testing.assert_array_equal([10, 20, 60], columns["price"])

    @pytest.mark.parametrize(
        ("name", "target", "classes"),
        [("price", [10, 20, 60], []), ("city", [1, 0, 1], ["Basel", "Bern"]), ("code", [0, 1, 0], [7, 8])],
    )
    def test_target(self, tables, tmp_path, name, target, classes):
        """A target of words, or of two numbers, becomes numbers of classes; the rows are the other columns."""
        columns = tables.read_columns(write_csv(tmp_path / "a.csv", LINES))
        x, y, found = tables.split_target(columns, name)
        assert (target, classes) == (list(y), list(found))
        assert [columns[key][2] for key in columns if key != name] == list(x[2])

    @pytest.mark.parametrize(
        ("values", "expected"),
        [(["a", "b"], True), ([0.5, 1.5], True), ([1.0, 2.0, 3.0], True), ([1.0, 2.0, 2.5], False), (range(11), False)],
    )
    def test_few_whole_numbers_are_classes(self, tables, values, expected):
        """Words, two values and few whole numbers are classes, unless the caller asks for another task."""
        target = np.array(5 * list(values), object)
        assert expected == tables.is_classes(target)
        columns = {"x": np.zeros(len(target), object), "y": target}
        if not isinstance(values[0], str):
            assert [] == tables.split_target(columns, "y", "regression")[2]
        assert len(values) == len(tables.split_target(columns, "y", "classification")[2])

    def test_three_rows_are_no_classes(self, tables):
        """Whole numbers of which most occur once are numbers."""
        assert not tables.is_classes(np.array([10.0, 20.0, 60.0, 20.0], object))

    def test_unknown_names(self, tables, tmp_path):
        """A misspelt target or category ends the program with the names of the columns."""
        path = write_csv(tmp_path / "a.csv", LINES)
        with pytest.raises(SystemExit, match="no column 'prize'. Its columns are: size, city, code, price"):
            tables.find_column(tables.read_columns(path), "prize", path)
        with pytest.raises(SystemExit, match="no column 'town'"):
            tables.read_columns(path, ["town"])

    def test_preparation(self, tables):
        """Numbers are standardized by fitted moments, a missing one becomes 0, and an unknown category only zeros."""
        x = np.array([[1.0, "Bern"], [np.nan, "Basel"], [3.0, "Bern"]], object)
        expected = [[-1.22474487, 0, 1], [0, 1, 0], [1.22474487, 0, 1]]
        prepare = tables.make_preparation(x)
        np.testing.assert_allclose(expected, prepare.fit_transform(x))
        other = np.array([[2.0, "Genf"]], object)
        np.testing.assert_allclose([[0, 0, 0]], prepare.transform(other), atol=1e-12)


class TestScores:
    def test_numbers(self, tables):
        """R2 is 1 - (sum of squared errors) / (sum of squared deviations from the mean)."""
        y, predicted = np.array([1.0, 2.0, 3.0, 6.0]), np.array([1.0, 2.0, 4.0, 4.0])
        assert 1 - 5 / 14 == pytest.approx(tables.score(y, predicted, 0))

    def test_classes(self, tables):
        """The AUC is the fraction of pairs of two classes that are in the right order."""
        y, of_second = np.array([0, 0, 1, 1]), np.array([0.1, 0.6, 0.4, 0.9])
        assert 0.75 == tables.score(y, np.stack([1 - of_second, of_second], axis=1), 2)

    @pytest.mark.parametrize("num_classes", [0, 2, 3])
    def test_trees_are_scored_like_the_network(self, tables, num_classes):
        """The scores of the trees are those of `score` for trees that are trained on the same folds."""
        rng = np.random.RandomState(0)
        x = rng.randn(90, 2)
        y = x[:, 0] + x[:, 1] ** 2 + 0.5 * rng.randn(90)
        if num_classes:
            y = np.digitize(y, np.quantile(y, np.arange(1, num_classes) / num_classes))
        folds = tables.make_folds(num_classes, 2, 1)
        expected = []
        with threadpool_limits(1):  # threads of OpenMP wait for each other for seconds on a busy machine
            for rows, test in folds.split(x, y):
                kind = "Classifier" if num_classes else "Regressor"
                trees = getattr(tables.ensemble, "HistGradientBoosting" + kind)(random_state=1)
                trees.fit(x[rows], y[rows])
                predicted = trees.predict_proba(x[test]) if num_classes else trees.predict(x[test])
                expected.append(tables.score(y[test], predicted, num_classes))
            scores = tables.score_trees(x.astype(object), y, num_classes, folds, 1)
        np.testing.assert_allclose(expected, scores, rtol=1e-6)


@pytest.mark.slow
def test_two_steps_and_predictions(tmp_path, run_example):
    """A short run with words as classes writes a model, which predicts rows with other columns and unknown categories."""
    rng = np.random.RandomState(0)
    rows = [[f"{x:.3f}", city, "yes" if x > 0 else "no"] for x, city in zip(rng.randn(60), 30 * ["Bern", "Basel"])]
    write_csv(tmp_path / "train.csv", [["x", "city", "big"], *rows])
    write_csv(tmp_path / "new.csv", [["city", "other", "x"], ["Genf", "1", "2.5"], ["Bern", "2", ""]])
    steps = ["--steps-per-epoch", "2", "--max-epoch", "1", "--folds", "2", "--log-dir", "log"]
    output = run_example("tabular.py", ["--csv", "train.csv", "--target", "big", *steps], tmp_path)
    assert "the target 'big' is 2 classes" in output
    assert ["network", "logistic regression", "boosted trees"] == list(read_figures(tmp_path / "log"))
    assert (tmp_path / "log" / "curves.png").stat().st_size > 1000
    assert (tmp_path / "log" / "fold1" / "min-validation_cost.index").exists()
    (tmp_path / "output.txt").unlink()
    run_example("tabular.py", ["--predict", "new.csv", "--log-dir", "log"], tmp_path)
    lines = (tmp_path / "log" / "predictions.csv").read_text(encoding="utf-8").split()
    assert 2 == len(lines)
    assert set(lines) <= {"yes", "no"}


@pytest.mark.slow
@pytest.mark.any_tensorflow
@pytest.mark.proof
def test_resume(tmp_path, run_example):
    """`--resume` continues each fold with the epoch after its last checkpoint."""
    arguments = ["--csv", "wine", "--steps-per-epoch", "2", "--folds", "2", "--log-dir", "log", "--verbose"]
    run_example("tabular.py", [*arguments, "--max-epoch", "1"], tmp_path)
    (tmp_path / "output.txt").unlink()
    output = run_example("tabular.py", [*arguments, "--max-epoch", "2", "--resume"], tmp_path)
    assert 3 == output.count("Epoch 2 (global_step 4)")
    assert "Epoch 1 (global_step 2)" not in output


@pytest.mark.slow
@pytest.mark.gallery
@pytest.mark.parametrize(("name", "least"), [("friedman", 0.9), ("diabetes", 0.4), ("breast_cancer", 0.98)])
def test_scores_of_boosted_trees_are_reached(name, least, tmp_path, run_example):
    """The mean score over the folds is at most 0.03 below that of HistGradientBoosting on the same folds."""
    run_example("tabular.py", ["--csv", name, "--log-dir", "log"], tmp_path)
    scores = read_figures(tmp_path / "log")
    assert scores["network"] >= max(least, scores["boosted trees"] - 0.03)
    if name == "friedman":
        assert scores["network"] > max(scores["ridge regression"], scores["boosted trees"])
