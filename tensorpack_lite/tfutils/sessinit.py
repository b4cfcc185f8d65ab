"""What a session's variables hold at the start: values from checkpoints, from files, from dictionaries."""

from __future__ import annotations

import os
import re
from typing import Any, Iterable, Sequence

import numpy as np

from ..compat import tfv1 as tf
from ..utils import logger
from ..utils.errors import type_error
from .checkpoint_reader import CheckpointReader, restoring
from .common import get_op_tensor_name
from .varmanip import (
    SessionUpdate,
    get_checkpoint_path,
    get_savename_from_varname,
    is_training_name,
    load_parameter_file,
)

__all__ = [
    "ChainInit",
    "DictRestore",
    "JustCurrentSession",
    "SaverRestore",
    "SaverRestoreRelaxed",
    "SessionInit",
    "SmartInit",
    "get_model_loader",
]


class SessionInit:
    """
    Base class of objects that set variables of a session. Initialization has two phases; a subclass defines one or both.

    `_setup_graph()` runs before the session is made and may add to the graph. `_run_init(sess)` runs after all variables
    got their initial values; the graph may be final by then.

    Attributes:
        checkpoint_state: the content of a checkpoint's `.state` file, by which a trainer continues the training that saved the
            checkpoint, see `AutoResumeTrainConfig`. None, the default: the trainer begins a training of its own.
    """

    checkpoint_state: dict[str, Any] | None = None

    def init(self, sess: Any) -> None:
        """
        Do both phases on a session that exists already, outside of a trainer.

        Args:
            sess: a session whose graph is not finalized.
        """
        with sess.graph.as_default():
            self._setup_graph()
            self._run_init(sess)

    def _setup_graph(self) -> None:
        """Add to the graph what `_run_init` needs."""

    def _run_init(self, sess: Any) -> None:
        """Set the variables."""


class JustCurrentSession(SessionInit):
    """
    Leave all variables as they are.

    tensorpack: same.
    """


class ChainInit(SessionInit):
    """
    Do several, one after the other; a later one overwrites what an earlier one set.

    Args:
        sess_inits: a list of SessionInit.

    Raises:
        TypeError: something else is in the list.

    tensorpack: same.
    """

    def __init__(self, sess_inits: Sequence[SessionInit]) -> None:
        for one in sess_inits:
            if not isinstance(one, SessionInit):
                raise type_error("ChainInit", "a list of SessionInit", one, "Wrap it: SmartInit(...).")
        self.inits = list(sess_inits)
        states = [one.checkpoint_state for one in self.inits if one.checkpoint_state is not None]
        self.checkpoint_state = states[0] if states else None

    def _setup_graph(self) -> None:
        for one in self.inits:
            one._setup_graph()

    def _run_init(self, sess: Any) -> None:
        for one in self.inits:
            one._run_init(sess)


