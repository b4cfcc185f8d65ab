"""Functions that convert between checkpoints, parameter files, dictionaries of arrays and sessions."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Iterable, Iterator

import numpy as np

from ..compat import tfv1 as tf
from ..compat.private import make_callable
from ..utils import logger
from ..utils.missing_names import explain_missing_names
from .checkpoint_reader import CheckpointReader, read_checkpoint_state
from .common import get_op_tensor_name, require_default_session
from .fitting import fit_to_variable
from .partitions import join_parts
from .tower.copies import update_copies
from .variable_files import (
    PARAMETER_SUFFIXES,
    read_parameter_file,
    refuse_other_format,
    write_checkpoint,
    write_parameter_file,
)

__all__ = [
    "SessionUpdate", "dump_session_params", "get_all_checkpoints", "get_checkpoint_path",
    "get_savename_from_varname", "is_training_name", "kept_variables", "load_checkpoint_vars",
    "load_chkpt_vars", "load_parameter_file", "save_checkpoint_vars", "save_chkpt_vars",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = explain_missing_names(__name__)

_DATA_SUFFIX = re.compile(r"\.(index|meta|state|end|data-\d{5}-of-\d{5})$")

_TRAINING_NAME = re.compile(
    r"/(Adam|Adam_1|Momentum|Adadelta|Adadelta_1|RMSProp|RMSProp_1|Adagrad|AccumGrad|LAMB|LAMB_1|LAMB_2)$"
    r"|(^|/)EMA/"
    r"|^AccumGrad"
    r"|^apply_gradients"
)


class SessionUpdate:
    """
    Setter of a session's variables, and of their copies in other towers, that adds nothing to the graph.

    Args:
        sess: an open session.
        vars_to_update: the variables that `update` may set.
        ignore_mismatch: skip arrays that cannot be converted, with a warning, instead of raising.
    """

    def __init__(self, sess: tf.Session, vars_to_update: Iterable[tf.Variable], ignore_mismatch: bool = False) -> None:
        self.sess = sess
        self.name_map = {var.name: var for var in vars_to_update}
        self.ignore_mismatch = ignore_mismatch

    def update(self, prms: dict[str, np.ndarray]) -> None:
        """
        Set variables.

        Args:
            prms: `{"name:0": array}`. Arrays are converted by `relaxed_value_for_var`.

        Raises:
            KeyError: a name is not among `vars_to_update`.
            ValueError, TypeError: as for `relaxed_value_for_var`.
        """
        unknown = sorted(name for name in prms if name not in self.name_map)
        if unknown:
            raise KeyError(f"SessionUpdate: no variable to update is named {', '.join(unknown)}.")
        waiting = []
        for name, value in prms.items():
            var = self.name_map[name]
            fitting = self.relaxed_value_for_var(value, var, ignore_mismatch=self.ignore_mismatch)
            if fitting is None:
                continue
            initial_value = var.initializer.inputs[1]
            if initial_value.shape.is_compatible_with(fitting.shape):
                waiting.append((var.initializer, fitting))
            else:  # the variable has no fixed shape, and `Session.run` requires the one of its initial value
                make_callable(self.sess, [], [var.initializer], [initial_value])(fitting)
        while waiting:  # several runs if variables share an initial value, which is fed
            initializers, feeds, postponed = [], {}, []
            for initializer, value in waiting:
                initial_value = initializer.inputs[1].name
                if initial_value in feeds:
                    postponed.append((initializer, value))
                else:
                    initializers.append(initializer)
                    feeds[initial_value] = value
            self.sess.run(initializers, feed_dict=feeds)
            waiting = postponed
        names = [get_op_tensor_name(name)[0] for name in prms]
        update_copies(self.sess, names, but=names)

    @staticmethod
    def relaxed_value_for_var(
        value: np.ndarray | float, var: tf.Variable, ignore_mismatch: bool = False
    ) -> np.ndarray | None:
        """
        Convert an array to the shape and dtype of a variable.

        An array with the same number of elements is reshaped. Floating-point types are cast to each other,
        and integers if every value fits. Each conversion logs a warning.

        Args:
            value: an array.
            var: a variable.
            ignore_mismatch: return None, with a warning, instead of raising.

        Returns:
            The converted array.

        Raises:
            ValueError: the number of elements differs.
            TypeError: the dtype cannot be converted.
        """
        return fit_to_variable(value, var, ignore_mismatch)

    @staticmethod
    def load_value_to_var(var: tf.Variable, val: np.ndarray, strict: bool = False) -> None:
        """Set one variable in the default session, like `update`; kept for old scripts. `strict` is ignored."""
        session = require_default_session("SessionUpdate.load_value_to_var")
        SessionUpdate(session, [var]).update({var.name: val})


@contextmanager
def kept_variables(sess: tf.Session) -> Iterator[None]:
    """
    Return a context after which all global and local variables of a session have the values from before.

    The states of TensorFlow's own random operations are not variables, so they move on.

    Args:
        sess: an open session.
    """
    variables = [*tf.global_variables(), *tf.local_variables()]
    before = dict(zip([variable.name for variable in variables], sess.run(variables)))
    try:
        yield
    finally:
        SessionUpdate(sess, variables).update(before)


def load_checkpoint_vars(path: str) -> dict[str, np.ndarray]:
    """
    Read all variables of a checkpoint, or of a file with arrays.

    Args:
        path: a checkpoint, as in `get_checkpoint_path`, or an `.npz`, `.npy` or `.safetensors` file.

    Returns:
        `{name: array}`, with the names as in the checkpoint, or without `:0` for a file with arrays.

    Raises:
        FileNotFoundError, DamagedFileError, ValueError, ImportError: as in `load_parameter_file`.
    """
    if path.endswith(PARAMETER_SUFFIXES):
        return {get_op_tensor_name(name)[0]: value for name, value in load_parameter_file(path).items()}
    checkpoint = CheckpointReader(get_checkpoint_path(path))
    return {name: checkpoint.read(name) for name in checkpoint.shapes}


load_chkpt_vars = load_checkpoint_vars


def save_checkpoint_vars(dic: dict[str, np.ndarray], path: str) -> None:
    """
    Write variables as an npz file, a safetensors file or a checkpoint.

    Args:
        dic: `{name: array}`, with or without `:0`.
        path: `x.npz` for a compressed npz file with the names as given; `x.safetensors` for a safetensors file. Any other
            path is that of a checkpoint. Its directory is created if needed. Names in both are without `:0`.

    Raises:
        ValueError: the path ends in `.npy`, `dic` is empty, two names mean the same variable, or safetensors does not have a dtype.
        ImportError: the package safetensors is not installed.
        OSError: the file cannot be written. An earlier file is not changed, because new files are renamed
            when complete.

    Difference from tensorpack: tensorpack 0.11 replaces the `checkpoint` file of the directory, so that the
    written checkpoint becomes the latest one. This library writes that file only if it does not exist.
    """
    logger.info("Variables to save to %s:\n%s", path, ", ".join(sorted(dic)))
    if path.endswith(".npy"):
        raise ValueError(f"save_checkpoint_vars: cannot write {path}. Use the suffix .npz, or none for a checkpoint.")
    if path.endswith(PARAMETER_SUFFIXES):
        write_parameter_file(dic, path)
    else:
        write_checkpoint(dic, path)


save_chkpt_vars = save_checkpoint_vars


def dump_session_params(path: str) -> None:
    """
    Save the parameters of the model in the default session, without the state of the training.

    The parameters are the TRAINABLE_VARIABLES and MODEL_VARIABLES that are also GLOBAL_VARIABLES.

    Args:
        path: as in `save_checkpoint_vars`.

    Raises:
        RuntimeError: there is no default session.
        ValueError: a variable is both trainable and a model variable.
    """
    session = require_default_session("dump_session_params")
    graph = session.graph
    trainable = [var.name for var in graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES)]
    model = [var.name for var in graph.get_collection(tf.GraphKeys.MODEL_VARIABLES)]
    both = sorted(set(trainable) & set(model))
    if both:
        raise ValueError(
            f"dump_session_params: variables are both trainable and model variables: {', '.join(both)}. "
            "Remove each from one of the two collections."
        )
    saved = graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)
    parameters = {var.name: var for var in saved if var.name in trainable or var.name in model}
    values = {get_op_tensor_name(name)[0]: value for name, value in session.run(parameters).items()}
    joined = join_parts(parameters.values(), values)
    save_checkpoint_vars({f"{name}:0": value for name, value in joined.items()}, path)


def load_parameter_file(path: str) -> dict[str, np.ndarray]:
    """
    Read an `.npz` or `.safetensors` file, or an `.npy` file with a dictionary of arrays.

    Returns:
        `{name: array}`, with the names as in the file.

    Raises:
        FileNotFoundError: the file does not exist.
        DamagedFileError: the file is damaged, has other content, or is too large when decompressed.
        ValueError: an array has a dtype that NumPy does not have.
        ImportError: the package safetensors, which a `.safetensors` file needs, is not installed.
    """
    if not os.path.isfile(path):
        raise FileNotFoundError(
            f"There is no parameter file {path}. Check the path; the current directory is {os.getcwd()}."
        )
    return read_parameter_file(path)


def get_checkpoint_path(path: str) -> str:
    """
    Return the checkpoint that a path refers to.

    Args:
        path: a checkpoint (`dir/model-100`), one of its files (`.index`, `.data-00000-of-00001`, `.meta`), or a directory
            or its file `checkpoint`, which mean the latest checkpoint of the directory.

    Returns:
        The path of the checkpoint without suffix, as for `tf.train.Saver`.

    Raises:
        FileNotFoundError: the checkpoint does not exist or is incomplete.
        ValueError: the path is a file of another format, such as `.pb`, `.h5` or `.pth`, or a SavedModel.
        DamagedFileError: the file `checkpoint` is damaged.
    """
    refuse_other_format(path)
    if os.path.basename(path) == path:
        path = os.path.join(".", path)  # TensorFlow's reader of checkpoints needs a directory
    if os.path.basename(path) == "checkpoint":
        return _latest_checkpoint(path)
    name = _DATA_SUFFIX.sub("", path)
    if name != path:
        logger.info(f"Using the checkpoint {name} for the path {path}.")
    if tf.gfile.IsDirectory(name) and not tf.gfile.Exists(name + ".index"):
        return _latest_checkpoint(os.path.join(name, "checkpoint"))
    if not (tf.gfile.Exists(name) or tf.gfile.Exists(name + ".index")):
        if path.endswith(".meta") and tf.gfile.Exists(path):
            raise FileNotFoundError(
                f"{path} is a graph, which has no values of variables. Pass a checkpoint, e.g. {os.path.dirname(path)}/checkpoint."
            )
        raise FileNotFoundError(
            f"There is no checkpoint {name}. Check the path; the current directory is {os.getcwd()}."
        )
    return name


def get_all_checkpoints(dir: str, prefix: str = "model") -> list[tuple[str, int]]:
    """
    List the checkpoints of a directory.

    Args:
        dir: the directory.
        prefix: the part of their names before `-<step>`.

    Returns:
        A list of `(path without suffix, step)`, sorted by step.

    Difference from tensorpack: tensorpack 0.11 ignores the prefix and returns paths that end in `.index`.
    """
    named = re.compile(rf"({re.escape(prefix)}-(\d+))\.index")
    matches = [match for match in map(named.fullmatch, os.listdir(dir)) if match]
    found = [(os.path.join(dir, match.group(1)), int(match.group(2))) for match in matches]
    return sorted(found, key=lambda pair: pair[1])


def get_savename_from_varname(
    varname: str, varname_prefix: str | None = None, savename_prefix: str | None = None
) -> str:
    """
    Return the name in a checkpoint of a variable in the graph.

    Args:
        varname: the name in the graph.
        varname_prefix: a scope to remove from the start of the name, if present.
        savename_prefix: a scope to add to the start of the name.

    Example:
        >>> get_savename_from_varname("tower1/fc/W:0", varname_prefix="tower1")
        'fc/W:0'
    """
    name = varname
    if varname_prefix and name.startswith(varname_prefix.rstrip("/") + "/"):
        name = name[len(varname_prefix.rstrip("/")) + 1 :]
    return f"{savename_prefix}/{name}" if savename_prefix else name


def is_training_name(name: str) -> bool:
    """
    Return whether a variable, judged by its name, is used only in training: a slot of an optimizer or a moving average.

    No warning is logged if such a variable is missing in a checkpoint.

    Args:
        name: the name, with or without `:0`.
    """
    return _TRAINING_NAME.search(get_op_tensor_name(name)[0]) is not None


def _latest_checkpoint(path: str) -> str:
    if not tf.gfile.Exists(path):
        raise FileNotFoundError(
            f"There is no file {path}, which names the latest checkpoint. Pass the path of the checkpoint itself."
        )
    directory = os.path.dirname(path)
    latest = read_checkpoint_state(directory or ".").model_checkpoint_path
    if tf.gfile.IsDirectory(latest) or not any(map(tf.gfile.Exists, (f"{latest}.index", latest))):
        raise FileNotFoundError(
            f"{path} does not name an existing checkpoint. If its files were moved, pass the path of the checkpoint itself, "
            f"e.g. {directory}/model-100."
        )
    return str(latest)
