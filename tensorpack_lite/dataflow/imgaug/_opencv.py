"""
OpenCV, which most augmentors work with: an optional package (extra `image`), imported by the first one that needs it.

The functions here hide where OpenCV would not give back what it got: the trailing channel of `[h, w, 1]`, which it
drops, and the types it does not compute with.
"""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from ...utils import logger
from ...utils.argtools import memoized
from ...utils.optional import load_optional, require_optional

__all__ = [
    "BORDER_CONSTANT",
    "BORDER_REPLICATE",
    "INTER_LINEAR",
    "keep_shape_and_type",
    "opencv",
    "require_opencv",
]

# the values of cv2's constants, so that they can be defaults where cv2 is not installed
INTER_LINEAR = 1
BORDER_CONSTANT = 0
BORDER_REPLICATE = 1

_TYPES = (np.uint8, np.uint16, np.int16, np.float32, np.float64)  # those every function of OpenCV takes


def opencv(who: str = "imgaug") -> Any:
    """
    Import OpenCV and, the first time in a process, switch its own threads off.

    Args:
        who: the class or function that needs it; it is named when OpenCV is not installed.

    Returns:
        The module `cv2`.

    Raises:
        ImportError: it is not installed.
    """
    cv2 = load_optional("cv2", who)
    _switch_threads_off(cv2)
    return cv2


def require_opencv(who: object) -> None:
    """
    Refuse, without importing OpenCV, to build an object that could not run.

    Args:
        who: the object; its type is named.

    Raises:
        ImportError: OpenCV is not installed.
    """
    require_optional("cv2", type(who).__name__)


def keep_shape_and_type(function: Callable[[np.ndarray], np.ndarray], image: np.ndarray) -> np.ndarray:
    """
    Call a function of OpenCV so that number of dimensions and type of the image come back.

    Args:
        function: takes the image and returns one of the same channels.
        image: `[h, w]` or `[h, w, c]`.

    Returns:
        The result; `[h', w', 1]` for `[h, w, 1]`. Types that OpenCV has not are computed in float32.
    """
    computed = image if image.dtype in _TYPES else image.astype(np.float32)
    result = function(computed)
    if result.ndim < image.ndim:
        result = result[:, :, np.newaxis]
    return result.astype(image.dtype, copy=False)


@memoized
def _switch_threads_off(cv2: Any) -> None:
    """Leave parallelism to worker processes: OpenCV's pool of threads does not survive a fork and slows them down."""
    if cv2.getNumThreads() != cv2.getNumberOfCPUs():
        return  # somebody has chosen
    cv2.setNumThreads(0)
    cv2.ocl.setUseOpenCL(False)
    logger.info(
        "imgaug: switched OpenCV's own threads off: worker processes do the work side by side. "
        "To choose otherwise call cv2.setNumThreads after this line."
    )
