"""Address: the builders live in data_parallel.py, parameter_server.py, replicated.py and asynchronous.py."""

from .asynchronous import AsyncMultiGPUBuilder
from .data_parallel import DataParallelBuilder, GraphBuilder
from .parameter_server import SyncMultiGPUParameterServerBuilder
from .replicated import SyncMultiGPUReplicatedBuilder

__all__ = [
    "AsyncMultiGPUBuilder",
    "DataParallelBuilder",
    "GraphBuilder",
    "SyncMultiGPUParameterServerBuilder",
    "SyncMultiGPUReplicatedBuilder",
]
