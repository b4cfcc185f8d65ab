"""
Table of computations whose results must have the same bytes in each run: layers, losses, reductions and loops.

A case is a function that gets `Inputs` and returns tensors. Most operations are large enough to be divided among threads: at least
2 MFLOP, or 64k elements.
"""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
from conformance.layer_rows import IMAGES, ROWS, SEQUENCES, VECTORS

from tensorpack_lite import models
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.symbolic_functions import sum_repeated_rows

GROUPS: dict[str, dict[str, Callable[[Inputs], Any]]] = {}
"""Cases by name, by the name of their group. One session runs a group, so that operations of different cases run at the same time."""

LARGER = {IMAGES: (48, 20, 24, 4), VECTORS: (12288, 6), SEQUENCES: (3, 64, 4), (4, 3, 2, 4): (4, 64, 64, 4)}
ROWS_WIDE = 8192  # indices of sparse operations, in 100 rows


class Inputs:
    """Placeholders with random values, which no optimization of the graph can compute before the run."""

    def __init__(self) -> None:
        self.rng, self.feeds = np.random.RandomState(0), {}

    def feed(self, value: Any) -> Any:
        tensor = tf.placeholder(value.dtype, value.shape)
        self.feeds[tensor] = value
        return tensor

    def floats(self, *shape: int) -> Any:
        return self.feed(self.rng.randn(*shape).astype("float32"))

    def positive(self, *shape: int) -> Any:
        return self.feed(self.rng.uniform(0.1, 1, shape).astype("float32"))

    def integers(self, high: int, *shape: int) -> Any:
        return self.feed(self.rng.randint(0, high, shape).astype("int32"))

    def sorted(self, high: int, size: int) -> Any:
        return self.feed(np.sort(self.rng.randint(0, high, size)).astype("int32"))

    def sparse(self, rows: int, columns: int, number: int) -> Any:
        places = np.unique(self.rng.randint(0, rows * columns, number))
        indices = np.stack([places // columns, places % columns], 1).astype("int64")
        return tf.SparseTensor(self.feed(indices), self.floats(len(places)), np.array([rows, columns], "int64"))


def gradients(output: Any, inputs: Any) -> Any:
    """Return the gradients of the sum of squares, those of gathered rows as dense tensors."""
    found = tf.gradients(tf.reduce_sum(tf.square(tf.cast(output, tf.float32))), inputs)
    return [tf.convert_to_tensor(grad) for grad in found if grad is not None]


def with_gradients(function: Callable[..., Any], *make: Callable[[Inputs], Any]) -> Callable[[Inputs], Any]:
    """Return a case with the output of a function and its gradients by all inputs."""

    def case(inputs: Inputs) -> Any:
        values = [maker(inputs) for maker in make]
        output = function(*values)
        return [output, *gradients(output, [value for value in values if value.dtype.is_floating])]

    return case


def floats(*shape: int) -> Callable[[Inputs], Any]:
    return lambda inputs: inputs.floats(*shape)


def positive(*shape: int) -> Callable[[Inputs], Any]:
    return lambda inputs: inputs.positive(*shape)


def integers(high: int, *shape: int) -> Callable[[Inputs], Any]:
    return lambda inputs: inputs.integers(high, *shape)


# Layers -------------------------------------------------------------------------------------------------------------------


def layer(row: Any) -> Callable[[Inputs], Any]:
    def case(inputs: Inputs) -> Any:
        shape = (3, 5, 6, 4) if row.name == "ConcatWith" else LARGER[row.shape]
        steps = {"sequence_length": (64, 0, 33)} if "sequence_length" in row.kwargs else {}
        if "mask" in row.kwargs:
            steps["mask"] = np.arange(64) < np.array([[64], [0], [33]])
        return trained(lambda x: row.build(x, **steps), inputs.floats(*shape))

    return case


def trained(build: Callable[[Any], Any], x: Any) -> Any:
    """Return the output of a layer, all gradients and the updated averages."""
    scope = tf.get_variable_scope().name + "/"
    output = build(x)
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS, scope)
    averages = [op if isinstance(op, tf.Tensor) else list(op.outputs) for op in updates]
    return [output, gradients(output, [x, *tf.trainable_variables(scope)]), averages]


def wide(name: str, shape: Any, *args: Any, **kwargs: Any) -> Callable[[Inputs], Any]:
    """Return a case with a larger layer."""

    def build(x: Any) -> Any:
        output = getattr(models, name)(*([x] if name == "Dropout" else ["wide", x]), *args, **kwargs)
        return output[0] if isinstance(output, tuple) else output

    return lambda inputs: trained(build, inputs.floats(*shape))


GROUPS["layers"] = {str(row): layer(row) for row in ROWS}
GROUPS["large layers"] = {
    "Conv2D": wide("Conv2D", (16, 24, 24, 32), 48, 3),
    "Conv2D 1x1": wide("Conv2D", (16, 24, 24, 32), 64, 1),
    "Conv2D strided": wide("Conv2D", (16, 33, 33, 16), 32, 5, strides=2),
    "Conv2DTranspose": wide("Conv2DTranspose", (8, 16, 16, 32), 16, 4, strides=2),
    "FullyConnected": wide("FullyConnected", (256, 512), 384),
    "FullyConnected one sample": wide("FullyConnected", (1, 2048), 1024),
    "BatchNorm": wide("BatchNorm", (16, 24, 24, 32)),
    "BatchNorm vectors": wide("BatchNorm", (1024, 128)),
    "LayerNorm": wide("LayerNorm", (16, 24, 24, 32)),
    "InstanceNorm": wide("InstanceNorm", (16, 24, 24, 32)),
    "MaxPooling overlapping": wide("MaxPooling", (16, 25, 25, 32), 3, 2),
    "AvgPooling overlapping": wide("AvgPooling", (16, 25, 25, 32), 3, 2),
    "PReLU": wide("PReLU", (16, 24, 24, 32)),
    "Dropout": wide("Dropout", (256, 512), rate=0.3),
    "LSTM": wide("LSTM", (64, 16, 64), 128),
    "GRU": wide("GRU", (64, 16, 64), 128),
    "LSTM both directions": wide("LSTM", (32, 12, 64), 64, num_layers=2, bidirectional=True),
}  # fmt: skip


# Losses -------------------------------------------------------------------------------------------------------------------


def ctc(inputs: Inputs) -> Any:
    places = np.array([[n, t] for n in range(32) for t in range(6)], "int64")
    labels = tf.SparseTensor(inputs.feed(places), inputs.integers(19, len(places)), np.array([32, 6], "int64"))
    logits = inputs.floats(40, 32, 60)
    loss = tf.nn.ctc_loss(labels, logits, tf.fill([32], 40))
    return [loss, gradients(loss, [logits])]


def sampled(function: Any) -> Callable[[Inputs], Any]:
    def case(inputs: Inputs) -> Any:
        w, b, x, y = (
            inputs.floats(1000, 64),
            inputs.floats(1000),
            inputs.floats(2048, 64),
            inputs.integers(1000, 2048, 1),
        )
        draws = tf.random.log_uniform_candidate_sampler(tf.cast(y, tf.int64), 1, 256, True, 1000, seed=1)
        loss = function(w, b, y, x, 256, 1000, sampled_values=draws)
        return [loss, gradients(loss, [w, b, x])]

    return case


LARGE = (2048, 64)
GROUPS["losses"] = {
    "sparse_softmax_cross_entropy": with_gradients(
        lambda y, x: tf.losses.sparse_softmax_cross_entropy(y, x), integers(64, 2048), floats(*LARGE)
    ),
    "softmax_cross_entropy": with_gradients(
        lambda y, x: tf.losses.softmax_cross_entropy(tf.one_hot(y, 64), x, label_smoothing=0.1), integers(64, 2048), floats(*LARGE)
    ),
    "sigmoid_cross_entropy": with_gradients(
        lambda y, x: tf.losses.sigmoid_cross_entropy(y, x), integers(2, *LARGE), floats(*LARGE)
    ),
    "weighted_cross_entropy": with_gradients(
        lambda y, x: tf.nn.weighted_cross_entropy_with_logits(y, x, 2.0), positive(*LARGE), floats(*LARGE)
    ),
    "cosine_distance": with_gradients(lambda y, x: tf.losses.cosine_distance(y, x, axis=1), floats(*LARGE), floats(*LARGE)),
    "l2_loss": with_gradients(tf.nn.l2_loss, floats(*LARGE)),
    "ctc_loss": ctc,
    "sampled_softmax_loss": sampled(tf.nn.sampled_softmax_loss),
    "nce_loss": sampled(tf.nn.nce_loss),
    **{
        name: with_gradients(getattr(tf.losses, name), positive(*LARGE), positive(*LARGE))
        for name in ("absolute_difference", "hinge_loss", "huber_loss", "log_loss", "mean_pairwise_squared_error", "mean_squared_error")
    },
}  # fmt: skip


# Reductions and products ----------------------------------------------------------------------------------------------------


def reductions(name: str) -> Callable[[Inputs], Any]:
    def case(inputs: Inputs) -> Any:
        x = inputs.positive(96, 40, 48)
        outputs = [getattr(tf, name)(x, axis) for axis in (None, 0, 1, 2, (0, 1), (0, 2), (1, 2))]
        return outputs + [gradients(output, [x]) for output in outputs]

    return case


def products(inputs: Inputs) -> Any:
    a, b, stack = inputs.floats(256, 384), inputs.floats(384, 256), inputs.floats(16, 96, 96)
    outputs = [
        a @ b, tf.matmul(a, b, transpose_a=True, transpose_b=True), stack @ stack, tf.einsum("nij,nkj->nik", stack, stack),
        tf.matmul(a, b, a_is_sparse=True), tf.tensordot(stack, a[:96], [[2], [0]]),
    ]  # fmt: skip
    return outputs + [gradients(output, [a, b, stack]) for output in outputs]


SEGMENTS = (floats(ROWS_WIDE, 16), lambda inputs: inputs.sorted(100, ROWS_WIDE))
UNSORTED = (floats(ROWS_WIDE, 16), integers(100, ROWS_WIDE))


def sparse_segments(name: str) -> Callable[[Inputs], Any]:
    function = getattr(tf, f"sparse_segment_{name}")
    return with_gradients(
        function, floats(100, 64), integers(100, ROWS_WIDE), lambda inputs: inputs.sorted(50, ROWS_WIDE)
    )


def sparse_products(inputs: Inputs) -> Any:
    a, b = inputs.sparse(1000, 800, 60000), inputs.floats(800, 64)
    output = tf.sparse_tensor_dense_matmul(a, b)
    return [output, gradients(output, [a.values, b]), tf.sparse_reduce_sum(a, 0)]


def looked_up(inputs: Inputs) -> Any:
    rows, table = inputs.sorted(512, ROWS_WIDE), inputs.floats(100, 64)
    places = tf.stack([tf.cast(rows, tf.int64), tf.range(ROWS_WIDE, dtype=tf.int64)], 1)
    ids = tf.SparseTensor(places, inputs.integers(100, ROWS_WIDE), np.array([512, ROWS_WIDE], "int64"))
    output = tf.nn.embedding_lookup_sparse(table, ids, None, combiner="mean")
    return [output, gradients(output, [table])]


def partitioned(inputs: Inputs) -> Any:
    x, part = inputs.floats(ROWS_WIDE, 16), inputs.integers(4, ROWS_WIDE)
    parts = tf.dynamic_partition(x, part, 4)
    back = tf.dynamic_stitch(tf.dynamic_partition(tf.range(ROWS_WIDE), part, 4), [tf.tanh(piece) for piece in parts])
    return [back, gradients(back, [x])]


def sums_of_products(function: Any) -> Callable[[Inputs], Any]:
    """Return a case that adds products that take different times, so that they end in another order in each run."""

    def case(inputs: Inputs) -> Any:
        return function(
            [inputs.floats(64, size) @ inputs.floats(size, 64) for size in (900, 30, 600, 90, 300, 1500, 10, 60)]
        )

    return case


GROUPS["reductions"] = {
    **{name: reductions(name) for name in ("reduce_sum", "reduce_mean", "reduce_max", "reduce_logsumexp")},
    "reduce_prod": with_gradients(lambda x: tf.reduce_prod(x + 0.5, 1), positive(2048, 48)),
    "moments": with_gradients(lambda x: tf.nn.moments(x, [0, 1])[1], floats(96, 40, 48)),
    "norm": with_gradients(tf.norm, floats(96, 40, 48)),
    "global_norm": with_gradients(lambda *x: tf.clip_by_global_norm(x, 1.0)[1], floats(96, 960), floats(96, 960)),
    "cumsum": with_gradients(lambda x: tf.cumsum(x, 1), floats(96, 40, 48)),
    "softmax": with_gradients(tf.nn.softmax, floats(*LARGE)),
    "top_k": with_gradients(lambda x: tf.nn.top_k(x, 8)[0], floats(*LARGE)),
    "bias_add": with_gradients(tf.nn.bias_add, floats(16, 24, 24, 32), floats(32)),
    "products": products,
    "add_n": sums_of_products(tf.add_n),
    "accumulate_n": sums_of_products(tf.accumulate_n),
    "AccumulateNV2": sums_of_products(lambda terms: tf.raw_ops.AccumulateNV2(inputs=terms, shape=[64, 64])),
}
GROUPS["sparse reductions"] = {
    **{f"segment_{name}": with_gradients(getattr(tf, f"segment_{name}"), *SEGMENTS) for name in ("sum", "mean", "max", "min")},
    **{
        f"unsorted_segment_{name}": with_gradients(
            lambda x, y, name=name: getattr(tf, f"unsorted_segment_{name}")(x, y, 100), *UNSORTED
        )
        for name in ("sum", "max", "min")
    },
    **{f"sparse_segment_{name}": sparse_segments(name) for name in ("sum", "mean", "sqrt_n")},
    "gather": with_gradients(tf.gather, floats(100, 16), integers(100, ROWS_WIDE)),
    "gather_nd": with_gradients(tf.gather_nd, floats(10, 10, 16), integers(10, ROWS_WIDE, 2)),
    "scatter_nd": with_gradients(lambda x, y: tf.scatter_nd(y[:, None], x, [100, 16]), *UNSORTED),
    "tensor_scatter_add": with_gradients(
        lambda x, y, z: tf.tensor_scatter_add(z, y[:, None], x), *UNSORTED, floats(100, 16)
    ),
    "sparse products": sparse_products,
    "embedding_lookup_sparse": looked_up,
    "dynamic_stitch": partitioned,
    "sum_repeated_rows": lambda inputs: sum_repeated_rows(
        tf.IndexedSlices(inputs.floats(ROWS_WIDE, 16), inputs.integers(100, ROWS_WIDE), np.array([100, 16]))
    ).values,
    "bincount": lambda inputs: [tf.bincount(inputs.integers(50, 1 << 16))],
    "weighted bincount": lambda inputs: [tf.bincount(inputs.integers(50, 1 << 16), inputs.floats(1 << 16))],
    "histogram": lambda inputs: [tf.histogram_fixed_width(inputs.floats(1 << 16), [-2.0, 2.0])],
    "confusion_matrix": lambda inputs: [
        tf.math.confusion_matrix(inputs.integers(50, 1 << 16), inputs.integers(50, 1 << 16), weights=inputs.floats(1 << 16))
    ],
}  # fmt: skip


# Images -------------------------------------------------------------------------------------------------------------------


def crop_and_resize(inputs: Inputs) -> Any:
    images, where = inputs.floats(2, 32, 32, 16), inputs.integers(2, 200)
    corners = np.sort(inputs.rng.rand(200, 2, 2), axis=1).reshape(200, 4).astype("float32")
    boxes = inputs.feed(corners)
    output = tf.image.crop_and_resize(images, boxes, where, [14, 14])
    return [output, gradients(output, [images, boxes])]


PIXELS = floats(8, 28, 28, 16)
VOLUMES = floats(4, 12, 12, 12, 8)
GROUPS["images"] = {
    "max_pool": with_gradients(lambda x: tf.nn.max_pool(x, 3, 1, "SAME"), PIXELS),
    "avg_pool": with_gradients(lambda x: tf.nn.avg_pool(x, 3, 1, "SAME"), PIXELS),
    "max_pool_with_argmax": with_gradients(lambda x: tf.nn.max_pool_with_argmax(x, [1, 3, 3, 1], [1] * 4, "SAME")[0], PIXELS),
    "max_pool3d": with_gradients(lambda x: tf.nn.max_pool3d(x, 3, 1, "SAME"), VOLUMES),
    "avg_pool3d": with_gradients(lambda x: tf.nn.avg_pool3d(x, 3, 1, "SAME"), VOLUMES),
    "fractional_max_pool": with_gradients(
        lambda x: tf.nn.fractional_max_pool(x, [1, 1.4, 1.4, 1], overlapping=True, deterministic=True, seed=1, seed2=2)[0], PIXELS
    ),
    "conv1d": with_gradients(lambda x, w: tf.nn.conv1d(x, w, 1, "SAME"), floats(16, 128, 32), floats(5, 32, 32)),
    "conv3d": with_gradients(lambda x, w: tf.nn.conv3d(x, w, [1] * 5, "SAME"), VOLUMES, floats(3, 3, 3, 8, 16)),
    "conv3d_transpose": with_gradients(
        lambda x, w: tf.nn.conv3d_transpose(x, w, [4, 24, 24, 24, 4], [1, 2, 2, 2, 1]), VOLUMES, floats(3, 3, 3, 4, 8)
    ),
    "depthwise_conv2d": with_gradients(
        lambda x, w: tf.nn.depthwise_conv2d(x, w, [1] * 4, "SAME"), PIXELS, floats(3, 3, 16, 2)
    ),
    "depthwise_conv2d strided": with_gradients(
        lambda x, w: tf.nn.depthwise_conv2d(x, w, [1, 2, 2, 1], "SAME"), PIXELS, floats(5, 5, 16, 1)
    ),
    "separable_conv2d": with_gradients(
        lambda x, w, v: tf.nn.separable_conv2d(x, w, v, [1] * 4, "SAME"), PIXELS, floats(3, 3, 16, 1), floats(1, 1, 16, 32)
    ),
    "dilation2d": with_gradients(
        lambda x, w: tf.nn.dilation2d(x, filter=w, strides=[1] * 4, rates=[1] * 4, padding="SAME"), PIXELS, floats(3, 3, 16)
    ),
    "fused_batch_norm": with_gradients(
        lambda x, y, z: tf.nn.fused_batch_norm(x, y, z)[0], PIXELS, floats(16), floats(16)
    ),
    "local_response_normalization": with_gradients(tf.nn.lrn, PIXELS),
    "crop_and_resize": crop_and_resize,
    "extract_image_patches": with_gradients(
        lambda x: tf.extract_image_patches(x, [1, 3, 3, 1], [1] * 4, [1] * 4, "SAME"), PIXELS
    ),
    "mirror_pad": with_gradients(lambda x: tf.pad(x, [[0, 0], [9, 9], [9, 9], [0, 0]], "REFLECT"), PIXELS),
    **{
        f"resize_{name}": with_gradients(
            lambda x, name=name: getattr(tf.image, f"resize_{name}")(x, [61, 45]), PIXELS
        )
        for name in ("bilinear", "bicubic", "nearest_neighbor")
    },
}  # fmt: skip


# Loops ----------------------------------------------------------------------------------------------------------------------


def reread(inputs: Inputs) -> Any:
    """Read one element of an array several times: its gradients are added when they come."""
    x = inputs.floats(4, 64, 64)
    array = tf.TensorArray(tf.float32, 4, clear_after_read=False).unstack(x)
    outputs = [tf.tanh(array.read(1) @ inputs.floats(64, 64)) for _ in range(6)]
    return [gradients(tf.add_n(outputs), [x])]


def loop(inputs: Inputs) -> Any:
    x, w = inputs.floats(128, 128), inputs.floats(128, 128)
    output = tf.while_loop(lambda i, _: i < 8, lambda i, y: (i + 1, tf.tanh(y @ w * 0.1)), (0, x))[1]
    return [output, gradients(output, [x, w])]


def scanned(inputs: Inputs) -> Any:
    x, w = inputs.floats(12, 64, 64), inputs.floats(64, 64)
    output = tf.scan(lambda y, z: tf.tanh(y @ w * 0.1 + z), x)
    return [output, gradients(output, [x, w])]


GROUPS["loops"] = {"TensorArray read again": reread, "while_loop": loop, "scan": scanned}
