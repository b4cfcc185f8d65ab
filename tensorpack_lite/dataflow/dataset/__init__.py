"""
Well-known datasets: each class finds or downloads its files and yields their datapoints.

In:  files below `get_dataset_path`, i.e. `$TENSORPACK_DATASET` or `~/tensorpack_data`, or below a given directory.
Out: a DataFlow of single datapoints, e.g. [image, label].

`indexed.py` has the base classes; `files.py` finds, downloads and unpacks files; `readers.py` reads them
without executing their content.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...utils.missing_names import explain_missing_names
from ..base import IndexedData
from .bsds500 import BSDS500
from .caltech101 import Caltech101Silhouettes
from .cifar import Cifar10, Cifar100, CifarBase
from .digits import Digits
from .ilsvrc import ILSVRC12, ILSVRC12Files, TinyImageNet
from .ilsvrc_meta import ILSVRCMeta
from .indexed import LabelledFiles, StoredPairs
from .mnist import FashionMnist, Mnist
from .places import Places365Standard
from .svhn import SVHNDigit

__all__ = [
    "BSDS500", "ILSVRC12", "Caltech101Silhouettes", "Cifar10", "Cifar100", "CifarBase", "Digits",
    "FashionMnist", "ILSVRC12Files", "ILSVRCMeta", "IndexedData", "LabelledFiles", "Mnist", "Places365Standard",
    "SVHNDigit", "StoredPairs", "TinyImageNet",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = explain_missing_names(__name__)
