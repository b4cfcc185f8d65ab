"""
Means over what all towers compute, or all ranks, with their gradients: what joins the copies of a layer.

The towers of a process are built one after the other, each complete with its gradients before the next one begins. So none can
be given the mean while it is built: each gets the end of an edge, and when the last one has come, the mean is made and the
edges are tied to it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Callable, Iterator

from ...compat import private
from ...compat import tfv1 as tf
from ...utils.argtools import graph_memoized, memoized
from .context import TrainTowerContext, get_current_tower_context
from .ranks import TowerRanks

__all__ = ["mean_over_ranks", "mean_over_towers", "require_all_towers"]

_BITS = {2: tf.int16, 4: tf.int32, 8: tf.int64}


def mean_over_towers(value: Any, who: str) -> Any:
    """
    Compute the mean of a value over all training towers of this process, on whatever devices these are.

    All towers must call it, the same number of times, in the same order. Its gradient is the mean of the gradients that the
    towers take of it; so each tower gets, of its own cost, what the average over towers makes the gradient of their average
    cost. That has a gradient again, and so on. A tower that takes gradients twice does so in every tower.

    Args:
        value: a tensor of a floating dtype, of the same shape in all towers.
        who: the layer that calls it, with its variable scope; for errors, and to see that the towers agree.

    Returns:
        The mean, the same in all towers; `value` itself if there is but one.

    Raises:
        RuntimeError: outside of a training tower; inside a condition, a loop or XLA's cluster, which know no other tower;
            another tower built another layer in this place.

    Note: `DataParallelBuilder` sees at the end of each build that all came. Where it is not used, running one that waits
    for another tower ends with a placeholder that says so.
    """
    tower = _require_training_tower(who)
    if tower.total == 1:
        return value
    _refuse_control_flow(who)
    meeting = _meetings(tower.total).next_of(tower.index, _without_tower(who, tower))
    with tf.name_scope("mean_over_towers"):
        return meeting.come(tower.index, tf.convert_to_tensor(value))


def mean_over_ranks(value: Any, who: str) -> Any:
    """
    Compute the mean of a value over all processes that train together, by the engine of the trainer.

    All must call it, the same number of times, in the same order. Its gradient is the mean of theirs, as in `mean_over_towers`.

    Args:
        value: a tensor of float32 or float64, of the same shape in all.
        who: the layer that calls it; for errors.

    Returns:
        The mean; `value` itself if there is but one rank.

    Raises:
        RuntimeError: outside of a training tower; its trainer has no ranks; inside a condition, a loop or XLA's cluster.
    """
    ranks = _require_training_tower(who).ranks
    if ranks is None:
        raise RuntimeError(
            f"{who}: a mean over processes needs a trainer that has several. Use HorovodTrainer or CollectiveTrainer; in a trainer "
            "of your own, TrainTowerContext('', ranks=TowerRanks(...))."
        )
    if ranks.size == 1:
        return value
    _refuse_control_flow(who)
    with tf.name_scope("mean_over_ranks"):
        return _rank_mean(tf.convert_to_tensor(value), ranks)


def require_all_towers(total: int) -> None:
    """
    See that no tower waits for another one, once all are built.

    Args:
        total: how many towers there are.

    Raises:
        RuntimeError: a layer whose statistics are joint, or gradients through it, are missing in some of the towers.
    """
    for meeting in _meetings(total).everywhere():
        if not meeting.is_complete:
            missing = ", ".join(str(index) for index in range(total) if index not in meeting.values)
            raise RuntimeError(
                f"{meeting.name}: missing in tower {missing} of {total}. Towers that share statistics must build the same layers, and "
                "take gradients the same number of times."
            )


class _Meeting:
    """A value that comes from each tower, to be replaced by the mean; the gradients of the mean meet again."""

    def __init__(self, name: str, total: int) -> None:
        self.name, self.total = name, total
        self.values: dict[int, Any] = {}
        self.gradients: list[_Meeting] = []
        self._ends: list[Any] = []
        self._num_gradients: Counter[int] = Counter()

    @property
    def is_complete(self) -> bool:
        """Whether all towers came."""
        return len(self.values) == self.total

    def come(self, index: int, value: Any) -> Any:
        """
        Bring a tower's value; returns what is the mean as soon as all towers came.

        The edge carries bits, not numbers. So `tf.gradients` does not follow it into other towers, where it would find nothing.
        """
        bits = _BITS[value.dtype.size]
        waiting = tf.placeholder(bits, value.shape, name=f"waits_for_all_{self.total}_towers")
        mean = tf.bitcast(waiting, value.dtype)
        self.values[index] = value
        self._ends.append(mean.op)
        if self.is_complete:
            self._tie()
        return _with_gradient(
            mean, value, lambda of_mean: self._next_gradient(index).come(index, tf.convert_to_tensor(of_mean))
        )

    def _next_gradient(self, index: int) -> _Meeting:
        """Get where a tower's next gradient of the mean meets those of the others."""
        nth = self._num_gradients[index]
        self._num_gradients[index] += 1
        if nth == len(self.gradients):
            self.gradients.append(_Meeting(f"A gradient of {self.name}", self.total))
        return self.gradients[nth]

    def _tie(self) -> None:
        values = [self.values[index] for index in range(self.total)]
        mean = tf.multiply(tf.add_n(values), tf.constant(1.0 / self.total, values[0].dtype))
        bits = tf.bitcast(mean, _BITS[mean.dtype.size])
        for end in self._ends:
            private.update_input(end, 0, bits)


