"""The confusion matrix of the validation: a table, or a picture and the most frequent confusions if there are many classes."""

from __future__ import annotations

from typing import Iterator, List

import numpy as np

from ..utils.png import encode_png
from .html import Html, element, table
from .pictures import Gallery, Picture, draw_gallery
from .reading import Training
from .samples import CONFUSION, MATRIX, STEP

_MAX_COLUMNS = 20  # of a table
_MAX_PAIRS = 20
_SHARES = (0.0, 0.05, 0.2, 0.5)  # of the samples of a class, above which a cell has the next color


def draw_confusion(training: Training, prefix: str) -> List[Html]:
    """Return the confusion matrix of a training with its heading; empty if there is none."""
    arrays = training.samples.get(CONFUSION, {})
    matrix, step = arrays.get(MATRIX), arrays.get(STEP)
    if matrix is None or matrix.dtype.kind != "i" or matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        return []
    total = int(matrix.sum())
    if total < 1 or int(matrix.min()) < 0:
        return []
    at = f"At step {int(step):,}, " if step is not None and step.shape == () else ""
    result = f"{at}{np.trace(matrix) / total:.1%} of {total:,} validation samples are right."
    heading = element("h3", prefix + result, element("small", " Rows are labels, columns are predictions."))
    content = [_draw_table(matrix)] if len(matrix) <= _MAX_COLUMNS else list(_draw_picture(matrix))
    return [element("section", heading, *content)]


def _draw_table(matrix: np.ndarray) -> Html:
    shares = _shares(matrix)
    titles = [element("th", number, scope="col") for number in range(len(matrix))]
    rows = []
    for label, counts in enumerate(matrix.tolist()):
        cells = []
        for predicted, count in enumerate(counts):
            level = sum(share < shares[label, predicted] for share in _SHARES)
            color = f"{'r' if label == predicted else 'w'}{level}" if level else None
            cells.append(element("td", f"{count:,}" if count else "", class_=color))
        rows.append(element("tr", element("th", label, scope="row"), *cells))
    head = element("thead", element("tr", element("td"), *titles))
    drawn = element("table", head, element("tbody", *rows), class_="confusion")
    return element("div", drawn, class_="scroll")


def _draw_picture(matrix: np.ndarray) -> Iterator[Html]:
    shares = _shares(matrix)
    pixels = np.rint(255 * (1 - np.sqrt(shares))).astype(np.uint8)[:, :, np.newaxis]
    alt = f"the confusion matrix of {len(matrix)} classes, dark where many samples are"
    picture = Picture(encode_png(pixels), matrix.shape[::-1], "white: none of a class, black: all", alt)
    yield draw_gallery(Gallery("All classes", [picture], is_logged=True))
    wrong = matrix * (1 - np.eye(len(matrix), dtype=matrix.dtype))
    order = np.argsort(-wrong, axis=None, kind="stable")[:_MAX_PAIRS]
    pairs = [(place // len(matrix), place % len(matrix)) for place in order.tolist() if wrong.flat[place]]
    rows = [
        (label, predicted, f"{wrong[label, predicted]:,}", f"{shares[label, predicted]:.1%}")
        for label, predicted in pairs
    ]
    if rows:
        heading = element("h3", "The most frequent confusions")
        yield element(
            "section", heading, table(["label", "prediction", "samples", "of the class"], rows, class_="numbers")
        )


def _shares(matrix: np.ndarray) -> np.ndarray:
    """Return the share of each count in its row."""
    return matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
