"""
Normalization by the moments of a batch, or in inference by their moving averages.

The function `BatchNorm` shows all steps:

- **Moments.** In training, they are those of the batch, of groups of its datapoints (`virtual_batch_size`),
  or of the batches of all towers or processes (`sync_statistics`, see `_find_joint_mean`).
- **Averages.** `_updates_averages` tells whether the tower updates the moving averages. `_update_average`
  builds the update, which runs with the training step, through UPDATE_OPS, or whenever the output is
  computed.
- **Inference** normalizes by the averages.
- **Gradients** are TensorFlow's, except those of means over towers and processes: `tfutils/tower/cross_tower.py`
  defines the gradient of such a mean as the mean of the gradients from all towers or processes.

`normalization.py` has the arithmetic.
"""

from __future__ import annotations

from functools import partial
from typing import Callable

from ..compat import tfv1 as tf
from ..compat.private import inside_loop_or_xla, inside_xla
from ..compat.variables import get_variable
from ..tfutils.collection import inside_branch
from ..tfutils.early_read import shared_read
from ..tfutils.precision import may_overflow
from ..tfutils.tower.context import get_current_tower_context
from ..tfutils.tower.cross_tower import mean_over_ranks, mean_over_towers
from ..utils.argtools import log_once
from ..utils.checks import check_choice
from .arguments import convert_to_tflayer_args
from .checks import (
    find_training,
    layer_title,
    require_integer,
    require_known_channels,
    require_rank,
    require_tower_context,
    warn_if_called_twice,
)
from .normalization import (
    NormWeights,
    affine_parameters,
    combine_moments,
    compute_batch_moments,
    normalize_by_averages,
    normalize_by_batch,
    normalize_channels,
    normalize_groups,
    statistics_dtype,
)
from .outputs import name_output
from .registry import layer_register
from .variables import is_variable, same_constant, shared_constant

_EMA_UPDATES = ("default", "collection", "internal", "skip")
_SYNC_STATISTICS = ("nccl", "horovod", "collective")
_NAME_MAPPING = {
    "use_bias": "center",
    "use_scale": "scale",
    "gamma_init": "gamma_initializer",
    "decay": "momentum",
}
_RENORM_MOMENTUM = 0.99


