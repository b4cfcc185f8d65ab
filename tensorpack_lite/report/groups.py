"""Groups of training runs that differ only in their seeds, and the hyper-parameters in which the groups differ."""

from __future__ import annotations

from typing import Any, Collection, Dict, Iterator, List, NamedTuple, Tuple

import numpy as np

from ..utils.hyperparams import ADDED, hyperparams_of, is_own_place, is_seed, without_directory
from ..utils.plain_values import STOPPED
from .reading import Training

_NOT_COMPARED = ("rng", "queue", "best")  # state among the described attributes
_MAX_NAME = 60


class Group(NamedTuple):
    """
    Training runs that differ only in their seeds.

    Attributes:
        number: its number, which is also that of its color.
        name: the values in which it differs from others; of a single training, its name.
        values: the values of `Groups.columns`, as text.
        trainings: at least one.
    """

    number: int
    name: str
    values: List[str]
    trainings: List[Training]


class Groups(NamedTuple):
    """
    All training runs of a report.

    Attributes:
        columns: the hyper-parameters that differ between groups.
        members: the groups.
    """

    columns: List[str]
    members: List[Group]

    @property
    def are_several(self) -> bool:
        """Whether a group has several training runs."""
        return any(len(group.trainings) > 1 for group in self.members)

    def of(self, training: Training) -> Group:
        """Return the group of a training."""
        return next(group for group in self.members if any(member is training for member in group.trainings))


def group_trainings(trainings: List[Training]) -> Groups:
    """
    Find the groups of training runs that differ only in seeds, directory, machine, packages and time.

    Two training runs are in a group if their manifests have the same hyper-parameters, data, schedules, callbacks, settings,
    graph and code, as far as they are described, and if both have been resumed with the same changes. A training without a
    manifest is alone, and so is each of two that are compared.
    """
    parts = [_parts(training) for training in trainings]
    if len(trainings) == 2:
        parts = [{**part, "training": str(number)} for number, part in enumerate(parts)]
    found: List[List[int]] = []
    for number, part in enumerate(parts):
        group = next((numbers for numbers in found if all(_is_same(parts[other], part) for other in numbers)), None)
        if group is None:
            found.append([number])
        else:
            group.append(number)
    hyperparams = [
        dict(pair for number in reversed(numbers) for pair in _hyperparams(trainings[number]).items())
        for numbers in found
    ]
    columns = _columns(hyperparams, [parts[numbers[0]] for numbers in found])
    groups = []
    for number, numbers in enumerate(found):
        members = [trainings[index] for index in numbers]
        values = [texts[number] for texts in columns.values()]
        groups.append(Group(number, _name(list(columns), values, members, number), values, members))
    return Groups(list(columns), groups)


def average(curves: List[Tuple[np.ndarray, np.ndarray]]) -> Tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """
    Return the mean of curves at the steps that all of them have.

    Args:
        curves: (steps, values) of each, float64 [N].

    Returns:
        The steps, the mean and the standard deviation (with n - 1), float64 [M]; None if there is no such step, or one curve.
    """
    if len(curves) < 2:
        return None
    last = [_last_of_each_step(*curve) for curve in curves]
    steps = last[0][0]
    for others, _ in last[1:]:
        steps = np.intersect1d(steps, others, assume_unique=True)
    if not len(steps):
        return None
    values = np.array([values[np.searchsorted(own, steps)] for own, values in last])
    with np.errstate(all="ignore"):
        return steps, values.mean(axis=0), values.std(axis=0, ddof=1)


