"""`tf.contrib.image`: projective transforms and dense warps of images."""

from __future__ import annotations

from typing import Any, Sequence

from ...compat import tfv1 as tf
from ._lookup import contrib_names

__getattr__, __dir__ = contrib_names(__name__, same=("ops",))


def transform(
    images: Any,
    transforms: Any,
    interpolation: str = "NEAREST",
    output_shape: Any = None,
    name: str | None = None,
) -> tf.Tensor:
    """
    Apply a projective transform to each image.

    The output pixel (x, y) is the input pixel `((a0 x + a1 y + a2) / k, (b0 x + b1 y + b2) / k)` with
    `k = c0 x + c1 y + 1`; it is zero outside of the image.

    Args:
        images: [N, H, W, C], [H, W, C] or [H, W]; uint8, int32, int64 or a float type.
        transforms: [8] or [N, 8], each row `a0 a1 a2 b0 b1 b2 c0 c1`.
        interpolation: "NEAREST" or "BILINEAR".
        output_shape: height and width of the result. None means those of the input.

    Returns:
        A tensor of the rank and dtype of `images`.

    Raises:
        ValueError: the rank of an argument is wrong.
    """
    with tf.name_scope(name, "transform"):
        images = tf.convert_to_tensor(images, name="images")
        batch = _as_batch("transform", images)
        transforms = tf.convert_to_tensor(transforms, tf.float32, name="transforms")
        if transforms.shape.ndims not in (1, 2):
            raise ValueError(f"transform: transforms must have rank 1 or 2, got shape {transforms.shape}.")
        size = tf.shape(batch)[1:3] if output_shape is None else output_shape
        value = tf.get_static_value(size) if isinstance(size, tf.Tensor) else size
        output = tf.raw_ops.ImageProjectiveTransformV2(
            images=batch,
            transforms=transforms[None] if transforms.shape.ndims == 1 else transforms,
            output_shape=tf.cast(size if value is None else value, tf.int32),
            interpolation=interpolation.upper(),
        )
        if images.shape.ndims == 2:
            return output[0, :, :, 0]
        return output[0] if images.shape.ndims == 3 else output


def _as_batch(caller: str, images: tf.Tensor) -> tf.Tensor:
    rank = images.shape.ndims
    if rank not in (2, 3, 4):
        raise ValueError(f"{caller}: images must have rank 2, 3 or 4, got shape {images.shape}.")
    if rank == 2:
        return images[None, :, :, None]
    return images[None] if rank == 3 else images


def rotate(images: Any, angles: Any, interpolation: str = "NEAREST", name: str | None = None) -> tf.Tensor:
    """
    Rotate images counterclockwise around their centers; pixels from outside are zero.

    Args:
        images, interpolation: see `transform`.
        angles: in radians; a scalar, or one for each image.

    Returns:
        A tensor of the shape and dtype of `images`.
    """
    with tf.name_scope(name, "rotate"):
        images = tf.convert_to_tensor(images)
        batch = _as_batch("rotate", images)
        height, width = (tf.cast(tf.shape(batch)[axis], tf.float32)[None] for axis in (1, 2))
        return transform(images, angles_to_projective_transforms(angles, height, width), interpolation)


def translate(images: Any, translations: Any, interpolation: str = "NEAREST", name: str | None = None) -> tf.Tensor:
    """
    Shift images by (dx, dy) pixels; pixels from outside are zero.

    Args:
        images, interpolation: see `transform`.
        translations: [2], or [N, 2] with a row for each image.

    Returns:
        A tensor of the shape and dtype of `images`.
    """
    with tf.name_scope(name, "translate"):
        return transform(images, translations_to_projective_transforms(translations), interpolation)


