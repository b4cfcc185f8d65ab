"""
Names of TensorFlow 0.x that TensorFlow 1.0 renamed or removed.

The list follows the tool `tf_upgrade` of TensorFlow 1.0. The names have their old meaning and their old arguments.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

from ..compat import tfv1 as tf

_SUMMARIES = (tf.GraphKeys.SUMMARIES,)


def _batch_matmul(x: Any, y: Any, adj_x: bool = False, adj_y: bool = False, name: str | None = None) -> tf.Tensor:
    """Multiply batches of matrices [..., n, k] and [..., k, m], after an adjoint of x or y on request."""
    return tf.matmul(x, y, adjoint_a=bool(adj_x), adjoint_b=bool(adj_y), name=name)


def _split_v(value: Any, size_splits: Any, split_dim: int = 0, num: Any = None, name: str = "split") -> Any:
    """Split a tensor into tensors of the given sizes along `split_dim`."""
    return tf.split(value, size_splits, split_dim, num, name)


def _collect(summary: tf.Tensor, collections: Sequence[str] | None) -> tf.Tensor:
    for collection in _SUMMARIES if collections is None else collections:
        tf.add_to_collection(collection, summary)
    return summary


def scalar_summary(
    tags: Any, values: Any, collections: Sequence[str] | None = None, name: str | None = None
) -> tf.Tensor:
    """Summarize scalars. `tags` is one tag, or an array of tags for an array of values."""
    values = tf.convert_to_tensor(values)
    return _collect(tf.raw_ops.ScalarSummary(tags=tags, values=values, name=name), collections)


def histogram_summary(
    tag: Any, values: Any, collections: Sequence[str] | None = None, name: str | None = None
) -> tf.Tensor:
    """Summarize the distribution of values."""
    values = tf.convert_to_tensor(values)
    return _collect(tf.raw_ops.HistogramSummary(tag=tag, values=values, name=name), collections)


def image_summary(
    tag: Any,
    tensor: Any,
    max_images: int = 3,
    collections: Sequence[str] | None = None,
    name: str | None = None,
) -> tf.Tensor:
    """Summarize images [N, H, W, C], the first `max_images` of them."""
    tensor = tf.convert_to_tensor(tensor)
    summary = tf.raw_ops.ImageSummary(tag=tag, tensor=tensor, max_images=max_images, name=name)
    return _collect(summary, collections)


def audio_summary(
    tag: Any,
    tensor: Any,
    sample_rate: float,
    max_outputs: int = 3,
    collections: Sequence[str] | None = None,
    name: str | None = None,
) -> tf.Tensor:
    """Summarize audio [N, samples] or [N, samples, channels], the first `max_outputs` clips."""
    summary = tf.raw_ops.AudioSummaryV2(
        tag=tag, tensor=tensor, sample_rate=float(sample_rate), max_outputs=max_outputs, name=name
    )
    return _collect(summary, collections)


# "old=new" below `tf`
_SAME_ARGUMENTS = """
    mul=multiply neg=negative sub=subtract inv=reciprocal complex_abs=abs select=where pack=stack unpack=unstack
    list_diff=setdiff1d listdiff=setdiff1d concat_v2=concat
    batch_matrix_diag=matrix_diag batch_matrix_diag_part=matrix_diag_part batch_matrix_band_part=matrix_band_part
    batch_band_part=matrix_band_part batch_matrix_set_diag=matrix_set_diag batch_set_diag=matrix_set_diag
    batch_matrix_transpose=matrix_transpose batch_matrix_determinant=matrix_determinant
    batch_matrix_inverse=matrix_inverse batch_matrix_solve=matrix_solve batch_matrix_solve_ls=matrix_solve_ls
    batch_matrix_triangular_solve=matrix_triangular_solve batch_cholesky=cholesky
    batch_cholesky_solve=cholesky_solve batch_self_adjoint_eig=self_adjoint_eig
    batch_self_adjoint_eigvals=self_adjoint_eigvals batch_svd=svd
    batch_fft=fft batch_ifft=ifft batch_fft2d=fft2d batch_ifft2d=ifft2d batch_fft3d=fft3d batch_ifft3d=ifft3d
    merge_summary=summary.merge merge_all_summaries=summary.merge_all train.SummaryWriter=summary.FileWriter
    initialize_all_variables=global_variables_initializer initialize_variables=variables_initializer
    initialize_local_variables=local_variables_initializer initialize_all_tables=tables_initializer
    all_variables=global_variables image.per_image_whitening=image.per_image_standardization
    nn.deconv2d=nn.conv2d_transpose nn.rnn=nn.static_rnn nn.bidirectional_rnn=nn.static_bidirectional_rnn
    nn.state_saving_rnn=nn.static_state_saving_rnn train.SyncReplicasOptimizerV2=train.SyncReplicasOptimizer
"""

# {name below `tf`: its name today, or a function}
RENAMED: Mapping[str, str | Callable[..., Any]] = {
    **dict(pair.split("=") for pair in _SAME_ARGUMENTS.split()),
    "batch_matmul": _batch_matmul,
    "split_v": _split_v,
    "scalar_summary": scalar_summary,
    "histogram_summary": histogram_summary,
    "image_summary": image_summary,
    "audio_summary": audio_summary,
}


def find_renamed(path: str) -> Any:
    """
    Return the object of an old name, or None if the name is not in `RENAMED`.

    Args:
        path: the dotted name below `tf`, such as "train.SummaryWriter".
    """
    found: Any = RENAMED.get(path)
    if isinstance(found, str):
        value: Any = tf
        for part in found.split("."):
            value = getattr(value, part)
        return value
    return found
