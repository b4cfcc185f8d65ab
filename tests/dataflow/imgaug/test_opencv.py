"""OpenCV is optional, imported late, and its threads are disabled."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from fakes.processes import python_environment

from tensorpack_lite.dataflow import imgaug
from tensorpack_lite.dataflow.imgaug import _opencv
from tensorpack_lite.dataflow.imgaug.transform import ResizeTransform

ADVICE = r'needs OpenCV, which is not installed\. Run: pip install "tensorpack_lite\[image\]"'


def fresh_python(code: str):
    """Run code in a new interpreter; return the JSON that it prints last, and the rest of its output."""
    done = subprocess.run(
        [sys.executable, "-c", code], env=python_environment(), capture_output=True, timeout=120, check=True
    )
    lines = done.stdout.decode().splitlines()
    return json.loads(lines[-1]), done.stderr.decode() + "\n".join(lines[:-1])


class TestWithoutOpenCV:
    @pytest.fixture(autouse=True)
    def without(self, monkeypatch):
        """Hide OpenCV as if it were not installed."""
        monkeypatch.setitem(sys.modules, "cv2", None)

    def test_apply(self):
        """A transform that was created elsewhere raises the same ImportError."""
        with pytest.raises(ImportError, match="Resize: " + ADVICE):
            ResizeTransform(2, 2, 4, 4, 1).apply_image(np.zeros((2, 2)))

    def test_augmentors_without_opencv(self):
        """Crops, flips, values and noise work without OpenCV."""
        augs = [
            imgaug.RandomCrop(4),
            imgaug.Flip(horiz=True),
            imgaug.Brightness(3),
            imgaug.Contrast((1, 2), rgb=True),
        ]
        augs += [imgaug.Gamma(), imgaug.GaussianNoise(), imgaug.CenterPaste(6), imgaug.RandomCutout(1, 2)]
        assert (6, 6, 3) == imgaug.AugmentorList(augs).augment(np.zeros((5, 5, 3), np.uint8)).shape


class TestWithOpenCV:
    def test_constants(self, cv2):
        """The default arguments equal cv2's constants."""
        assert cv2.INTER_LINEAR == _opencv.INTER_LINEAR
        assert cv2.BORDER_CONSTANT == _opencv.BORDER_CONSTANT
        assert cv2.BORDER_REPLICATE == _opencv.BORDER_REPLICATE

    @pytest.mark.slow
    def test_first_augmentor_disables_threads(self, cv2):
        """The first augmentor that runs disables OpenCV's threads once and logs a line; a later setting stays."""
        code = """
import json, numpy as np
from tensorpack_lite.dataflow import imgaug
augmentor = imgaug.Resize(3)
import cv2  # Keras, imported by TensorFlow, may have imported cv2 already
before = cv2.getNumThreads()
for _ in range(2):
    augmentor.augment(np.zeros((2, 2), np.uint8))
after = cv2.getNumThreads()
cv2.setNumThreads(3)
augmentor.augment(np.zeros((2, 2), np.uint8))
print(json.dumps([before == cv2.getNumberOfCPUs(), after, cv2.getNumThreads()]))
"""
        answer, log = fresh_python(code)
        assert [True, 1, 3] == answer
        assert 1 == log.count("disabled OpenCV's own threads")

    @pytest.mark.slow
    def test_number_of_threads_set_before(self, cv2):
        """A number of threads that the user set before stays, and nothing is logged."""
        code = """
import json, cv2, numpy as np
from tensorpack_lite.dataflow import imgaug
cv2.setNumThreads(cv2.getNumberOfCPUs() + 1)
imgaug.Resize(3).augment(np.zeros((2, 2), np.uint8))
print(json.dumps(cv2.getNumThreads() - cv2.getNumberOfCPUs()))
"""
        answer, log = fresh_python(code)
        assert 1 == answer
        assert "switched" not in log
