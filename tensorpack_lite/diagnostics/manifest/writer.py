"""Callback that writes the manifest of a training."""

from __future__ import annotations

import math
import os
import threading
import time
from datetime import datetime
from typing import Any, Callable

from ...callbacks.monitor.monitors import Monitors
from ...callbacks.param.setter import HyperParamSetter
from ...callbacks.steps import MaintainStepCounter
from ...compat import tensorflow
from ...input_source.reset import ResetInput, inputs_of
from ...loop.callback import Callback
from ...loop.signals.end_signals import Preempted
from ...loop.state import Outcome
from ...tfutils.graph_description import describe_graph
from ...utils import logger
from ...utils.errors import DamagedFileError
from ...utils.hyperparams import ADDED, hyperparams_of
from ...utils.manifest_file import FILENAME, FORMAT, read_manifest, write_manifest
from ...utils.memory import peak_memory
from ...utils.random_streams import get_rng_seed
from ..hangs.detector import HangDetection
from .code import describe_code
from .describe import Describer, describe, describe_files
from .environment import describe_machine, describe_packages, describe_variables
from .hyperparams import RecordHyperParams, tell_monitors
from .model_graph import ModelGraph
from .planned import planned_values

_NOT_LISTED = (MaintainStepCounter, Monitors, ResetInput, RecordHyperParams)  # of each training, or elsewhere
# parts that differ between the starts of a training
_OF_EACH_START = (
    "started", "initial values", "left out", "planned values", "resumptions", "statistics", "exit",
    "longest waits",
)  # fmt: skip
_MAX_SECONDS = 0.4  # for what a thread collects; it may wait for a disk


