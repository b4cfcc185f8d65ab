"""
tensorpack_lite: training of TensorFlow graphs, with tensorpack's interface.

A datapoint's way through the house, and the packages it passes:

    dataflow -> input_source -> tfutils.tower, models, graph_builder -> train, loop -> callbacks -> predict

`from tensorpack_lite import *` gives what `from tensorpack import *` gave. Importing changes nothing outside
this package. TensorFlow takes seconds to import, so it is imported when the first name that needs it is asked for:
worker processes, data scripts and the launcher of ranks never pay for it. Where it is not installed, `dataflow` and `utils`
work. Every other name raises an error with the command that installs TensorFlow.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from . import utils
from ._names import DATAFLOW_NAMES, TENSORFLOW_NAMES
from ._version import __version__
from .utils import *

if TYPE_CHECKING:
    from . import dataflow
    from ._with_tensorflow import *
    from .dataflow import *

__all__ = ["dataflow", "utils"]
__all__ += utils.__all__
__all__ += DATAFLOW_NAMES
if find_spec("tensorflow") is not None:
    __all__ += TENSORFLOW_NAMES


def __getattr__(name: str) -> Any:
    if name == "dataflow" or name in DATAFLOW_NAMES:
        package = import_module(".dataflow", __name__)
        return package if name == "dataflow" else getattr(package, name)
    if name not in TENSORFLOW_NAMES:
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}. dir({__name__}) lists the names it has."
        )
    if find_spec("tensorflow") is None:
        message = f'{__name__}.{name} needs TensorFlow. Run: pip install "tensorpack_lite[tf]"'
        raise ImportError(message) if _in_from_import() else AttributeError(message)
    from . import _with_tensorflow

    return getattr(_with_tensorflow, name)


def _in_from_import() -> bool:
    """
    Tell whether a `from ... import` statement asks for a name, not `getattr` or `hasattr`.

    `hasattr` needs an AttributeError. A `from` import would replace an AttributeError, and the advice in it, by a bare
    "cannot import name", so it gets an ImportError.
    """
    return sys._getframe(2).f_code.co_name == "_handle_fromlist"


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
