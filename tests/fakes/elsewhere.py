"""Data with the interfaces of other libraries, which need not be installed."""

from __future__ import annotations

import numpy as np

__all__ = ["Batches", "Frame", "Loader", "MapStyle", "Rows"]

SIZE = 7


class MapStyle:
    """The interface of PyTorch's `Dataset`: tuples by index, no `__iter__`, and no IndexError at the end."""

    def __init__(self) -> None:
        self.asked = []

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index):
        assert isinstance(index, int)
        self.asked.append(index)
        return np.float32([index, -index]), index


class Rows:
    """The interface of Hugging Face's `Dataset`: dicts by index."""

    column_names = ["x", "y"]

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index):
        assert isinstance(index, int)
        return {"x": [float(index), 0.0], "y": index}


class Batches:
    """The interface of Keras' `Sequence`: whole batches by index."""

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index):
        return np.full([4, 2], index, "float32"), np.full([4], index)

    def on_epoch_end(self) -> None:
        raise AssertionError


class Loader:
    """The interface of PyTorch's `DataLoader`, Hugging Face's `IterableDataset` and WebDataset: iteration only."""

    def __iter__(self):
        return ((np.float32([k, -k]), k) for k in range(SIZE))


class Frame:
    """The interface of a pandas DataFrame: columns by name, the length is the number of rows."""

    columns = ["a", "b", "label"]

    def __len__(self) -> int:
        return SIZE

    def __iter__(self):
        return iter(self.columns)

    def __getitem__(self, name):
        return {"a": np.arange(SIZE) * 1.0, "b": np.arange(SIZE) * -1.0, "label": np.arange(SIZE)}[name]