@layer_register()
@convert_to_tflayer_args(args_names=[], name_mapping={**_NAME_MAPPING, "use_local_stat": "training"})
def BatchNorm(
    inputs: tf.Tensor,
    axis: int | None = None,
    *,
    training: bool | None = None,
    momentum: float = 0.9,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    beta_initializer: Callable[..., tf.Tensor] | None = None,
    gamma_initializer: Callable[..., tf.Tensor] | None = None,
    virtual_batch_size: int | None = None,
    data_format: str = "channels_last",
    ema_update: str = "default",
    sync_statistics: str | None = None,
) -> tf.Tensor:
    """
    Normalize each channel by its mean and variance over the batch, called `BatchNorm(name, inputs)`.

    y = (x - mean) / sqrt(variance + epsilon) * gamma + beta. Training uses the biased moments of the batch
    and updates the moving averages: average = average * momentum + moment * (1 - momentum). Inference uses
    the averages.

    Shapes: [N, C] -> [N, C]; [N, H, W, C] -> [N, H, W, C].

    Args:
        inputs: [N, C], [N, H, W, C] or [N, C, H, W] of any floating dtype; C must be known.
        axis: the channel axis, 1 or 3. None: given by `data_format`.
        training: whether to use the moments of this batch. None: given by the TowerContext. False in a training tower
            freezes the layer: the averages are used and not updated, gamma and beta are trained.
        momentum: the weight of the old average.
        epsilon: added to the variance. For images, values below 1.001e-5 count as 1.001e-5, as in TensorFlow.
        center, scale: whether to add beta, and to multiply by gamma.
        beta_initializer, gamma_initializer: None means zeros and ones.
        virtual_batch_size: in training, normalize groups of this many datapoints, each by its own moments. It must
            divide N. The averages follow the first group, as with "internal".
        data_format: as in Conv2D.
        ema_update: when the averages are updated. "collection" or "default": with the training step, through
            UPDATE_OPS; "internal": whenever the output is computed; "skip": never. Inside a loop, and
            with TensorFlow 2 inside `tf.cond`, "default" and "collection" mean "internal".
        sync_statistics: over which batches the moments are computed in training. None: the batch of this tower; "nccl":
            those of all towers of this process, on any devices; "horovod" or "collective": those of all
            processes, by the engine of the trainer.

    Returns:
        A tensor named `<name>/output`, with `.variables.gamma`, `.beta`, `.mean` (or `.moving_mean`) and `.variance`
        (or `.moving_variance`).

    Raises:
        ValueError: the rank, `axis` or an option is invalid, C is unknown, or `sync_statistics` and
            `virtual_batch_size` are combined.
        TypeError: `training` is a tensor.
        RuntimeError: the call is outside of a TowerContext, and `training` is None. With `sync_statistics`: the towers
            are built differently, the trainer has only one process, or the layer is inside a condition, a
            loop or an XLA cluster.

    Variables: `gamma` and `beta` [C], trained; `mean/EMA` and `variance/EMA` [C], not trained, in
    MODEL_VARIABLES of the first tower. All are float32 for 16-bit inputs.

    Note: only the first training tower updates the averages, and with `training=True` also towers that are
    not for training. For images, `variance/EMA` follows the unbiased variance (times n / (n - 1)), otherwise
    the biased one. TensorFlow's kernel does the same, and checkpoints depend on it.

    Note: with `sync_statistics`, K batches of B datapoints are normalized like one batch of K x B, also in
    the gradients. All batches have the same weight, whatever their sizes. `variance/EMA` follows the biased
    variance, as with "internal". All towers or processes must build and run the layer equally often; towers
    that are not for training do not take part.

    Source: Ioffe, Szegedy 2015, "Batch normalization"; Peng et al. 2018, "MegDet", for `sync_statistics`.

    Old names of arguments: use_bias, use_scale, gamma_init, decay, use_local_stat.
    """
    inputs = require_rank("BatchNorm", inputs, (2, 4), data_format)
    axis = _channel_axis(inputs, axis, data_format)
    is_training = _is_training(training)
    _check_options(ema_update, virtual_batch_size, sync_statistics)
    if virtual_batch_size is not None:
        virtual_batch_size = require_integer("BatchNorm", "virtual_batch_size", virtual_batch_size)
    mean_over_all = _find_joint_mean(sync_statistics) if is_training else None

    channels, dtype = require_known_channels("BatchNorm", inputs, axis), statistics_dtype(inputs)
    zeros, ones = same_constant(0.0), same_constant(1.0)
    weights = NormWeights(
        *affine_parameters(channels, dtype, center, scale, beta_initializer or zeros, gamma_initializer or ones),
        *_create_averages(channels, dtype, {"mean/EMA": zeros, "variance/EMA": ones}),
    )
    if not is_training:
        return _finish(normalize_by_averages(inputs, weights, axis, epsilon), weights)

    if virtual_batch_size is not None:
        outputs, mean, variance = normalize_groups(inputs, weights, axis, epsilon, virtual_batch_size)
    elif mean_over_all is not None:
        mean, variance = combine_moments(*compute_batch_moments(inputs, axis), mean_over_all)
        outputs = normalize_channels(inputs, weights, axis, epsilon, mean, variance)
    else:
        outputs, mean, variance = normalize_by_batch(inputs, weights, axis, epsilon)
    if ema_update != "skip" and _updates_averages():
        updates = [
            _update_average(weights.mean, mean, momentum),
            _update_average(weights.variance, variance, momentum),
        ]
        is_internal = ema_update == "internal" or virtual_batch_size is not None or mean_over_all is not None
        outputs = _add_updates(updates, outputs, is_internal)
    return _finish(outputs, weights)