def angles_to_projective_transforms(
    angles: Any, image_height: Any, image_width: Any, name: str | None = None
) -> tf.Tensor:
    """Return the transforms, [N, 8], that rotate images of a size by angles in radians."""
    with tf.name_scope(name, "angles_to_projective_transforms"):
        angles = tf.reshape(tf.convert_to_tensor(angles, tf.float32), [-1])
        cos, sin = tf.cos(angles), tf.sin(angles)
        right, bottom = image_width - 1, image_height - 1
        x_offset = (right - (cos * right - sin * bottom)) / 2.0
        y_offset = (bottom - (sin * right + cos * bottom)) / 2.0
        zero = tf.zeros_like(angles)
        return tf.stack([cos, -sin, x_offset, sin, cos, y_offset, zero, zero], axis=1)


def translations_to_projective_transforms(translations: Any, name: str | None = None) -> tf.Tensor:
    """Return the transforms, [N, 8], that shift images by rows (dx, dy)."""
    with tf.name_scope(name, "translations_to_projective_transforms"):
        rows = tf.reshape(tf.convert_to_tensor(translations, tf.float32), [-1, 2])
        zero, one = tf.zeros_like(rows[:, 0]), tf.ones_like(rows[:, 0])
        return tf.stack([one, zero, -rows[:, 0], zero, one, -rows[:, 1], zero, zero], axis=1)


def compose_transforms(*transforms: Any) -> tf.Tensor:
    """Return the transforms, [N, 8], whose matrices are the products of the arguments' matrices, in this order."""
    if not transforms:
        raise ValueError("compose_transforms: expected at least one transform, got none.")
    composed = flat_transforms_to_matrices(transforms[0])
    for one in transforms[1:]:
        composed = tf.matmul(composed, flat_transforms_to_matrices(one))
    return matrices_to_flat_transforms(composed)


def flat_transforms_to_matrices(transforms: Any) -> tf.Tensor:
    """Return the matrices, [N, 3, 3], of transforms, [N, 8] or [8]."""
    flat = tf.reshape(tf.convert_to_tensor(transforms, tf.float32), [-1, 8])
    return tf.reshape(tf.concat([flat, tf.ones_like(flat[:, :1])], axis=1), [-1, 3, 3])


def matrices_to_flat_transforms(transform_matrices: Any) -> tf.Tensor:
    """Return the transforms, [N, 8], of matrices, [N, 3, 3] or [3, 3], scaled so that the last element is 1."""
    flat = tf.reshape(tf.convert_to_tensor(transform_matrices, tf.float32), [-1, 9])
    return (flat / flat[:, 8:9])[:, :8]


def dense_image_warp(image: tf.Tensor, flow: tf.Tensor, name: str = "dense_image_warp") -> tf.Tensor:
    """
    Sample an image at shifted positions: `out[b, y, x] = image[b, y - flow[b, y, x, 0], x - flow[b, y, x, 1]]`.

    Args:
        image: float, [N, H, W, C].
        flow: float, [N, H, W, 2]. Fractional positions are interpolated, and positions outside use the border.

    Returns:
        A tensor of the shape and dtype of `image`.
    """
    with tf.name_scope(name):
        batch, height, width, _ = tf.unstack(tf.shape(image))
        rows, columns = tf.meshgrid(tf.range(height), tf.range(width), indexing="ij")
        positions = tf.cast(tf.stack([rows, columns], axis=-1), flow.dtype)[None] - flow
        below, weight = _split_position(positions, [height, width])
        first = tf.reshape(tf.range(batch), [-1, 1, 1]) * tf.ones_like(below[..., 0])
        corners = [
            [tf.gather_nd(image, tf.stack([first, below[..., 0] + y, below[..., 1] + x], -1)) for x in (0, 1)]
            for y in (0, 1)
        ]
        across, along = tf.cast(weight[..., 1:], image.dtype), tf.cast(weight[..., :1], image.dtype)
        top, bottom = (left + across * (right - left) for left, right in corners)
        result = top + along * (bottom - top)
        result.set_shape(image.shape)
        return result


def _split_position(positions: tf.Tensor, sizes: Sequence[tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the pixel above and left of each position, and the position's distance from it in [0, 1]."""
    last = tf.cast(tf.stack(sizes) - 2, positions.dtype)
    floor = tf.minimum(tf.maximum(tf.floor(positions), 0), last)
    return tf.cast(floor, tf.int32), tf.clip_by_value(positions - floor, 0, 1)
