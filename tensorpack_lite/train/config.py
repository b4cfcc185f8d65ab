"""Everything a training needs, in one object."""

from __future__ import annotations

import os
from typing import Any

from ..callbacks.monitor.base import MonitorBase
from ..callbacks.monitor.json_file import JSONWriter
from ..dataflow.base import DataFlow
from ..graph_builder.model_desc import ModelDescBase
from ..input_source.base import InputSource
from ..loop.callback import Callback
from ..tfutils.sesscreate import NewSessionCreator
from ..tfutils.sessinit import SaverRestore, SessionInit, SmartInit
from ..utils import logger
from ..utils.errors import type_error
from .defaults import DEFAULT_CALLBACKS, DEFAULT_MONITORS

__all__ = ["DEFAULT_CALLBACKS", "DEFAULT_MONITORS", "AutoResumeTrainConfig", "TrainConfig"]


class TrainConfig:
    """
    What `launch_train_with_config` needs to know. All arguments become attributes, which may be changed until then.

    Args:
        dataflow: the data; how it is fed depends on the trainer.
        data: an InputSource, to say how it is fed. One of `dataflow` and `data` is needed.
        model: a ModelDesc.
        callbacks: your callbacks, in order; None for none.
        extra_callbacks: come after `callbacks`; None means `DEFAULT_CALLBACKS()`.
        monitors: None means `DEFAULT_MONITORS()`.
        session_creator: makes the session; None means `NewSessionCreator(config=session_config)`.
        session_config: a `tf.ConfigProto`; not together with `session_creator`.
        session_init: where variables get their values from: a SessionInit, or anything `SmartInit` takes.
        starting_epoch: number of the first epoch.
        steps_per_epoch: steps in an epoch; None means the length of the data.
        max_epoch: number of the last epoch.

    Raises:
        TypeError: an argument of another kind.
        ValueError: two arguments that exclude each other; or `steps_per_epoch` is not set and the data has no length.

    tensorpack: same; there `session_init` must be a SessionInit, and the errors are assertions.
    """

    def __init__(  # noqa: PLR0913 (tensorpack's arguments)
        self,
        dataflow: DataFlow | None = None,
        data: InputSource | None = None,
        model: ModelDescBase | None = None,
        callbacks: list[Callback] | None = None,
        extra_callbacks: list[Callback] | None = None,
        monitors: list[MonitorBase] | None = None,
        session_creator: Any = None,
        session_config: Any = None,
        session_init: Any = None,
        starting_epoch: int = 1,
        steps_per_epoch: int | None = None,
        max_epoch: int = 99999,
    ) -> None:
        _check("dataflow", dataflow, DataFlow, "Use data= for an InputSource.")
        _check("data", data, InputSource, "Use dataflow= for a DataFlow.")
        _check("model", model, ModelDescBase)
        _check("callbacks", callbacks, list)
        _check("extra_callbacks", extra_callbacks, list)
        _check("monitors", monitors, list)
        _not_both("dataflow", dataflow, "data", data)
        _not_both("session_creator", session_creator, "session_config", session_config)
        self.dataflow = dataflow
        self.data = data
        self.model = model
        self.callbacks = callbacks or []
        self.extra_callbacks = extra_callbacks
        self.monitors = monitors
        self.session_creator = session_creator or NewSessionCreator(config=session_config)
        self.session_config = session_config
        self.session_init = session_init if isinstance(session_init, SessionInit) else SmartInit(session_init)
        self.starting_epoch = int(starting_epoch)
        self.steps_per_epoch = int(self._default_steps() if steps_per_epoch is None else steps_per_epoch)
        self.max_epoch = int(max_epoch)

    def _default_steps(self) -> int:
        source = self.dataflow if self.dataflow is not None else self.data
        if source is None:
            raise ValueError(
                "TrainConfig: steps_per_epoch is not set and there is no data to count. Pass dataflow=... or data=..."
            )
        try:
            return len(self.dataflow) if self.dataflow is not None else self.data.size()  # type: ignore[union-attr]
        except NotImplementedError as error:
            raise ValueError(
                f"TrainConfig: steps_per_epoch is not set and {type(source).__name__} has no length. Pass "
                "TrainConfig(steps_per_epoch=...)."
            ) from error


class AutoResumeTrainConfig(TrainConfig):
    """
    A TrainConfig that goes on where the last training in the logger's directory ended.

    Variables come from the directory's latest checkpoint, `starting_epoch` is one after the last in `stats.json`. Each of
    the two is used if it is there. Set the logger's directory first, with action "k" (keep).

    Args:
        always_resume: prefer what is found to `session_init` and `starting_epoch`; if False, these are only used where they
            are not given.
        kwargs: as for TrainConfig.

    tensorpack: same; there a missing logger directory or half of a former training is an error.
    """

    def __init__(self, always_resume: bool = True, **kwargs: Any) -> None:
        self.always_resume = always_resume
        resumes_variables = resumes_epoch = False
        if always_resume or kwargs.get("session_init") is None:
            session_init = self.get_sessinit_resume()
            if session_init is not None:
                logger.info(f"Resuming from checkpoint {session_init.path}.")
                kwargs["session_init"] = session_init
                resumes_variables = True
        if always_resume or "starting_epoch" not in kwargs:
            last_epoch = JSONWriter.load_existing_epoch_number() if logger.get_logger_dir() else None
            if last_epoch is not None:
                logger.info(
                    f"Resuming with epoch {last_epoch + 1}, after the last one in {JSONWriter.FILENAME}."
                )
                kwargs["starting_epoch"] = last_epoch + 1
                resumes_epoch = True
        if always_resume and resumes_variables != resumes_epoch:
            found, lacking = (
                ("a checkpoint", "an epoch number")
                if resumes_variables
                else ("an epoch number", "a checkpoint")
            )
            logger.warning(
                f"The former training in {logger.get_logger_dir()} left {found} but not {lacking}; resuming with that."
            )
        super().__init__(**kwargs)

    @staticmethod
    def get_sessinit_resume(dir: str | None = None) -> SaverRestore | None:
        """
        Find the latest checkpoint.

        Args:
            dir: where; None means the logger's directory.

        Returns:
            A SaverRestore, or None if there is no checkpoint (or no directory).
        """
        directory = dir or logger.get_logger_dir()
        if not directory:
            return None
        path = os.path.join(directory, "checkpoint")
        return SaverRestore(path) if os.path.isfile(path) else None


def _check(name: str, value: object, kind: type, advice: str = "") -> None:
    if value is not None and not isinstance(value, kind):
        raise type_error(f"TrainConfig: {name}", f"a {kind.__name__}", value, advice)


def _not_both(name: str, value: object, other_name: str, other: object) -> None:
    if value is not None and other is not None:
        raise ValueError(f"TrainConfig: both {name} and {other_name} were given. Pass one of them.")
