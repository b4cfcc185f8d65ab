"""Functions that scikit-image has removed, with the meaning that they had."""

from __future__ import annotations

from typing import Any

import numpy as np


def compare_mse(im1: Any, im2: Any) -> float:
    """Return the mean squared error of two images."""
    from skimage.metrics import mean_squared_error

    return mean_squared_error(im1, im2)


def compare_nrmse(im_true: Any, im_test: Any, norm_type: str = "Euclidean") -> float:
    """Return the normalized root of the mean squared error of two images."""
    from skimage.metrics import normalized_root_mse

    name = norm_type.lower()
    return normalized_root_mse(im_true, im_test, normalization="euclidean" if name.startswith("euclid") else name)


def compare_psnr(im_true: Any, im_test: Any, data_range: float | None = None, dynamic_range: Any = None) -> float:
    """Return the peak signal-to-noise ratio of two images in decibels."""
    from skimage.metrics import peak_signal_noise_ratio

    return peak_signal_noise_ratio(im_true, im_test, data_range=_first(data_range, dynamic_range))


def compare_ssim(
    X: Any,
    Y: Any,
    win_size: int | None = None,
    gradient: bool = False,
    data_range: float | None = None,
    multichannel: bool = False,
    gaussian_weights: bool = False,
    full: bool = False,
    dynamic_range: Any = None,
    **kwargs: Any,
) -> Any:
    """Return the mean structural similarity of two images; `multichannel` if the last axis has the channels."""
    from skimage.metrics import structural_similarity

    data_range = _first(data_range, dynamic_range)
    if data_range is None and np.issubdtype(np.asarray(X).dtype, np.floating):
        data_range = 2.0  # that of skimage's floats, from -1 to 1
    return structural_similarity(
        X,
        Y,
        win_size=win_size,
        gradient=gradient,
        data_range=data_range,
        channel_axis=-1 if multichannel else None,
        gaussian_weights=gaussian_weights,
        full=full,
        **kwargs,
    )


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def montage2d(arr_in: Any, fill: Any = "mean", rescale_intensity: bool = False, grid_shape: Any = None) -> Any:
    """Return one image of all images of a stack."""
    from skimage.util import montage

    return montage(arr_in, fill=fill, rescale_intensity=rescale_intensity, grid_shape=grid_shape)


def threshold_adaptive(image: Any, block_size: int, method: str = "gaussian", offset: float = 0, **kwargs: Any) -> Any:
    """Return which pixels are above the threshold of their neighborhood."""
    from skimage.filters import threshold_local

    return image > threshold_local(image, block_size, method=method, offset=offset, **kwargs)
