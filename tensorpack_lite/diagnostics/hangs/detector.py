"""The thread that notices and reports that a training hangs."""

from __future__ import annotations

import os
import selectors
import signal
import threading
import time
from collections import deque
from contextlib import ExitStack, contextmanager, suppress
from types import TracebackType
from typing import Any, Deque, Dict, Iterator

from ...dataflow.process.stack_file import SIGNAL, StackFile
from ...loop.extension import ExtendedTrainer, Extension
from ...utils import logger
from ...utils.checks import check_choice
from ...utils.errors import DamagedFileError
from ...utils.manifest_file import FILENAME, read_manifest
from ...utils.notes import write_note
from ...utils.process_state import catches_signal, count_running_threads
from .hang_report import HangReport, kind_of_place, make_report, stack_of
from .native_stacks import native_stacks
from .stack_alarm import StackAlarm
from .where_socket import answer, listen

CODE = 143  # that of a process which SIGTERM has ended; schedulers start such a job again
_POLL_SECONDS = 1.0
_STEP_SECONDS = 60.0  # limit of a step after the first one
_FIRST_SECONDS = 600.0  # limit of the first step, and of a callback
_COMPUTING_SECONDS = 1800.0  # limit while a thread of this process computes
_FACTOR_OF_LAST_RUN = 3  # times the longest wait of the last training in this directory
_LONG_SECONDS = 60.0  # a wait that the manifest remembers
_FACTOR = 20  # times the longest of the last intervals
_MAX_INTERVALS = 100
_MAX_REPORTS = 10
_IS_COMPUTING = 0.3  # of the looks
_MAX_NATIVE = 3  # processes of which native stacks are written
_SAY_SECONDS = 5.0  # for the log and the files
_STEP, _FIRST_STEPS = "step", "first steps"
_DEBUGGERS = ("bdb.py", "pdb.py", "pydevd.py", "code.py", "cli_base.py", "curses_ui.py", "readline_ui.py")


