"""
tensorpack_lite: training of TensorFlow graphs, with tensorpack's interface.

A datapoint's way through the house, and the packages it passes:

    dataflow -> input_source -> tfutils.tower, models, graph_builder -> train, loop -> callbacks -> predict

`from tensorpack_lite import *` gives what `from tensorpack import *` gave. Importing changes nothing outside
this package. Where TensorFlow is not installed, `dataflow` and `utils` are here and everything else says so.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from . import dataflow, utils
from ._version import __version__
from .dataflow import *
from .utils import *

__all__ = ["dataflow", "utils"]
__all__ += utils.__all__
__all__ += dataflow.__all__

if find_spec("tensorflow") is not None:
    from . import callbacks, compat, graph_builder, input_source, models, predict, tfutils, train
    from .callbacks import *
    from .compat import tfv1
    from .input_source import *
    from .models import *
    from .predict import *
    from .tfutils import *
    from .train import *

    __all__ += [
        "callbacks",
        "compat",
        "graph_builder",
        "input_source",
        "models",
        "predict",
        "tfutils",
        "tfv1",
        "train",
    ]
    __all__ += input_source.__all__
    __all__ += tfutils.__all__
    __all__ += models.__all__
    __all__ += train.__all__
    __all__ += callbacks.__all__
    __all__ += predict.__all__

else:  # pragma: no cover (tests/api/test_without_tensorflow.py asks processes of their own)

    def __getattr__(name: str) -> Any:
        if name.startswith("__"):  # what Python itself asks every module for
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        raise ImportError(f'{__name__}.{name} needs TensorFlow: pip install "tensorpack_lite[tf]"')
