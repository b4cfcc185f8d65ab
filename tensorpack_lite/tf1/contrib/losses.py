"""`tf.contrib.losses`: the losses of tf_slim, with the old order of arguments."""

from __future__ import annotations

from ._lookup import contrib_names

__getattr__, __dir__ = contrib_names(
    __name__,
    sources=("tf_slim.losses.loss_ops", "tf_slim.losses"),
    inner={"metric_learning": "tf_slim.losses.metric_learning"},
    same=("losses", "ops"),
)
