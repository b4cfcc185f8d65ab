"""TrainConfig, which holds the settings of a training."""

from __future__ import annotations

import os
import socket
from typing import Any, Mapping, Sequence

import numpy as np

from ..callbacks.monitor.base import MonitorBase
from ..callbacks.monitor.json_file import JSONWriter
from ..compat import tfv1 as tf
from ..dataflow.base import DataFlow
from ..dataflow.raw import how_to_wrap
from ..graph_builder.model_desc import ModelDescBase
from ..input_source.base import InputSource
from ..loop.callback import Callback
from ..loop.state import check_steps
from ..ranks.rank_info import find_restart
from ..tfutils.checkpoint_state import STATE_SUFFIX
from ..tfutils.checkpoint_store import CheckpointStore
from ..tfutils.precision import check_precision
from ..tfutils.sesscreate import NewSessionCreator
from ..tfutils.sessinit import SaverRestore, SessionInit, SmartInit
from ..utils import logger
from ..utils.checks import check_choice, check_count, check_type
from ..utils.own_rank import given_rank
from .defaults import DEFAULT_CALLBACKS as DEFAULT_CALLBACKS
from .defaults import DEFAULT_MONITORS as DEFAULT_MONITORS
from .defaults import configured_extensions
from .resume import find_checkpoint, resume_point_of


