"""
Differentiable means over all towers or all ranks, for layers with joint statistics.

The towers of a process are built one after the other, each with its gradients before the next one. So the
mean does not exist yet while a tower is built. Each tower gets a placeholder instead. When the last tower has
added its value, the mean is created and the consumers of the placeholders are reconnected to it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Iterator

from ...compat import private
from ...compat import tfv1 as tf
from ...utils.argtools import graph_memoized
from ..gradient_override import with_gradient
from .context import TrainTowerContext, get_current_tower_context
from .tower_ranks import TowerRanks

_BITS = {2: tf.int16, 4: tf.int32, 8: tf.int64}


def mean_over_towers(value: tf.Tensor, who: str) -> tf.Tensor:
    """
    Return the mean of a value over all training towers of this process.

    All towers must call it the same number of times, in the same order. The gradient of the mean is the mean
    of the towers' gradients with respect to it. Averaging the towers' gradients then yields the gradient of
    the average cost. Gradients of higher order work the same way; all towers must compute them the same
    number of times.

    Args:
        value: a tensor of a floating-point dtype, with the same shape in all towers.
        who: the calling layer with its variable scope, for messages and to check that the towers agree.

    Returns:
        The mean, the same in all towers. `value` itself if there is only one tower.

    Raises:
        RuntimeError: it is called outside of a training tower, or inside a condition, a loop or an XLA
            cluster, which cannot use values of other towers; or another tower built a different layer at this
            position.

    Note: `DataParallelBuilder` checks after each build that all towers added their values. With other builders, running
    a tower whose mean is incomplete fails with an error about the placeholder `waits_for_all_<n>_towers`.
    """
    tower = _require_training_tower(who)
    if tower.total == 1:
        return value
    _refuse_control_flow(who)
    name = who.replace(f"{tower.vs_name}/", "", 1) if tower.vs_name else who
    joint = _joint_means(tower.total).next_of(tower.index, name)
    with tf.name_scope("mean_over_towers"):
        return joint.add(tower.index, tf.convert_to_tensor(value))


def mean_over_ranks(value: tf.Tensor, who: str) -> tf.Tensor:
    """
    Return the mean of a value over all processes that train together.

    All processes must call it the same number of times, in the same order. Its gradient is the mean of theirs, as in
    `mean_over_towers`.

    Args:
        value: a float32 or float64 tensor, with the same shape in all processes.
        who: the calling layer, for messages.

    Returns:
        The mean. `value` itself if there is only one rank.

    Raises:
        RuntimeError: it is called outside of a training tower, or inside a condition, a loop or an XLA cluster; or the
            trainer has no ranks.
    """
    ranks = _require_training_tower(who).ranks
    if ranks is None:
        raise RuntimeError(
            f"{who}: a mean over processes needs a distributed trainer. Use HorovodTrainer or CollectiveTrainer. In a custom "
            "trainer, use TrainTowerContext('', ranks=TowerRanks(...))."
        )
    if ranks.size == 1:
        return value
    _refuse_control_flow(who)
    with tf.name_scope("mean_over_ranks"):
        return _rank_mean(tf.convert_to_tensor(value), ranks)


def require_all_towers(total: int) -> None:
    """
    Check, after all towers are built, that all of them added their values to all means.

    Args:
        total: the number of towers.

    Raises:
        RuntimeError: a layer with joint statistics, or a gradient of it, is missing in some of the towers.
    """
    for joint in _joint_means(total).everywhere():
        if not joint.is_complete:
            missing = ", ".join(str(index) for index in range(total) if index not in joint.values)
            raise RuntimeError(
                f"{joint.name}: missing in tower {missing} of {total}. Towers that share statistics must build the same layers, and "
                "compute gradients the same number of times."
            )


class _JointMean:
    """A mean over towers. The gradients of the mean are again means over towers."""

    def __init__(self, name: str, total: int) -> None:
        self.name, self.total = name, total
        self.values: dict[int, Any] = {}
        self.gradients = _JointMeans(total)
        self._consumers: list[Any] = []

    @property
    def is_complete(self) -> bool:
        """Whether all towers have added their values."""
        return len(self.values) == self.total

    def add(self, index: int, value: tf.Tensor) -> tf.Tensor:
        """
        Add a tower's value. Returns a tensor that is the mean as soon as all towers have added theirs.

        The placeholder has an integer dtype, which is bitcast. So `tf.gradients` does not follow the
        reconnected edge into other towers, where no gradients exist.
        """
        bits = _BITS[value.dtype.size]
        waiting = tf.placeholder(bits, value.shape, name=f"waits_for_all_{self.total}_towers")
        mean = tf.bitcast(waiting, value.dtype)
        self.values[index] = value
        self._consumers.append(mean.op)
        if self.is_complete:
            self._connect()

        def gradient(of_mean: tf.Tensor) -> list[tf.Tensor]:
            joint = self.gradients.next_of(index, f"A gradient of {self.name}")
            return [joint.add(index, tf.convert_to_tensor(of_mean))]

        return with_gradient([mean], [value], gradient)[0]

    def _connect(self) -> None:
        values = [self.values[index] for index in range(self.total)]
        mean = tf.multiply(tf.add_n(values), tf.constant(1.0 / self.total, values[0].dtype))
        bits = tf.bitcast(mean, _BITS[mean.dtype.size])
        for consumer in self._consumers:
            private.update_input(consumer, 0, bits)


class _JointMeans:
    """The means over towers in one graph, or the gradients of one of them, in the order they are built."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._means: list[_JointMean] = []
        self._num_calls: Counter[int] = Counter()

    def next_of(self, index: int, name: str) -> _JointMean:
        """Return the next mean of a tower."""
        nth = self._num_calls[index]
        self._num_calls[index] += 1
        if nth == len(self._means):
            self._means.append(_JointMean(name, self._total))
        joint = self._means[nth]
        if joint.name != name:
            raise RuntimeError(
                f"{name}: tower {index} builds it where another tower has built {joint.name}. Towers that share statistics must "
                "build the same layers, with the same names, in the same order."
            )
        return joint

    def everywhere(self) -> Iterator[_JointMean]:
        """Iterate over all means, each before its gradients."""
        for joint in self._means:
            yield joint
            yield from joint.gradients.everywhere()


@graph_memoized
def _joint_means(total: int) -> _JointMeans:
    """Return the means over this number of towers in the current graph."""
    return _JointMeans(total)


def _rank_mean(value: tf.Tensor, ranks: TowerRanks) -> tf.Tensor:
    def gradient(of_mean: tf.Tensor) -> list[tf.Tensor]:
        return [_rank_mean(tf.convert_to_tensor(of_mean), ranks)]

    return with_gradient([ranks.mean(value)], [value], gradient)[0]


def _require_training_tower(who: str) -> TrainTowerContext:
    context = get_current_tower_context()
    if not isinstance(context, TrainTowerContext):
        raise RuntimeError(
            f"{who}: a mean over towers or processes works only in training towers (expected a TrainTowerContext, got "
            f"{context}). Leave out sync_statistics."
        )
    return context


def _refuse_control_flow(who: str) -> None:
    if not private.at_top_level(tf.get_default_graph()):
        raise RuntimeError(
            f"{who}: a mean over towers or processes cannot be inside a condition, a loop or an XLA cluster. Move the layer out, "
            "or leave out sync_statistics."
        )
