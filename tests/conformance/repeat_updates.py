"""Table of updates and optimizers whose results must have the same bytes in each run. See repeat_rows.py."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
from conformance.repeat_rows import GROUPS, ROWS_WIDE, Inputs

from tensorpack_lite.compat import TF_VERSION
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils import optimizer as own

__all__ = ["GROUPS"]

SPARSE, RESOURCE = "repeated rows", "resource"


def scattered(name: str, is_resource: bool, number: int = ROWS_WIDE) -> Callable[[Inputs], Any]:
    def case(inputs: Inputs) -> Any:
        variable = tf.get_variable("table", initializer=np.ones([100, 16], "float32"), use_resource=is_resource)
        rows, values = inputs.integers(100, number), inputs.positive(number, 16) + 0.5
        if name == "nd_add":
            rows = rows[:, None]
            update = variable.scatter_nd_add(rows, values) if is_resource else tf.scatter_nd_add(variable, rows, values)
        else:
            update = getattr(tf, f"scatter_{name}")(variable, rows, values)
        with tf.control_dependencies([update]):
            return [variable.read_value()]

    return case


def optimized(make: Callable[[], Any], is_sparse: bool, is_resource: bool) -> Callable[[Inputs], Any]:
    """Return a case with the variables after an update, whose gradient has rows that repeat, or is dense."""

    def case(inputs: Inputs) -> Any:
        shape = [100, 16] if is_sparse else [512, 256]
        w = tf.get_variable("w", initializer=inputs.rng.randn(*shape).astype("float32"), use_resource=is_resource)
        if is_sparse:
            rows = tf.gather(w, inputs.integers(100, ROWS_WIDE))
            cost = tf.reduce_sum(tf.square(rows - inputs.floats(ROWS_WIDE, 16)))
        else:
            cost = tf.reduce_sum(tf.square(inputs.floats(64, 512) @ w))
        scope = tf.get_variable_scope().name + "/"
        with tf.control_dependencies([make().minimize(cost, var_list=[w])]):
            return [variable.read_value() for variable in tf.global_variables(scope)]

    return case


def _adagrad_da() -> Any:
    step = tf.get_variable("step", initializer=np.int64(1), trainable=False)
    return tf.train.AdagradDAOptimizer(0.1, step)


def _contrib() -> Any:
    if TF_VERSION < (2, 0):
        import tensorflow

        return tensorflow.contrib.opt
    from tensorpack_lite.tf1.contrib import opt

    return opt


def _descent() -> Any:
    return tf.train.GradientDescentOptimizer(0.1)


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "GradientDescent": _descent,
    "Momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "Nesterov": lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "Adam": lambda: tf.train.AdamOptimizer(0.1),
    "Adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "AdagradDA": _adagrad_da,
    "Adadelta": lambda: tf.train.AdadeltaOptimizer(0.1),
    "RMSProp": lambda: tf.train.RMSPropOptimizer(0.1),
    "RMSProp centered": lambda: tf.train.RMSPropOptimizer(0.1, centered=True),
    "Ftrl": lambda: tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01),
    "ProximalGradientDescent": lambda: tf.train.ProximalGradientDescentOptimizer(0.1, 0.01),
    "ProximalAdagrad": lambda: tf.train.ProximalAdagradOptimizer(0.1),
    "own LAMB": lambda: own.LAMBOptimizer(0.1),
    "own AdamW": lambda: own.AdamWOptimizer(0.1, 0.01),
    "own SGDW": lambda: own.SGDWOptimizer(0.1, 0.01),
    "own AccumGrad": lambda: own.AccumGradOptimizer(_descent(), 2),
    "own clip_by_global_norm": lambda: own.clip_by_global_norm(_descent(), 1.0),
    "contrib LazyAdam": lambda: _contrib().LazyAdamOptimizer(0.1),
    "contrib Nadam": lambda: _contrib().NadamOptimizer(0.1),
    "contrib AdaMax": lambda: _contrib().AdaMaxOptimizer(0.1),
    "contrib LARS": lambda: _contrib().LARSOptimizer(0.1),
    "contrib AdamW": lambda: _contrib().AdamWOptimizer(0.01, 0.1),
    "contrib MomentumW": lambda: _contrib().MomentumWOptimizer(0.01, 0.1, 0.9),
}
DENSE_ONLY = ("contrib LARS",)

GROUPS["updates"] = {
    f"scatter_{name} {kind}": scattered(name, kind == "resource")
    for name in ("add", "sub", "mul", "div", "min", "max", "update", "nd_add")
    for kind in ("resource", "reference")
}
GROUPS["optimizers"] = {name: optimized(make, False, True) for name, make in OPTIMIZERS.items()}
GROUPS["optimizers, repeated rows"] = {
    f"{name} {kind}": optimized(make, True, kind == "resource")
    for name, make in OPTIMIZERS.items()
    for kind in ("resource", "reference")
    if name not in DENSE_ONLY
}