class TrainConfig:
    """
    The settings of a training, for `launch_train_with_config`. All arguments become attributes, which can be changed.

    Args:
        dataflow: the data, as a DataFlow; the trainer chooses how to feed it. See `apply_default_prefetch`.
        data: the data, as an InputSource. Pass either `dataflow` or `data`.
        model: a ModelDesc.
        callbacks: your callbacks, in order; None means none.
        extra_callbacks: called after `callbacks`; None means `DEFAULT_CALLBACKS()`.
        monitors: None means `DEFAULT_MONITORS()`.
        session_creator: a `tf.train.SessionCreator`; None means `NewSessionCreator(config=session_config)`.
        session_config: a `tf.ConfigProto`; cannot be combined with `session_creator`.
        session_init: initial values of variables: a SessionInit, or any argument of `SmartInit`.
        starting_epoch: the number of the first epoch.
        steps_per_epoch: the number of steps in an epoch, at least 1; None means the length of the data.
        max_epoch: the number of the last epoch. The default is practically without end, and the log mentions it.
        lint: whether common mistakes in the graph, the callbacks and the data are logged ("warn"), end training before its
            first step ("error"), or are not looked for ("off"); "deep" is "warn" with 200 steps on one batch, after which
            variables are put back. See docs/lint.md. The trainer gets it as an attribute.
        lint_ignore: ids of rules that lint leaves out, e.g. `["G01"]`.
        on_hang: what to do when nothing has moved for too long: "report" logs who waits for whom; "stacks" also writes the
            stacks when native code holds the interpreter's lock, with a helper process; "abort" ends the process after the
            report, with exit code 143; see docs/hangs.md.
        precision: the dtype in which the layers compute, "float32", "mixed_float16" or "mixed_bfloat16". Variables and
            checkpoints are float32. "mixed_float16" adds a `DynamicLossScaleOptimizer`. See docs/gpu.md and `with_precision`.
        xla: whether XLA compiles the model and its gradients; see `with_xla`.
        rehearse: go through a short training in another process before, and raise a RuntimeError if it fails; see
            docs/before_training.md.
        intra_op_threads: the number of threads for each operation on a CPU; 0 means all cores, None the number that is predicted
            to be faster; see docs/speed.md. It has no effect if `session_config` or `session_creator` is given.

    Raises:
        TypeError: an argument of the wrong type.
        RuntimeError: TensorFlow does not support the precision, or, when training starts, XLA.
        ValueError: two arguments exclude each other; `steps_per_epoch` is None and the data has no length or is empty, or
            it is 0; a number is negative or not whole; or `lint`, `lint_ignore`, `on_hang` or `precision` has an unknown value.
    """

    exact: bool | str = False

    def __init__(  # noqa: PLR0913 (tensorpack's arguments)
        self,
        dataflow: DataFlow | None = None,
        data: InputSource | None = None,
        model: ModelDescBase | None = None,
        callbacks: list[Callback] | None = None,
        extra_callbacks: list[Callback] | None = None,
        monitors: list[MonitorBase] | None = None,
        session_creator: tf.train.SessionCreator | None = None,
        session_config: tf.ConfigProto | None = None,
        session_init: SessionInit | str | Mapping[str, np.ndarray] | None = None,
        starting_epoch: int = 1,
        steps_per_epoch: int | None = None,
        max_epoch: int = 99999,
        lint: str = "warn",
        lint_ignore: Sequence[str] = (),
        on_hang: str = "report",
        precision: str = "float32",
        xla: bool = False,
        rehearse: bool = False,
        intra_op_threads: int | None = None,
    ) -> None:
        advice = f"{how_to_wrap(dataflow)} Use data= for an InputSource.".lstrip()
        _check("dataflow", dataflow, DataFlow, advice)
        _check("data", data, InputSource, f"Use dataflow= for a DataFlow. {how_to_wrap(data)}".rstrip())
        _check("model", model, ModelDescBase)
        _check("callbacks", callbacks, list, "Write callbacks=[...].")
        _check("extra_callbacks", extra_callbacks, list, "Write extra_callbacks=[...].")
        _check("monitors", monitors, list, "Write monitors=[...].")
        for callback in (callbacks or []) + (extra_callbacks or []):
            who = "TrainConfig: an element of callbacks or extra_callbacks"
            check_type(who, callback, Callback, "a Callback of tensorpack_lite")
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
        self.starting_epoch = check_count("TrainConfig: starting_epoch", starting_epoch)
        steps = self._default_steps() if steps_per_epoch is None else steps_per_epoch
        self.steps_per_epoch = check_steps("TrainConfig: steps_per_epoch", steps)
        self.max_epoch = check_count("TrainConfig: max_epoch", max_epoch)
        self.extensions = configured_extensions(lint, lint_ignore, on_hang, rehearse, intra_op_threads)
        self.precision = check_precision("TrainConfig", precision)
        self.xla = check_type("TrainConfig: xla", xla, bool)

    def _default_steps(self) -> int:
        source = self.dataflow if self.dataflow is not None else self.data
        if source is None:
            raise ValueError(
                "TrainConfig: steps_per_epoch is not set and there is no data to count. Pass dataflow=... or data=..."
            )
        try:
            length = len(self.dataflow) if self.dataflow is not None else self.data.size()  # type: ignore[union-attr]
        except NotImplementedError as error:
            raise ValueError(
                f"TrainConfig: steps_per_epoch is not set and {type(source).__name__} has no length. Pass "
                "TrainConfig(steps_per_epoch=...)."
            ) from error
        if length == 0:
            raise ValueError(
                f"TrainConfig: steps_per_epoch is not set and {type(source).__name__} has the length 0. Check the paths of the data, "
                "and that a batch is not larger than the data."
            )
        return length


