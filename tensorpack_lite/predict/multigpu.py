"""Predictors on several devices: several that share their variables, or one that predicts several datapoints at once."""

from __future__ import annotations

from typing import Any, Sequence

from ..compat import TensorSpec
from ..compat import tfv1 as tf
from ..input_source.placeholder import PlaceholderInput
from ..tfutils.tower.context import PredictTowerContext
from ..tfutils.tower.handle import TowerTensorHandle
from ..utils import logger
from ..utils.errors import type_error
from .base import OnlinePredictor
from .config import PredictConfig

__all__ = ["DataParallelOfflinePredictor", "MultiTowerOfflinePredictor"]


class MultiTowerOfflinePredictor(OnlinePredictor):
    """
    A predictor for each of several GPUs, all with the same variables, made from a config.

    It is a predictor itself: the first one. The others are for threads, e.g. in a MultiThreadAsyncPredictor.

    Args:
        config: what the predictors are made of.
        towers: a list of GPU numbers; negative means the CPU.

    Attributes:
        predictors: an `OnlinePredictor` for each tower.
        graph, sess: of all predictors.

    Raises:
        TypeError, ValueError: `towers` is no list of distinct numbers.
        KeyError: a name is not in the graph; names the nearest ones.

    Example:
        >>> predictors = MultiTowerOfflinePredictor(config, [0, 1]).get_predictors()
        >>> predict = MultiThreadAsyncPredictor(predictors, batch_size=8)

    tensorpack: same; there it fails on TF 2.
    """

    def __init__(self, config: PredictConfig, towers: Sequence[int]) -> None:
        _check_towers(type(self).__name__, towers)
        self.graph = config._maybe_create_graph()
        with self.graph.as_default():
            inputs = PlaceholderInput()
            inputs.setup(config.input_signature)
            handles = [
                _build_tower(config, inputs, tower, is_first=index == 0) for index, tower in enumerate(towers)
            ]
            with config._new_session() as self.sess:
                self.predictors = [
                    OnlinePredictor(
                        handle.get_tensors(config.input_names),
                        handle.get_tensors(config.output_names),
                        config.return_input,
                        self.sess,
                    )
                    for handle in handles
                ]
        first = self.predictors[0]
        super().__init__(first.input_tensors, first.output_tensors, config.return_input, self.sess)

    def get_predictor(self, n: int) -> list[OnlinePredictor]:
        """
        Give n predictors, taking the towers in turn.

        Args:
            n: how many; more than there are towers share towers, with a warning.

        tensorpack: same, the name too.
        """
        if n > len(self.predictors):
            logger.warning(
                f"{n} predictors were asked for, there are {len(self.predictors)} towers: some share one."
            )
        return [self.predictors[index % len(self.predictors)] for index in range(n)]

    def get_predictors(self) -> list[OnlinePredictor]:
        """Give all predictors, one for each tower."""
        return self.predictors


class DataParallelOfflinePredictor(OnlinePredictor):
    """
    A predictor that takes a datapoint for each of several GPUs, and predicts them in one run.

    A call takes the inputs of the first tower, then those of the second, and so on, and gives the outputs in the same order.
    The placeholders are named `tower<number>_<input>`.

    Args:
        config: what the predictor is made of.
        towers: a list of GPU numbers; negative means the CPU.

    Attributes:
        graph, sess: its graph and session.

    Raises:
        TypeError, ValueError: `towers` is no list of distinct numbers.
        KeyError: a name is not in the graph; names the nearest ones.

    Example:
        >>> predict = DataParallelOfflinePredictor(config, [0, 1])
        >>> probability0, probability1 = predict(image0, image1)

    tensorpack: same; there it fails on TF 2.
    """

    def __init__(self, config: PredictConfig, towers: Sequence[int]) -> None:
        _check_towers(type(self).__name__, towers)
        self.graph = config._maybe_create_graph()
        with self.graph.as_default():
            input_tensors: list[Any] = []
            output_tensors: list[Any] = []
            for index, tower in enumerate(towers):
                inputs = PlaceholderInput()
                inputs.setup(
                    [
                        TensorSpec(spec.shape, spec.dtype, f"tower{_label(tower)}_{spec.name}")
                        for spec in config.input_signature
                    ]
                )
                handle = _build_tower(config, inputs, tower, is_first=index == 0)
                input_tensors += handle.get_tensors(config.input_names)
                output_tensors += handle.get_tensors(config.output_names)
            with config._new_session() as sess:
                super().__init__(input_tensors, output_tensors, config.return_input, sess)


def _build_tower(
    config: PredictConfig, inputs: PlaceholderInput, tower: int, is_first: bool
) -> TowerTensorHandle:
    """Build one tower on its device; all but the first reuse the variables."""
    device = f"/gpu:{tower}" if tower >= 0 else "/cpu:0"
    logger.info(f"Building the graph of predict tower 'tower{_label(tower)}' on device {device} ...")
    reuse = None if is_first else True
    scope = tf.variable_scope(tf.get_variable_scope(), reuse=reuse, auxiliary_name_scope=False)
    with scope, tf.device(device), PredictTowerContext(f"tower{_label(tower)}"):
        config.tower_func(*inputs.get_input_tensors())
    return config.tower_func.towers[-1]


def _label(tower: int) -> str:
    return str(tower) if tower >= 0 else "-cpu"


def _check_towers(name: str, towers: Any) -> None:
    if not isinstance(towers, (list, tuple, range)) or not all(isinstance(tower, int) for tower in towers):
        raise type_error(name, "a list of GPU numbers", towers)
    if not towers or len(set(towers)) < len(towers):
        raise ValueError(f"{name}: towers is {list(towers)}, wanted distinct numbers of GPUs, at least one.")
