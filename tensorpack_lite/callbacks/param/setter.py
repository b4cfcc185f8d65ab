"""Callbacks that set a hyper-parameter: a base class, and setters that use a function or a file that the user edits."""

from __future__ import annotations

import math
import os
from abc import abstractmethod
from typing import Any, Callable

import numpy as np

from ...loop.callback import Callback
from ...utils import logger
from ...utils.checks import check_callable, check_type
from ...utils.schedules import is_schedule
from .hyperparam import GraphVarParam, HyperParam


class HyperParamSetter(Callback):
    """
    Base class of callbacks that set a hyper-parameter: override `_get_value_to_set`.

    At each trigger, the value that was in use until then is reported to the monitors under the parameter's
    `readable_name`, e.g. `learning_rate`, before the new value is set. It is omitted if it is not a number,
    or if the name has been reported at this step already, e.g. by `tf.summary.scalar`.

    Args:
        param: a `HyperParam`, or the name of a variable.

    Raises:
        TypeError: `param` has another type.

    Attributes:
        param: the `HyperParam`.

    Runs at: before_train, trigger. In every process of a distributed training.

    Note: a resumed training begins with the value in its checkpoint, and nothing is set in before_train. A
    checkpoint also keeps the value of an attribute, if it is a number, a string, a bool, None or an array.
    """

    _chief_only = False
    _enable_before_train = True

    def __init__(self, param: HyperParam | str) -> None:
        if isinstance(param, str):
            param = GraphVarParam(param)
        expected = "a HyperParam or the name of a variable"
        self.param = check_type(f"{type(self).__name__}: param", param, HyperParam, expected)
        self._last_value: Any = None
        self._last_logged_epoch = -1

    def get_value_to_set(self) -> Any:
        """
        Return the value to set now, and log a change at most once per epoch.

        Returns:
            The value, or None to keep the parameter as it is.
        """
        value = self._get_value_to_set()
        if value is None or np.array_equal(value, self._last_value):
            return value
        if self.epoch_num != self._last_logged_epoch:
            self._last_logged_epoch = self.epoch_num
            self._log_change(f"at global_step={self.global_step}", self._last_value, value)
        self._last_value = value
        return value

    def _log_change(self, when: str, old: object, new: object) -> None:
        before = "" if old is None else f"from {_shortened(old)} "
        logger.info(f"{self}: {when}, {self.param.readable_name} changes {before}to {_shortened(new)}.")

    def get_current_value(self) -> Any:
        """Return the parameter's current value."""
        return self.param.get_value()

    @abstractmethod
    def _get_value_to_set(self) -> Any:
        """Return the value to set now, or None."""

    def _setup_graph(self) -> None:
        self.param.setup_graph()

    def _before_train(self) -> None:
        # Setting it again would, for instance, decay a learning rate twice in one epoch.
        is_set = self.trainer.loop.is_resumed and self.param.is_variable_saved
        if self._enable_before_train and not is_set:
            self._set_param()

    def state_dict(self) -> dict[str, Any] | None:
        """Return the parameter's value, unless it is a variable in the checkpoint or of a type that cannot be saved."""
        if self.param.is_variable_saved:
            return None
        value = self.get_current_value()
        if isinstance(value, np.generic):
            value = np.asarray(value)
        is_array = isinstance(value, np.ndarray) and not value.dtype.hasobject
        if value is None or is_array or type(value) in (bool, int, float, str):
            return {"value": value}
        return None

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Set the parameter to its value in the checkpoint."""
        if "value" in state:
            value = state["value"]
            self.param.set_value(value[()] if isinstance(value, np.ndarray) else value)

    @property
    def state_name(self) -> str:
        """The name of the class, and the parameter."""
        return f"{self}({self.param.readable_name})"

    def _trigger(self) -> None:
        self._report()
        self._set_param()

    def _report(self) -> None:
        monitors, name, value = self.trainer.monitors, self.param.readable_name, self.get_current_value()
        is_number = np.ndim(value) == 0 and np.asarray(value).dtype.kind in "iuf"
        # a summary, or another setter, which has already set the next value, may have reported it
        is_reported = self.global_step in [step for step, _ in monitors.get_history(name)[-1:]]
        if is_number and not is_reported:
            monitors.put_scalar(name, value)

    def _set_param(self) -> None:
        value = self.get_value_to_set()
        if value is not None:
            self.param.set_value(value)


class PlannedHyperParamSetter(HyperParamSetter):
    """
    Base class of setters whose values depend on the epoch or the step: override `value_at`.

    `tensorpack-lite schedule` draws these values before training.

    Args:
        param: a `HyperParam`, or the name of a variable.
        step_based: set a value after each step, by `global_step`, instead of after each epoch.

    Runs at: before_train; trigger_epoch, or trigger_step if `step_based`.

    Note: a resumed training gets the value that `preview` knows for its place, even if the schedule has changed since.
    But if another callback had set the parameter after this one, and the schedule has not changed, it keeps that value.
    """

    def __init__(self, param: HyperParam | str, step_based: bool = False) -> None:
        super().__init__(param)
        self.step_based = step_based
        self._point: int | None = None  # of the last value
        self._kept: Any = None  # the value in the checkpoint

    @abstractmethod
    def value_at(self, point: int, current: Any) -> Any:
        """
        Return the value to set at a point of training.

        Args:
            point: the number of epochs that are done, or of steps if `step_based`.
            current: the parameter's current value.

        Returns:
            The value, or None to keep the parameter as it is.
        """

    def preview(self, point: int, initial: object) -> object:
        """
        Return the value in use at a point of training, for the report. No code of the script is called.

        Args:
            point: as in `value_at`.
            initial: the parameter's value before anything is set.

        Returns:
            The value, or None if it is not known.
        """
        return None

    def _current_point(self) -> int:
        return self.global_step if self.step_based else self.epoch_num

    def _get_value_to_set(self) -> Any:
        self._point = self._current_point()
        return self.value_at(self._point, self.get_current_value())

    # At a resume -----------------------------------------------------------------------------------------------------
    def _before_train(self) -> None:
        super()._before_train()
        loop = self.trainer.loop
        if loop.is_resumed:
            self._kept = self.get_current_value()
            if not loop.has_triggers_left:
                self._set_planned(self._current_point())

    def _set_planned(self, point: int) -> None:
        """Set the parameter to the planned value of a point, if that is known and not its value already."""
        planned = self.preview(point, None)
        if planned is None:
            return
        self._point, actual = point, self.get_current_value()
        if not is_close(actual, planned):
            self._log_change("training is resumed", actual, planned)
            self.param.set_value(planned)

    def state_dict(self) -> dict[str, Any] | None:
        """Return the last point with its planned value, and whether no other callback has set the parameter since."""
        state = super().state_dict()
        planned = None if self._point is None else self.preview(self._point, None)
        if planned is None:
            return state
        plan = {
            "point": self._point,
            "steps_per_epoch": self.trainer.loop.steps_per_epoch,
            "planned": float(planned),  # type: ignore[arg-type]
            "is_last": is_close(self.get_current_value(), planned),
        }
        return {**(state or {}), "plan": plan}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Set the planned value, or keep that of the checkpoint if another callback had set it and the plan has not changed."""
        super().load_state_dict(state)
        plan, trainer = state.get("plan"), self.trainer
        if "value" in state:
            self._kept = self.get_current_value()
        # without `exact`, other ranks have no states, and all must do the same
        if plan is None or not (trainer.exact or trainer.size == 1):
            return
        point, now = int(plan["point"]), self._current_point()
        if trainer.loop.has_triggers_left and point != now:
            return  # the trigger is still to come
        if not self.step_based and plan["steps_per_epoch"] != trainer.loop.steps_per_epoch:
            point = now
        planned = self.preview(point, None)
        if plan["is_last"] or planned is None or not is_close(plan["planned"], planned):
            self._set_planned(point)
            return
        self._point = point
        if not is_close(self.get_current_value(), self._kept):
            logger.info(
                f"{self}: {self.param.readable_name} stays {_shortened(self._kept)}, as another callback has set it."
            )
            self.param.set_value(self._kept)

    def _trigger_epoch(self) -> None:
        if self.step_based:
            self._report()
        else:
            self.trigger()

    def _trigger_step(self) -> None:
        if self.step_based:
            self._set_param()


