"""
The answer to `tensorpack-lite rehearse`: a training of two epochs with two steps each, or one more epoch that resumes it.

**In:** a script's training, whose log and checkpoints go to a temporary directory.
**Out:** a JSON file with the parts that have worked, their seconds, and what an estimate of the full training needs.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import contextmanager
from typing import Any, Iterator, Mapping

from ...callbacks.expected import walk_callbacks
from ...callbacks.inference_runner import InferenceRunnerBase
from ...callbacks.saver import ModelSaver
from ...callbacks.trigger import PeriodicCallback, PeriodicTrigger
from ...compat import tfv1 as tf
from ...loop.callback import Callback
from ...loop.extension import ExtendedTrainer, Extension
from ...loop.moments import after_steps
from ...loop.resume_point import ResumePoint
from ...predict.base import OfflinePredictor
from ...predict.config import PredictConfig
from ...tfutils.checkpoint_state import STATE_SUFFIX, read_end, read_state
from ...tfutils.checkpoint_store import CheckpointStore
from ...tfutils.sessinit import JustCurrentSession, SaverRestore, SmartInit
from ...utils.memory import peak_memory
from ..lint.training import ExaminedTraining
from .exports import count_exports, rehearse_exports
from .request import arguments_of, end_probe

NUM_STEPS = NUM_EPOCHS = NUM_DATAPOINTS = 2
_SLOW = 0.005  # seconds


class ShortTraining(Extension):
    """
    Extension that shortens a training, measures its parts, and ends the process.

    Args:
        options: `results`, the file to write; `checkpoint`, the directory of the checkpoint to resume, or None for the first
            training; `max_epoch`, the last epoch of a resumed training.
    """

    has_ended = False  # in this process

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._rows: list[list[Any]] = []
        self._facts: dict[str, Any] = {}
        self._datapoint: dict[str, Any] = {}
        self._output: str | None = None
        self._part, self._began = "graph of the callbacks", time.perf_counter()
        self.steps: list[float] = []

    @property
    def is_resumed(self) -> bool:
        """Whether this training resumes the first one."""
        return self._options["checkpoint"] is not None

    @contextmanager
    def around_training(self, trainer: ExtendedTrainer) -> Iterator[None]:
        """
        Shorten the training, and write the results after it.

        If the script exports its model, it continues after its last training of the rehearsal.

        Raises:
            SystemExit: after a training without an error.
        """
        if ShortTraining.has_ended:  # this is another training of the script
            end_probe(0)
        self._shorten(trainer)
        try:
            yield
            self.ends("predictor of the checkpoint" if self.is_resumed else "")
            if self.is_resumed and trainer.model is not None and self._datapoint and self._output:
                self._predict(trainer.model)
                self.ends("")
        except BaseException as error:  # which is raised again; SystemExit and Ctrl-C end the part, too
            self._rows.append([self._part, time.perf_counter() - self._began, f"{type(error).__name__}: {error}"])
            raise
        finally:
            self._write()
        num = count_exports()
        if not num or (self._facts.get("checkpoint") is not None and not self.is_resumed):
            end_probe(0)
        ShortTraining.has_ended = True
        rehearse_exports(num, self._add)

    def _write(self) -> None:
        with open(self._options["results"], "w", encoding="utf-8") as file:
            json.dump({"rows": self._rows, "facts": self._facts}, file)

    def _add(self, name: str, seconds: float, error: str) -> None:
        self._rows.append([name, seconds, error])
        self._write()

    def ends(self, following: str) -> None:
        """
        Record that a part has worked.

        Args:
            following: the name of the next part; "" if there is none.
        """
        now = time.perf_counter()
        if self._part:
            self._rows.append([self._part, now - self._began, ""])
        self._part, self._began = following, now

    def before_setup(self, trainer: ExtendedTrainer) -> None:
        """Register the callback that measures steps."""
        trainer.register_callback(_Clock(self))

    def after_setup(self, trainer: ExtendedTrainer) -> None:
        """Let periodic callbacks act in each epoch, and validate on a few datapoints."""
        self.ends("session and variables")
        for callback in walk_callbacks(trainer.find_callbacks(Callback)):
            if isinstance(callback, (PeriodicCallback, PeriodicTrigger)):
                callback.act_in_each_epoch()
            elif isinstance(callback, InferenceRunnerBase):
                total = callback.num_datapoints_of_input()
                self._facts.setdefault("validations", {})[str(callback)] = total
                callback.max_datapoints = NUM_DATAPOINTS

    def after_initialize(self, trainer: ExtendedTrainer) -> None:
        """Record that the session has all variables."""
        self.ends("before_train of all callbacks")

    @contextmanager
    def around_loop(self, trainer: ExtendedTrainer) -> Iterator[None]:
        """Collect the times, the first datapoint and the checkpoint. If a callback fails, name it in its part."""
        try:
            yield
        except BaseException:  # which is raised again
            call = trainer.callbacks.current_call
            if call is not None and call.moment[1:] in after_steps():
                self._part += f": {call.callback}"
            raise
        self.ends("")
        self._rows += _rows_of(trainer.callbacks.epoch_seconds)
        self._facts.update(
            callbacks=trainer.callbacks.epoch_seconds,
            steps=self.steps,
            memory=peak_memory(),
            checkpoint=_checkpoint_of(trainer),
        )
        training = ExaminedTraining(trainer, JustCurrentSession())
        if training.sources:
            self._datapoint = dict(training.sources[0].flow.first_datapoint())
        fetches = [name for runner in training.runners for inf in runner.infs for name in inf.get_fetches()]
        cost = None if trainer.cost is None else trainer.cost.op.name.rpartition("/")[2]
        self._output = fetches[0] if fetches else cost
        self._part, self._began = "after_train of all callbacks", time.perf_counter()

    def _shorten(self, trainer: ExtendedTrainer) -> None:
        full = arguments_of(trainer)
        steps = min(NUM_STEPS, full.steps_per_epoch)
        if not self.is_resumed:
            last = full.starting_epoch + NUM_EPOCHS - 1
            trainer.arguments = full._replace(steps_per_epoch=steps, max_epoch=last)
            epochs = full.max_epoch - full.starting_epoch + 1
            self._facts.update(steps_per_epoch=full.steps_per_epoch, epochs=epochs, max_epoch=last + 1)
            return
        init, first = full.session_init, full.starting_epoch
        if init.checkpoint_state is None:  # the script does not resume by itself
            init = SaverRestore(self._options["checkpoint"])
            end = read_end(init.path)  # without it, the callbacks behind the saver are called again
            init.checkpoint_state = end.state if end is not None else read_state(init.path + STATE_SUFFIX)
        if init.checkpoint_state is not None:  # a script that resumes counts epochs with all of their steps
            place = ResumePoint.from_dict(init.checkpoint_state.get("place"), "the checkpoint of the rehearsal")
            first = place.starting_epoch
        trainer.arguments = full._replace(
            session_init=init,
            steps_per_epoch=steps,
            starting_epoch=first,
            max_epoch=self._options["max_epoch"],
        )

    def _predict(self, model: Any) -> None:
        names = [spec.name for spec in model.get_input_signature()]
        config = PredictConfig(
            model=model,
            session_init=SmartInit(self._options["checkpoint"]),
            input_names=names,
            output_names=[str(self._output)],
        )
        with tf.Graph().as_default():
            OfflinePredictor(config)(*[self._datapoint[name] for name in names])


class _Clock(Callback):
    """
    Callback that measures the steps.

    Runs at: before_epoch, trigger_step, after_epoch.
    """

    _chief_only = False

    def __init__(self, rehearsal: ShortTraining) -> None:
        self._rehearsal = rehearsal

    def _before_epoch(self) -> None:
        part = f"steps of {'resumed ' if self._rehearsal.is_resumed else ''}epoch {self.epoch_num}"
        self._rehearsal.ends(part)
        self._last = time.perf_counter()

    def _trigger_step(self) -> None:
        now = time.perf_counter()
        self._rehearsal.steps.append(now - self._last)
        self._last = now

    def _after_epoch(self) -> None:
        self._rehearsal.ends(f"callbacks at the end of epoch {self.epoch_num}")


def _rows_of(seconds: list[tuple[str, float]]) -> list[list[Any]]:
    """Return a row for each callback that takes a while, and one for all others."""
    slow = [[f"  {name}", taken, ""] for name, taken in seconds if taken >= _SLOW]
    fast = [taken for _, taken in seconds if taken < _SLOW]
    return [*slow, [f"  {len(fast)} other callbacks", sum(fast), ""]]


def _checkpoint_of(trainer: ExtendedTrainer) -> dict[str, Any] | None:
    """Return the directory and the size of the latest checkpoint, and how many are kept; None if there is none."""
    savers = [cb for cb in walk_callbacks(trainer.find_callbacks(Callback)) if isinstance(cb, ModelSaver)]
    for saver in savers:
        store = CheckpointStore(saver.checkpoint_dir, "rehearse") if saver.checkpoint_dir else None
        name = store and store.latest()
        if store and name:
            size = sum(tf.gfile.Stat(store.path(file)).length for file in store.files(name))
            return {
                "directory": saver.checkpoint_dir,
                "bytes": size,
                "kept": saver.max_to_keep or sys.maxsize,
            }
    return None