class _Meetings:
    """All values that towers have in common, in the order they are built."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._roots: list[_Meeting] = []
        self._num_calls: Counter[int] = Counter()

    def next_of(self, index: int, name: str) -> _Meeting:
        """Get what a tower takes part in next."""
        nth = self._num_calls[index]
        self._num_calls[index] += 1
        if nth == len(self._roots):
            self._roots.append(_Meeting(name, self._total))
        meeting = self._roots[nth]
        if meeting.name != name:
            raise RuntimeError(
                f"{name}: tower {index} builds it where another tower has built {meeting.name}. Towers that share statistics must "
                "build the same layers, with the same names, in the same order."
            )
        return meeting

    def everywhere(self) -> Iterator[_Meeting]:
        """Go through all of them, each before its gradients."""
        waiting = self._roots[::-1]
        while waiting:
            meeting = waiting.pop()
            yield meeting
            waiting.extend(meeting.gradients[::-1])


@graph_memoized
def _meetings(total: int) -> _Meetings:
    """Get those of the current graph, of builds with so many towers."""
    return _Meetings(total)


def _rank_mean(value: Any, ranks: TowerRanks) -> Any:
    mean = ranks.mean(value)
    return _with_gradient(mean, value, lambda of_mean: _rank_mean(tf.convert_to_tensor(of_mean), ranks))


def _with_gradient(result: Any, value: Any, gradient: Callable[[Any], Any]) -> Any:
    """
    Return `result` with another gradient, which goes to `value`.

    Not by `tf.custom_gradient`, which keeps the graph alive for ever, and at each call looks through all variables.
    """
    with tf.get_default_graph().gradient_override_map({"IdentityN": _gradient_type()}):
        result, _ = tf.identity_n([result, value])
    _gradients()[result.op.name] = gradient
    return result


@graph_memoized
def _gradients() -> dict[str, Callable[[Any], Any]]:
    """Get the gradients of the current graph's means, by name of their operation."""
    return {}


@memoized
def _gradient_type() -> str:
    """Tell TensorFlow once what `_gradients` are; returns the name under which it knows them."""
    name = "tensorpack_lite.tfutils.tower.joint"
    tf.RegisterGradient(name)(lambda op, of_result, of_value: (None, _gradients()[op.name](of_result)))
    return name


def _require_training_tower(who: str) -> TrainTowerContext:
    context = get_current_tower_context()
    if not isinstance(context, TrainTowerContext):
        raise RuntimeError(
            f"{who}: a mean over towers or processes is taken in training towers only, got {context}."
        )
    return context


def _without_tower(who: str, tower: TrainTowerContext) -> str:
    """Take the variable scope of a tower that has its own out of a layer's name."""
    return who.replace(f"{tower.vs_name}/", "", 1) if tower.vs_name else who


def _refuse_control_flow(who: str) -> None:
    if not private.at_top_level(tf.get_default_graph()):
        raise RuntimeError(
            f"{who}: its mean over towers or processes cannot stand inside a condition, a loop or XLA's cluster, which know nothing of "
            "the others. Move it out, or leave out sync_statistics."
        )
