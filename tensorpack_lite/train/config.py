"""Everything a training needs, in one object."""

from __future__ import annotations

from typing import Any

from ..callbacks.monitor.base import MonitorBase
from ..callbacks.monitor.json_file import JSONWriter
from ..dataflow.base import DataFlow
from ..graph_builder.model_desc import ModelDescBase
from ..input_source.base import InputSource
from ..loop.callback import Callback
from ..tfutils.checkpoint_state import STATE_SUFFIX
from ..tfutils.sesscreate import NewSessionCreator
from ..tfutils.sessinit import SaverRestore, SessionInit, SmartInit
from ..utils import logger
from ..utils.cluster import given_rank
from ..utils.errors import type_error
from .defaults import DEFAULT_CALLBACKS, DEFAULT_MONITORS
from .resume import find_checkpoint, place_of

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
    A TrainConfig that continues the last training in the logger's directory. Set that directory first, with action "k" (keep).

    The latest checkpoint decides: variables, epoch and step are those at which it was saved, inside an epoch, too. Callbacks that
    had not been called yet at that moment are called now, and rows of `stats.json` and `stats.csv` that were written later are cut
    off. So the training ends with the steps and rows of one that nobody interrupted. Without a checkpoint, training begins with
    epoch 1, or with the `starting_epoch` given.

    A checkpoint without a `.state` file, from an earlier version, continues with the epoch after the last one that `stats.json` has
    for its `global_step`.

    The directory is locked before anything is read there, so that no other process trains in it; see `logger.lock_dir`.

    Args:
        always_resume: prefer what is found to `session_init` and `starting_epoch`; if False, these are only used where they
            are not given.
        kwargs: as for TrainConfig.

    Raises:
        ValueError: the `.state` file of the checkpoint is damaged, or a newer version wrote it; or it is missing and `stats.json` is
            damaged.
        OSError: another process trains in the directory.

    Note: the data begins a new pass. With fixed seeds, the random streams of `get_rng` and of the graph are other ones than those of
        epoch 1, the same ones each time this checkpoint is resumed.
    """

    def __init__(self, always_resume: bool = True, **kwargs: Any) -> None:
        self.always_resume = always_resume
        if not given_rank():  # only the chief of several ranks writes there
            logger.lock_dir()
        resumes_variables = always_resume or kwargs.get("session_init") is None
        resumes_epoch = always_resume or "starting_epoch" not in kwargs
        found = self.get_sessinit_resume() if resumes_variables or resumes_epoch else None
        if found is not None and resumes_variables:
            logger.info(f"Resuming from checkpoint {found.path}.")
            kwargs["session_init"] = found
        super().__init__(**kwargs)
        place = place_of(found)
        if found is None and always_resume and logger.get_logger_dir():
            logger.info(
                f"There is no checkpoint in {logger.get_logger_dir()}: training begins with epoch {self.starting_epoch}."
            )
        elif resumes_epoch and place is not None:
            self.starting_epoch = place.with_steps_per_epoch(self.steps_per_epoch).starting_epoch
            logger.info(f"Resuming with epoch {self.starting_epoch}.")
        elif resumes_epoch and found is not None:
            logger.warning(
                f"The epoch of checkpoint {found.path} is not known: it has no {STATE_SUFFIX} file, and {JSONWriter.FILENAME} has no "
                f"row for it. Training begins with epoch {self.starting_epoch}."
            )

    @staticmethod
    def get_sessinit_resume(dir: str | None = None) -> SaverRestore | None:
        """
        Find the latest checkpoint, and the place of the training that saved it.

        Args:
            dir: where; None means the logger's directory.

        Returns:
            A SaverRestore, or None if there is no checkpoint (or no directory). A trainer that is given it as `session_init`
            continues inside the epoch, if its `starting_epoch` is that of the checkpoint.

        Raises:
            ValueError: as the class.
        """
        directory = dir or logger.get_logger_dir()
        return find_checkpoint(directory) if directory else None


def _check(name: str, value: object, kind: type, advice: str = "") -> None:
    if value is not None and not isinstance(value, kind):
        raise type_error(f"TrainConfig: {name}", f"a {kind.__name__}", value, advice)


def _not_both(name: str, value: object, other_name: str, other: object) -> None:
    if value is not None and other is not None:
        raise ValueError(f"TrainConfig: both {name} and {other_name} were given. Pass one of them.")
