"""tensorpack's path of the builders, which are defined in other modules of this package."""

from .asynchronous import AsyncMultiGPUBuilder
from .data_parallel import DataParallelBuilder, GraphBuilder
from .parameter_server import SyncMultiGPUParameterServerBuilder
from .replicated import SyncMultiGPUReplicatedBuilder

__all__ = [
    "AsyncMultiGPUBuilder", "DataParallelBuilder", "GraphBuilder", "SyncMultiGPUParameterServerBuilder",
    "SyncMultiGPUReplicatedBuilder",
]  # fmt: skip