class HyperParamSetterWithFunc(PlannedHyperParamSetter):
    """
    Callback that sets a hyper-parameter to the result of a function.

    Args:
        param: a `HyperParam`, or the name of a variable.
        func: `func(epoch_num, current_value) -> new value`, or None to keep the value. It is called after
            each epoch with the epoch's number, and before training with `starting_epoch - 1`, unless training
            resumes with the variable's value. `utils.schedules` has functions for the usual schedules; these are also
            evaluated when training resumes, so that they may change in between, e.g. their length.
        step_based: call `func(global_step, current_value)` after each step instead.

    Raises:
        TypeError: `param` has another type, or `func` is not callable.

    Runs at: before_train, trigger; trigger_step if `step_based`.

    Example:
        >>> HyperParamSetterWithFunc("learning_rate", lambda epoch, lr: lr * 0.9 if epoch else None)
        >>> HyperParamSetterWithFunc("learning_rate", schedules.cosine(0.1, 90, warmup=5))
    """

    def __init__(self, param: HyperParam | str, func: Callable[[int, Any], Any], *, step_based: bool = False) -> None:
        super().__init__(param, step_based)
        self._func = check_callable("HyperParamSetterWithFunc: func", func)

    def value_at(self, point: int, current: Any) -> Any:
        """Return the result of the function."""
        return self._func(point, current)

    def preview(self, point: int, initial: object) -> object:
        """Return the result of a function of `utils.schedules`; None for another one, which might do more than compute."""
        return self._func(point, initial) if is_schedule(self._func) else None


