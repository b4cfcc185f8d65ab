"""Fixtures for the tests of augmentors."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.dataflow.imgaug.base import ImageAugmentor
from tensorpack_lite.utils.utils import fix_rng_seed


@pytest.fixture
def cv2():
    """Return OpenCV; skip the test if it is not installed."""
    return pytest.importorskip("cv2", reason="needs OpenCV")


class Scripted:
    """A random generator that returns scripted numbers and records the calls."""

    def __init__(self, *answers) -> None:
        self.answers, self.asked = list(answers), []

    def _next(self, *question, **more):
        self.asked.append((*question, *more.values()))
        return self.answers.pop(0)

    rand = uniform = randint = choice = permutation = normal = standard_normal = _next


@pytest.fixture
def drawing():
    """Make an augmentor draw given numbers: `drawing(augmentor, 0.3, 5).augment(img)`."""

    def script(augmentor: ImageAugmentor, *answers) -> ImageAugmentor:
        augmentor.rng = Scripted(*answers)
        return augmentor

    return script


@pytest.fixture
def img() -> np.ndarray:
    """Return a small uint8 image with three different channels."""
    fix_rng_seed(0)
    return np.random.RandomState(3).randint(0, 256, size=(8, 10, 3)).astype(np.uint8)
