"""
The rows of a table, which may be a pandas DataFrame, an Arrow table, a Parquet file or a dict of arrays.

In:  a table of one of these kinds.
Out: the first DataFlow of a pipeline.
"""

from __future__ import annotations

import os
from typing import Any, Hashable, Iterable, Sequence, Union

import numpy as np

from ..dataflow.base import Datapoint, IndexedData
from ..utils.errors import parsing, type_error
from ..utils.optional import load_optional

__all__ = ["DataFromTable"]

Columns = Sequence[Union[Hashable, Sequence[Hashable]]]


class DataFromTable(IndexedData):
    """
    The rows of a table, with one component for each entry of `columns`.

    The columns are converted to NumPy arrays once. Exact resume continues at the index of the next row.

    Length: the number of rows.
    Order: a new random order in each pass, or that of the table.
    Process: runs in the current process.

    Args:
        table: a pandas DataFrame, a `pyarrow.Table`, a dict of arrays, or any other table for which `table[name]` is a
            column; or the path of a Parquet file, of which only `columns` are read.
        columns: for each component the name of a column, whose value is the component, or a list of names, whose values
            become one array of shape [number of names]. Names may also be integers, as in a DataFrame without a header.
        shuffle: whether to use a new random order in each pass; requires `reset_state`.

    Raises:
        DamagedFileError: the Parquet file is damaged.
        ImportError: `table` is a path, and pyarrow is not installed.
        KeyError: the table has no such column.
        TypeError: `table` has no columns.
        ValueError: `columns` is empty, or the columns have different lengths.

    Example:
        >>> DataFromTable(frame, [["age", "income"], "label"])  # [array of 2, label]
    """

    def __init__(self, table: Any, columns: Hashable | Columns, shuffle: bool = True) -> None:
        super().__init__(shuffle)
        entries = _entries(columns)
        if not entries:
            raise ValueError("DataFromTable: columns is empty (expected names of columns).")
        if isinstance(table, (str, os.PathLike)):
            table = _read_parquet(os.fspath(table), entries)
        if not hasattr(table, "__getitem__") or isinstance(table, (list, tuple, np.ndarray)):
            raise type_error("DataFromTable", "a table with named columns", table, "For rows, use DataFromList.")
        values = {name: _column(table, name) for name in _names(entries)}
        lengths = {name: len(column) for name, column in values.items()}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"DataFromTable: the columns have different lengths: {lengths}.")
        self._components = [
            np.stack([values[name] for name in entry], axis=-1) if _is_group(entry) else values[entry]
            for entry in entries
        ]

    def __len__(self) -> int:
        return len(self._components[0])

    def _datapoint(self, index: int) -> Datapoint:
        return [values[index] for values in self._components]


def _is_group(entry: object) -> bool:
    """Return whether an entry of `columns` has several names."""
    return isinstance(entry, Iterable) and not isinstance(entry, (str, bytes))


def _entries(columns: Any) -> list[Any]:
    return list(columns) if _is_group(columns) else [columns]


def _names(columns: Sequence[Any]) -> list[Any]:
    return [name for entry in columns for name in _entries(entry)]


def _read_parquet(path: str, columns: Sequence[Any]) -> Any:
    parquet = load_optional("pyarrow.parquet", "DataFromTable")
    with parsing(path, "a Parquet file"):
        known = parquet.read_schema(path).names
        names = [name for name in _names(columns) if name in known]  # `_column` reports the others
        return parquet.read_table(path, columns=names)


def _column(table: Any, name: Any) -> np.ndarray:
    try:
        return np.asarray(table[name])
    except (KeyError, IndexError):
        raise KeyError(f"DataFromTable: the table has no column {name!r}. Check the name in columns.") from None