@layer_register()
@convert_to_tflayer_args(args_names=[], name_mapping=_NAME_MAPPING)
def BatchRenorm(
    inputs: tf.Tensor,
    *,
    rmax: float | tf.Tensor,
    dmax: float | tf.Tensor,
    momentum: float = 0.9,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    gamma_initializer: Callable[..., tf.Tensor] | None = None,
    data_format: str = "channels_last",
) -> tf.Tensor:
    """
    Normalize small batches nearly as in inference, called `BatchRenorm(name, inputs, rmax=..., dmax=...)`.

    Training computes y = ((x - mean) / stddev * r + d) * gamma + beta, where r = stddev / renorm_stddev, clipped to
    [1 / rmax, rmax], and d = (mean - renorm_mean) / renorm_stddev, clipped to [-dmax, dmax]. Gradients do not
    pass through r and d, only through the moments of the batch.

    Shapes: as in BatchNorm.

    Args:
        inputs: as in BatchNorm.
        rmax, dmax: limits of the correction, floats or scalar tensors, which usually grow during training.
            With 1 and 0, the layer is BatchNorm.
        momentum: the momentum of the averages for inference. Those for r and d have momentum 0.99.
        epsilon, center, scale, gamma_initializer, data_format: as in BatchNorm.

    Returns:
        A tensor named `<name>/output`, with `.variables` as in BatchNorm.

    Raises:
        ValueError: the rank is wrong, or C is unknown.
        RuntimeError: the call is outside of a TowerContext.

    Variables: `gamma` and `beta` [C], trained; `moving_mean`, `moving_variance`, `moving_stddev`, `renorm_mean` and
    `renorm_stddev` [C], not trained, in MODEL_VARIABLES of the first tower. The first training tower updates
    them, through UPDATE_OPS.

    Source: Ioffe 2017, "Batch renormalization", algorithm 1.
    """
    inputs = require_rank("BatchRenorm", inputs, (2, 4), data_format)
    axis = _channel_axis(inputs, None, data_format)
    channels, dtype = require_known_channels("BatchRenorm", inputs, axis), statistics_dtype(inputs)
    training = require_tower_context(layer_title("BatchRenorm")).is_training
    zeros, ones = same_constant(0.0), same_constant(1.0)
    gamma, beta = affine_parameters(channels, dtype, center, scale, zeros, gamma_initializer or ones)
    moving = {"moving_mean": zeros, "moving_variance": ones, "moving_stddev": ones}
    mean, variance, stddev, renorm_mean, renorm_stddev = _create_averages(
        channels, dtype, {**moving, "renorm_mean": zeros, "renorm_stddev": ones}
    )
    weights = NormWeights(gamma, beta, mean, variance)
    if not training:
        return _finish(normalize_by_averages(inputs, weights, axis, epsilon), weights)

    batch_mean, batch_variance = compute_batch_moments(inputs, axis)
    batch_stddev = tf.sqrt(batch_variance + epsilon)
    known_stddev = tf.maximum(renorm_stddev, epsilon**0.5)
    r = tf.stop_gradient(tf.clip_by_value(batch_stddev / known_stddev, 1 / rmax, rmax))
    d = tf.stop_gradient(tf.clip_by_value((batch_mean - renorm_mean) / known_stddev, -dmax, dmax))
    # (normalized * r + d) * gamma + beta as one scale and one offset
    offset = d if gamma is None else d * gamma
    corrected = weights._replace(
        gamma=r if gamma is None else r * gamma, beta=offset if beta is None else offset + beta
    )
    outputs = normalize_channels(inputs, corrected, axis, epsilon, batch_mean, batch_variance)
    if _updates_averages():
        with tf.control_dependencies([r, d]):  # computed from the averages before the update
            updates = [
                _update_average(renorm_mean, batch_mean, _RENORM_MOMENTUM),
                _update_average(renorm_stddev, batch_stddev, _RENORM_MOMENTUM),
                _update_average(mean, batch_mean, momentum),
            ]
            with tf.control_dependencies([_update_average(stddev, batch_stddev, momentum)]):
                new_variance = tf.nn.relu(tf.square(stddev.read_value()) - epsilon)
                updates.append(tf.assign(variance, new_variance).op)
        outputs = _add_updates(updates, outputs, is_internal=False)
    return _finish(outputs, weights)


def _finish(outputs: tf.Tensor, weights: NormWeights) -> tf.Tensor:
    """Name the result of a layer, and attach its variables."""
    gamma, beta, mean, variance = weights
    both_names = {"moving_mean": mean, "mean": mean, "moving_variance": variance, "variance": variance}
    return name_output(outputs, **both_names, gamma=gamma, beta=beta)


# Arguments ------------------------------------------------------------------------------------------------------


def _channel_axis(inputs: tf.Tensor, axis: int | None, data_format: str) -> int:
    rank = inputs.shape.ndims
    if axis is None:
        return 3 if rank == 4 and data_format == "channels_last" else 1
    valid = (1, 3) if rank == 4 else (1,)
    return check_choice(f"{layer_title('BatchNorm')}: axis for an input of rank {rank}", axis, valid)


def _is_training(training: bool | None) -> bool:
    is_training = find_training("BatchNorm", training)
    context = get_current_tower_context()
    if not is_training and context is not None and context.is_main_training_tower:
        log_once("BatchNorm: a layer with training=False in a training tower uses its averages, and does not update them.",
                 func="warning")  # fmt: skip
    return is_training


