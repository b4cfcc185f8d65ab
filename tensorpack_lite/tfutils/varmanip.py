"""Checkpoints and parameter files as dictionaries of arrays, and such dictionaries into a session."""

from __future__ import annotations

import os
import re
from typing import Any, Iterable

import numpy as np

from ..compat import tfv1 as tf
from ..utils import logger
from ..utils.fs import write_npz
from ..utils.npz import read_npz
from .checkpoint_reader import CheckpointReader, read_checkpoint_state
from .checkpoint_store import CheckpointStore
from .common import get_op_tensor_name
from .fitting import fit_to_variable
from .npy_dict import load_npy_dict

__all__ = [
    "SessionUpdate",
    "dump_session_params",
    "get_all_checkpoints",
    "get_checkpoint_path",
    "get_savename_from_varname",
    "is_training_name",
    "load_checkpoint_vars",
    "load_chkpt_vars",
    "load_parameter_file",
    "save_checkpoint_vars",
    "save_chkpt_vars",
]

_DATA_SUFFIX = re.compile(r"\.(index|state|data-\d{5}-of-\d{5})$")

_TRAINING_NAME = re.compile(
    r"/(Adam|Adam_1|Momentum|Adadelta|Adadelta_1|RMSProp|RMSProp_1|Adagrad|AccumGrad)$"
    r"|(^|/)EMA/"
    r"|^AccumGrad"
    r"|^apply_gradients"
)


class SessionUpdate:
    """
    Set variables of a session to given arrays, without adding anything to the graph.

    Args:
        sess: an open session.
        vars_to_update: the variables that `update` may set.
        ignore_mismatch: skip, with a warning, what does not fit, instead of raising.

    tensorpack: same.
    """

    def __init__(self, sess: Any, vars_to_update: Iterable[Any], ignore_mismatch: bool = False) -> None:
        self.sess = sess
        self.name_map = {var.name: var for var in vars_to_update}
        self.ignore_mismatch = ignore_mismatch

    def update(self, prms: dict[str, Any]) -> None:
        """
        Set variables.

        Args:
            prms: `{"name:0": array}`; arrays may differ from their variable as `relaxed_value_for_var` allows.

        Raises:
            KeyError: a name that is not among `vars_to_update`.
            ValueError, TypeError: as `relaxed_value_for_var`.
        """
        unknown = sorted(name for name in prms if name not in self.name_map)
        if unknown:
            raise KeyError(f"SessionUpdate: no variable to update is named {', '.join(unknown)}.")
        waiting = []
        for name, value in prms.items():
            var = self.name_map[name]
            fitting = self.relaxed_value_for_var(value, var, ignore_mismatch=self.ignore_mismatch)
            if fitting is not None:
                waiting.append((var.initializer, fitting))
        while waiting:
            waiting = self._run_initializers(waiting)

    def _run_initializers(self, pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """Run each initializer with the value in place of the initial one; returns those that share theirs with another."""
        initializers, feeds, postponed = [], {}, []
        for initializer, value in pairs:
            initial_value = initializer.inputs[1].name
            if initial_value in feeds:
                postponed.append((initializer, value))
            else:
                initializers.append(initializer)
                feeds[initial_value] = value
        self.sess.run(initializers, feed_dict=feeds)
        return postponed

    @staticmethod
    def relaxed_value_for_var(value: Any, var: Any, ignore_mismatch: bool = False) -> np.ndarray | None:
        """
        Fit an array to a variable: reshape it if the number of elements agrees, cast it if nothing but precision is lost.

        Floating-point types are cast into each other, integers where every value fits; each with a warning.

        Args:
            value: an array.
            var: a variable.
            ignore_mismatch: return None, with a warning, instead of raising.

        Returns:
            The array in the variable's shape and dtype.

        Raises:
            ValueError: another number of elements.
            TypeError: another kind of dtype.

        tensorpack: same; there a wrong dtype is an AssertionError, always.
        """
        return fit_to_variable(value, var, ignore_mismatch)


def load_checkpoint_vars(path: str) -> dict[str, np.ndarray]:
    """
    Read all variables of a checkpoint or an npz file.

    Args:
        path: of a checkpoint, as in `get_checkpoint_path`, or of an `.npz` file.

    Returns:
        `{name: array}`; names of an npz file without `:0`, those of a checkpoint as they are.

    Raises:
        FileNotFoundError: no such file.
        DamagedFileError: the file is damaged, or unpacks to too much.
    """
    if path.endswith(".npz"):
        return {get_op_tensor_name(name)[0]: value for name, value in load_parameter_file(path).items()}
    checkpoint = CheckpointReader(get_checkpoint_path(path))
    return {name: checkpoint.read(name) for name in checkpoint.shapes}


load_chkpt_vars = load_checkpoint_vars


def save_checkpoint_vars(dic: dict[str, Any], path: str) -> None:
    """
    Write variables as an npz file or a checkpoint.

    Args:
        dic: `{name: array}`, names with or without `:0`.
        path: `x.npz` for an npz file, compressed, with the names as they are; anything else for a checkpoint of that
            name, with operation names, in a directory that is made if need be. The directory's `checkpoint` file is
            written only if there is none.

    Raises:
        ValueError: the path ends in `.npy`, two names mean the same variable, or there are none.
        OSError: it cannot be written. What was there before is as it was: the new file is written aside, and moved into
            place when it is complete.

    tensorpack: same; there an existing `checkpoint` file is replaced, and a failure leaves half a file.
    """
    logger.info("Variables to save to %s:\n%s", path, ", ".join(sorted(dic)))
    if path.endswith(".npy"):
        raise ValueError(
            f"save_checkpoint_vars: cannot write {path}. Name it .npz, or without suffix for a checkpoint."
        )
    if path.endswith(".npz"):
        _write_npz(dic, path)
    else:
        _write_checkpoint(dic, path)


save_chkpt_vars = save_checkpoint_vars


def dump_session_params(path: str) -> None:
    """
    Save the parameters of the model, and nothing of its training, from the default session.

    These are the TRAINABLE_VARIABLES and MODEL_VARIABLES that are also GLOBAL_VARIABLES.

    Args:
        path: as in `save_checkpoint_vars`.

    Raises:
        RuntimeError: there is no default session.
        ValueError: a variable is both trainable and a model variable.

    tensorpack: same; there the last error is an AssertionError.
    """
    session = tf.get_default_session()
    if session is None:
        raise RuntimeError(
            "dump_session_params: there is no default session. Call it under `with sess.as_default():`."
        )
    graph = session.graph
    trainable = [var.name for var in graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES)]
    model = [var.name for var in graph.get_collection(tf.GraphKeys.MODEL_VARIABLES)]
    both = sorted(set(trainable) & set(model))
    if both:
        raise ValueError(f"dump_session_params: both trainable and model variables: {', '.join(both)}.")
    saved = graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)
    wanted = {var.name: var for var in saved if var.name in trainable or var.name in model}
    save_checkpoint_vars(session.run(wanted), path)


