"""Initialization of a session's variables from checkpoints, parameter files and dictionaries."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Iterable, Sequence

import numpy as np

from ..compat import tfv1 as tf
from ..utils import logger
from ..utils.checks import check_choice, check_type
from ..utils.missing_names import explain_missing_names
from ..utils.naming import list_names
from ..utils.redirection import find_redirected
from .best_checkpoint import find_best
from .checkpoint_reader import (
    CheckpointReader,
    CheckpointReaderAdapter,  # noqa: F401 (scripts import it from here)
    LiteralPath,
    restoring,
)
from .common import get_op_tensor_name
from .matching import (
    Match,
    by_key,
    names_with_other_trainers,
    op_names,
    set_from_checkpoint,
    warn_of_mismatch,
    why_none_match,
)
from .partitions import find_values, names_in_files
from .tower.copies import update_copies
from .variable_files import ADVICE_ON_NAMES, PARAMETER_SUFFIXES
from .varmanip import SessionUpdate, get_checkpoint_path, get_savename_from_varname, load_parameter_file

__all__ = [
    "ChainInit", "DictRestore", "JustCurrentSession", "SaverRestore", "SaverRestoreRelaxed", "SessionInit",
    "SmartInit", "get_model_loader",
]  # fmt: skip

# only a training has these, and a graph without them needs no values
_OF_TRAINING = re.compile(r"global_step|learning_rate|(.*/)?beta[12]_power(_\d+)?")

if not TYPE_CHECKING:
    __getattr__ = explain_missing_names(__name__)


class SessionInit:
    """
    Base class of objects that set variables of a session. Initialization has two phases; a subclass defines
    one or both.

    `_setup_graph()` runs before the session is created and may add operations. `_run_init(sess)` runs after
    all variables have their initial values, when the graph may already be finalized.

    Attributes:
        checkpoint_state: the content of a checkpoint's `.state` file. With it, a trainer continues the
            training that saved the checkpoint; see `AutoResumeTrainConfig`. None, the default, starts a new
            training.
        expects_checkpoints: whether a later start is to resume from a checkpoint of this training, as with
            `AutoResumeTrainConfig`.
    """

    checkpoint_state: dict[str, Any] | None = None
    expects_checkpoints = False
    prefix: str | None = None  # the scope that variables have in the graph, and not in the file

    def offered_shapes(self) -> dict[str, tuple[int, ...]] | None:
        """Return the shapes of the values that it has, by their names without `:0`; None if they are unknown."""
        return None

    def init(self, sess: tf.Session) -> None:
        """
        Run both phases on an existing session, without a trainer.

        Args:
            sess: a session whose graph is not finalized.
        """
        with sess.graph.as_default():
            self._setup_graph()
            self._run_init(sess)

    def _setup_graph(self) -> None:
        """Create the operations that `_run_init` needs."""

    def _run_init(self, sess: tf.Session) -> None:
        """Set the variables."""


class JustCurrentSession(SessionInit):
    """Initializer that changes no variable."""

    def offered_shapes(self) -> dict[str, tuple[int, ...]] | None:
        """Return no shapes."""
        return {}


class ChainInit(SessionInit):
    """
    Sequence of initializers. Later ones override earlier ones.

    Args:
        sess_inits: a list of SessionInit.

    Raises:
        TypeError: the list contains something else.
    """

    def __init__(self, sess_inits: Sequence[SessionInit]) -> None:
        self.inits = [
            check_type("ChainInit: an item of sess_inits", init, SessionInit, advice="Wrap it: SmartInit(...).")
            for init in sess_inits
        ]
        states = (init.checkpoint_state for init in self.inits if init.checkpoint_state is not None)
        self.checkpoint_state = next(states, None)

    def _setup_graph(self) -> None:
        for init in self.inits:
            init._setup_graph()

    def _run_init(self, sess: tf.Session) -> None:
        for init in self.inits:
            init._run_init(sess)


class SaverRestore(SessionInit):
    """
    Initializer that restores the global variables that are in both a checkpoint and the graph.

    Variables are matched by name. A warning lists the variables that only one of the two has, except those that matter
    only for training, such as the slots of optimizers. Trainers use different names for the powers of Adam
    (`beta1_power`, `apply_gradients/beta1_power`, `async_apply_gradients/beta1_power`), so a power whose name
    is not found is restored from the name that another trainer uses. A value of another dtype, such as the
    int32 `global_step` of old versions of tensorpack, is cast with a warning, as by
    `SessionUpdate.relaxed_value_for_var`.

    Args:
        model_path: a checkpoint, one of its files, or a directory, which means its latest checkpoint.
        prefix: a variable `prefix/x` of the graph is named `x` in the checkpoint. Other names do not change.
        ignore: names, as in the checkpoint, of variables that are not restored.

    Attributes:
        path: the checkpoint, without suffix.
        missing: the variables of the graph that the checkpoint does not have, once it is restored.

    Raises:
        FileNotFoundError: the checkpoint does not exist.
        DamagedFileError: the checkpoint is damaged. Raised by `_setup_graph` and `_run_init`.
        ValueError: graph and checkpoint have no variable in common, two variables of the graph match the same
            one of the checkpoint, or shapes differ. Raised by `_setup_graph`.
        TypeError: a value cannot be cast to the dtype of its variable. Raised by `_run_init`.
    """

    _advice = "To skip them, use SmartInit(path, ignore_mismatch=True)."

    def __init__(self, model_path: str, prefix: str | None = None, ignore: Iterable[str] = ()) -> None:
        if str(model_path).endswith(PARAMETER_SUFFIXES):
            logger.warning(
                f"SaverRestore: '{model_path}' is not a TensorFlow checkpoint. Use SmartInit(path) to load it."
            )
        self.path = get_checkpoint_path(find_redirected(str(model_path)))
        self.prefix = prefix
        self.ignore = [get_op_tensor_name(name)[1] for name in ignore]
        self.missing: list[str] = []
        self._saver: Any = None
        self._restored: list[Match] = []
        self._to_cast: list[Match] = []

    def offered_shapes(self) -> dict[str, tuple[int, ...]] | None:
        """Return the shapes in the checkpoint, except those in `ignore`."""
        names = ((get_op_tensor_name(key), shape) for key, shape in CheckpointReader(self.path).shapes.items())
        return {op_name: shape for (op_name, name), shape in names if name not in self.ignore}

    def _setup_graph(self) -> None:
        checkpoint = CheckpointReader(self.path)
        matched = self._match(checkpoint)
        if not matched:
            raise ValueError(
                f"SaverRestore: {self.path} and the graph have no variable in common, so there is nothing to restore. "
                f"{why_none_match(checkpoint, self.prefix)}"
            )
        different = [
            f"{match.variable.op.name} {match.shape} (in the checkpoint {checkpoint.shapes[match.key]})"
            for match in matched
            if not match.shape.is_compatible_with(checkpoint.shapes[match.key])
        ]
        if different:
            raise ValueError(
                f"SaverRestore: variables have another shape in {self.path}: {', '.join(different)}. {self._advice}"
            )
        logger.info(f"Restoring checkpoint from {self.path} ...")
        self._restored = [match for match in matched if match.is_like(checkpoint)]
        self._to_cast = [match for match in matched if not match.is_like(checkpoint)]
        if self._restored:
            with tf.name_scope(None):
                self._saver = tf.train.Saver(by_key(self._restored), name="SaverRestore")

    def _run_init(self, sess: tf.Session) -> None:
        if self._saver is not None:
            with restoring(self.path):
                literal = LiteralPath(self.path)
                self._saver.restore(sess, literal.path)
            update_copies(sess, [match.variable.op.name for match in self._restored])
        if self._to_cast:
            set_from_checkpoint(sess, CheckpointReader(self.path), self._to_cast)

    def _match(self, checkpoint: CheckpointReader) -> list[Match]:
        """Return the matching variables, and warn about the others."""
        matched: dict[str, Match] = {}
        found: list[Match] = []
        self.missing = []
        variables = tf.global_variables()
        taken = {*self.ignore, *(self._names_of(var)[0][0] for var in variables)}
        for var in variables:
            names = self._names_of(var)
            if any(name in self.ignore for name, _ in names):
                continue
            keys = [(checkpoint.key_of(name), is_part) for name, is_part in names]
            candidates = [name for name in names_with_other_trainers(names[0][0]) if name not in taken]
            keys += [(key, False) for key in map(checkpoint.key_of, candidates) if key not in matched]
            key, is_part = next((pair for pair in keys if pair[0] is not None), (None, False))
            if key is None:
                self.missing.append(var.op.name)
                continue
            if key in matched and not (is_part and matched[key].is_part):
                raise ValueError(
                    f"SaverRestore: '{matched[key].variable.op.name}' and '{var.op.name}' both match '{key}' of {self.path}. "
                    f"Change the prefix, or add '{key}' to ignore."
                )
            matched[key] = Match(key, var, is_part)
            found.append(matched[key])
        unused = [key for key in checkpoint.shapes if key not in matched]
        self._report_new(self.missing)
        unexpected = [key for key in unused if get_op_tensor_name(key)[1] not in self.ignore]
        warn_of_mismatch(
            "checkpoint",
            "graph",
            [key for key in unexpected if not _OF_TRAINING.fullmatch(get_op_tensor_name(key)[0])],
        )
        return found

    def _names_of(self, variable: tf.Variable) -> list[tuple[str, bool]]:
        """Return the names that a variable may have in the checkpoint, as `names_in_files` does, with `:0`."""
        names = names_in_files(variable)
        return [(get_savename_from_varname(f"{name}:0", self.prefix), is_part) for name, is_part in names]

    def _report_new(self, names: list[str]) -> None:
        """Log the names of variables that the checkpoint does not have."""
        warn_of_mismatch("graph", "checkpoint", names)


class SaverRestoreRelaxed(SaverRestore):
    """
    Initializer like SaverRestore, but values with another shape or dtype are converted if possible, and skipped otherwise.

    It adds nothing to the graph.

    Args:
        model_path, prefix, ignore: as in SaverRestore.
    """

    def _setup_graph(self) -> None:
        """Do nothing, because `_run_init` reads the values in Python."""

    def _run_init(self, sess: tf.Session) -> None:
        logger.info(f"Restoring checkpoint from {self.path} ...")
        checkpoint = CheckpointReader(self.path)
        with sess.graph.as_default():
            matched = self._match(checkpoint)
        set_from_checkpoint(sess, checkpoint, matched, ignore_mismatch=True)


class DictRestore(SessionInit):
    """
    Initializer that sets the global variables that a dictionary names. The powers of Adam are matched as in
    SaverRestore.

    It adds nothing to the graph.

    Args:
        variable_dict: `{name: array}`, with or without `:0`. Arrays are converted as by
            `SessionUpdate.relaxed_value_for_var`.
        ignore_mismatch: skip arrays that cannot be converted, with a warning, instead of raising.

    Raises:
        TypeError: `variable_dict` is not a dictionary. Raised by `_run_init`: a dtype cannot be converted.
        ValueError: an array has another number of elements. Raised by `_run_init`.
    """

    def __init__(self, variable_dict: dict[str, np.ndarray], ignore_mismatch: bool = False) -> None:
        check_type("DictRestore: variable_dict", variable_dict, dict, "a dictionary {name: array}")
        self._values = {get_op_tensor_name(name)[1]: np.asarray(value) for name, value in variable_dict.items()}
        self._ignore_mismatch = ignore_mismatch

    def offered_shapes(self) -> dict[str, tuple[int, ...]] | None:
        """Return the shapes of the arrays."""
        return {get_op_tensor_name(name)[0]: value.shape for name, value in self._values.items()}

    def _run_init(self, sess: tf.Session) -> None:
        with sess.graph.as_default():
            variables = {var.name: var for var in tf.global_variables()}
        values = dict(self._values)
        for name in variables:
            candidates = [candidate for candidate in names_with_other_trainers(name) if candidate not in variables]
            source = next((candidate for candidate in candidates if candidate in values), None)
            if name not in values and source is not None:
                values[name] = values.pop(source)
        by_op_name = {get_op_tensor_name(name)[0]: value for name, value in values.items()}
        found, used = find_values(variables.values(), by_op_name, self._ignore_mismatch)
        logger.info("Variables to restore from dict: " + ", ".join(op_names(found)))
        warn_of_mismatch("graph", "dict", op_names(name for name in variables if name not in found))
        unused = [name for name in sorted(by_op_name) if name not in used and not _OF_TRAINING.fullmatch(name)]
        if unused:
            logger.warning("The following variables are in the dict, but not found in the graph: " + ", ".join(unused))
        SessionUpdate(sess, variables.values(), self._ignore_mismatch).update(found)


class _SafetensorsRestore(DictRestore):
    """DictRestore that raises ValueError if no name fits: most safetensors files are written by other libraries."""

    def _run_init(self, sess: tf.Session) -> None:
        offered = self.offered_shapes() or {}
        with sess.graph.as_default():
            names = [name for var in tf.global_variables() for name, _ in names_in_files(var)]
        if not any(name in offered for name in names):
            raise ValueError(
                f"SmartInit: the file and the graph have no variable in common (the file has {list_names(sorted(offered))}; the "
                f"graph has {list_names(sorted(names))}). {ADVICE_ON_NAMES}"
            )
        super()._run_init(sess)


def SmartInit(  # noqa: N802
    obj: object, *, ignore_mismatch: bool = False, checkpoint: str = "latest"
) -> SessionInit:
    """
    Function: returns the SessionInit for a path, a dictionary, or a list of them.

    Args:
        obj: the path of a checkpoint, of a directory, see `checkpoint`, or of an `.npz`, `.npy` or `.safetensors` file,
            where `~` means the home directory; a dictionary `{name: array}`; a SessionInit, which is returned; None or an empty
            object, which loads nothing; or a list of these, loaded in this order.
        ignore_mismatch: convert values with another shape or dtype if possible, and skip them otherwise.
        checkpoint: which checkpoint of a directory: "latest", or "best", the copy of `MinSaver`, `MaxSaver` or `TopKSaver`. Other
            paths do not depend on it.

    Returns:
        JustCurrentSession, DictRestore, SaverRestore, SaverRestoreRelaxed or ChainInit.

    Raises:
        FileNotFoundError: an `.npz`, `.npy` or `.safetensors` file does not exist, or a file of the checkpoint is missing.
        ValueError: the path of a checkpoint does not exist or is a file of another format, `obj` has another type, or the directory
            has no best checkpoint, or several by different statistics.

    Example:
        >>> TrainConfig(..., session_init=SmartInit("ImageNet-ResNet50.npz"))
        >>> PredictConfig(..., session_init=SmartInit("train_log/mnist", checkpoint="best"))
    """
    check_choice("SmartInit: checkpoint", checkpoint, ("latest", "best"))
    if isinstance(obj, SessionInit):
        return obj
    if obj is None or (isinstance(obj, (str, list, tuple, dict)) and not obj):
        return JustCurrentSession()
    if isinstance(obj, (list, tuple)):
        return ChainInit([SmartInit(source, ignore_mismatch=ignore_mismatch, checkpoint=checkpoint) for source in obj])
    if isinstance(obj, dict):
        return DictRestore(obj, ignore_mismatch=ignore_mismatch)
    if isinstance(obj, (str, os.PathLike)):
        path = find_redirected(os.path.expanduser(os.fspath(obj)))
        is_best = checkpoint == "best" and tf.gfile.IsDirectory(path)
        return _init_from_path(find_best(path) if is_best else path, ignore_mismatch)
    raise ValueError(
        f"SmartInit: cannot load {obj!r} (expected a path, a dictionary, a list of these, or None, got {type(obj).__name__})."
    )


get_model_loader = SmartInit


def _init_from_path(path: str, ignore_mismatch: bool) -> SessionInit:
    if path.endswith(PARAMETER_SUFFIXES):
        kind = _SafetensorsRestore if path.endswith(".safetensors") else DictRestore
        return kind(load_parameter_file(path), ignore_mismatch=ignore_mismatch)
    directory, start = os.path.split(path)
    directory = directory or "."
    names = tf.gfile.ListDirectory(directory) if tf.gfile.IsDirectory(directory) else []
    if not any(name.startswith(start) for name in names):
        raise ValueError(f"SmartInit: there is no file {path}. Check the path; the current directory is {os.getcwd()}.")
    return SaverRestoreRelaxed(path) if ignore_mismatch else SaverRestore(path)
