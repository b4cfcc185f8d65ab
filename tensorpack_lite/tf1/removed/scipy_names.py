"""Functions that SciPy has removed, with the meaning that they had."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from .said import say

_COMPLEX = [
    "arccos",
    "arcsin",
    "arctanh",
    "log",
    "log10",
    "log2",
    "logn",
    "power",
    "sqrt",
]  # scipy.sqrt(-1) was 1j


def find(name: str) -> str:
    """Return the address of a name of NumPy that `scipy` had too, such as `scipy.zeros`; "" for other names."""
    if name in ("ifft",):
        return "numpy.fft.ifft"
    if name in ("rand", "randn"):
        return f"numpy.random.{name}"
    if name in _COMPLEX:
        return f"numpy.lib.scimath.{name}"
    is_value = name in np.__all__ and not isinstance(getattr(np, name), ModuleType)  # scipy.fft is a module of SciPy
    return f"numpy.{name}" if is_value or name == "random" else ""


def sph_harm(m: Any, n: Any, theta: Any, phi: Any) -> Any:
    """Return spherical harmonics; `theta` is the azimuth."""
    from scipy.special import sph_harm_y

    return sph_harm_y(n, m, phi, theta)


def binom_test(x: Any, n: Any = None, p: float = 0.5, alternative: str = "two-sided") -> float:
    """Return the p-value of a binomial test; `x` may be the numbers of successes and failures."""
    from scipy.stats import binomtest

    if np.size(x) == 2:
        x, n = int(x[0]), int(x[0]) + int(x[1])
    return binomtest(int(x), int(n), p, alternative).pvalue


def itemfreq(a: Any) -> np.ndarray:
    """Return the distinct values and their numbers, in two columns."""
    return np.array(np.unique(a, return_counts=True)).T


def median_absolute_deviation(
    x: Any, axis: Any = 0, center: Any = np.median, scale: Any = 1.4826, **kwargs: Any
) -> Any:
    """Return the median absolute deviation, by default scaled to the standard deviation of normal values."""
    from scipy.stats import median_abs_deviation

    return median_abs_deviation(x, axis, center, 1 / scale, **kwargs)


def nanmean(x: Any, axis: Any = 0) -> Any:
    """Return the mean without NaNs, by default over the first axis."""
    return np.nanmean(x, axis)


def nanmedian(x: Any, axis: Any = 0) -> Any:
    """Return the median without NaNs, by default over the first axis."""
    return np.nanmedian(x, axis)


def nanstd(x: Any, axis: Any = 0, bias: bool = False) -> Any:
    """Return the standard deviation without NaNs, by default over the first axis and with n - 1 in place of n."""
    return np.nanstd(x, axis, ddof=0 if bias else 1)


def complete_eigen(module: ModuleType) -> None:
    """Let the module `scipy.sparse.linalg.eigen`, which was a package, have submodules."""
    vars(module).setdefault("__path__", [])


def complete_interpolate(module: ModuleType) -> None:
    """Replace the class `interp2d`, which raises an error from SciPy 1.14 on."""
    import scipy

    if tuple(int(part) for part in scipy.__version__.split(".")[:2]) >= (1, 14):
        vars(module)["interp2d"] = interp2d


class interp2d:  # noqa: N801 (SciPy's name)
    """
    Interpolation over a 2-D grid, by the replacements that SciPy's message names for the class.

    Args:
        x, y: the coordinates of the columns and rows of `z` if it is a grid; otherwise those of each point.
        z: the values, `(len(y), len(x))`, or as many as points.
        kind: "linear", "cubic" or "quintic".
        fill_value: the value outside the range of `x` and `y`. Default: that of the nearest point.
    """

    def __init__(
        self,
        x: Any,
        y: Any,
        z: Any,
        kind: str = "linear",
        copy: bool = True,
        bounds_error: bool = False,
        fill_value: float | None = None,
    ) -> None:
        from scipy.interpolate import RectBivariateSpline, bisplrep

        text = "scipy.interpolate.interp2d, which was removed, is provided by tensorpack_lite."
        say("scipy.interpolate.interp2d", text)
        degrees = {"linear": 1, "cubic": 3, "quintic": 5}
        if kind not in degrees:
            raise ValueError(f"interp2d: expected kind linear, cubic or quintic, got {kind}. Use one of them.")
        degree = degrees[kind]
        x, y, z = np.ravel(x), np.ravel(y), np.asarray(z)
        self.x_min, self.x_max, self.y_min, self.y_max = x.min(), x.max(), y.min(), y.max()
        self.bounds_error, self.fill_value = bounds_error, fill_value
        if z.size == len(x) * len(y):
            z = z.reshape(len(y), len(x))
            i, j = np.argsort(y, kind="mergesort"), np.argsort(x, kind="mergesort")
            spline = RectBivariateSpline(x[j], y[i], z[i][:, j].T, kx=degree, ky=degree)
            self.tck = (*spline.tck, degree, degree)
        elif z.size == len(x) == len(y):
            self.tck = bisplrep(x, y, z.ravel(), kx=degree, ky=degree, s=0.0)
        else:
            raise ValueError(
                f"interp2d: expected {len(x) * len(y)} values for a grid, or {len(x)} for points, got {z.size}. "
                "Pass z of one of these sizes."
            )

    def __call__(self, x: Any, y: Any, dx: int = 0, dy: int = 0, assume_sorted: bool = False) -> np.ndarray:
        """Return the values at all combinations of `x` and `y`, `(len(y), len(x))`; 1-D for a single y."""
        from scipy.interpolate import bisplev

        x, y = np.atleast_1d(x), np.atleast_1d(y)
        if not assume_sorted:
            x, y = np.sort(x), np.sort(y)
        outside_x, outside_y = (x < self.x_min) | (x > self.x_max), (y < self.y_min) | (y > self.y_max)
        if self.bounds_error and (outside_x.any() or outside_y.any()):
            raise ValueError(
                f"Values out of range; x must be in [{self.x_min}, {self.x_max}], y in [{self.y_min}, {self.y_max}]"
            )
        z = np.atleast_2d(bisplev(x, y, self.tck, dx, dy)).reshape(len(x), len(y)).T
        if self.fill_value is not None:
            z[:, outside_x] = self.fill_value
            z[outside_y, :] = self.fill_value
        return z[0] if len(z) == 1 else z