def load_parameter_file(path: str) -> dict[str, np.ndarray]:
    """
    Read an `.npz` file, or an `.npy` file that holds a dictionary of arrays.

    Returns:
        `{name: array}`, names as in the file.

    Raises:
        FileNotFoundError: no such file.
        DamagedFileError: the file is damaged, holds something else, or unpacks to too much.
    """
    if not os.path.isfile(path):
        raise FileNotFoundError(
            f"There is no parameter file {path}. Is the path right, as seen from {os.getcwd()}?"
        )
    if path.endswith(".npy"):
        return load_npy_dict(path)
    return read_npz(path)


def get_checkpoint_path(path: str) -> str:
    """
    Find the checkpoint that a path means.

    Args:
        path: of a checkpoint (`dir/model-100`), of one of its files (`.index`, `.data-00000-of-00001`), or of the file
            `dir/checkpoint`, which means the latest checkpoint of that directory.

    Returns:
        The name of the checkpoint, without suffix, as `tf.train.Saver` takes it.

    Raises:
        FileNotFoundError: there is no such checkpoint, or its files are not all there.
        DamagedFileError: the file `checkpoint` is damaged.
    """
    if os.path.basename(path) == path:
        path = os.path.join(".", path)  # the reader of checkpoints wants a directory
    if os.path.basename(path) == "checkpoint":
        return _latest_checkpoint(path)
    name = _DATA_SUFFIX.sub("", path)
    if name != path:
        logger.info(f"Checkpoint path {path} is auto-corrected to {name}.")
    if tf.gfile.IsDirectory(name) and not tf.gfile.Exists(name + ".index"):
        raise FileNotFoundError(
            f"{name} is a directory, not a checkpoint. For its latest checkpoint: {name}/checkpoint."
        )
    if not (tf.gfile.Exists(name) or tf.gfile.Exists(name + ".index")):
        raise FileNotFoundError(
            f"There is no checkpoint {name}. Is the path right, as seen from {os.getcwd()}?"
        )
    return name


