"""Configuration of predictors: a model, its variables, and the names of inputs and outputs."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Callable, Iterator, Sequence

from ..compat import ensure_graph_mode
from ..compat import tfv1 as tf
from ..graph_builder.model_desc import ModelDescBase
from ..tfutils.common import get_tensors_by_names
from ..tfutils.operation_threads import measure_work, set_threads
from ..tfutils.placeholder import build_or_reuse_placeholder
from ..tfutils.precision import check_precision, precision_scope
from ..tfutils.sesscreate import NewSessionCreator
from ..tfutils.sessinit import JustCurrentSession, SessionInit
from ..tfutils.tower.context import PredictTowerContext
from ..tfutils.tower.func import TowerFunc
from ..utils import logger
from ..utils.checks import check_callable, check_type
from ..utils.cores import usable_cores
from ..utils.errors import type_error


class PredictConfig:
    """
    Configuration of a predictor.

    Pass either `model`, or `tower_func` and `input_signature` (a TowerFunc already has a signature).

    Args:
        model: a `ModelDescBase`.
        tower_func: a function of the input tensors, or a `TowerFunc`, e.g. a trainer's.
        input_signature: a list of `TensorSpec`.
        input_names: names of the tensors to feed. Default: all inputs of the signature.
        output_names: names of the tensors to evaluate; at least one.
        session_creator: creates the session. Default: `NewSessionCreator()`.
        session_init: loads the variables. Default: variables keep their initial values.
        return_input: if True, predictors return `(datapoint, outputs)`.
        create_graph: whether each predictor creates a graph. False: predictors use the default graph.
        precision: the dtype in which the layers compute, as in TrainConfig. Default: that of a trainer's TowerFunc, otherwise
            "float32". Variables are float32, so a predictor may have another precision than the training.

    Attributes:
        tower_func: always a `TowerFunc`.
        input_signature, input_names, output_names: the values in effect.
        session_creator, session_init, return_input, create_graph, precision: the values in effect.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: both or neither of `model` and `tower_func` are given, `output_names` is empty, or `precision` is unknown.
        RuntimeError: TensorFlow does not support the precision.

    Example:
        >>> PredictConfig(model=Model(), session_init=SmartInit("train_log/checkpoint"), output_names=["probability"])
    """

    def __init__(  # noqa: PLR0913 (tensorpack's arguments)
        self,
        model: ModelDescBase | None = None,
        tower_func: TowerFunc | Callable[..., object] | None = None,
        input_signature: Sequence[tf.TensorSpec] | None = None,
        input_names: Sequence[str] | None = None,
        output_names: Sequence[str] | None = None,
        session_creator: tf.train.SessionCreator | None = None,
        session_init: SessionInit | None = None,
        return_input: bool = False,
        create_graph: bool = True,
        precision: str = "float32",
    ) -> None:
        ensure_graph_mode()
        self.precision = check_precision("PredictConfig", precision)
        self.tower_func = _make_tower_func(model, tower_func, input_signature)
        if precision != "float32":
            self.tower_func = self.tower_func.decorated(precision_scope(precision))
        self.input_signature = self.tower_func.input_signature
        self.session_creator = session_creator if session_creator is not None else NewSessionCreator()
        self.session_init = session_init if session_init is not None else JustCurrentSession()
        check_type("PredictConfig: session_creator", self.session_creator, tf.train.SessionCreator)
        check_type("PredictConfig: session_init", self.session_init, SessionInit, advice="Use SmartInit(path).")
        all_inputs = [spec.name for spec in self.input_signature]
        self.input_names = _check_names("input_names", input_names, all_inputs)
        self.output_names = _check_names("output_names", output_names, [])
        if not self.output_names:
            raise ValueError("PredictConfig: output_names is empty. Name the tensors to evaluate.")
        if not self.input_names:
            logger.warning("PredictConfig: input_names is empty, so predictors take no input.")
        self.return_input = bool(return_input)
        self.create_graph = bool(create_graph)
        self._num_processes = 1  # that predict at the same time

    def _share_cores(self, num_processes: int) -> None:
        self._num_processes = num_processes

    def _maybe_create_graph(self) -> tf.Graph:
        return tf.Graph() if self.create_graph else tf.get_default_graph()

    def _build_model(self) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """Build the model in the default graph, in a prediction tower without a name. Return inputs and outputs."""
        placeholders = [build_or_reuse_placeholder(spec) for spec in self.input_signature]
        with PredictTowerContext(""):
            self.tower_func(*placeholders)
        return get_tensors_by_names(self.input_names), get_tensors_by_names(self.output_names)

    @contextmanager
    def _new_session(self, outputs: Sequence[tf.Tensor] = (), inputs: Sequence[tf.Tensor] = ()) -> Iterator[tf.Session]:
        """
        Create a session and load the variables. Close the session if loading or the block fails.

        Args:
            outputs, inputs: of the only tower; the number of threads for each operation follows from its work. Without outputs,
                it is 1.
        """
        if outputs:
            cores = usable_cores() / self._num_processes
            set_threads(self.session_creator, lambda: measure_work(outputs, inputs, batch=1), cores)
        self.session_init._setup_graph()
        sess = self.session_creator.create_session()
        try:
            self.session_init._run_init(sess)
            yield sess
        except BaseException:  # also KeyboardInterrupt: the session must not stay open
            sess.close()
            raise


def _make_tower_func(
    model: ModelDescBase | None,
    tower_func: TowerFunc | Callable[..., object] | None,
    input_signature: Sequence[tf.TensorSpec] | None,
) -> TowerFunc:
    if model is not None:
        check_type("PredictConfig: model", model, ModelDescBase)
        if tower_func is not None or input_signature is not None:
            raise ValueError(
                "PredictConfig: model already defines tower_func and input_signature. Remove these arguments."
            )
        return TowerFunc(model.build_graph, model.get_input_signature())
    if isinstance(tower_func, TowerFunc) and input_signature is None:
        input_signature = tower_func.input_signature
    if tower_func is None or input_signature is None:
        raise ValueError("PredictConfig: there is no model. Pass model=..., or tower_func=... with input_signature=...")
    check_callable("PredictConfig: tower_func", tower_func, "a function of the input tensors")
    return TowerFunc(tower_func, input_signature)


def _check_names(argument: str, names: object, default: list[str]) -> list[str]:
    if names is None:
        return default
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise type_error(f"PredictConfig: {argument}", "a list of names", names)
    return list(names)
