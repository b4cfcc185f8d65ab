"""
Access to OpenCV, an optional package (extra `image`), which is imported by the first augmentor that needs it.

`keep_shape_and_type` corrects two properties of OpenCV: it drops the trailing channel of `[h, w, 1]`, and it does not
support all dtypes.
"""

from __future__ import annotations

import multiprocessing
from types import ModuleType
from typing import Callable

import numpy as np

from ...utils import logger
from ...utils.argtools import memoized
from ...utils.optional import load_optional, require_optional

# the values of cv2's constants, so that they can be defaults where cv2 is not installed
INTER_LINEAR = 1
BORDER_CONSTANT = 0
BORDER_REPLICATE = 1

_TYPES = (np.uint8, np.uint16, np.int16, np.float32, np.float64)  # every function of OpenCV supports these


def opencv(who: str = "imgaug") -> ModuleType:
    """
    Import OpenCV. The first call in a process disables OpenCV's own threads.

    Args:
        who: the class or function that needs it, for the message.

    Returns:
        The module `cv2`.

    Raises:
        ImportError: OpenCV is not installed.
    """
    cv2 = load_optional("cv2", who)
    _disable_threads(cv2)
    return cv2


def require_opencv(who: object) -> None:
    """
    Raise if OpenCV is not installed, without importing it. Constructors call this.

    Args:
        who: the object that needs OpenCV; the message names its type.

    Raises:
        ImportError: OpenCV is not installed.
    """
    require_optional("cv2", type(who).__name__)


def keep_shape_and_type(
    function: Callable[..., np.ndarray], image: np.ndarray, *args: object, **kwargs: object
) -> np.ndarray:
    """
    Call a function of OpenCV, and return a result with the same number of dimensions and the same dtype as the image.

    Args:
        function: takes the image and the other arguments, and returns an image with the same channels.
        image: `[h, w]` or `[h, w, c]`. Types that OpenCV does not support are computed in float32.
        *args, **kwargs: the other arguments.

    Returns:
        The result; `[h', w', 1]` for `[h, w, 1]`.
    """
    computed = image if image.dtype in _TYPES else image.astype(np.float32)
    result = function(computed, *args, **kwargs)
    if result.ndim < image.ndim:
        result = result[:, :, np.newaxis]
    return result.astype(image.dtype, copy=False)


@memoized
def _disable_threads(cv2: ModuleType) -> None:
    """Leave parallelism to worker processes: OpenCV's thread pool does not survive a fork and slows workers down."""
    if cv2.getNumThreads() != cv2.getNumberOfCPUs():
        return  # the user has called cv2.setNumThreads
    cv2.setNumThreads(0)
    cv2.ocl.setUseOpenCL(False)
    if multiprocessing.current_process().name != "MainProcess":
        return  # each worker would say it again
    logger.info(
        "imgaug: disabled OpenCV's own threads, because worker processes already run in parallel. "
        "To use them, call cv2.setNumThreads after this line."
    )
