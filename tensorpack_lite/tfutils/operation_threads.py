"""The number of threads that compute one operation on a CPU, from the work of a run."""

from __future__ import annotations

import os
from typing import Callable, NamedTuple, Sequence

from ..compat import TF_VERSION
from ..compat import tfv1 as tf
from ..utils import logger
from ..utils.gpu import get_num_gpu
from .flops import PRODUCTS, count_flops
from .sesscreate import NewSessionCreator

_CHAIN = 2 / 3  # of a training step: forward, and the gradients of inputs; those of kernels are computed beside them
_WORTH = 0.9  # of the time with one thread, at most
_ASSUMED_BATCH, _ASSUMED_SIZE = 32, 64  # for dimensions that the graph does not know


class Work(NamedTuple):
    """
    The work of one run of a session.

    Attributes:
        flops: floating-point operations of the convolutions and matrix products.
        products: the number of these.
        is_training: whether the run computes gradients.
        copies: the number of towers, which run at the same time.
    """

    flops: float
    products: int
    is_training: bool = False
    copies: int = 1


class Split(NamedTuple):
    """
    The cost of dividing an operation among several threads.

    Attributes:
        efficiency: how much faster several threads compute than one, by their number.
        overhead: FLOPs that one core would compute in the time that the division itself takes.
    """

    efficiency: float
    overhead: float


# Fitted to steps of three networks with batches of 1 to 256 on two cores; see benchmarks/threads.py and docs/speed.md.
_ONEDNN = Split(efficiency=0.93, overhead=6e6)
_EIGEN = Split(efficiency=1.0, overhead=1.4e6)


def predict_gain(work: Work, cores: float, split: Split | None = None) -> float:
    """
    Predict the time of a run whose operations have all cores, divided by that with one thread for each operation.

    With one thread for each operation, operations that do not depend on each other run at the same time, but most of a network
    is a chain. With all cores, one operation runs after the other.

    Args:
        work: the work of a run.
        cores: the number of cores.
        split: the cost of dividing an operation; None means that of the installed TensorFlow.

    Returns:
        A ratio; below 1, several threads are faster.
    """
    split = split or _split_of_tensorflow()
    if cores < 2 or not work.products:
        return 1.0
    chain = (_CHAIN if work.is_training else 1.0) / work.copies
    one = work.flops * max(chain, 1 / cores)
    return (work.flops / (cores * split.efficiency) + work.products * split.overhead) / one


def choose_threads(work: Work, cores: float) -> int:
    """Return the number of threads for each operation: 1, or all cores if that takes at most 0.9 of the time."""
    return int(cores) if predict_gain(work, cores) <= _WORTH else 1


def measure_work(
    targets: Sequence[tf.Operation | tf.Tensor],
    inputs: Sequence[tf.Tensor],
    batch: int | None,
    is_training: bool = False,
    copies: int = 1,
) -> Work:
    """
    Return the work of a run of some operations.

    The graph is copied with inputs of known shape, so that TensorFlow infers the other shapes. Nothing is computed.

    Args:
        targets: operations or tensors that the run evaluates.
        inputs: the tensors that hold the data.
        batch: the size of their first dimension, where the graph does not know it. None means 32. All other unknown dimensions
            count as 64.
        is_training, copies: see `Work`.
    """
    graph = tf.get_default_graph()
    names = sorted({target.name.partition(":")[0] for target in targets})
    definition = tf.graph_util.extract_sub_graph(graph.as_graph_def(), names)
    if not any(node.op in PRODUCTS for node in definition.node):
        return Work(0.0, 0, is_training, copies)
    kept = {node.name for node in definition.node}
    with tf.Graph().as_default() as copy:
        known = {
            tensor.name: _placeholder(tensor, batch or _ASSUMED_BATCH) for tensor in inputs if tensor.op.name in kept
        }
        tf.import_graph_def(definition, input_map=known, name="")
    counts = [count_flops(op) or 0 for op in copy.get_operations() if op.type in PRODUCTS]
    return Work(float(sum(counts)), len(counts), is_training, copies)


def set_threads(
    creator: tf.train.SessionCreator, measure: Callable[[], Work], cores: float, threads: int | None = None
) -> None:
    """
    Set the number of threads for each operation in the config of a session that will be created.

    Nothing changes if the user has given the config, or if there is a GPU, where these threads only prepare the work.

    Args:
        creator: the creator of the session. Others than `NewSessionCreator` are left alone.
        measure: returns the work of a run; it is called if the number depends on it.
        cores: the number of cores.
        threads: the number; 0 means all cores, None the one that is predicted to be faster.
    """
    if not isinstance(creator, NewSessionCreator) or creator.user_provided_config or get_num_gpu():
        return
    if threads is None and cores >= 2:
        work = measure()
        threads = choose_threads(work, cores)
        logger.info(describe_choice(threads, work, cores))
    creator.config.intra_op_parallelism_threads = max(1, int(cores)) if threads == 0 else threads or 1


def describe_choice(threads: int, work: Work, cores: float) -> str:
    """Return a sentence with the number of threads and its reason."""
    text = (
        f"Each operation has {threads} thread{'s' if threads > 1 else ''} on {cores:g} core{'s' if cores > 1 else ''}"
    )
    if not work.products:
        return f"{text}: a run has no convolutions or matrix products."
    text += f": a run has {work.products} products of {work.flops / work.products / 1e6:.3g} MFLOP on average"
    if cores >= 2:
        text += f"; with {int(cores)} threads, it would take about {predict_gain(work, cores):.2f} of the time with 1"
    return f"{text}."


def _split_of_tensorflow() -> Split:
    has_onednn = TF_VERSION >= (2, 9) and os.environ.get("TF_ENABLE_ONEDNN_OPTS", "1") not in ("0", "false")
    return _ONEDNN if has_onednn else _EIGEN


def _placeholder(tensor: tf.Tensor, batch: int) -> tf.Tensor:
    shape = None
    if tensor.shape.rank is not None:
        first = [batch if size is None else size for size in tensor.shape.as_list()[:1]]
        shape = [*first, *(_ASSUMED_SIZE if size is None else size for size in tensor.shape.as_list()[1:])]
    return tf.placeholder(tensor.dtype, shape)
