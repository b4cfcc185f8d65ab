"""Wrong arguments and images raise an error that names the augmentor, what was expected, and what was given."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("cv2", reason="most augmentors need OpenCV")

from tensorpack_lite.dataflow import imgaug
from tensorpack_lite.dataflow.imgaug.transform import TransformFactory, TransformList

IMAGE = np.arange(24, dtype=np.uint8).reshape(4, 6)
TWO_CHANNELS = np.zeros((4, 4, 2), np.uint8)
EIGVAL, EIGVEC = [0.2, 0.3, 0.5], np.arange(9).reshape(3, 3)
NOT_THREE = r"expected an image of three channels \[h, w, 3\], got shape"


def function(img):
    """Return the image; not an augmentor."""
    return img


# augmentor, type of the error, its text after the name of the augmentor, the call
CONSTRUCTORS = [
    ("AugmentorList", TypeError, "expected a list of augmentors, got Identity", lambda a: a(imgaug.Identity())),
    (
        "AugmentorList",
        TypeError,
        "expected augmentors, got function. Wrap a function: MapImage",
        lambda a: a([function]),
    ),
    ("Grayscale", ValueError, "keepshape=True returns", lambda a: a(keepdims=False, keepshape=True)),
    ("RandomCropRandomShape", ValueError, ".*wmin, wmax", lambda a: a(3, 3, 2)),
    ("RandomCropRandomShape", ValueError, ".*hmin, hmax", lambda a: a(3, 3, 3, 2)),
    ("RandomCutout", ValueError, "w_range: expected", lambda a: a(1, (3, 3))),
    ("RandomCutout", ValueError, "w_range: expected", lambda a: a(1, (0, 2))),
    ("RandomCutout", TypeError, "w_range: expected", lambda a: a(1, "x")),
    ("Shift", ValueError, "vert_frac is out of range .expected 0 <= x < 1, got 1", lambda a: a(0, 1)),
    ("Rotation", ValueError, "expected a step_deg that divides 180, and max_deg=180", lambda a: a(90, step_deg=45)),
    ("Rotation", ValueError, "expected a step_deg that divides 180", lambda a: a(180, step_deg=50)),
    ("RotationAndCropValid", ValueError, "expected a step_deg that divides 180", lambda a: a(180, step_deg=-45)),
    ("Rotation", TypeError, r"center_range: expected \(low, high\), got 0.5", lambda a: a(3, center_range=0.5)),
    ("Affine", TypeError, r"scale: expected \(low, high\), got 2", lambda a: a(scale=2)),
    ("Affine", TypeError, "translate_frac: expected a pair of numbers, got 0.1", lambda a: a(translate_frac=0.1)),
    ("Affine", ValueError, r"translate_frac\[1\] is out of range", lambda a: a(translate_frac=(0.1, 1))),
    ("Affine", ValueError, "rotate_max_deg is too small", lambda a: a(rotate_max_deg=-1)),
    ("Affine", ValueError, "shear is too small", lambda a: a(shear=-1)),
    ("Brightness", ValueError, "delta is not positive .expected more than 0, got 0", lambda a: a(0)),
    ("BrightnessScale", ValueError, r"range: expected \(low, high\) with low <= high", lambda a: a((2, 1))),
    ("Saturation", ValueError, "alpha is out of range .expected 0 <= x < 1", lambda a: a(1)),
    ("Saturation", ValueError, "alpha is out of range .expected 0 <= x < 1", lambda a: a(-0.1)),
    (
        "Lighting",
        ValueError,
        r"expected eigval of shape \(3,\) .* got \(2,\) and \(3, 3\)",
        lambda a: a(1, [1, 2], EIGVEC),
    ),
    ("Gamma", ValueError, "range: expected .* with -1 < low", lambda a: a((-1, 0))),
    ("GaussianBlur", ValueError, r"size_range: expected \(low, high\) with 0 <= low < high", lambda a: a((3, 3))),
    ("Clip", ValueError, r"\(min, max\): expected", lambda a: a(3, 2)),
    ("RandomApplyAug", ValueError, "prob is out of range .expected 0 to 1, got", lambda a: a(imgaug.Identity(), -0.1)),
    ("RandomApplyAug", ValueError, "prob is out of range .expected 0 to 1, got", lambda a: a(imgaug.Identity(), 1.1)),
    ("RandomApplyAug", TypeError, "expected augmentors, got function. Wrap a function", lambda a: a(function, 0.5)),
    (
        "RandomChooseAug",
        ValueError,
        "expected probabilities >= 0 that sum to 1, got",
        lambda a: a([(imgaug.Identity(), 0.5), (imgaug.Identity(), 0.6)]),
    ),
    (
        "RandomChooseAug",
        ValueError,
        "expected probabilities >= 0 that sum to 1, got",
        lambda a: a([(imgaug.Identity(), 1.5), (imgaug.Identity(), -0.5)]),
    ),
    ("RandomChooseAug", ValueError, "expected at least one augmentor, got an empty list", lambda a: a([])),
    ("RandomChooseAug", TypeError, "expected augmentors, got int", lambda a: a([3])),
    (
        "RandomChooseAug",
        TypeError,
        "expected augmentors, got tuple",
        lambda a: a([(imgaug.Identity(), 1.0), imgaug.Clip()]),
    ),
    ("RandomOrderAug", TypeError, "expected augmentors, got str", lambda a: a(["x"])),
    ("MapImage", TypeError, "func has the wrong type .expected a function, got int", lambda a: a(3)),
    ("Flip", ValueError, "expected exactly one of horiz and vert, got", lambda a: a(horiz=True, vert=True)),
    ("Flip", ValueError, "expected exactly one of horiz and vert, got", lambda a: a()),
    ("Transpose", ValueError, "prob is out of range .expected 0 to 1, got 2", lambda a: a(2)),
    ("Resize", ValueError, r"shape: expected a size or \(height, width\) in pixels, got", lambda a: a(0)),
    ("Resize", ValueError, r"shape: expected a size or \(height, width\) in pixels, got", lambda a: a((3, -1))),
    ("Resize", ValueError, r"shape: expected a size or \(height, width\) in pixels, got", lambda a: a((1, 2, 3))),
    ("Resize", TypeError, r"shape: expected a size or \(height, width\) in pixels, got 2.5", lambda a: a(2.5)),
    ("RandomResize", TypeError, "expected factors .* for both xrange and yrange", lambda a: a((0.5, 1.5), (100, 200))),
    (
        "RandomResize",
        ValueError,
        "with aspect_ratio_thres=0 the height follows from the width",
        lambda a: a((0.5, 1.5), (0.5, 1.0), aspect_ratio_thres=0),
    ),
    ("RandomResize", TypeError, r"xrange: expected \(low, high\)", lambda a: a(3)),
    ("RandomResize", TypeError, r"xrange: expected \(low, high\)", lambda a: a((1, 2, 3))),
    ("RandomResize", ValueError, r"xrange: expected \(low, high\)", lambda a: a((2, 1))),
    ("JpegNoise", ValueError, r"quality_range: expected \(low, high\) with 0 <= low < high", lambda a: a((50, 50))),
    ("GaussianNoise", ValueError, "sigma is too small .expected at least 0, got -1", lambda a: a(-1)),
    ("SaltPepperNoise", ValueError, r"white_prob \+ black_prob is out of range", lambda a: a(0.6, 0.5)),
    ("CenterPaste", TypeError, "expected a BackgroundFiller, got int", lambda a: a(4, 3)),
]
IMAGES = [
    ("Identity", TypeError, "expected images that are numpy arrays, got list. Use np.asarray", (), [[1]]),
    (
        "Identity",
        ValueError,
        r"expected an image \[h, w\] or \[h, w, c\], got shape \(2, 3, 4, 1\)",
        (),
        np.zeros((2, 3, 4, 1)),
    ),
    (
        "RandomCrop",
        ValueError,
        r"the image of 4x6 \(height x width\) is smaller than the rectangle of 5x2",
        ((5, 2),),
        IMAGE,
    ),
    ("CenterCrop", ValueError, "the image of 4x6 .* is smaller than the rectangle of 5x2", ((5, 2),), IMAGE),
    ("CenterCrop", ValueError, "the image of 4x6 .* is smaller than the rectangle of 2x7", ((2, 7),), IMAGE),
    ("RandomCropRandomShape", ValueError, "the image of .* smaller than the rectangle of 7x2", (2, 7), IMAGE),
    ("RandomCutout", ValueError, "the image of .* smaller than the rectangle of 5x1", (5, 1), IMAGE),
    ("CenterPaste", ValueError, r"the background of \(2, 2\) .* smaller than the image of 4x6", (2,), IMAGE),
    ("RandomPaste", ValueError, r"the background of \(4, 5\) .* smaller than the image of 4x6", ((4, 5),), IMAGE),
    ("Grayscale", ValueError, NOT_THREE, (), TWO_CHANNELS),
    ("Contrast", ValueError, NOT_THREE, ((1, 2), True), TWO_CHANNELS),
    ("JpegNoise", ValueError, NOT_THREE, (), TWO_CHANNELS),
    ("Lighting", ValueError, "expected an image of three channels", (1, EIGVAL, EIGVEC), IMAGE),
]


@pytest.mark.parametrize(("name", "error", "text", "call"), CONSTRUCTORS)
def test_arguments(name, error, text, call):
    """Wrong arguments raise an error in the constructor."""
    with pytest.raises(error, match=f"^{name}: {text}"):
        call(getattr(imgaug, name))


@pytest.mark.parametrize(("name", "error", "text", "arguments", "img"), IMAGES)
def test_images(name, error, text, arguments, img):
    """An image that does not fit raises an error."""
    with pytest.raises(error, match=f"^{name}: {text}"):
        getattr(imgaug, name)(*arguments).augment(img)


def test_a_list_checks_the_shape():
    """`get_transform` of a list checks the shape of its image, which may be a placeholder."""
    with pytest.raises(
        ValueError, match=r"^AugmentorList: expected an image \[h, w\] or \[h, w, c\], got shape \(3,\)"
    ):
        imgaug.AugmentorList([imgaug.Identity()]).get_transform(np.zeros(3))


def test_transforms():
    """Objects that are not transforms raise TypeError in a list and in sums; an unknown name of a function raises KeyError."""
    with pytest.raises(TypeError, match="TransformList: expected transforms, got int. Use augmentor.get_transform"):
        TransformList([3])
    with pytest.raises(TypeError, match="TransformList: expected transforms, got str"):
        TransformList([]) + ["x"]
    with pytest.raises(KeyError, match="got 'image'. Did you mean 'apply_image'"):
        TransformFactory(image=function)


@pytest.mark.parametrize(
    "build", [lambda: imgaug.RandomCropRandomShape(2, 2, max_aspect_ratio=2.0), lambda: imgaug.GaussianBlur(max_size=3)]
)
def test_arguments_without_effect(build, log_lines):
    """An argument of tensorpack that has no effect logs a warning."""
    build()
    assert "It has no effect" in log_lines[0]
