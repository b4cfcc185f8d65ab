"""What a predictor is made of: a model, variables, names of inputs and outputs."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Callable, Iterator, Sequence

from ..compat import ensure_graph_mode
from ..compat import tfv1 as tf
from ..graph_builder.model_desc import ModelDescBase
from ..tfutils.sesscreate import NewSessionCreator
from ..tfutils.sessinit import JustCurrentSession, SessionInit
from ..tfutils.tower.func import TowerFunc
from ..utils import logger
from ..utils.errors import type_error

__all__ = ["PredictConfig"]


class PredictConfig:
    """
    Say what a predictor is to be made of.

    Either `model`, or `tower_func` and its `input_signature` (a TowerFunc has one already).

    Args:
        model: a `ModelDescBase`.
        tower_func: a function of the input tensors, or a `TowerFunc`, e.g. a trainer's.
        input_signature: a list of `TensorSpec`.
        input_names: names of the tensors to feed; None means all inputs of the signature.
        output_names: names of the tensors to evaluate; at least one.
        session_creator: makes the session; None means `NewSessionCreator()`.
        session_init: loads the variables; None means that they keep their initial values.
        return_input: with True, predictors return `(datapoint, outputs)`.
        create_graph: with True, each predictor has a graph of its own; with False it uses the default graph.

    Attributes:
        input_signature, tower_func, input_names, output_names, session_creator, session_init, return_input, create_graph:
            as in effect; `tower_func` is always a `TowerFunc`.

    Raises:
        TypeError: an argument of another kind.
        ValueError: both or neither of `model` and `tower_func`, or no `output_names`.

    Example:
        >>> PredictConfig(model=Model(), session_init=SmartInit("train_log/checkpoint"), output_names=["probability"])

    tensorpack: same; there a TowerFunc as `tower_func` is broken.
    """

    def __init__(  # noqa: PLR0913 (tensorpack's)
        self,
        model: ModelDescBase | None = None,
        tower_func: TowerFunc | Callable[..., Any] | None = None,
        input_signature: Sequence[Any] | None = None,
        input_names: Sequence[str] | None = None,
        output_names: Sequence[str] | None = None,
        session_creator: Any = None,
        session_init: SessionInit | None = None,
        return_input: bool = False,
        create_graph: bool = True,
    ) -> None:
        ensure_graph_mode()
        self.tower_func = _make_tower_func(model, tower_func, input_signature)
        self.input_signature = self.tower_func.input_signature
        self.session_creator = session_creator if session_creator is not None else NewSessionCreator()
        self.session_init = session_init if session_init is not None else JustCurrentSession()
        if not isinstance(self.session_creator, tf.train.SessionCreator):
            raise type_error("PredictConfig: session_creator", "a tf.train.SessionCreator", session_creator)
        if not isinstance(self.session_init, SessionInit):
            raise type_error(
                "PredictConfig: session_init", "a SessionInit", session_init, "Use SmartInit(path)."
            )
        self.input_names = _check_names(
            "input_names", input_names, [spec.name for spec in self.input_signature]
        )
        self.output_names = _check_names("output_names", output_names, [])
        if not self.output_names:
            raise ValueError("PredictConfig: output_names is empty. Name the tensors to evaluate.")
        if not self.input_names:
            logger.warning("PredictConfig: there are no input_names, so predictors take no input.")
        self.return_input = bool(return_input)
        self.create_graph = bool(create_graph)

    def _maybe_create_graph(self) -> Any:
        return tf.Graph() if self.create_graph else tf.get_default_graph()

    @contextmanager
    def _new_session(self) -> Iterator[Any]:
        """Make a session and load the variables; close the session if that fails, or if the block does."""
        self.session_init._setup_graph()
        sess = self.session_creator.create_session()
        try:
            self.session_init._run_init(sess)
            yield sess
        except BaseException:  # whatever it is, the session does not stay open
            sess.close()
            raise


def _make_tower_func(model: Any, tower_func: Any, input_signature: Any) -> TowerFunc:
    if model is not None:
        if not isinstance(model, ModelDescBase):
            raise type_error("PredictConfig: model", "a ModelDescBase", model)
        if tower_func is not None or input_signature is not None:
            raise ValueError(
                "PredictConfig: model has its own tower_func and input_signature. Leave these out."
            )
        return TowerFunc(model.build_graph, model.get_input_signature())
    if isinstance(tower_func, TowerFunc):
        return TowerFunc(
            tower_func, tower_func.input_signature if input_signature is None else input_signature
        )
    if tower_func is None or input_signature is None:
        raise ValueError(
            "PredictConfig: has no model. Pass model=..., or tower_func=... together with input_signature=..."
        )
    if not callable(tower_func):
        raise type_error("PredictConfig: tower_func", "a function of the input tensors", tower_func)
    return TowerFunc(tower_func, input_signature)


def _check_names(argument: str, names: Any, default: list[str]) -> list[str]:
    if names is None:
        return default
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise type_error(f"PredictConfig: {argument}", "a list of names", names)
    return list(names)
