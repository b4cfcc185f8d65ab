"""
Augmentation of images and of the coordinates on them.

In:  images `[h, w]` or `[h, w, c]`, uint8 or float32 with values 0 to 255. The channels are in BGR order, as
     `cv2.imread` returns them, unless an argument `rgb` specifies otherwise.
Out: images of the same type, and transformed coordinates.

`base.py` defines augmentors and `transform.py` the transforms that they draw; each other file holds one family of
augmentors. OpenCV (extra `image`) is imported by the first augmentor that needs it.
"""

from __future__ import annotations

from .base import Augmentor, AugmentorList, ImageAugmentor, PhotometricAugmentor
from .convert import ColorSpace, Grayscale, ToFloat32, ToUint8
from .crop import CenterCrop, GoogleNetRandomCropAndResize, RandomCrop, RandomCropRandomShape, RandomCutout
from .deform import GaussianDeform
from .geometry import Affine, Rotation, RotationAndCropValid, Shift
from .imgproc import (
    Brightness,
    BrightnessScale,
    Clip,
    Contrast,
    Gamma,
    GaussianBlur,
    Hue,
    Lighting,
    MeanVarianceNormalize,
    MinMaxNormalize,
    Saturation,
)
from .meta import Identity, MapImage, RandomApplyAug, RandomChooseAug, RandomOrderAug
from .misc import Flip, RandomResize, Resize, ResizeShortestEdge, Transpose
from .noise import GaussianNoise, JpegNoise, SaltPepperNoise
from .paste import BackgroundFiller, CenterPaste, ConstantBackgroundFiller, RandomPaste
from .transform import CropTransform, FlipTransform, ResizeTransform
from .transform_base import Transform, TransformFactory, TransformList

__all__ = [
    "Affine", "Augmentor", "AugmentorList", "BackgroundFiller", "Brightness", "BrightnessScale", "CenterCrop",
    "CenterPaste", "Clip", "ColorSpace", "ConstantBackgroundFiller", "Contrast", "CropTransform", "Flip",
    "FlipTransform", "Gamma", "GaussianBlur", "GaussianDeform", "GaussianNoise",
    "GoogleNetRandomCropAndResize", "Grayscale", "Hue", "Identity", "ImageAugmentor", "JpegNoise", "Lighting",
    "MapImage", "MeanVarianceNormalize", "MinMaxNormalize", "PhotometricAugmentor", "RandomApplyAug",
    "RandomChooseAug", "RandomCrop", "RandomCropRandomShape", "RandomCutout", "RandomOrderAug", "RandomPaste",
    "RandomResize", "Resize", "ResizeShortestEdge", "ResizeTransform", "Rotation", "RotationAndCropValid",
    "SaltPepperNoise", "Saturation", "Shift", "ToFloat32", "ToUint8", "Transform", "TransformFactory",
    "TransformList", "Transpose",
]  # fmt: skip
