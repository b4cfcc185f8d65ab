"""OpenCV is optional, loaded late, and does not start threads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tensorpack_lite
from tensorpack_lite.dataflow import ImageFromFile, imgaug
from tensorpack_lite.dataflow.imgaug import _opencv
from tensorpack_lite.dataflow.imgaug.transform import ResizeTransform

NEED_IT = [
    lambda: imgaug.Resize(3),
    lambda: imgaug.ResizeShortestEdge(3),
    lambda: imgaug.RandomResize((1, 2)),
    lambda: imgaug.GoogleNetRandomCropAndResize(),
    lambda: imgaug.Shift(0.1),
    lambda: imgaug.Rotation(3),
    lambda: imgaug.RotationAndCropValid(3),
    lambda: imgaug.Affine(),
    lambda: imgaug.ColorSpace(4),
    lambda: imgaug.Grayscale(),
    lambda: imgaug.Hue(),
    lambda: imgaug.Saturation(),
    lambda: imgaug.GaussianBlur(),
    lambda: imgaug.JpegNoise(),
    lambda: ImageFromFile(["x.png"]),
]
ADVICE = r'needs OpenCV, which is not installed\. Run: pip install "tensorpack_lite\[image\]"'


def fresh_python(code: str):
    """Run code in a new interpreter; the JSON that it prints last, and all else that is on the screen."""
    environment = dict(
        os.environ, PYTHONPATH=str(Path(tensorpack_lite.__file__).parents[1]), TF_CPP_MIN_LOG_LEVEL="3"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, timeout=120, check=True
    )
    lines = done.stdout.decode().splitlines()
    return json.loads(lines[-1]), done.stderr.decode() + "\n".join(lines[:-1])


class TestWithoutOpenCV:
    @pytest.fixture(autouse=True)
    def without(self, monkeypatch):
        """As where it is not installed."""
        monkeypatch.setitem(sys.modules, "cv2", None)

    @pytest.mark.parametrize("build", NEED_IT)
    def test_building_what_needs_it(self, build):
        """ImportError with the command, in the process of the script and not in a worker."""
        with pytest.raises(ImportError, match=ADVICE):
            build()

    def test_applying_what_needs_it(self):
        """A transform that came from elsewhere says the same."""
        with pytest.raises(ImportError, match="Resize: " + ADVICE):
            ResizeTransform(2, 2, 4, 4, 1).apply_image(np.zeros((2, 2)))

    def test_what_does_not_need_it(self):
        """Crops, flips, values and noise are NumPy."""
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
        """The defaults are cv2's."""
        assert cv2.INTER_LINEAR == _opencv.INTER_LINEAR
        assert cv2.BORDER_CONSTANT == _opencv.BORDER_CONSTANT
        assert cv2.BORDER_REPLICATE == _opencv.BORDER_REPLICATE

    @pytest.mark.slow
    def test_threads_are_set_by_the_first_augmentor_that_runs(self, cv2):
        """Not by the import nor by building; once, with a line in the log; and what somebody chose stays."""
        code = """
import json, numpy as np
from tensorpack_lite.dataflow import imgaug
augmentor = imgaug.Resize(3)
import cv2  # TensorFlow may have done so already, by way of Keras
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
        assert 1 == log.count("switched OpenCV's own threads off")

    @pytest.mark.slow
    def test_a_number_chosen_before_stays(self, cv2):
        """No line in the log then."""
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
