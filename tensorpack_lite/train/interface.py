"""The function `launch_train_with_config`, which trains a ModelDesc."""

from __future__ import annotations

from typing import Any

from ..compat import ensure_graph_mode
from ..compat import tfv1 as tf
from ..dataflow.base import DataFlow
from ..input_source.base import InputSource
from ..input_source.queueing import QueueInput
from ..input_source.staging import StagingInput
from ..loop.extension import replace_extensions
from ..tfutils.precision import with_precision
from ..tfutils.sesscreate import NewSessionCreator
from ..tfutils.xla import keep_for_xla, with_xla
from ..utils import logger
from ..utils.brief_traceback import EndsBriefly
from ..utils.errors import type_error
from .config import TrainConfig
from .exact.what_is_exact import begin_exact_resume
from .resume import advance_graph_seed
from .tower import SingleCostTrainer
from .trainer import Trainer


def launch_train_with_config(config: TrainConfig, trainer: SingleCostTrainer) -> None:
    """
    Train with a SingleCostTrainer.

    It builds the graph by `trainer.setup_graph`, with the model of the config and the input that
    `apply_default_prefetch` returns. Then it calls `trainer.train_with_defaults` with the other settings of
    the config.

    Args:
        config: a TrainConfig with a model and data.
        trainer: a new trainer.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: the config has no model or no data.
        Exception: any error of the data, the model, a callback or a step.

    Example:
        >>> launch_train_with_config(TrainConfig(model=Model(), dataflow=data, max_epoch=5), SimpleTrainer())
    """
    ensure_graph_mode()
    if not isinstance(trainer, SingleCostTrainer):
        advice = "For other trainers, call train_with_defaults()."
        if isinstance(trainer, TrainConfig):
            advice = "The arguments are swapped: write launch_train_with_config(config, trainer)."
        raise type_error("launch_train_with_config: trainer", "a SingleCostTrainer", trainer, advice)
    if not isinstance(config, TrainConfig):
        raise type_error("launch_train_with_config: config", "a TrainConfig", config)
    if config.model is None:
        raise ValueError("launch_train_with_config: the config has no model. Pass TrainConfig(model=...).")
    source = config.data if config.data is not None else config.dataflow
    if source is None:
        raise ValueError("launch_train_with_config: the config has no data. Pass TrainConfig(dataflow=...) or data=...")

    model: Any = config.model
    trainer.model = model
    replace_extensions(trainer.extensions, config.extensions)
    input_source = apply_default_prefetch(source, trainer)
    with EndsBriefly(), logger.unlock_dir_on_error():  # AutoResumeTrainConfig may have locked it
        if config.exact:
            begin_exact_resume(config.session_init, config.exact, trainer)
        else:
            advance_graph_seed(trainer.step_to_resume_at(config.session_init))
        build, optimizer = with_precision(config.precision, model.build_graph, model.get_optimizer)
        if config.xla:
            build = with_xla(build)
            _keep_for_xla(config.session_creator)
        trainer.setup_graph(model.get_input_signature(), input_source, build, optimizer)
    trainer.train_with_defaults(
        callbacks=config.callbacks,
        monitors=config.monitors,
        session_creator=config.session_creator,
        session_init=config.session_init,
        steps_per_epoch=config.steps_per_epoch,
        starting_epoch=config.starting_epoch,
        max_epoch=config.max_epoch,
        extra_callbacks=config.extra_callbacks,
    )


def apply_default_prefetch(input_source_or_dataflow: InputSource | DataFlow, trainer: Trainer) -> InputSource:
    """
    Choose the default input for a trainer.

    A DataFlow is wrapped in the trainer's `default_input`: a `FeedInput` for SimpleTrainer and its subclasses, and a
    `QueueInput` for trainers without this attribute. If the trainer has several `devices`, a `QueueInput` is wrapped in
    a `StagingInput`.

    Args:
        input_source_or_dataflow: a DataFlow, or an InputSource. InputSources other than a QueueInput are
            returned unchanged.
        trainer: the trainer.

    Returns:
        An InputSource.

    Difference from tensorpack: a subclass of SimpleTrainer is fed like SimpleTrainer itself, not through a QueueInput.
    """
    source = input_source_or_dataflow
    if not isinstance(source, InputSource):
        source = getattr(trainer, "default_input", QueueInput)(source)
        kind = type(source).__name__
        logger.info(f"The DataFlow is wrapped in a {kind}, the default for {type(trainer).__name__}.")
    if len(getattr(trainer, "devices", [])) > 1 and isinstance(source, QueueInput):
        logger.info("The QueueInput is wrapped in a StagingInput, the default for several devices.")
        return StagingInput(source)
    return source


def _keep_for_xla(creator: tf.train.SessionCreator) -> None:
    if isinstance(creator, NewSessionCreator) and not creator.user_provided_config:
        keep_for_xla(creator.config)