class HumanHyperParamSetter(HyperParamSetter):
    """
    Callback that sets a hyper-parameter to a value in a file that can be edited during training.

    The file is in the logger's directory; each line is `name:value`. Nothing happens while the file does not
    exist. A warning is logged if the value is not a number or the name is missing; other lines are ignored.

    Args:
        param: a `HyperParam`, or the name of a variable.
        file_name: name of the file.

    Raises:
        RuntimeError: in `setup_graph`: there is no logger directory.

    Runs at: before_train, trigger. A resumed training reads the file in before_train, too.

    Example:
        >>> HumanHyperParamSetter("learning_rate")      # then: echo learning_rate:0.001 > train_log/x/hyper.txt
    """

    def __init__(self, param: HyperParam | str, file_name: str = "hyper.txt") -> None:
        super().__init__(param)
        self._file_name = file_name
        self._directory: str | None = None

    def _setup_graph(self) -> None:
        super()._setup_graph()
        self._directory = logger.get_logger_dir()
        if self._directory is None:
            raise RuntimeError(
                f"HumanHyperParamSetter: no logger directory to read '{self._file_name}' from. "
                "Call logger.set_logger_dir(...) first."
            )

    def _before_train(self) -> None:
        self._set_param()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Set the parameter to its value in the checkpoint, and then to the value in the file, which may have been edited."""
        super().load_state_dict(state)
        self._set_param()

    def _get_value_to_set(self) -> float | None:
        path = os.path.join(self._directory or "", self._file_name)
        if not os.path.isfile(path):
            return None
        try:
            with open(path, encoding="utf-8-sig") as file:  # Windows writes a byte-order mark
                rows = [line.strip().rpartition(":") for line in file if line.strip()]
            return float({name.strip(): value for name, _, value in rows}[self.param.readable_name])
        except (OSError, ValueError, KeyError) as error:
            problem = f"cannot read '{self.param.readable_name}' from '{path}' ({error!r})"
            logger.warning(f"HumanHyperParamSetter: {problem}. Each line must be name:value.")
            return None


def is_close(actual: Any, expected: Any) -> bool:
    """Return whether a parameter has a value, up to the precision of float32."""
    is_number = np.ndim(actual) == 0 and np.asarray(actual).dtype.kind in "biuf"
    return is_number and math.isclose(float(actual), float(expected), rel_tol=1e-5)


def _shortened(value: object) -> object:
    """Return a number with six digits, for the log."""
    return float(f"{value:.6g}") if isinstance(value, (float, np.floating)) else value