class AutoResumeTrainConfig(TrainConfig):
    """
    A TrainConfig that resumes the last training in the logger's directory. Set that directory first, with
    action "k" (keep).

    Training resumes exactly where the latest checkpoint was saved, also inside an epoch. Callbacks that had
    not been called at that moment are called now, and rows of `stats.json` and `stats.csv` that were written
    later are cut off. So the training ends with the same steps and rows as one without interruption. If there
    is no checkpoint, training starts with `starting_epoch`.

    A checkpoint of an earlier version has no `.state` file. Training then resumes with the epoch after the
    last one that `stats.json` lists for its `global_step`.

    The directory is locked before anything is read there, so that no other process trains in it; see `logger.lock_dir`.

    Args:
        always_resume: if True, the checkpoint replaces `session_init` and `starting_epoch`; if False, it is
            used only for those that are not given.
        exact: whether the data, the random numbers and the callbacks continue as if training had not ended,
            so that it computes the same bytes; see docs/save_resume.md. Checkpoints of such a training also
            have the positions of its data. SIGTERM and SIGUSR1 then save a checkpoint and end training with
            exit code 143; so does the first Ctrl-C of a training with a `ModelSaver`, with KeyboardInterrupt. The log
            says what is not exact; with "require" that is an error.
        kwargs: see TrainConfig.

    Raises:
        ValueError: the `.state` file of the checkpoint is damaged, or a newer version wrote it; or it is missing and
            `stats.json` is damaged.
        OSError: another process trains in the directory.
        RuntimeError: here or when training starts, with `exact="require"`: a part of it cannot be resumed exactly.

    Note: without `exact`, the data starts a new pass. With fixed seeds, the random streams of `get_rng` and
    of the graph differ from those of epoch 1, and are the same each time this checkpoint is resumed.
    """

    def __init__(self, always_resume: bool = True, exact: bool | str = False, **kwargs: Any) -> None:
        self.always_resume = always_resume
        self.exact = check_choice("AutoResumeTrainConfig: exact", exact, [False, True, "require"])
        directory = logger.get_logger_dir()
        if not given_rank():  # only the chief writes there
            logger.lock_dir()
            if directory is not None:  # a process may have been killed while it replaced a checkpoint
                CheckpointStore(directory, "AutoResumeTrainConfig").finish_replacing()
        resumes_variables = always_resume or kwargs.get("session_init") is None
        resumes_epoch = always_resume or "starting_epoch" not in kwargs
        found = self.get_sessinit_resume() if resumes_variables or resumes_epoch else None
        if found is not None and resumes_variables:
            logger.info(f"Resuming from checkpoint {found.path}.")
            kwargs["session_init"] = found
        super().__init__(**kwargs)
        self.session_init.expects_checkpoints = True
        place = resume_point_of(found)
        if found is None and always_resume and directory:
            logger.info(f"There is no checkpoint in {directory}: training starts with epoch {self.starting_epoch}.")
            restart = find_restart(os.environ)
            if restart and not given_rank():
                logger.warning(
                    f"This is restart {restart} of the job, and {directory} on {socket.gethostname()} has no checkpoint. Unless the job "
                    "failed before its first one, the directory is on a disk of another machine: use a shared disk. See docs/several_machines.md."
                )
        elif resumes_epoch and place is not None:
            self.starting_epoch = place.with_steps_per_epoch(self.steps_per_epoch).starting_epoch
            if self.starting_epoch > self.max_epoch:
                logger.warning(
                    f"The training has ended: its checkpoint has all {self.max_epoch} epochs. To train longer, increase max_epoch."
                )
            else:
                logger.info(f"Resuming with epoch {self.starting_epoch}.")
        elif resumes_epoch and found is not None:
            message = (
                f"The epoch of checkpoint {found.path} is unknown: it has no {STATE_SUFFIX} file, and {JSONWriter.FILENAME} has no "
                f"row for it. Training starts with epoch {self.starting_epoch}."
            )
            if exact == "require":
                raise RuntimeError(f'{message} With exact="require" this is an error; exact=True continues.')
            logger.warning(f"{message} The data starts from the beginning." if exact else message)

    @staticmethod
    def get_sessinit_resume(dir: str | None = None) -> SaverRestore | None:
        """
        Find the latest checkpoint, and the place of the training that saved it.

        Args:
            dir: the directory; None means the logger's directory.

        Returns:
            A SaverRestore; None if there is no checkpoint or no directory. A trainer that gets it as
            `session_init` resumes inside the epoch if its `starting_epoch` is that of the checkpoint.

        Raises:
            ValueError: see the class.
        """
        directory = dir or logger.get_logger_dir()
        return find_checkpoint(directory) if directory else None


def _check(name: str, value: object, kind: type, advice: str = "") -> None:
    if value is not None:
        check_type(f"TrainConfig: {name}", value, kind, advice=advice)


def _not_both(name: str, value: object, second_name: str, second: object) -> None:
    if value is not None and second is not None:
        raise ValueError(f"TrainConfig: expected either {name} or {second_name}, got both. Pass one of them.")
