"""The number of threads that compute one operation on a CPU, from the work of a run."""

from __future__ import annotations

import os
from typing import Callable, NamedTuple, Sequence

from ..compat import TF_VERSION
from ..compat import tfv1 as tf
from ..utils import logger
from ..utils.cores import usable_cores
from ..utils.gpu import get_num_gpu
from .dependency import operations_needed
from .flops import PRODUCTS, count_flops, num_elements
from .sesscreate import NewSessionCreator

_WORTH = 0.93  # of the time with one thread, at most
_ELEMENT = 5.0  # FLOPs that a core computes in the time that it takes to read and write one element
_DIVIDED = 2e6  # FLOPs; smaller operations are not divided
_ASSUMED_BATCH, _ASSUMED_SIZE = 32, 64  # for dimensions that the graph does not know
_LARGEST_COPY = 1 << 28  # bytes of constants; copying takes several times as much memory, and fails from 2 GB on
# operations that copy nothing, or little
_FREE = (
    "ConcatV2", "Const", "ExpandDims", "Identity", "IdentityN", "NoOp", "Pack", "Placeholder", "ReadVariableOp", "Reshape", "Shape",
    "ShapeN", "Slice", "Split", "SplitV", "Squeeze", "StridedSlice", "Unpack", "VarHandleOp", "VariableV2",
)  # fmt: skip


class Work(NamedTuple):
    """
    The work of one run of a session. Its unit is the time in which a core computes a floating-point operation of a product.

    Attributes:
        total: of all operations.
        chain: of the longest chain of operations that wait for each other.
        divided: the number of operations that are large enough to be divided among threads.
    """

    total: float
    chain: float
    divided: int


class Division(NamedTuple):
    """
    The cost of dividing operations among threads.

    Attributes:
        efficiency: the speed of n threads, divided by n and the speed of one.
        overhead: the work that one core would do in the time that it takes to divide an operation.
    """

    efficiency: float
    overhead: float


# Fitted to the steps of three networks with batches of 1 to 256 on two cores, see benchmarks/threads.py and docs/speed.md.
_ONEDNN = Division(efficiency=0.95, overhead=5e6)
_EIGEN = Division(efficiency=0.9, overhead=1e6)


def predict_gain(work: Work, cores: float, division: Division | None = None) -> float:
    """
    Predict the time of a run whose operations have all cores, divided by that with one thread for each operation.

    With one thread, operations that do not wait for each other run at the same time. With all cores, one runs after the other.

    Args:
        work: the work of a run.
        cores: the number of cores.
        division: the cost of dividing operations; None means that of the installed TensorFlow.

    Returns:
        A ratio; below 1, all cores are faster. 1 if no operation is large enough to be divided.
    """
    if cores < 2 or not work.divided:
        return 1.0
    division = division or _division_of_tensorflow()
    divided = work.total / (cores * division.efficiency) + work.divided * division.overhead
    return divided / max(work.chain, work.total / cores)


def choose_threads(work: Work, cores: float) -> int:
    """Return the number of threads for each operation: 1, or all cores if that takes at most 0.93 of the time."""
    return int(cores) if predict_gain(work, cores) <= _WORTH else 1


def measure_work(
    targets: Sequence[tf.Operation | tf.Tensor], inputs: Sequence[tf.Tensor], batch: int | None = None
) -> Work:
    """
    Return the work of a run of some operations.

    If a shape of the inputs is not known, the graph is copied with known ones, so that TensorFlow infers all shapes. Nothing is
    computed. If the graph cannot be copied, or has more than 256 MB of constants, operations of unknown shape count as free.

    Args:
        targets: operations or tensors that the run evaluates.
        inputs: the tensors that hold the data.
        batch: the size of their first dimension, where the graph does not know it. None means 32. All other unknown dimensions
            count as 64.
    """
    graph = tf.get_default_graph()
    needed = {op.name for op in operations_needed(targets)}
    operations = [op for op in graph.get_operations() if op.name in needed]
    unknown = [tensor for tensor in inputs if tensor.op.name in needed and not tensor.shape.is_fully_defined()]
    if not unknown or sum(map(_bytes_of_constant, operations)) > _LARGEST_COPY:
        return _add_up(operations)
    try:
        return _add_up(_copy_with_shapes(operations, unknown, batch or _ASSUMED_BATCH))
    except Exception as error:  # noqa: BLE001 (mostly ValueError: the model only fits other sizes; or what TensorFlow cannot copy)
        logger.debug(f"Threads of each operation: the graph was not copied: {type(error).__name__}: {error}")
        return _add_up(operations)


