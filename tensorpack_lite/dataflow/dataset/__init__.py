"""
Data sets under a name: each class finds, or downloads, its files and yields their datapoints.

In:  files below `get_dataset_path`, i.e. `$TENSORPACK_DATASET` or `~/tensorpack_data`.
Out: a DataFlow of single datapoints, e.g. [image, label].
"""

from __future__ import annotations

from .digits import Digits
from .mnist import FashionMnist, Mnist

__all__ = ["Digits", "FashionMnist", "Mnist"]