class SaverRestore(SessionInit):
    """
    Restore the global variables that a checkpoint and the graph both have.

    The name of a variable in the checkpoint is its name in the graph. Variables that only one of the two has are
    listed in a warning, except those that matter in training only (slots of optimizers and the like). Trainers name the
    powers of Adam differently (`beta1_power`, `apply_gradients/beta1_power`, `async_apply_gradients/beta1_power`): a power
    that has no partner of its own name gets the one of another trainer's name.

    Args:
        model_path: a checkpoint, one of its files, or the file `checkpoint` of a directory, which means the latest one.
        prefix: a variable `prefix/x` of the graph is `x` in the checkpoint; other variables keep their name.
        ignore: names, as in the checkpoint, of variables to leave alone.

    Attributes:
        path: of the checkpoint, without suffix.

    Raises:
        FileNotFoundError: there is no such checkpoint.
        DamagedFileError: in `_setup_graph` and `_run_init`: the checkpoint is damaged.
        ValueError: in `_setup_graph`: graph and checkpoint have no variable in common, two variables of the graph mean the
            same one of the checkpoint, or shapes differ.

    tensorpack: same; there two of these errors come from TensorFlow, and prefix "a" also means "ab/x".
    """

    def __init__(self, model_path: str, prefix: str | None = None, ignore: Iterable[str] = ()) -> None:
        if str(model_path).endswith((".npy", ".npz")):
            logger.warning(
                f"SaverRestore expects a TensorFlow checkpoint, got '{model_path}'. Use SmartInit(path) for it."
            )
        self.path = get_checkpoint_path(str(model_path))
        self.prefix = prefix
        self.ignore = [get_op_tensor_name(name)[1] for name in ignore]
        self._saver: Any = None

    def _setup_graph(self) -> None:
        matched = self._match(CheckpointReader(self.path))
        if not matched:
            raise ValueError(
                f"SaverRestore: {self.path} and the graph have no variable in common, so there is nothing to restore. Does the "
                f"model use other names{'' if self.prefix is None else f', or another prefix than {self.prefix!r}'}?"
            )
        _refuse_other_shapes(self.path, matched)
        logger.info(f"Restoring checkpoint from {self.path} ...")
        with tf.name_scope(None):
            self._saver = tf.train.Saver({key: var for key, var, _ in matched}, name="SaverRestore")

    def _run_init(self, sess: Any) -> None:
        with restoring(self.path):
            self._saver.restore(sess, self.path)

    def _match(self, checkpoint: CheckpointReader) -> list[tuple[str, Any, tuple[int, ...]]]:
        """List `(key in the checkpoint, variable, shape in the checkpoint)`, and warn of what has no partner."""
        matched, only_in_graph = [], []
        used: dict[str, str] = {}
        variables = [
            (get_savename_from_varname(var.name, varname_prefix=self.prefix), var)
            for var in tf.global_variables()
        ]
        variables = [pair for pair in variables if get_op_tensor_name(pair[0])[1] not in self.ignore]
        taken = {*self.ignore, *(get_op_tensor_name(name)[1] for name, _ in variables)}
        for name, var in variables:
            key = checkpoint.key_of(name)
            if key is None:
                others = [other for other in _names_with_other_trainers(name) if other not in taken]
                keys = map(checkpoint.key_of, others)
                key = next((found for found in keys if found is not None and found not in used), None)
            if key is None:
                only_in_graph.append(var.op.name)
            elif key in used:
                raise ValueError(
                    f"SaverRestore: '{used[key]}' and '{var.op.name}' both mean '{key}' of {self.path}. Change the prefix, or put "
                    f"'{key}' into ignore."
                )
            else:
                used[key] = var.op.name
                matched.append((key, var, checkpoint.shapes[key]))
        only_in_file = [
            key
            for key in checkpoint.shapes
            if key not in used and get_op_tensor_name(key)[1] not in self.ignore
        ]
        _warn_of_mismatch("graph", "checkpoint", only_in_graph)
        _warn_of_mismatch("checkpoint", "graph", only_in_file)
        return matched


class SaverRestoreRelaxed(SaverRestore):
    """
    Like SaverRestore, but let a value whose shape or dtype differs pass if it can be made to fit, and skip it if not.

    Args:
        model_path, prefix, ignore: as in SaverRestore.

    Note: adds nothing to the graph.

    tensorpack: same.
    """

    def _setup_graph(self) -> None:
        """Nothing: values are read in Python."""

    def _run_init(self, sess: Any) -> None:
        logger.info(f"Restoring checkpoint from {self.path} ...")
        checkpoint = CheckpointReader(self.path)
        with sess.graph.as_default():
            matched = self._match(checkpoint)
        update = SessionUpdate(sess, [var for _, var, _ in matched], ignore_mismatch=True)
        update.update({var.name: checkpoint.read(key) for key, var, _ in matched})


class DictRestore(SessionInit):
    """
    Set the global variables that a dictionary names. The powers of Adam are found as in SaverRestore.

    Args:
        variable_dict: `{name: array}`, names with or without `:0`. An array may differ in shape and dtype as
            `SessionUpdate.relaxed_value_for_var` allows.
        ignore_mismatch: skip, with a warning, arrays that do not fit, instead of raising.

    Raises:
        TypeError: not a dictionary; or, in `_run_init`, a dtype that does not fit.
        ValueError: in `_run_init`, a shape that does not fit.

    Note: adds nothing to the graph.

    tensorpack: same; there plain numbers as values are refused.
    """

    def __init__(self, variable_dict: dict[str, Any], ignore_mismatch: bool = False) -> None:
        if not isinstance(variable_dict, dict):
            raise type_error("DictRestore", "a dictionary {name: array}", variable_dict)
        self._values = {
            get_op_tensor_name(name)[1]: np.asarray(value) for name, value in variable_dict.items()
        }
        self._ignore_mismatch = ignore_mismatch

    def _run_init(self, sess: Any) -> None:
        with sess.graph.as_default():
            variables = {var.name: var for var in tf.global_variables()}
        values = dict(self._values)
        for name in variables:
            others = [other for other in _names_with_other_trainers(name) if other not in variables]
            source = next((other for other in others if other in values), None)
            if name not in values and source is not None:
                values[name] = values.pop(source)
        common = [name for name in variables if name in values]
        logger.info("Variables to restore from dict: " + ", ".join(_op_names(common)))
        _warn_of_mismatch("graph", "dict", _op_names(name for name in variables if name not in values))
        unused = _op_names(name for name in values if name not in variables)
        if unused:
            logger.warning(
                "The following variables are in the dict, but not found in the graph: " + ", ".join(unused)
            )
        update = SessionUpdate(
            sess, [variables[name] for name in common], ignore_mismatch=self._ignore_mismatch
        )
        update.update({name: values[name] for name in common})


