"""The confusion matrix in the report: a table for few classes, a picture and the most frequent confusions for many."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.reports import check_safe, page_of, write_training

from tensorpack_lite.report.samples import CONFUSION, write_samples


def page_with(directory, matrix):
    """Return the page of a training with a confusion matrix."""
    path = write_training(directory)
    write_samples(path, CONFUSION, {"matrix": np.asarray(matrix)}, 40)
    return page_of(path)


def test_table(tmp_path):
    """Each count is in a cell, with a color by its share of the class; right and wrong predictions have their own colors."""
    page = page_with(tmp_path, [[90, 10, 0], [3, 1200, 0], [0, 0, 0]])
    check_safe(page)
    assert "At step 40, 99.0% of 1,303 validation samples are right." in page.text
    colors = [attributes.get("class") for name, attributes in page.elements if name == "td"]
    start = colors.index("r4")
    assert ["r4", "w2", None, "w1", "r4", None, None, None, None] == colors[start : start + 9]
    assert "1,200" in page.text
    assert [] == page.all("img")


def test_many_classes(tmp_path):
    """More than 20 classes are a picture, and a table of the most frequent confusions."""
    matrix = np.eye(30, dtype=np.int64) * 50
    matrix[3, 5], matrix[7, 2] = 50, 7
    page = page_with(tmp_path, matrix)
    check_safe(page)
    (image,) = page.all("img")
    assert "the confusion matrix of 30 classes, dark where many samples are" == image["alt"]
    assert page.text.index("50.0%") < page.text.index("12.3%")


def test_no_confusion(tmp_path):
    """If all predictions are right, there is no table of confusions."""
    assert "most frequent" not in page_with(tmp_path, np.eye(30, dtype=np.int64)).text


@pytest.mark.parametrize(
    "matrix", [np.zeros([3, 3], int), np.ones([2, 3], int), np.ones([2, 2]), np.array(1), -np.eye(2, dtype=int)]
)
def test_not_a_matrix(tmp_path, matrix):
    """An array that is not a confusion matrix is not shown."""
    assert "Confusion matrix" not in page_with(tmp_path, matrix).text


def test_several_trainings(tmp_path):
    """In a report of several training runs, each matrix has the name of its training."""
    paths = [write_training(tmp_path / name) for name in ("one", "two")]
    for path in paths:
        write_samples(path, CONFUSION, {"matrix": np.eye(2, dtype=int)}, 40)
    text = page_of(*paths).text
    assert all(f"{name}: At step 40, 100.0% of 2" in text for name in ("one", "two"))
