"""Predictors on several devices: predictors that share their variables, or one that predicts several datapoints per call."""

from __future__ import annotations

from typing import Any, Sequence

from ..compat import TensorSpec
from ..compat import tfv1 as tf
from ..graph_builder.placement import device_of_gpu
from ..tfutils.placeholder import build_or_reuse_placeholder
from ..tfutils.tower.context import PredictTowerContext
from ..tfutils.tower.handle import TowerTensorHandle
from ..utils import logger
from ..utils.errors import type_error
from .base import OnlinePredictor
from .config import PredictConfig


class MultiTowerOfflinePredictor(OnlinePredictor):
    """
    Predictors on several GPUs that share their variables.

    The object itself is the first predictor. The others are for threads, e.g. of a MultiThreadAsyncPredictor.

    Args:
        config: configuration of the predictors.
        towers: a list of GPU numbers; negative means the CPU.

    Attributes:
        predictors: an `OnlinePredictor` for each tower.
        graph, sess: the graph and session of all predictors.

    Raises:
        TypeError, ValueError: `towers` is not a list of distinct numbers.
        KeyError: a name is not in the graph. The message lists the nearest names.

    Example:
        >>> predictors = MultiTowerOfflinePredictor(config, [0, 1]).get_predictors()
        >>> predict = MultiThreadAsyncPredictor(predictors, batch_size=8)
    """

    def __init__(self, config: PredictConfig, towers: Sequence[int]) -> None:
        _check_towers(type(self).__name__, towers)
        self.graph = config._maybe_create_graph()
        with self.graph.as_default():
            inputs = [build_or_reuse_placeholder(spec) for spec in config.input_signature]
            tensors = []
            for index, tower in enumerate(towers):
                handle = _build_tower(config, inputs, tower, is_first=index == 0)
                tensors.append((handle.get_tensors(config.input_names), handle.get_tensors(config.output_names)))
            with config._new_session() as self.sess:
                self.predictors = [OnlinePredictor(*both, config.return_input, self.sess) for both in tensors]
        super().__init__(*tensors[0], config.return_input, self.sess)

    def get_predictor(self, n: int) -> list[OnlinePredictor]:
        """
        Return a list of n predictors.

        Args:
            n: how many. If there are fewer towers, the list repeats them, and a warning is logged.
        """
        if n > len(self.predictors):
            logger.warning(
                f"MultiTowerOfflinePredictor: {n} predictors share {len(self.predictors)} towers, because there are no more."
            )
        return [self.predictors[index % len(self.predictors)] for index in range(n)]

    def get_predictors(self) -> list[OnlinePredictor]:
        """Return all predictors, one for each tower."""
        return self.predictors


class DataParallelOfflinePredictor(OnlinePredictor):
    """
    Predictor that takes a datapoint for each of several GPUs and predicts all of them in one run.

    A call takes the inputs of the first tower, then those of the second, and so on. It returns the outputs in the same
    order. The placeholders are named `tower<number>_<input>`.

    Args:
        config: configuration of the predictor.
        towers: a list of GPU numbers; negative means the CPU.

    Attributes:
        graph, sess: its graph and session.

    Raises:
        TypeError, ValueError: `towers` is not a list of distinct numbers.
        KeyError: a name is not in the graph. The message lists the nearest names.

    Example:
        >>> predict = DataParallelOfflinePredictor(config, [0, 1])
        >>> probability0, probability1 = predict(image0, image1)
    """

    def __init__(self, config: PredictConfig, towers: Sequence[int]) -> None:
        _check_towers(type(self).__name__, towers)
        self.graph = config._maybe_create_graph()
        with self.graph.as_default():
            input_tensors: list[Any] = []
            output_tensors: list[Any] = []
            for index, tower in enumerate(towers):
                prefix, signature = _name_of(tower), config.input_signature
                specs = [TensorSpec(spec.shape, spec.dtype, f"{prefix}_{spec.name}") for spec in signature]
                inputs = [build_or_reuse_placeholder(spec) for spec in specs]
                handle = _build_tower(config, inputs, tower, is_first=index == 0)
                input_tensors += handle.get_tensors(config.input_names)
                output_tensors += handle.get_tensors(config.output_names)
            with config._new_session() as sess:
                super().__init__(input_tensors, output_tensors, config.return_input, sess)


def _build_tower(config: PredictConfig, inputs: Sequence[tf.Tensor], tower: int, is_first: bool) -> TowerTensorHandle:
    """Build one tower on its device. All but the first reuse the variables."""
    device, name = device_of_gpu(tower), _name_of(tower)
    logger.info(f"Building the prediction tower '{name}' on device {device} ...")
    reuse = None if is_first else True
    scope = tf.variable_scope(tf.get_variable_scope(), reuse=reuse, auxiliary_name_scope=False)
    with scope, tf.device(device), PredictTowerContext(name):
        config.tower_func(*inputs)
    return config.tower_func.towers[-1]


def _name_of(tower: int) -> str:
    return f"tower{tower}" if tower >= 0 else "tower-cpu"


def _check_towers(name: str, towers: object) -> None:
    if not isinstance(towers, (list, tuple, range)) or not all(isinstance(tower, int) for tower in towers):
        raise type_error(name, "a list of GPU numbers", towers)
    if not towers or len(set(towers)) < len(towers):
        raise ValueError(f"{name}: towers is invalid (expected distinct GPU numbers, got {list(towers)}).")