def _check_options(ema_update: str, virtual_batch_size: int | None, sync_statistics: str | None) -> None:
    who = layer_title("BatchNorm")
    check_choice(f"{who}: ema_update", ema_update, _EMA_UPDATES)
    if sync_statistics is not None:
        check_choice(f"{who}: sync_statistics", str(sync_statistics).lower(), _SYNC_STATISTICS)
        if virtual_batch_size is not None:
            raise ValueError(
                f"{who}: virtual_batch_size and sync_statistics cannot be combined. The former makes batches smaller, the "
                "latter larger: leave out one of them."
            )


# Batches that are normalized together ---------------------------------------------------------------------------


def _find_joint_mean(sync_statistics: str | None) -> Callable[[tf.Tensor], tf.Tensor] | None:
    """Return the function that averages a tensor over all batches; None if the batch of this tower is the only one."""
    context = get_current_tower_context()
    if sync_statistics is None or (context is not None and not context.is_training):
        return None
    if sync_statistics.lower() == "nccl":
        mean, peers, is_alone = mean_over_towers, "tower", getattr(context, "total", 1) == 1
    else:
        ranks = getattr(context, "ranks", None)
        mean, peers, is_alone = mean_over_ranks, "process", ranks is not None and ranks.size == 1
    if is_alone:
        log_once(f"BatchNorm: sync_statistics={sync_statistics!r} has no effect with one {peers}.", func="warning")
        return None
    return partial(mean, who=layer_title("BatchNorm"))


# Moving averages ------------------------------------------------------------------------------------------------


def _create_averages(
    channels: int, dtype: tf.DType, initializers: dict[str, Callable[..., tf.Tensor]]
) -> list[tf.Variable]:
    """Create averages by name, and add those of the first training tower to MODEL_VARIABLES, each once."""
    averages = [
        get_variable(name, [channels], dtype=dtype, initializer=initializer, trainable=False)
        for name, initializer in initializers.items()
    ]
    context = get_current_tower_context()
    if context is not None and context.is_main_training_tower:
        collected = tf.get_collection_ref(tf.GraphKeys.MODEL_VARIABLES)
        for average in averages:
            if is_variable(average) and not any(average is variable for variable in collected):
                collected.append(average)
    return averages


def _updates_averages() -> bool:
    """Return whether this tower updates the averages: the first training tower does, and towers that are not for training."""
    context = get_current_tower_context()
    updates = context is None or context.is_main_training_tower or not context.is_training
    if updates:
        warn_if_called_twice("BatchNorm", "it updates its averages twice in each step")
    return updates


def _update_average(average: tf.Variable, value: tf.Tensor, momentum: float | tf.Tensor) -> tf.Operation:
    """Return the operation for average = average * momentum + value * (1 - momentum)."""
    if not is_variable(average):
        raise TypeError(
            f"{layer_title('BatchNorm')}: a custom getter returned {average} instead of a moving average, which therefore "
            "cannot be updated. Let it return variables with trainable=False unchanged, or pass ema_update='skip'."
        )
    share = 1 - momentum
    with tf.name_scope("AssignMovingAvg"):
        difference = shared_read(average) - value
        if may_overflow():  # a step that the loss scale skips must not make the average NaN permanently
            difference = tf.where(tf.is_finite(value), difference, tf.zeros_like(difference))
        if not isinstance(share, tf.Tensor):
            share = shared_constant(share, value.dtype)
        handle = getattr(average, "handle", None)
        if handle is None:
            return average.assign_sub(difference * share, read_value=False)
        # a single operation that computes average -= share * difference
        return tf.raw_ops.ResourceApplyGradientDescent(var=handle, alpha=share, delta=difference, name="update")


def _add_updates(updates: list[tf.Operation], outputs: tf.Tensor, is_internal: bool) -> tf.Tensor:
    """Let the updates run with the outputs, or with the step, if they can run outside of the code around them."""
    is_in_loop = inside_loop_or_xla(updates[0]) and not inside_xla(tf.get_default_graph())
    if is_internal or is_in_loop or inside_branch():
        return _compute_after(updates, outputs)
    tf.get_collection_ref(tf.GraphKeys.UPDATE_OPS).extend(updates)  # for the callback RunUpdateOps
    return outputs


def _compute_after(updates: list[tf.Operation], outputs: tf.Tensor) -> tf.Tensor:
    """
    Let the outputs wait for the updates.

    `tf.ensure_shape` rather than `tf.identity`: between two transpositions, TensorFlow's graph optimizer (1.15 to 2.21)
    replaces an identity with control dependencies, and loses one of the transpositions.
    """
    with tf.control_dependencies(updates):
        return tf.ensure_shape(outputs, outputs.shape)
