"""The inferencer that collects predictions for images: random samples, the worst ones, and the confusion matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...callbacks.inference import Inferencer
from ...callbacks.kept_samples import KeptSamples
from ...callbacks.measures import ConfusionMatrix
from ...report.pictures import shrink_samples
from ...report.samples import CONFUSION, MATRIX, PREDICTION, PREDICTIONS, PROBABILITY, WORST, write_samples
from ...tfutils.tower.handle import TowerTensorHandle
from ...utils import logger
from .find_logits import find_classification

_NUM_SAMPLES = 16
_MAX_CLASSES = 100  # of a confusion matrix
_MAX_HALF = 60_000  # images with larger values are not written in 16 bits
_COLUMNS = ("image", "label", PREDICTION, PROBABILITY, "loss")


class CollectPredictions(Inferencer):
    """
    Inferencer that writes predictions to `samples/` in the logger's directory. Each round replaces the files.

    It does nothing if the towers do not classify images; see `find_classification`.

    Args:
        has_worst: whether to write the worst samples, which `WorstSamples` writes otherwise.
    """

    def __init__(self, has_worst: bool) -> None:
        names = [PREDICTIONS, WORST] if has_worst else [PREDICTIONS]
        self._kept = {name: KeptSamples(_NUM_SAMPLES) for name in names}
        self._confusion = ConfusionMatrix("logits", "label")
        self._is_sigmoid = self._is_off = False
        self._shape: tuple[int, ...] = ()

    def _find_tensors(self, tower: TowerTensorHandle) -> list[Any]:
        found = find_classification(tower)
        if found is None:
            self._is_off = True
            return []
        self._is_sigmoid = found.is_sigmoid
        return [found.image, found.label, found.logits]

    def _get_fetches(self) -> list[str]:
        return []

    def _before_inference(self) -> None:
        self._keys = np.random.RandomState(0)  # its own, and the same samples in each round
        self._confusion.before_epoch()
        for samples in self._kept.values():
            samples.clear()

    def _on_fetches(self, results: list[Any]) -> None:
        if self._is_off:
            return
        image, label, logits = map(np.asarray, results)
        self._is_off = not self._fits(image, label, logits)
        if self._is_off:
            return
        classes = as_classes(logits)
        rows = np.flatnonzero((label >= 0) & (label < classes.shape[1]))  # other labels often mean padding
        classes, label = classes[rows], label[rows]
        if classes.shape[1] <= _MAX_CLASSES:
            self._confusion.on_fetches([classes, label])
        prediction, probability, loss = evaluate(
            classes, label, self._is_sigmoid and logits.shape[1:] not in ((), (1,))
        )

        def take(chosen: np.ndarray) -> list[Any]:
            values = [column[chosen] for column in (label, prediction, probability, loss)]
            return [shrink_samples(image[rows[chosen]]), *values]

        for name, samples in self._kept.items():
            samples.feed(loss if name == WORST else self._keys.random_sample(len(rows)), take)

    def _fits(self, image: np.ndarray, label: np.ndarray, logits: np.ndarray) -> bool:
        """Return whether these are images of the same size as before, with a label and logits for each."""
        self._shape = self._shape or image.shape[1:]
        lengths = {len(array) if array.ndim else 0 for array in (image, label, logits)}
        return lengths == {len(label)} and image.shape[1:] == self._shape and shrink_samples(image[:1]) is not None

    def _trigger_epoch(self) -> None:
        directory = logger.get_logger_dir()
        if self._is_off or directory is None or not len(self._kept[PREDICTIONS].scores):
            return
        try:
            for name, samples in self._kept.items():
                image, *values = samples.columns
                arrays = dict(zip(_COLUMNS, [_in_half(image), *values]))
                write_samples(directory, name, arrays, self.global_step)
            if len(self._confusion.matrix):
                write_samples(directory, CONFUSION, {MATRIX: self._confusion.matrix}, self.global_step)
        except OSError as error:
            logger.error(f"Cannot write predictions for the report: {error}")


def as_classes(logits: np.ndarray) -> np.ndarray:
    """Return logits `[N, K]`, float64. Of a binary sigmoid, with `[N]` or `[N, 1]`, they are 0 and the logit."""
    values: np.ndarray = logits.astype("float64").reshape([len(logits), -1])
    return values if values.shape[1] > 1 else np.concatenate([np.zeros_like(values), values], axis=1)


def evaluate(logits: np.ndarray, label: np.ndarray, is_sigmoid: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """
    Evaluate the predictions of some samples.

    Args:
        logits: `[N, K]`, float64.
        label: `[N]`, from 0 to K - 1.
        is_sigmoid: whether each logit has its own sigmoid; otherwise all have one softmax.

    Returns:
        The predicted classes, their probabilities and the cross entropies, each `[N]`.
    """
    rows, prediction = np.arange(len(label)), logits.argmax(axis=1)
    with np.errstate(all="ignore"):  # values that are not finite
        if is_sigmoid:
            total = np.logaddexp(0, logits).sum(axis=1)
            log_probability = -np.logaddexp(0, -logits[rows, prediction])
        else:
            total = np.logaddexp.reduce(logits, axis=1)
            log_probability = logits[rows, prediction] - total
        return prediction, np.exp(log_probability), total - logits[rows, label]


def _in_half(images: np.ndarray) -> np.ndarray:
    """Return images of floating-point numbers in 16 bits, which are enough to show them."""
    is_small = images.dtype.kind == "f" and not np.any(np.abs(images) > _MAX_HALF)
    return images.astype(np.float16) if is_small else images
