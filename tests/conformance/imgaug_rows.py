"""One row for each public augmentor: how to build it, and its properties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Optional

import numpy as np

from tensorpack_lite.dataflow import imgaug

__all__ = ["ROWS", "Row", "image"]


@dataclass(frozen=True)
class Row:
    """
    An augmentor and its properties.

    Attributes:
        name: the public name.
        build: builds the augmentor.
        coords: what happens to coordinates: "kept", "moved", or "refused".
        keeps_size: whether height and width do not change.
        keeps_dimensions: whether the number of dimensions and the channels do not change.
        type_after: the type of the result. None: that of the input.
        needs_color: whether the image must have three channels.
        has_repr: whether `repr` is the call that builds the augmentor.
    """

    name: str
    build: Callable[[], imgaug.ImageAugmentor]
    coords: str = "kept"
    keeps_size: bool = True
    keeps_dimensions: bool = True
    type_after: Optional[type] = None
    needs_color: bool = False
    has_repr: bool = True

    def __str__(self) -> str:
        return self.name


def image(shape, dtype=np.uint8, seed=0) -> np.ndarray:
    """Return an image with random values from 0 to 255."""
    return np.random.RandomState(seed).randint(0, 256, size=shape).astype(dtype)


def moving(name, build, keeps_size=True):
    """Return the row of an augmentor that moves coordinates."""
    return Row(name, build, coords="moved", keeps_size=keeps_size)


def mirrored(img):
    """Flip an image; a function that can be pickled."""
    return img[:, ::-1]


def mirrored_coords(coords):
    """Flip coordinates on an image of 80 columns, the size in the laws."""
    return coords * np.float32([-1, 1]) + np.float32([80, 0])


ROWS = [
    Row("ColorSpace", lambda: imgaug.ColorSpace(4), needs_color=True),  # cv2.COLOR_BGR2RGB
    Row("Grayscale", imgaug.Grayscale, keeps_dimensions=False),
    Row("ToFloat32", imgaug.ToFloat32, type_after=np.float32),
    Row("ToUint8", imgaug.ToUint8, type_after=np.uint8),
    moving("RandomCrop", lambda: imgaug.RandomCrop((48, 56)), keeps_size=False),
    moving("CenterCrop", lambda: imgaug.CenterCrop((40, 50)), keeps_size=False),
    moving("RandomCropRandomShape", lambda: imgaug.RandomCropRandomShape(60, 50, hmax=60), keeps_size=False),
    moving(
        "GoogleNetRandomCropAndResize",
        lambda: imgaug.GoogleNetRandomCropAndResize((0.7, 0.9), (0.9, 1.1), target_shape=64),
        keeps_size=False,
    ),
    Row("RandomCutout", lambda: imgaug.RandomCutout((3, 8), 5, fill=7)),
    moving("Shift", lambda: imgaug.Shift(0.2, 0.3)),
    moving("Rotation", lambda: imgaug.Rotation(40, center_range=(0.3, 0.7))),
    moving("RotationAndCropValid", lambda: imgaug.RotationAndCropValid(20), keeps_size=False),
    moving("Affine", lambda: imgaug.Affine((0.8, 1.2), (0.1, 0.2), rotate_max_deg=30, shear=15)),
    Row("GaussianDeform", lambda: imgaug.GaussianDeform([(0.3, 0.4), (0.7, 0.6)], (64, 80)), coords="refused"),
    Row("Hue", lambda: imgaug.Hue((-30, 60))),
    Row("Brightness", lambda: imgaug.Brightness(30, clip=False)),
    Row("BrightnessScale", lambda: imgaug.BrightnessScale((0.5, 1.5))),
    Row("Contrast", lambda: imgaug.Contrast((0.5, 1.5), rgb=True)),
    Row("MeanVarianceNormalize", imgaug.MeanVarianceNormalize, type_after=np.float32),
    Row("GaussianBlur", lambda: imgaug.GaussianBlur((1, 4), (0, 2), symmetric=False)),
    Row("Gamma", imgaug.Gamma),
    Row("Clip", lambda: imgaug.Clip(20, 200)),
    Row("Saturation", imgaug.Saturation),
    Row("Lighting", lambda: imgaug.Lighting(5.0, [0.2, 0.1, 0.05], np.eye(3)), needs_color=True),
    Row("MinMaxNormalize", lambda: imgaug.MinMaxNormalize(-1, 1), type_after=np.float32),
    Row("Identity", imgaug.Identity),
    moving("RandomApplyAug", lambda: imgaug.RandomApplyAug(imgaug.Shift(0.1, 0.1), 0.7)),
    moving(
        "RandomChooseAug",
        lambda: imgaug.RandomChooseAug([(imgaug.Flip(horiz=True), 0.5), (imgaug.Shift(0.2), 0.5)]),
    ),
    moving(
        "RandomOrderAug",
        lambda: imgaug.RandomOrderAug([imgaug.Flip(vert=True), imgaug.Gamma(), imgaug.Shift(0.1)]),
    ),
    Row("MapImage", lambda: imgaug.MapImage(mirrored, mirrored_coords), coords="moved", has_repr=False),
    moving("Flip", lambda: imgaug.Flip(horiz=True)),
    moving("Transpose", imgaug.Transpose, keeps_size=False),
    moving("Resize", lambda: imgaug.Resize((90, 60)), keeps_size=False),
    moving("ResizeShortestEdge", lambda: imgaug.ResizeShortestEdge(50), keeps_size=False),
    moving("RandomResize", lambda: imgaug.RandomResize((0.7, 1.3), minimum=(50, 50)), keeps_size=False),
    Row("JpegNoise", imgaug.JpegNoise),
    Row("GaussianNoise", lambda: imgaug.GaussianNoise(10)),
    Row("SaltPepperNoise", imgaug.SaltPepperNoise),
    Row("CenterPaste", lambda: imgaug.CenterPaste((90, 100)), coords="refused", keeps_size=False),
    Row(
        "RandomPaste",
        lambda: imgaug.RandomPaste(100, imgaug.ConstantBackgroundFiller(9)),
        coords="refused",
        keeps_size=False,
    ),
    moving(
        "AugmentorList",
        lambda: imgaug.AugmentorList(
            [imgaug.RandomCrop(60), imgaug.Flip(horiz=True), imgaug.Resize(70), imgaug.Gamma()]
        ),
        keeps_size=False,
    ),
]