class ManifestWriter(Callback):
    """
    Callback that writes `manifest.json` to the logger's directory: everything that explains the results of this training.

    It contains the code, git state, packages, machine, seeds, data, graph, callbacks and settings, and after training
    the statistics and how training ended. `tensorpack-lite diff` compares two of them. See docs/report.md.

    The file is written before the first step, which takes less than 0.5 s, and again after training. A part that
    fails or takes longer is omitted, with the reason under "left out"; a disk error is logged. A training that
    resumes, or that continues the epochs of an earlier one, adds an entry to "resumptions" with the parts that have
    changed; the others stay as they were. Any other existing manifest is moved to `manifest.json.<MMDD-HHMMSS>`.
    Without a logger directory, nothing is written.

    Runs at: setup_graph, before_train, after_train.
    """

    def __init__(self) -> None:
        self._path: str | None = None
        self._manifest: dict[str, Any] = {}
        self._late: dict[str, tuple[Any, str | None]] = {}  # what the thread has collected so far

    def _setup_graph(self) -> None:
        directory = logger.get_logger_dir()
        if directory is None:
            return
        self._path = os.path.join(directory, FILENAME)
        describe = Describer().describe  # with a time limit for all parts together
        parts = {
            "settings": lambda: describe(self._settings()),
            "initial values": lambda: describe(self._given()["session_init"]),
            "data": lambda: [describe(source) for source in inputs_of(self.trainer)],
            "schedules": lambda: [describe(cb) for cb in self._callbacks() if _is_schedule(cb)],
            "callbacks": lambda: [describe(cb) for cb in self._callbacks() if not _is_schedule(cb)],
            "seeds": lambda: {"fix_rng_seed": get_rng_seed(), "graph": self.graph.seed},
            ADDED: lambda: {
                k: v for cb in self.trainer.find_callbacks(RecordHyperParams) for k, v in cb.values.items()
            },
        }
        self._manifest = {"format": FORMAT, "started": _now(), "directory": directory, "left out": {}}
        for name, collect in parts.items():
            self._set_part(name, *_attempt(collect))

    def _before_train(self) -> None:
        if self._path is None:
            return
        thread = threading.Thread(target=self._collect, name="ManifestWriter", daemon=True)
        thread.start()
        thread.join(_MAX_SECONDS)
        self._set_late_parts()
        loop = self.trainer.loop
        length = {"steps_per_epoch": loop.steps_per_epoch, "max_epoch": loop.max_epoch}
        self._manifest["length"] = {**length, "starting_epoch": loop.starting_epoch}
        self._set_part("planned values", *_attempt(lambda: planned_values(self._callbacks(), loop)))
        self._manifest.update(resumptions=[], statistics={}, exit=None)
        try:
            self._continue_existing(self._path)
        except OSError as error:
            logger.error(f"ManifestWriter: cannot move '{self._path}': {error}")
        self._write()
        tell_monitors(self.trainer, hyperparams_of(self._manifest))
        logger.info(f"The manifest of this training is {self._path}.")

    def _after_train(self) -> None:
        if self._path is None:
            return
        if "exit" not in self._manifest:  # another callback failed in before_train
            self._before_train()
        if not self._manifest["resumptions"]:
            self._set_late_parts()
            self._manifest["first datapoints"] = [source.flow.first_checksums() for source in inputs_of(self.trainer)]
        monitors = self.trainer.monitors
        histories = {name: monitors.get_history(name) for name in monitors.scalar_names}
        self._manifest["statistics"] = {name: _summarize(history) for name, history in histories.items()}
        self._manifest["exit"] = self._describe_exit()
        self._manifest["peak memory"] = peak_memory()
        # `HangDetector` allows for them next time
        self._manifest["longest waits"] = self._longest_waits()
        self._write()

    def _collect(self) -> None:
        graph, num_operations, data = self.graph, self._num_operations(), self._manifest["data"]
        with graph.as_default():  # outside of the graph, this thread may still be eager
            self._late["graph"] = _attempt(lambda: describe_graph(graph, num_operations))
        self._late["files"] = _attempt(lambda: describe_files(data))
        for name, collect in _PARTS_OF_THE_PROCESS.items():
            self._late[name] = _attempt(collect)

    def _set_late_parts(self) -> None:
        for name in [*_PARTS_OF_THE_PROCESS, "graph", "files"]:
            self._set_part(name, *self._late.get(name, (None, f"it took longer than {_MAX_SECONDS} s")))

    def _set_part(self, name: str, part: Any, error: str | None) -> None:
        self._manifest[name] = part
        self._manifest["left out"].pop(name, None)
        if error is not None:
            self._manifest["left out"][name] = error

    def _callbacks(self) -> list[Callback]:
        """Return the callbacks, without those that belong to an input or to each trainer."""
        found = [cb for cb in self.trainer.find_callbacks(Callback) if type(cb).__name__[0] != "_"]
        return [cb for cb in found if not isinstance(cb, _NOT_LISTED)]

    def _settings(self) -> dict[str, Any]:
        trainer = self.trainer
        name = trainer.__class__.__name__  # not that of `type`: the trainer is a weak reference
        objects = {key: value for key, value in self._given().items() if key != "session_init"}
        return {"trainer": name, "ranks": trainer.size, "exact": trainer.exact, **objects}

    def _given(self) -> dict[str, Any]:
        """Return the objects that the training was given, by name."""
        arguments, model = self.trainer.arguments, self.trainer.model
        objects = {} if model is None else {"model": model}
        creator, init = (None, None) if arguments is None else arguments[:2]
        return {**objects, "session_creator": creator, "session_init": init}

    def _num_operations(self) -> int:
        """Return the number of operations in the graph of the model, without those of callbacks."""
        extension = self.trainer.find_extension(ModelGraph)
        return len(self.graph.get_operations()) if extension is None else extension.num_operations

    def _longest_waits(self) -> dict[str, float]:
        extension = self.trainer.find_extension(HangDetection)
        detector = None if extension is None else extension.detector
        return {} if detector is None else dict(detector.longest_waits)

    def _describe_exit(self) -> dict[str, Any]:
        loop = self.trainer.loop
        outcome = "unknown" if loop.outcome is None else loop.outcome.value
        error = None if loop.error is None else f"{type(loop.error).__name__}: {loop.error}"
        return {
            "outcome": "preempted" if isinstance(loop.error, Preempted) and loop.error.code == 143 else outcome,
            "error": error if loop.outcome is not Outcome.FINISHED else None,
            "epoch": loop.epoch_num,
            "global_step": loop.global_step,
            "when": _now(),
        }

    def _continue_existing(self, path: str) -> None:
        """Add a resumption to an existing manifest of this training, or move the manifest of another one away."""
        loop = self.trainer.loop
        try:
            existing = read_manifest(path)
        except FileNotFoundError:
            return
        except (OSError, DamagedFileError) as error:
            logger.warning(f"ManifestWriter: {error}")
            existing = {}
        is_continued = "started" in existing and (loop.is_resumed or loop.starting_epoch > 1)
        if not is_continued:
            os.replace(path, f"{path}.{datetime.now().strftime('%m%d-%H%M%S')}")
            return
        new = self._manifest
        compared = [name for name in new if name not in _OF_EACH_START and new[name] is not None]
        resumption = {
            "when": new["started"],
            "from": new["initial values"],
            "epoch": loop.starting_epoch,
            "global_step": loop.global_step,
            "exact": bool(loop.is_resumed and self.trainer.exact),
            "exit before": existing.get("exit"),
            "changed": {name: new[name] for name in compared if new[name] != existing.get(name)},
        }
        resumptions = [*existing.get("resumptions", []), resumption]
        first_epoch = (existing.get("length") or new["length"]).get("starting_epoch")
        latest = {
            "length": {**new["length"], "starting_epoch": first_epoch},
            "planned values": new["planned values"],
            "resumptions": resumptions,
            "exit": None,
        }
        self._manifest = {**new, **existing, **latest}

    def _write(self) -> None:
        try:
            write_manifest(str(self._path), self._manifest)
        except OSError as error:
            logger.error(f"ManifestWriter: cannot write '{self._path}': {error}")


def _is_schedule(callback: Callback) -> bool:
    return isinstance(callback, HyperParamSetter)


def _attempt(collect: Callable[[], Any]) -> tuple[Any, str | None]:
    """Return a part and None, or None and the reason why it is omitted."""
    try:
        return collect(), None
    except Exception as error:  # noqa: BLE001 (a part that fails must not end training)
        return None, f"{type(error).__name__}: {error}"


def _tensorflow_versions() -> dict[str, str]:
    """Return the version of TensorFlow, and those of CUDA and cuDNN with which it was built."""
    build = tensorflow.sysconfig.get_build_info() if hasattr(tensorflow.sysconfig, "get_build_info") else {}
    found = {name: str(build[name]) for name in ("cuda_version", "cudnn_version") if name in build}
    return {"tensorflow": tensorflow.__version__, **found}


def _summarize(history: list[tuple[int, float]]) -> dict[str, Any]:
    """Return the last, least and greatest value of a scalar, each with its step."""
    finite = [(value, step) for step, value in history if math.isfinite(value)]
    points = {"last": (history[-1][1], history[-1][0])}
    if finite:
        points.update(min=min(finite), max=max(finite))
    return {name: describe(list(point)) for name, point in points.items()}


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


_PARTS_OF_THE_PROCESS: dict[str, Callable[[], Any]] = {
    "code": describe_code,
    "packages": lambda: {**describe_packages(), **_tensorflow_versions()},
    "environment": describe_variables,
    "machine": describe_machine,
}