def SmartInit(obj: Any, *, ignore_mismatch: bool = False) -> SessionInit:  # noqa: N802
    """
    Function: returns the SessionInit that fits what it is given.

    Args:
        obj: a path of a checkpoint, of its directory's file `checkpoint`, of an `.npz` or an `.npy` file; a dictionary
            `{name: array}`; a SessionInit, which is returned; None or anything empty, which loads nothing; or a list of
            these, loaded in this order. `~` means the home directory.
        ignore_mismatch: let values of another shape or dtype pass if they can be made to fit, and skip them if not.

    Returns:
        JustCurrentSession, DictRestore, SaverRestore, SaverRestoreRelaxed or ChainInit.

    Raises:
        FileNotFoundError: an `.npz` or `.npy` file that does not exist, or a checkpoint without its files.
        ValueError: nothing at all is at that path, or `obj` is of another kind.

    Example:
        >>> TrainConfig(..., session_init=SmartInit("ImageNet-ResNet50.npz"))

    tensorpack: same; there an `.npy` file fails, and so does the error for other objects.
    """
    if isinstance(obj, SessionInit):
        return obj
    if obj is None or (isinstance(obj, (str, list, tuple, dict)) and not obj):
        return JustCurrentSession()
    if isinstance(obj, (list, tuple)):
        return ChainInit([SmartInit(one, ignore_mismatch=ignore_mismatch) for one in obj])
    if isinstance(obj, dict):
        return DictRestore(obj, ignore_mismatch=ignore_mismatch)
    if isinstance(obj, (str, os.PathLike)):
        return _init_from_path(os.path.expanduser(os.fspath(obj)), ignore_mismatch)
    raise ValueError(
        f"SmartInit: takes a path, a dictionary, a list of these, or None, got {type(obj).__name__} {obj!r}."
    )


get_model_loader = SmartInit


def _init_from_path(path: str, ignore_mismatch: bool) -> SessionInit:
    if path.endswith((".npy", ".npz")):
        return DictRestore(load_parameter_file(path), ignore_mismatch=ignore_mismatch)
    if not tf.gfile.Glob(path + "*"):
        raise ValueError(
            f"SmartInit: there is no file at {path}. Is the path right, as seen from {os.getcwd()}?"
        )
    return SaverRestoreRelaxed(path) if ignore_mismatch else SaverRestore(path)


def _names_with_other_trainers(name: str) -> list[str]:
    """List the names, with `:0`, that a variable has with other trainers; none, unless it is a power of Adam."""
    found = re.fullmatch(r"((?:async_)?apply_gradients/)?(.*_power(?:_\d+)?)(?::0)?", name)
    if found is None:
        return []
    scopes = ("", "apply_gradients/", "async_apply_gradients/")
    return [f"{scope}{found.group(2)}:0" for scope in scopes if scope != (found.group(1) or "")]


def _refuse_other_shapes(path: str, matched: list[tuple[str, Any, tuple[int, ...]]]) -> None:
    different = [
        f"{var.op.name} {var.shape} (there {shape})"
        for _, var, shape in matched
        if not tf.TensorShape(var.shape).is_compatible_with(shape)
    ]
    if different:
        raise ValueError(
            f"SaverRestore: variables of another shape in {path}: {', '.join(different)}. To skip them, use "
            "SmartInit(path, ignore_mismatch=True)."
        )


def _op_names(names: Iterable[str]) -> list[str]:
    return sorted(get_op_tensor_name(name)[0] for name in names)


def _warn_of_mismatch(where: str, not_where: str, names: Iterable[str]) -> None:
    missing = [name for name in _op_names(names) if not is_training_name(name)]
    if missing:
        logger.warning(
            f"The following variables are in the {where}, but not found in the {not_where}: {', '.join(missing)}"
        )
