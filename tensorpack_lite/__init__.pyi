"""The names in `tensorpack_lite`, for type checkers and editors. A test compares them with those at run time."""

from . import callbacks as callbacks
from . import compat as compat
from . import dataflow as dataflow
from . import graph_builder as graph_builder
from . import input_source as input_source
from . import models as models
from . import predict as predict
from . import tfutils as tfutils
from . import train as train
from . import utils as utils
from ._version import __version__ as __version__
from .callbacks import *
from .compat.stubs import tfv1 as tfv1
from .dataflow import *
from .input_source import *
from .models import *
from .predict import *
from .tfutils import *
from .train import *
from .utils import *