class HangDetector:
    """
    Context manager around the loop of a training. A thread in it says when nothing has moved for too long.

    The thread looks once per second whether the main thread has come further: another step, another callback, another part of
    a callback's work. Time in which this process was stopped, or in a debugger, does not count. The report is logged, and
    written to `notes.jsonl` and, with the stacks of all threads and workers, to `hang-<date>.txt` in the logger's directory. The
    thread also answers `tensorpack-lite where`. With several ranks, the report of the chief contains what the others say. See
    docs/hangs.md.

    Args:
        trainer: the Trainer whose loop runs in the calling thread.
        on_hang: "report"; "stacks" to start a `StackAlarm`, too; "abort" to end the process after the first report, with code 143.

    Attributes:
        longest_waits: the longest time in seconds without progress, by what the loop did then, if it was at least a minute.
    """

    def __init__(self, trainer: ExtendedTrainer, on_hang: str = "report") -> None:
        self._trainer, self._on_hang = trainer, on_hang
        self._main = threading.current_thread()
        self._intervals: Dict[bool, Deque[float]] = {is_step: deque(maxlen=_MAX_INTERVALS) for is_step in (True, False)}
        self.longest_waits: Dict[str, float] = {}
        self._num_reports = 0
        self._first_step = 0
        self._waits_of_last_run: Dict[str, float] = {}
        self._still = _Standstill()
        self._stacks: StackFile | None = None
        self._alarm: StackAlarm | None = None
        self._channel = trainer.ranks.channel

    def __enter__(self) -> HangDetector:
        self._first_step = self._trainer.global_step
        self._waits_of_last_run = _read_waits()
        self._listener = listen()
        self._wake_reader, self._wake_writer = os.pipe()
        self._stacks = _register_stacks()
        self._thread = threading.Thread(target=self._run, name="HangDetector", daemon=True)
        self._thread.start()
        self._channel.describe_with(self._describe_here)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._channel.describe_with(None)
        os.write(self._wake_writer, b"x")
        self._thread.join(_SAY_SECONDS)
        if self._stacks is not None:
            self._stacks.close()
        if self._thread.is_alive():
            return  # in a call to a file system that hangs
        os.close(self._wake_writer)
        os.close(self._wake_reader)
        if self._listener is not None:
            self._listener.close()

    def _run(self) -> None:
        try:
            if self._on_hang == "stacks":
                self._alarm = _make_alarm()
            self._watch()
        finally:
            if self._alarm is not None:
                self._alarm.close()

    def _watch(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake_reader, selectors.EVENT_READ)
            if self._listener is not None:
                selector.register(self._listener, selectors.EVENT_READ)
            while True:
                begin = time.monotonic()
                ready = self._wait_with_alarm(selector)
                if self._wake_reader in ready:
                    return
                if self._listener is not None and self._listener in ready:
                    answer(self._listener, self._describe)
                # not more than twice the interval: the process may have been stopped
                self._look(min(time.monotonic() - begin, 2 * _POLL_SECONDS))

    def _wait_with_alarm(self, selector: selectors.BaseSelector) -> list[Any]:
        """Wait for a second; the stacks are written if this thread does not get the interpreter's lock again."""
        if self._alarm is not None:
            self._alarm.set(self._limit_of_place() + _SAY_SECONDS)
        begin = time.monotonic()
        ready = [key.fileobj for key, _ in selector.select(_POLL_SECONDS)]
        if self._alarm is not None and self._alarm.stop():
            _say(
                "The stacks above were written because native code held the interpreter's lock. No Python code of this process "
                f"ran for {time.monotonic() - begin:.0f} s. It runs again."
            )
        return ready

    def _look(self, seconds: float) -> None:
        """Compare the place of the main thread with that of the last look."""
        still, place = self._still, _place_of(self._trainer)
        if place != still.place:
            if still.num_reports:
                _say(f"Training continues, after it had stood still for {still.seconds:.0f} s.")
            self._intervals[still.is_step].append(still.seconds)
            if still.seconds >= _LONG_SECONDS:  # so that the next training in this directory expects it
                waits = self.longest_waits
                waits[still.kind] = max(still.seconds, waits.get(still.kind, 0.0))
            self._still = _Standstill(place, self._kind())
            return
        still.seconds += seconds
        still.num_looks += 1
        still.num_computing += count_running_threads() > 1
        is_computing = still.num_computing > _IS_COMPUTING * still.num_looks
        limit = max(self._limit_of_place(), _COMPUTING_SECONDS if is_computing else 0.0)
        if still.seconds < limit * 2**still.num_reports or still.num_reports >= 3:
            return
        if _is_debugged(self._main):
            self._still = _Standstill(place, still.kind)
        elif self._num_reports < _MAX_REPORTS:
            still.num_reports += 1
            self._num_reports += 1
            self._report()

    def _limit_of_place(self) -> float:
        """Return after how many seconds the present standstill is a hang if no thread computes."""
        still = self._still
        longest = max(self._intervals[still.is_step], default=0.0)
        limit = _STEP_SECONDS if still.kind == _STEP else _FIRST_SECONDS
        of_last_run = self._waits_of_last_run.get(still.kind, 0.0)
        return max(limit, _FACTOR * longest, _FACTOR_OF_LAST_RUN * of_last_run)

    def _kind(self) -> str:
        kind = kind_of_place(self._trainer)
        is_first = self._trainer.global_step < self._first_step + 2
        return _FIRST_STEPS if kind == _STEP and is_first else kind

    def _report(self) -> None:
        seconds = self._still.seconds
        report = make_report(self._trainer, self._main)
        text = f"Nothing has moved for {seconds:.0f} s. {report.text}{self._describe_others()}"
        directory, path = logger.get_logger_dir(), None
        if directory is not None:
            path = os.path.join(directory, time.strftime("hang-%m%d-%H%M%S.txt"))
            text += f"\nStacks of all threads and of the workers that do not move: {path}"
        if self._on_hang == "abort":
            text += f'\nTraining hangs, and on_hang="abort": the process ends with exit code {CODE}.'
        _say(text, path, report, seconds=seconds, step=self._trainer.global_step)
        if self._on_hang == "abort":
            self._channel.fail(f"Rank {self._channel.rank} hangs: {report.text.splitlines()[0]}")
            os._exit(CODE)

    def _describe(self) -> Dict[str, str]:
        report = make_report(self._trainer, self._main)
        text = f"{self._since()} {report.text}{self._describe_others()}"
        return {"text": text, "stacks": report.stacks}

    def _describe_here(self) -> str:
        return f"{self._since()} {make_report(self._trainer, self._main).text}"

    def _since(self) -> str:
        seconds = self._still.seconds
        return f"It has been there for {seconds:.0f} s." if seconds >= 2 * _POLL_SECONDS else "It moves."

    def _describe_others(self) -> str:
        """Return what the other ranks say, on the chief; each begins a new line."""
        texts = self._channel.ask_all().items()
        return "".join(f"\nRank {number}: {text}" for number, text in texts if number != 0)


