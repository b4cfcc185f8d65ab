"""
Data sets under a name: each class finds, or downloads, its files and yields their datapoints.

In:  files below `get_dataset_path`, i.e. `$TENSORPACK_DATASET` or `~/tensorpack_data`, or below a directory given.
Out: a DataFlow of single datapoints, e.g. [image, label].

`indexed.py` is what they all have in common; `files.py` finds, downloads and unpacks; `readers.py` and `array_pickle.py`
read, and run nothing that is in a file.
"""

from __future__ import annotations

from .bsds500 import BSDS500
from .caltech101 import Caltech101Silhouettes
from .cifar import Cifar10, Cifar100, CifarBase
from .digits import Digits
from .ilsvrc import ILSVRC12, ILSVRC12Files, TinyImageNet
from .ilsvrc_meta import ILSVRCMeta
from .mnist import FashionMnist, Mnist
from .places import Places365Standard
from .svhn import SVHNDigit

__all__ = [
    "BSDS500",
    "ILSVRC12",
    "Caltech101Silhouettes",
    "Cifar10",
    "Cifar100",
    "CifarBase",
    "Digits",
    "FashionMnist",
    "ILSVRC12Files",
    "ILSVRCMeta",
    "Mnist",
    "Places365Standard",
    "SVHNDigit",
    "TinyImageNet",
]
