"""
Normalisation by the moments of a batch, and by their moving averages when the model is evaluated.

Three steps, each a function of its own: statistics and normalisation in `normalization.py`, the update of the moving
averages in `averages.py`.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable

from ..compat import tfv1 as tf
from ..tfutils.tower.context import get_current_tower_context
from ..tfutils.tower.joint import mean_over_ranks, mean_over_towers
from ..utils.argtools import log_once
from .arguments import convert_to_tflayer_args
from .averages import (
    add_to_update_ops,
    collect_model_variables,
    create_average,
    update_average,
    updates_averages,
)
from .checks import layer_title, require_known_channels, require_rank, require_tower_context
from .moments import affine_parameters, statistics_dtype
from .normalization import (
    NormWeights,
    batch_statistics,
    normalize_by_averages,
    normalize_by_batch,
    normalize_by_joint_batch,
    normalize_groups,
    normalize_with_correction,
)
from .registry import layer_register
from .variables import same_constant

__all__ = ["BatchNorm", "BatchRenorm"]

_EMA_UPDATES = ("default", "collection", "internal", "skip")
_SYNC_STATISTICS = ("nccl", "horovod", "collective")
_OLD_NAMES = {
    "use_bias": "center",
    "use_scale": "scale",
    "gamma_init": "gamma_initializer",
    "decay": "momentum",
}


_RENORM_MOMENTUM = 0.99


@layer_register()
@convert_to_tflayer_args(args_names=[], name_mapping={**_OLD_NAMES, "use_local_stat": "training"})
def BatchNorm(
    inputs: Any,
    axis: int | None = None,
    *,
    training: bool | None = None,
    momentum: float = 0.9,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    beta_initializer: Any = None,
    gamma_initializer: Any = None,
    virtual_batch_size: int | None = None,
    data_format: str = "channels_last",
    ema_update: str = "default",
    sync_statistics: str | None = None,
) -> Any:
    """
    Normalise each channel by its mean and variance over the batch, called `BatchNorm(name, inputs)`.

    y = (x - mean) / sqrt(variance + epsilon) * gamma + beta. Training uses the (biased) moments of the batch, and moves
    the averages: average = average * momentum + moment * (1 - momentum). Otherwise the averages are used.

    Shapes: [N, C] -> [N, C]; [N, H, W, C] -> [N, H, W, C].

    Args:
        inputs: [N, C], [N, H, W, C] or [N, C, H, W] of any floating dtype; C must be known.
        axis: the axis of the channels, 1 or 3; None takes it from data_format.
        training: whether to use the moments of this batch; None asks the TowerContext. False in a trained tower is a
            frozen layer: averages stay, gamma and beta are trained.
        momentum: of the averages; old name `decay`.
        epsilon: added to the variance; images are normalised with at least 1.001e-5, as by TensorFlow.
        center, scale: whether there is a beta, a gamma.
        beta_initializer, gamma_initializer: None means zeros, ones.
        virtual_batch_size: in training, normalise groups of this many datapoints, each by its own moments; it must divide
            N. The averages follow the first group, at once ("internal").
        data_format: as in Conv2D.
        ema_update: "collection" (or "default"): the update is put into UPDATE_OPS and runs with the training step;
            "internal": it runs whenever the output is computed; "skip": never.
        sync_statistics: whose batches the moments in training are of: None, this tower's; "nccl", those of all towers of this
            process, on any devices; "horovod" or "collective", those of all processes, by the engine of the trainer.

    Returns:
        A tensor named `<name>/output`, with `.variables.gamma`, `.beta`, `.mean` (or `.moving_mean`) and `.variance`
        (or `.moving_variance`).

    Raises:
        ValueError: wrong rank, unknown C, a bad axis or option, sync_statistics together with virtual_batch_size.
        TypeError: `training` is a tensor.
        RuntimeError: outside of a TowerContext, and `training` was not given; with sync_statistics: the towers are built
            differently, the trainer has one process only, or the layer stands inside a condition, a loop or XLA's cluster.

    Variables: `gamma` and `beta` [C], trained; `mean/EMA` and `variance/EMA` [C], not trained, in MODEL_VARIABLES of the
    first tower. All float32 for 16-bit inputs.

    Note: the averages move in the first trained tower only; with `training=True` also where nothing is trained. For
    images `variance/EMA` follows the unbiased variance (times n / (n - 1)), otherwise the biased one: TensorFlow's kernel
    does so, and checkpoints depend on it.

    Note: with sync_statistics K batches of B datapoints are normalized as one of K x B, and gradients pass through the joint
    moments. Each batch counts the same, whatever its size. `variance/EMA` follows the biased variance, at once ("internal").
    All towers or processes must build and run the layer equally often; those that are not trained take no part.

    Source: Ioffe, Szegedy 2015, "Batch normalization"; Peng et al. 2018, "MegDet", for sync_statistics.
    tensorpack: same; there MODEL_VARIABLES stays empty on TensorFlow 2, gamma_initializer=None is random. Its sync_statistics
    need GPUs, fail with float16, and lose digits where means are large; "collective" is new. Old names of arguments: use_bias, use_scale, gamma_init, decay, use_local_stat.
    """
    inputs = require_rank("BatchNorm", inputs, (2, 4), data_format)
    axis = _channel_axis(inputs, axis, data_format)
    training = _is_training(training)
    _check_options(ema_update, virtual_batch_size, sync_statistics)
    mean_over_all = _joint_mean(sync_statistics) if training else None
    weights = _create_weights(
        require_known_channels("BatchNorm", inputs, axis),
        statistics_dtype(inputs),
        center,
        scale,
        beta_initializer,
        gamma_initializer,
    )
    collect_model_variables([weights.mean, weights.variance])
    updates = []
    if not training:
        outputs = normalize_by_averages(inputs, weights, axis, epsilon)
    else:
        if virtual_batch_size is not None:
            outputs, mean, variance = normalize_groups(inputs, weights, axis, epsilon, virtual_batch_size)
        elif mean_over_all is not None:
            outputs, mean, variance = normalize_by_joint_batch(inputs, weights, axis, epsilon, mean_over_all)
        else:
            outputs, mean, variance = normalize_by_batch(inputs, weights, axis, epsilon)
        if updates_averages(ema_update):
            updates = [
                update_average(weights.mean, mean, momentum),
                update_average(weights.variance, variance, momentum),
            ]
    if ema_update == "internal" or virtual_batch_size is not None or mean_over_all is not None:
        outputs = _compute_after(updates, outputs)
    else:
        add_to_update_ops(updates)
    outputs = tf.identity(outputs, name="output")
    outputs.variables = weights.holder()
    return outputs


@layer_register()
@convert_to_tflayer_args(args_names=[], name_mapping=_OLD_NAMES)
def BatchRenorm(
    inputs: Any,
    *,
    rmax: Any,
    dmax: Any,
    momentum: float = 0.9,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    gamma_initializer: Any = None,
    data_format: str = "channels_last",
) -> Any:
    """
    BatchNorm for small batches: training normalises almost as evaluation will, called `BatchRenorm(name, inputs, rmax=..., dmax=...)`.

    Training computes y = ((x - mean) / stddev * r + d) * gamma + beta, where r = stddev / renorm_stddev, clipped to
    [1 / rmax, rmax], and d = (mean - renorm_mean) / renorm_stddev, clipped to [-dmax, dmax], get no gradient.

    Shapes: as BatchNorm.

    Args:
        inputs: as in BatchNorm.
        rmax, dmax: how far to correct, floats or scalar tensors, which usually grow during training; 1 and 0 make it BatchNorm.
        momentum: of the averages used in evaluation; those used for r and d have 0.99.
        epsilon, center, scale, gamma_initializer, data_format: as in BatchNorm.

    Returns:
        A tensor named `<name>/output`, with `.variables` as in BatchNorm.

    Raises:
        ValueError: wrong rank, unknown C.
        RuntimeError: outside of a TowerContext.

    Variables: `gamma` and `beta` [C], trained; `moving_mean`, `moving_variance`, `moving_stddev`, `renorm_mean` and
    `renorm_stddev` [C], not trained, in MODEL_VARIABLES of the first tower.

    Note: the updates are in UPDATE_OPS, of the first trained tower only. Its gradient is that of the batch's moments.

    Source: Ioffe 2017, "Batch renormalization", algorithm 1.
    tensorpack: same; there gamma starts at random, and [N, C] inputs fail.
    """
    inputs = require_rank("BatchRenorm", inputs, (2, 4), data_format)
    axis = _channel_axis(inputs, None, data_format)
    channels = require_known_channels("BatchRenorm", inputs, axis)
    training = require_tower_context(layer_title("BatchRenorm")).is_training
    dtype = statistics_dtype(inputs)
    zeros, ones = same_constant(0.0), same_constant(1.0)
    gamma, beta = affine_parameters(channels, dtype, center, scale, zeros, gamma_initializer or ones)
    mean = create_average("moving_mean", channels, dtype, zeros)
    variance = create_average("moving_variance", channels, dtype, ones)
    stddev = create_average("moving_stddev", channels, dtype, ones)
    renorm_mean = create_average("renorm_mean", channels, dtype, zeros)
    renorm_stddev = create_average("renorm_stddev", channels, dtype, ones)
    collect_model_variables([mean, variance, stddev, renorm_mean, renorm_stddev])
    weights = NormWeights(gamma, beta, mean, variance)

    if not training:
        outputs = normalize_by_averages(inputs, weights, axis, epsilon)
    else:
        batch_mean, batch_variance = batch_statistics(inputs, axis)
        batch_stddev = tf.sqrt(batch_variance + epsilon)
        known_stddev = tf.maximum(renorm_stddev, epsilon**0.5)
        r = tf.stop_gradient(tf.clip_by_value(batch_stddev / known_stddev, 1 / rmax, rmax))
        d = tf.stop_gradient(tf.clip_by_value((batch_mean - renorm_mean) / known_stddev, -dmax, dmax))
        outputs = normalize_with_correction(inputs, weights, axis, epsilon, batch_mean, batch_variance, r, d)
        if updates_averages("collection"):
            with tf.control_dependencies([r, d]):  # which read the averages as they were
                add_to_update_ops(
                    [
                        update_average(renorm_mean, batch_mean, _RENORM_MOMENTUM),
                        update_average(renorm_stddev, batch_stddev, _RENORM_MOMENTUM),
                        update_average(mean, batch_mean, momentum),
                        _update_variance_by_stddev(variance, stddev, batch_stddev, momentum, epsilon),
                    ]
                )
    outputs = tf.identity(outputs, name="output")
    outputs.variables = weights.holder()
    return outputs


def _create_weights(
    channels: int, dtype: Any, center: bool, scale: bool, beta_initializer: Any, gamma_initializer: Any
) -> NormWeights:
    zeros, ones = same_constant(0.0), same_constant(1.0)
    gamma, beta = affine_parameters(
        channels, dtype, center, scale, beta_initializer or zeros, gamma_initializer or ones
    )
    mean = create_average("mean/EMA", channels, dtype, zeros)
    variance = create_average("variance/EMA", channels, dtype, ones)
    return NormWeights(gamma, beta, mean, variance)


def _channel_axis(inputs: Any, axis: int | None, data_format: str) -> int:
    rank = inputs.shape.ndims
    if axis is None:
        return 3 if rank == 4 and data_format == "channels_last" else 1
    if axis not in (1, 3) or axis >= rank:
        wanted = "1 or 3" if rank == 4 else "1"
        raise ValueError(
            f"{layer_title('BatchNorm')}: axis is {axis}, wanted {wanted} for input of rank {rank}."
        )
    return axis


def _is_training(training: Any) -> bool:
    if training is None:
        advice = "Or pass training=True or False."
        return require_tower_context(layer_title("BatchNorm"), advice).is_training
    if isinstance(training, tf.Tensor):
        raise TypeError(
            f"{layer_title('BatchNorm')}: training takes True or False, got a tensor. Build one tower for each."
        )
    context = get_current_tower_context()
    if not training and context is not None and context.is_main_training_tower:
        log_once("BatchNorm: a layer with training=False in a trained tower uses its averages, and does not update them.",
                 func="warning")  # fmt: skip
    return bool(training)


def _check_options(ema_update: str, virtual_batch_size: int | None, sync_statistics: str | None) -> None:
    who = layer_title("BatchNorm")
    if ema_update not in _EMA_UPDATES:
        raise ValueError(f"{who}: ema_update is {ema_update!r}, wanted one of {', '.join(_EMA_UPDATES)}.")
    if sync_statistics is None:
        return
    if str(sync_statistics).lower() not in _SYNC_STATISTICS:
        raise ValueError(
            f"{who}: sync_statistics is {sync_statistics!r}, wanted None or one of {', '.join(_SYNC_STATISTICS)}."
        )
    if virtual_batch_size is not None:
        raise ValueError(
            f"{who}: virtual_batch_size makes batches smaller, sync_statistics larger. Give one of them."
        )


def _joint_mean(sync_statistics: str | None) -> Callable[[Any], Any] | None:
    """Get what takes means over the batches that are normalised together; None if there is but this one."""
    context = get_current_tower_context()
    if sync_statistics is None or (context is not None and not context.is_training):
        return None
    if sync_statistics.lower() == "nccl":
        mean, peers, alone = mean_over_towers, "tower", getattr(context, "total", 1) == 1
    else:
        ranks = getattr(context, "ranks", None)
        mean, peers, alone = mean_over_ranks, "process", ranks is not None and ranks.size == 1
    if alone:
        log_once(
            f"BatchNorm: sync_statistics={sync_statistics!r} has no effect with one {peers}.", func="warning"
        )
        return None
    return partial(mean, who=layer_title("BatchNorm"))


def _compute_after(updates: list[Any], outputs: Any) -> Any:
    """
    Let the outputs wait for operations.

    An identity that waits would do, but TensorFlow's optimizer of graphs (1.15 to 2.21) breaks it when it stands between
    two transpositions: it removes one of them.
    """
    with tf.control_dependencies(updates):
        return tf.ensure_shape(outputs, outputs.shape)


def _update_variance_by_stddev(
    variance: Any, stddev: Any, batch_stddev: Any, momentum: float, epsilon: float
) -> Any:
    """Move the average of the standard deviation, and set the variance to match it."""
    with tf.control_dependencies([update_average(stddev, batch_stddev, momentum)]):
        moved = tf.nn.relu(tf.square(stddev.read_value()) - epsilon)
        return tf.assign(variance, moved).op