def _last_of_each_step(steps: np.ndarray, values: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    unique, places = np.unique(steps[::-1], return_index=True)
    return unique, values[::-1][places]


def _hyperparams(training: Training, parts: Collection[str] = ()) -> Dict[str, Any]:
    """Return the hyper-parameters besides seeds and directories, from all parts of the manifest, or from some."""
    directory = str(training.manifest.get("directory") or "")
    known = {name: part for name, part in training.manifest.items() if not parts or name in parts}
    return {
        name: value
        for name, value in hyperparams_of(known).items()
        if not is_seed(name) and not is_own_place(name, value, directory)
    }


def _parts(training: Training) -> Dict[str, Any]:
    """Return what is the same in all training runs of a group, by name."""
    manifest = training.manifest
    if not manifest:
        return {"directory": training.directory}
    parts: Dict[str, Any] = {"hyperparameters": _hyperparams(training, (ADDED, "code", "length"))}
    for name in ("data", "schedules", "callbacks", "settings", "initial values", "files"):
        parts[name] = manifest.get(name)
    graph, code = training.part("graph"), training.part("code")
    parts["graph"] = [graph.get(name) for name in ("fingerprint", "variables", "optimizer")]
    parts["code"] = [code.get(name) for name in ("files", "omitted", "git")]
    resumptions = manifest.get("resumptions")
    starts = resumptions if isinstance(resumptions, list) else []
    parts["resumptions"] = [start["changed"] for start in starts if isinstance(start, dict) and start.get("changed")]
    for name in training.part("left out"):  # it failed or took too long
        parts[name] = STOPPED
    directory = str(manifest.get("directory") or "")
    return _cleaned(without_directory(parts, directory), directory)


def _is_same(a: Any, b: Any) -> bool:
    """Return whether two descriptions are equal. What was not described, because a limit was reached, may be anything."""
    if (isinstance(a, str) and a == STOPPED) or (isinstance(b, str) and b == STOPPED):
        return True
    if isinstance(a, dict) and isinstance(b, dict):
        return set(a) == set(b) and all(_is_same(a[name], b[name]) for name in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_is_same, a, b))
    return bool(a == b) or (a != a and b != b)  # NaN is the same as NaN


def _cleaned(value: Any, directory: str) -> Any:
    """Return a description without seeds, states and the training's own directory."""
    if isinstance(value, list):
        return [_cleaned(item, directory) for item in value]
    if isinstance(value, dict):
        kept = [name for name in value if not is_seed(name) and name not in _NOT_COMPARED]
        return {
            name: _cleaned(value[name], directory) for name in kept if not is_own_place(name, value[name], directory)
        }
    return value


def _columns(hyperparams: List[Dict[str, Any]], parts: List[Dict[str, Any]]) -> Dict[str, List[str]]:
    """
    Return the values of each hyper-parameter that differs, one for each group.

    Of several that always differ together, the first one counts. Where groups have the same values, parts of the manifest
    that differ are told apart by the letters A, B, ...
    """
    columns: Dict[str, List[str]] = {}
    for name in dict.fromkeys(name for values in hyperparams for name in values):
        texts = [_text(values.get(name)) for values in hyperparams]
        if len(set(texts)) > 1 and texts not in columns.values():
            columns[name] = texts
    for name in dict.fromkeys(name for part in parts for name in part):
        if len(set(zip(*columns.values()))) == len(parts):
            break
        values = [part.get(name) for part in parts]
        firsts = [next(k for k, other in enumerate(values) if _is_same(other, value)) for value in values]
        letters = {first: _letter(number) for number, first in enumerate(dict.fromkeys(firsts))}
        if len(letters) > 1 and name not in ("hyperparameters", "training", "directory"):
            columns[name] = [letters[first] for first in firsts]
    return columns


def _letter(number: int) -> str:
    return chr(ord("A") + number) if number < 26 else f"A{number}"


def _text(value: Any) -> str:
    return "-" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def _name(columns: List[str], values: List[str], members: List[Training], number: int) -> str:
    """Return a short name."""
    if len(members) == 1:
        return members[0].name
    name = ", ".join(_words(columns, values))
    name = name if len(name) <= _MAX_NAME else f"group {number + 1}"
    return f"{name} ({len(members)} runs)" if name else f"{len(members)} runs"


def _words(columns: List[str], values: List[str]) -> Iterator[str]:
    shorts = [column.rpartition(".")[2] for column in columns]
    for column, short, value in zip(columns, shorts, values):
        yield f"{short if shorts.count(short) == 1 else column}={value}"
