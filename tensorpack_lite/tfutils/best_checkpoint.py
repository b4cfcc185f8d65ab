"""
The best checkpoint in the directory of a training.

In:  the records that `MinSaver`, `MaxSaver` and `TopKSaver` write beside their copies, `<name>.json`.
Out: the path of the best checkpoint.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, Iterator, NamedTuple

from ..compat import tfv1 as tf


class BestCheckpoint(NamedTuple):
    """
    The best checkpoint by one statistic.

    Attributes:
        name: its name in the directory, e.g. "min-validation_error".
        statistic: the statistic.
        step: the step at which it was saved.
        value: the value of the statistic.
    """

    name: str
    statistic: str
    step: int
    value: float


def find_best(directory: str) -> str:
    """
    Return the path of the best checkpoint in a directory.

    Raises:
        ValueError: there is none, or there are several by different statistics, or of different steps.
    """
    found = list(list_best(directory))
    if not found:
        raise ValueError(
            f"There is no best checkpoint in {directory} (expected a copy of MinSaver, MaxSaver or TopKSaver). Its latest "
            "checkpoint may exist."
        )
    if len({(best.statistic, best.step) for best in found}) > 1:
        names = ", ".join(f"{best.name} ('{best.statistic}' = {best.value:.5g})" for best in found)
        raise ValueError(f"There are several best checkpoints in {directory}: {names}. Pass the path of one of them.")
    return os.path.join(directory, found[0].name)


def list_best(directory: str) -> Iterator[BestCheckpoint]:
    """Yield the best copy of each record in a directory, in the order of their names. Other files are ignored."""
    names = tf.gfile.ListDirectory(directory) if tf.gfile.IsDirectory(directory) else []
    for name in sorted(name for name in names if re.fullmatch(r"[^.].*\.json", name)):
        try:
            with tf.gfile.Open(os.path.join(directory, name)) as opened:
                record: Any = json.loads(opened.read())
            best = _parse(name[: -len(".json")], record)
        except (ValueError, KeyError, TypeError, IndexError):
            continue  # a file of something else, such as manifest.json
        if tf.gfile.Exists(os.path.join(directory, f"{best.name}.index")):
            yield best


def _parse(name: str, record: Any) -> BestCheckpoint:
    entry = record["kept"][0] if "kept" in record else record
    step = int(entry["step"])
    return BestCheckpoint(
        f"{name}-{step}" if "kept" in record else name, str(record["stat"]), step, float(entry["value"])
    )
