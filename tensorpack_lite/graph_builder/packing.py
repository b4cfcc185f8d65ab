"""Packing of many small gradients into a few large buffers, which devices exchange faster."""

from __future__ import annotations

from typing import Callable, Sequence

from ..compat import tfv1 as tf
from ..tfutils.scope_utils import cached_name_scope
from ..utils import logger

_MIN_ELEMENTS_PER_BUFFER = 1024


class GradientPacker:
    """
    Packer of the gradients of a tower into a few buffers of equal size, which are unpacked again after the exchange.

    Args:
        num_split: the number of buffers, >= 1.

    Example:
        >>> packer = GradientPacker(8)
        >>> if packer.compute_strategy(all_grads[0]):
        ...     packs = packer.pack_all(all_grads, devices)             # K x 8 instead of K x N
        ...     all_grads = packer.unpack_all(reduce(packs), devices)
    """

    def __init__(self, num_split: int = 8) -> None:
        self._num_split = num_split

    def compute_strategy(self, grads: Sequence[tf.Tensor]) -> bool:
        """
        Decide how to pack the gradients.

        Args:
            grads: the gradients of one tower. Those of other towers have the same shapes.

        Returns:
            False if the gradients should not be packed: some are `IndexedSlices`, shapes are unknown, dtypes
            differ, or a buffer would have fewer than 1024 elements.
        """
        if not grads or not all(isinstance(grad, tf.Tensor) for grad in grads):
            return False
        if not all(grad.shape.is_fully_defined() for grad in grads):
            logger.info("Gradients are not packed: some shapes are unknown.")
            return False
        if len({grad.dtype for grad in grads}) > 1:
            logger.info("Gradients are not packed: they have several dtypes.")
            return False
        self._shapes = [grad.shape.as_list() for grad in grads]
        self._sizes = [grad.shape.num_elements() for grad in grads]
        total = sum(self._sizes)
        if total < self._num_split * _MIN_ELEMENTS_PER_BUFFER:
            return False
        quotient, remainder = divmod(total, self._num_split)
        self._split_sizes = [quotient + (i < remainder) for i in range(self._num_split)]
        logger.info(f"{len(grads)} gradients ({total} elements) are packed into {self._num_split} buffers per device.")
        return True

    def pack(self, grads: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Pack the gradients of one tower, on the current device."""
        flat = tf.concat([tf.reshape(grad, [-1]) for grad in grads], 0, name="concatenated_grads")
        return [flat] if self._num_split == 1 else tf.split(flat, self._split_sizes)

    def unpack(self, packs: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Unpack the buffers of one tower, on the current device."""
        flat = packs[0] if self._num_split == 1 else tf.concat(packs, 0, name="concatenated_packs")
        shapes = [tf.constant(shape, tf.int64, [len(shape)]) for shape in self._shapes]
        return [tf.reshape(part, shape) for part, shape in zip(tf.split(flat, self._sizes), shapes)]

    def pack_all(self, all_grads: Sequence[Sequence[tf.Tensor]], devices: Sequence[str]) -> list[list[tf.Tensor]]:
        """Pack the gradients of each tower on its device: K x N gradients -> K x num_split buffers."""
        return _on_each_device(self.pack, all_grads, devices)

    def unpack_all(self, all_packs: Sequence[Sequence[tf.Tensor]], devices: Sequence[str]) -> list[list[tf.Tensor]]:
        """Unpack the buffers of each tower on its device: K x num_split buffers -> K x N gradients."""
        return _on_each_device(self.unpack, all_packs, devices)


def _on_each_device(
    func: Callable[[Sequence[tf.Tensor]], list[tf.Tensor]],
    rows: Sequence[Sequence[tf.Tensor]],
    devices: Sequence[str],
) -> list[list[tf.Tensor]]:
    results = []
    for row, device in zip(rows, devices):
        with tf.device(device), cached_name_scope("GradientPacker"):
            results.append(func(row))
    return results
