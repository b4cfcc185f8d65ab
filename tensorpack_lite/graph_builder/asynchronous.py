"""Builder with shared variables that every tower updates independently."""

from __future__ import annotations

import functools
from typing import Sequence

from ..compat import tfv1 as tf
from ..tfutils.gradproc import GradVars, ScaleGradient
from ..tfutils.optimizer import split_processors
from ..tfutils.proxy_optimizer import set_gradient_factor
from .data_parallel import SharedVariablesBuilder, apply_one_after_another

_MAX_TOWERS_WITH_VARIABLES_ON_GPU = 3


class AsyncMultiGPUBuilder(SharedVariablesBuilder):
    """
    Builder of towers that share their variables, with one unordered update per tower and variable.

    With four towers or more, the variables are on the CPU, otherwise they are spread over the GPUs.

    Args:
        towers: a list of GPU numbers.
        scale_gradient: whether to divide gradients by the number of towers.

    Difference from tensorpack: tensorpack calls gradient processors with one variable at a time. This library
    passes all gradients of a tower.
    """

    def __init__(self, towers: Sequence[int], scale_gradient: bool = True) -> None:
        super().__init__(towers, ["/cpu:0"] if len(towers) > _MAX_TOWERS_WITH_VARIABLES_ON_GPU else None)
        self._scale_gradient = scale_gradient

    def _build_train_op(self, grad_list: Sequence[GradVars], optimizer: tf.train.Optimizer) -> tf.Operation:
        if self._scale_gradient and len(self.towers) > 1:
            scale = ScaleGradient((".*", 1.0 / len(self.towers)), verbose=False)
            grad_list = [scale.process(pairs) for pairs in grad_list]
        set_gradient_factor(optimizer, 1.0 if self._scale_gradient else len(self.towers))
        process, optimizer = split_processors(optimizer)
        processed = []
        for index, of_tower in enumerate(grad_list):
            with tf.device(self._workers[index]):
                processed.append(process(list(of_tower)))
        self._check_grad_list(processed)

        def update_variable(index: int, pairs: GradVars) -> tf.Operation:
            with tf.device(pairs[0][1].device):
                return optimizer.apply_gradients(pairs, name=f"apply_grad_{index}")

        with tf.name_scope("async_apply_gradients"):
            updates = apply_one_after_another(
                optimizer,
                [functools.partial(update_variable, index, list(pairs)) for index, pairs in enumerate(zip(*processed))],
            )
        return tf.group(*updates, name="train_op")
