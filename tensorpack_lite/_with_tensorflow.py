"""The names in `from tensorpack_lite import *` that need TensorFlow."""

from __future__ import annotations

from . import callbacks, compat, graph_builder, input_source, models, predict, tfutils, train
from .callbacks import *
from .compat import tfv1
from .input_source import *
from .models import *
from .predict import *
from .tfutils import *
from .train import *

__all__ = [
    "callbacks", "compat", "graph_builder", "input_source", "models", "predict", "tfutils", "tfv1", "train",
]  # fmt: skip
__all__ += input_source.__all__
__all__ += tfutils.__all__
__all__ += models.__all__
__all__ += train.__all__
__all__ += callbacks.__all__
__all__ += predict.__all__