def get_all_checkpoints(dir: str, prefix: str = "model") -> list[tuple[str, int]]:
    """
    List the checkpoints of a directory.

    Args:
        dir: the directory.
        prefix: what comes before `-<step>` in their names.

    Returns:
        `(path without suffix, step)` for each, by rising step.

    tensorpack: same; there the prefix is ignored and the path ends in `.index`.
    """
    named = re.compile(re.escape(prefix) + r"-(\d+)\.index")
    found = []
    for file in os.listdir(dir):
        match = named.fullmatch(file)
        if match:
            found.append((os.path.join(dir, file[: -len(".index")]), int(match.group(1))))
    return sorted(found, key=lambda pair: pair[1])


def get_savename_from_varname(
    varname: str, varname_prefix: str | None = None, savename_prefix: str | None = None
) -> str:
    """
    Translate the name of a variable in the graph into its name in a checkpoint.

    Args:
        varname: in the graph.
        varname_prefix: a scope to take away from its beginning, if it is there.
        savename_prefix: a scope to put before.

    Example:
        >>> get_savename_from_varname("tower1/fc/W:0", varname_prefix="tower1")
        'fc/W:0'

    tensorpack: same; there prefix "a" also cuts "ab/W".
    """
    name = varname
    if varname_prefix and name.startswith(varname_prefix.rstrip("/") + "/"):
        name = name[len(varname_prefix.rstrip("/")) + 1 :]
    return f"{savename_prefix}/{name}" if savename_prefix else name


def is_training_name(name: str) -> bool:
    """
    Guess from its name whether a variable is of use in training only: slots of optimizers, moving averages of summaries.

    Such a variable is not missed when it is absent from a checkpoint.

    Args:
        name: with or without `:0`.

    tensorpack: same.
    """
    return _TRAINING_NAME.search(get_op_tensor_name(name)[0]) is not None


def _latest_checkpoint(path: str) -> str:
    if not tf.gfile.Exists(path):
        raise FileNotFoundError(
            f"There is no file {path}, so no latest checkpoint is known. Name the checkpoint itself."
        )
    directory = os.path.dirname(path)
    latest = read_checkpoint_state(directory or ".").model_checkpoint_path
    if tf.gfile.IsDirectory(latest) or not any(map(tf.gfile.Exists, (f"{latest}.index", latest))):
        raise FileNotFoundError(
            f"{path} names no checkpoint whose files are there. If they were moved, name the checkpoint itself, e.g. "
            f"{directory}/model-100."
        )
    return str(latest)


def _write_checkpoint(dic: dict[str, Any], path: str) -> None:
    arrays = {get_op_tensor_name(name)[0]: np.asarray(value) for name, value in dic.items()}
    if len(arrays) != len(dic):
        raise ValueError(
            "save_checkpoint_vars: two names mean the same variable, one with and one without ':0'."
        )
    if not arrays:
        raise ValueError("save_checkpoint_vars: there is nothing to save.")
    directory, name = os.path.split(path)
    directory = directory or "."
    tf.gfile.MakeDirs(directory)
    CheckpointStore(directory, "save_checkpoint_vars").save(name, lambda prefix: _save_arrays(arrays, prefix))
    if not tf.gfile.Exists(os.path.join(directory, "checkpoint")):
        tf.train.update_checkpoint_state(directory, name)


def _save_arrays(arrays: dict[str, np.ndarray], prefix: str) -> None:
    names = sorted(arrays)
    with tf.Graph().as_default(), tf.Session() as sess:
        tensors = [tf.placeholder(tf.as_dtype(arrays[name].dtype), arrays[name].shape) for name in names]
        save = tf.raw_ops.SaveV2(
            prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(names), tensors=tensors
        )
        sess.run(save, feed_dict={tensor.name: arrays[name] for tensor, name in zip(tensors, names)})


def _write_npz(dic: dict[str, Any], path: str) -> None:
    directory, name = os.path.split(path)
    aside = os.path.join(directory, f".{name}.tmp")
    try:
        with open(aside, "wb") as file:
            write_npz(file, dic, compress=True)
        os.replace(aside, path)
    finally:
        if os.path.exists(aside):
            os.remove(aside)