class HangDetection(Extension):
    """
    Extension that watches the loop with a `HangDetector`.

    Args:
        on_hang: what to do when training hangs, "report", "stacks" or "abort"; see TrainConfig.

    Raises:
        ValueError: `on_hang` has another value.

    Attributes:
        detector: that of this training; None before its loop.
    """

    detector: HangDetector | None = None
    _running: ExitStack | None = None

    def __init__(self, on_hang: str = "report") -> None:
        self._on_hang = check_choice("TrainConfig: on_hang", on_hang, ["report", "stacks", "abort"])

    @contextmanager
    def around_training(self, trainer: ExtendedTrainer) -> Iterator[None]:
        """Stop the detector when the training has ended."""
        with ExitStack() as self._running:
            yield

    def after_initialize(self, trainer: ExtendedTrainer) -> None:
        """Start to watch, until the end of `train`."""
        if self._running is not None:
            self.detector = self._running.enter_context(HangDetector(trainer, self._on_hang))


class _Standstill:
    """
    The time since the main thread has come to a place.

    Args:
        place: result of `_place_of`.
        kind: "step", "first steps", or a callback and its moment.
    """

    def __init__(self, place: object = (), kind: str = "") -> None:
        self.place, self.kind = place, kind
        self.seconds, self.num_reports = 0.0, 0
        self.num_looks = self.num_computing = 0

    @property
    def is_step(self) -> bool:
        return self.kind in (_STEP, _FIRST_STEPS)


def _place_of(trainer: ExtendedTrainer) -> object:
    """Return a value that changes whenever the main thread comes further."""
    loop, callbacks = trainer.loop, trainer.callbacks
    counters = loop.epoch_num, loop.local_step, loop.global_step, loop.heartbeats
    call = callbacks.phase, callbacks.num_called, kind_of_place(trainer)
    return counters, call, trainer.is_in_run


def _is_debugged(main: threading.Thread) -> bool:
    return any(os.path.basename(line.path) in _DEBUGGERS for line in stack_of(main))


def _register_stacks() -> StackFile | None:
    """Let SIGUSR2 write the stacks of this process to a file, unless the signal has another handler already."""
    if SIGNAL is None or signal.getsignal(SIGNAL) != signal.SIG_DFL or catches_signal(os.getpid(), SIGNAL):
        return None
    try:
        stacks = StackFile()
    except OSError:
        return None
    stacks.register()
    return stacks


def _read_waits() -> Dict[str, float]:
    """Return the longest waits of the last training in the logger's directory."""
    directory = logger.get_logger_dir()
    waits: Any = {}
    if directory is not None:
        with suppress(OSError, DamagedFileError):
            waits = read_manifest(os.path.join(directory, FILENAME)).get("longest waits")
    found = waits.items() if isinstance(waits, dict) else ()
    return {kind: float(seconds) for kind, seconds in found if isinstance(seconds, (int, float))}


def _make_alarm() -> StackAlarm | None:
    try:
        return StackAlarm(logger.get_log_file())
    except OSError:
        return None


def _say(text: str, path: str | None = None, report: HangReport | None = None, **values: Any) -> None:
    """
    Write to the log and, for a report, to a file and the notes.

    Another thread does it, because the main thread may hang in the logger, whose lock it then holds, or because the file
    system hangs.
    """

    def write() -> None:
        if report is not None and path is not None:
            try:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(f"{text}\n\n{report.stacks}\n")
            except OSError as error:
                logger.error(f"Cannot write '{path}': {error}")
        if report is not None:
            write_note("hang", text, file=path, **values)
        logger.warning(text)
        if report is not None and path is not None:
            with suppress(OSError), open(path, "a", encoding="utf-8") as file:
                for pid in report.pids[:_MAX_NATIVE]:
                    file.write(f"\n{native_stacks(pid)}\n")

    thread = threading.Thread(target=write, name="HangDetector: writing", daemon=True)
    thread.start()
    thread.join(_SAY_SECONDS)