def measure_or_warn(measure: Callable[[], Work]) -> Work | None:
    """Return the work of a run; None, with a warning, if it cannot be measured, because that must not end what worked without."""
    try:
        return measure()
    except Exception as error:  # noqa: BLE001 (graphs of users may contain anything)
        logger.warning(f"The work of a run cannot be measured: {type(error).__name__}: {error}")
        return None


def _bytes_of_constant(op: tf.Operation) -> int:
    if op.type != "Const":
        return 0
    return (num_elements(op.outputs[0]) or 0) * op.outputs[0].dtype.size


def _copy_with_shapes(
    operations: Sequence[tf.Operation], inputs: Sequence[tf.Tensor], batch: int
) -> Sequence[tf.Operation]:
    names = [op.name for op in operations]
    definition = tf.graph_util.extract_sub_graph(tf.get_default_graph().as_graph_def(), names)
    with tf.Graph().as_default() as copy:
        known = {tensor.name: _placeholder(tensor, batch) for tensor in inputs}
        tf.import_graph_def(definition, input_map=known, name="")
    return copy.get_operations()


def _add_up(operations: Sequence[tf.Operation]) -> Work:
    ends: dict[str, float] = {}  # of the longest chain to each operation
    total, divided = 0.0, 0
    for op in operations:
        cost = _cost(op)
        before = [tensor.op.name for tensor in op.inputs] + [control.name for control in op.control_inputs]
        ends[op.name] = cost + max((ends.get(name, 0.0) for name in before), default=0.0)
        total += cost
        divided += cost > _DIVIDED
    return Work(total, max(ends.values(), default=0.0), divided)


def _cost(op: tf.Operation) -> float:
    if op.type in PRODUCTS:
        return float(count_flops(op) or 0)
    if op.type in _FREE:
        return 0.0
    return _ELEMENT * max((num_elements(tensor) or 0 for tensor in (*op.inputs, *op.outputs)), default=0)


def set_threads(
    creator: tf.train.SessionCreator, measure: Callable[[], Work], cores: float, threads: int | None = None
) -> str:
    """
    Set the number of threads for each operation in the config of a session that will be created.

    Nothing changes if the user has given the config or changed its number, or if there is a GPU, where these threads only prepare the work.

    Args:
        creator: the creator of the session. Others than `NewSessionCreator` are left alone.
        measure: returns the work of a run; it is called if the number depends on it. If it fails, the number is 1.
        cores: the number of cores.
        threads: the number; 0 means all cores, None the one that is predicted to be faster.

    Returns:
        A sentence with the number and its reason if it was chosen; otherwise "".
    """
    if not isinstance(creator, NewSessionCreator) or creator.user_provided_config or get_num_gpu():
        return ""
    if threads is None and creator.config.intra_op_parallelism_threads != creator.chosen_threads:
        return ""
    reason = ""
    if threads is None and cores >= 2:
        work = measure_or_warn(measure)
        if work is not None:
            threads = choose_threads(work, cores)
            reason = describe_choice(threads, work, cores)
    creator._set_threads(max(1, int(cores)) if threads == 0 else threads or 1)
    return reason


def threads_in(config: tf.ConfigProto | None) -> int:
    """Return the number of threads for each operation in a session's config; all cores if it has none."""
    number = 0 if config is None else int(config.intra_op_parallelism_threads)
    return number or max(1, int(usable_cores()))


def describe_choice(threads: int, work: Work, cores: float) -> str:
    """Return a sentence with the number of threads and its reason."""
    gain = predict_gain(work, cores)
    reason = f"with {int(cores)}, a run would take about {gain:.2f} of the time"
    if threads > 1:
        reason = f"with 1, a run would take about {1 / gain:.2f} times as long"
    return f"Threads of each operation: {threads}, on {cores:g} cores; {reason}."


def _division_of_tensorflow() -> Division:
    has_onednn = TF_VERSION >= (2, 9) and os.environ.get("TF_ENABLE_ONEDNN_OPTS", "1") not in ("0", "false")
    return _ONEDNN if has_onednn else _EIGEN


def _placeholder(tensor: tf.Tensor, batch: int) -> tf.Tensor:
    shape = None
    if tensor.shape.rank is not None:
        first = [batch if size is None else size for size in tensor.shape.as_list()[:1]]
        shape = [*first, *(_ASSUMED_SIZE if size is None else size for size in tensor.shape.as_list()[1:])]
    return tf.placeholder(tensor.dtype, shape)
