"""
DataFlows that measure the speed of a pipeline or log its datapoints.

In:  datapoints of any DataFlow.
Out: the same datapoints; the findings are logged.
"""

from __future__ import annotations

import itertools
import time
from typing import Any, Iterator, Sequence

import numpy as np

from ..utils import logger
from ..utils.utils import get_tqdm
from .base import DataFlow, Datapoint, ProxyDataFlow

_MAX_TEXT = 40  # characters of a str or bytes component that are shown


class TestDataSpeed(ProxyDataFlow):
    """
    DataFlow that measures how many datapoints per second another one yields without a consumer.

    Length: that of `ds`.
    Order: that of `ds`.
    Process: runs in the current process.

    Args:
        ds: the DataFlow to measure.
        size: number of datapoints to take; fewer if `ds` ends earlier.
        warmup: number of datapoints to take before the measurement, while workers start and buffers fill.

    Example:
        >>> TestDataSpeed(df, size=1000).start()
    """

    __test__ = False  # the name looks like a test case to pytest

    def __init__(self, ds: DataFlow, size: int = 5000, warmup: int = 0) -> None:
        super().__init__(ds)
        self.test_size = int(size)
        self.warmup = int(warmup)
        self._reset_done = False

    def reset_state(self) -> None:
        """Reset `ds`, unless `start` already did."""
        if not self._reset_done:
            self._reset_done = True
            super().reset_state()

    def __iter__(self) -> Iterator[Datapoint]:
        self.start()
        yield from self.ds

    def start(self) -> float:
        """
        Run the measurement. Resets `ds` if `reset_state` was not called.

        Returns:
            Datapoints per second; 0, with a warning, if `ds` has no datapoint after the warm-up.
        """
        self.reset_state()
        source = iter(self.ds)
        self._take(source, self.warmup, "Warmup")
        begin = time.perf_counter()
        taken = self._take(source, self.test_size, "Speed")
        if taken == 0 and self.test_size > 0:
            logger.warning(
                f"TestDataSpeed: {type(self.ds).__name__} has no datapoint after the warm-up of {self.warmup}, so nothing was "
                "measured. Pass a smaller warmup, or repeat the data: RepeatedData(ds, -1)."
            )
            return 0.0
        speed = taken / max(time.perf_counter() - begin, 1e-9)
        logger.info(f"TestDataSpeed: {taken} datapoints of {type(self.ds).__name__}, {speed:.4g} per second.")
        return speed

    def _take(self, source: Iterator[Datapoint], size: int, description: str) -> int:
        if size < 1:
            return 0
        with get_tqdm(total=size, desc=description, leave=True, smoothing=0.2) as progress:
            for _ in itertools.islice(source, size):
                progress.update()
            return int(progress.n)


class PrintData(ProxyDataFlow):
    """
    DataFlow that logs the types, shapes and ranges of the first datapoints.

    Length: that of `ds`.
    Order: that of `ds`.
    Process: runs in the current process. In a worker process, the logger of the worker is used.

    Args:
        ds: the DataFlow to look at.
        num: number of datapoints to log after `reset_state`, over all passes.
        name: name of the DataFlow in the log. Default: the class of `ds`.
        max_depth: how many levels of nested lists and dicts to describe.
        max_list: how many elements of such a list or dict to describe.

    Example:
        >>> PrintData(BatchData(Mnist("train"), 32))
        PrintData: datapoint 1 of BatchData, with 2 components:
           0: ndarray float32 of shape (32, 28, 28), in [0, 1]
           1: ndarray uint8 of shape (32,), in [0, 9]
    """

    def __init__(
        self, ds: DataFlow, num: int = 1, name: str | None = None, max_depth: int = 3, max_list: int = 3
    ) -> None:
        super().__init__(ds)
        self.num = num
        self.name = type(ds).__name__ if name is None else name
        self.max_depth = max_depth
        self.max_list = max_list
        self._shown = 0

    def reset_state(self) -> None:
        """Reset `ds` and the count of logged datapoints."""
        super().reset_state()
        self._shown = 0

    def iter_from(self, num_done: int) -> Iterator[Datapoint]:
        """Yield the datapoints of `ds`, and log the first ones after `reset_state`."""
        source = iter(self.ds)
        for datapoint in itertools.islice(source, max(0, self.num - self._shown)):
            self._shown += 1
            logger.info(self._describe(datapoint))
            yield datapoint
        yield from source

    def _describe(self, datapoint: Datapoint) -> str:
        head = f"PrintData: datapoint {self._shown} of {self.name}, "
        if not isinstance(datapoint, (list, tuple, dict)):
            return f"{head}which is not a list or a dict:\n" + "\n".join(self._lines("", datapoint, 1))
        lines = [f"{head}with {len(datapoint)} components:"]
        for key, component in _entries(datapoint):
            lines += self._lines(f"{key!r}: ", component, 1)
        return "\n".join(lines)

    def _lines(self, label: str, component: object, depth: int) -> list[str]:
        """Return one line for a component, and lines for its elements below it."""
        lines = ["   " * depth + label + _summary(component)]
        if not isinstance(component, (list, tuple, dict)) or depth >= self.max_depth:
            return lines
        entries = list(itertools.islice(_entries(component), self.max_list))
        for key, element in entries:
            lines += self._lines(f"{key!r}: ", element, depth + 1)
        if len(entries) < len(component):
            lines.append("   " * (depth + 1) + f"... {len(component) - len(entries)} more")
        return lines


def _entries(container: Sequence[Any] | dict[Any, Any]) -> Iterator[tuple[object, object]]:
    return iter(container.items()) if isinstance(container, dict) else enumerate(container)


def _summary(component: object) -> str:
    kind = type(component).__name__
    if isinstance(component, np.ndarray):
        return f"{kind} {component.dtype} of shape {component.shape}{_range(component)}"
    if isinstance(component, (list, tuple, dict)):
        return f"{kind} of length {len(component)}"
    if isinstance(component, (str, bytes)):
        dots = " ..." if len(component) > _MAX_TEXT else ""
        return f"{kind} of length {len(component)}: {component[:_MAX_TEXT]!r}{dots}"
    if isinstance(component, (bool, int, float, complex, np.generic)):
        return f"{kind} {component}"
    return kind


def _range(array: np.ndarray) -> str:
    if array.size == 0:
        return ", empty"
    if array.dtype.kind == "b":
        return f", {np.count_nonzero(array)} of {array.size} true"
    if array.dtype.kind not in "iuf":
        return ""
    return f", in [{array.min():.5g}, {array.max():.5g}]"
