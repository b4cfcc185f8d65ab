"""`tf.contrib.losses`: the losses of tf_slim, with the old order of arguments."""

from __future__ import annotations

from typing import Any

from ._lookup import Names

_NAMES = Names(
    __name__,
    sources=("tf_slim.losses.loss_ops", "tf_slim.losses"),
    inner={"metric_learning": "tf_slim.losses.metric_learning"},
    same=("losses", "ops"),
)


def __getattr__(name: str) -> Any:
    return _NAMES.find(name)


def __dir__() -> list[str]:
    return _NAMES.listing()
