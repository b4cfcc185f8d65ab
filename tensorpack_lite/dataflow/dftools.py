"""Functions of tensorpack's `dataflow.dftools` that save a DataFlow, and its decoder of LMDB files."""

from __future__ import annotations

from ..utils.serialize import loads
from .base import DataFlow
from .files.lmdb_files import ValueParser
from .format import LMDBData, LMDBDataDecoder
from .remote import dump_dataflow_to_process_queue
from .serialize import LMDBSerializer, TFRecordSerializer

__all__ = [
    "LMDBDataPoint", "dump_dataflow_to_lmdb", "dump_dataflow_to_process_queue", "dump_dataflow_to_tfrecord",
]  # fmt: skip


class LMDBDataPoint(LMDBDataDecoder):
    """
    DataFlow that decodes the values of an LMDB database into datapoints. New code uses `LMDBSerializer.load(path)`.

    Length: that of `lmdb_data`.
    Order: that of `lmdb_data`.
    Process: runs in the current process. It can be pickled.

    Args:
        lmdb_data: an `LMDBData` or another DataFlow of [key, value]; or the arguments of `LMDBData`, as in 2016.
        args, kwargs: further arguments of `LMDBData`.

    Raises:
        DamagedFileError: (while iterating) a value is damaged.

    Example:
        >>> LMDBDataPoint(LMDBData("train.lmdb", shuffle=False))
    """

    def __init__(self, lmdb_data: DataFlow | str, *args: object, **kwargs: object) -> None:
        flow = LMDBData(lmdb_data, *args, **kwargs) if isinstance(lmdb_data, str) else lmdb_data  # type: ignore[arg-type]
        super().__init__(
            flow,
            ValueParser(flow._path if isinstance(flow, LMDBData) else type(flow).__name__, "a datapoint", loads),
        )


def dump_dataflow_to_lmdb(df: DataFlow, lmdb_path: str, write_frequency: int = 5000) -> None:
    """
    Save a DataFlow, like `LMDBSerializer.save`.

    Args:
        df, lmdb_path, write_frequency: see `LMDBSerializer.save`.
    """
    LMDBSerializer.save(df, lmdb_path, write_frequency)


def dump_dataflow_to_tfrecord(df: DataFlow, path: str) -> None:
    """
    Save a DataFlow, like `TFRecordSerializer.save`.

    Args:
        df, path: see `TFRecordSerializer.save`.
    """
    TFRecordSerializer.save(df, path)
