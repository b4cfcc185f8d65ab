"""Files with variables besides TensorFlow's own: npz and safetensors files, old `.npy` files with a pickled dictionary, and errors for files of other programs."""

from __future__ import annotations

import os

import numpy as np

from ..compat import tfv1 as tf
from ..compat.session import Session
from ..utils.errors import DamagedFileError, parsing
from ..utils.fs import absolute
from ..utils.npz import read_npy_header, read_npz, write_npz
from ..utils.plain_pickle import load_plain
from .checkpoint_background import background_save
from .checkpoint_reader import STATE_FILE
from .checkpoint_store import CheckpointStore
from .common import get_op_tensor_name
from .safetensors_files import SUFFIX, read_safetensors, refuse_index, write_safetensors

PARAMETER_SUFFIXES = (".npz", ".npy", SUFFIX)  # of files with arrays by name
_AS_DICTIONARY = "and pass a dictionary with the names of the graph: SmartInit({'conv/W': array, ...})"
_LAYOUTS = "kernels of convolutions from [out, in, h, w] to [h, w, in, out], matrices transposed"
ADVICE_ON_NAMES = f"Read the arrays with varmanip.load_checkpoint_vars(path), convert those of PyTorch ({_LAYOUTS}), {_AS_DICTIONARY}."
_TORCH = (
    "a file of PyTorch",
    f"Read it with torch.load(path, map_location='cpu', weights_only=True), convert the tensors to arrays ({_LAYOUTS}), "
    f"{_AS_DICTIONARY}.",
)
_KERAS = (
    "a file of Keras",
    f"Read it with keras.models.load_model(path) or model.load_weights(path), take the arrays of model.weights, {_AS_DICTIONARY}.",
)
_WITHOUT_VARIABLES = (
    "It has constants instead of variables. Pass the checkpoint from which it was made, or read its constants "
    f"{_AS_DICTIONARY}."
)
_FORMATS = {
    ".pb": ("a graph of TensorFlow", _WITHOUT_VARIABLES),
    ".pbtxt": ("a graph of TensorFlow", _WITHOUT_VARIABLES),
    ".tflite": ("a model of TensorFlow Lite", _WITHOUT_VARIABLES),
    ".onnx": ("an ONNX model", _WITHOUT_VARIABLES),
    ".h5": _KERAS,
    ".hdf5": _KERAS,
    ".keras": _KERAS,
    ".pth": _TORCH,
    ".pt": _TORCH,
    SUFFIX: ("a file of safetensors", "Load it with SmartInit(path) or varmanip.load_checkpoint_vars(path)."),
}
_ZIP = b"PK\x03\x04"  # of a PyTorch file with the suffix of a checkpoint, as Lightning writes it


def write_checkpoint(dic: dict[str, np.ndarray], path: str) -> None:
    """Write a checkpoint; see `save_checkpoint_vars`."""
    arrays = {get_op_tensor_name(name)[0]: np.asarray(value) for name, value in dic.items()}
    if len(arrays) != len(dic):
        raise ValueError(
            "save_checkpoint_vars: two names mean the same variable, one with and one without ':0'. Remove one."
        )
    if not arrays:
        raise ValueError("save_checkpoint_vars: there is nothing to save (expected at least 1 array, got 0).")
    directory, name = os.path.split(path)
    directory = directory or "."
    tf.gfile.MakeDirs(directory)
    background_save(absolute(directory)).wait()  # a callback may call this function while ModelSaver writes
    store = CheckpointStore(directory, "save_checkpoint_vars")
    store.save(name, lambda prefix: _save_arrays(arrays, prefix))
    if not tf.gfile.Exists(store.path(STATE_FILE)):
        store.record(name)


def _save_arrays(arrays: dict[str, np.ndarray], prefix: str) -> None:
    names = sorted(arrays)
    with tf.Graph().as_default(), Session() as sess:
        tensors = [tf.placeholder(tf.as_dtype(arrays[name].dtype), arrays[name].shape) for name in names]
        save = tf.raw_ops.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(names), tensors=tensors)
        sess.run(save, feed_dict={tensor.name: arrays[name] for tensor, name in zip(tensors, names)})


def write_parameter_file(dic: dict[str, np.ndarray], path: str) -> None:
    """Write a compressed npz file or a safetensors file; see `save_checkpoint_vars`."""
    directory, name = os.path.split(path)
    aside = os.path.join(directory, f".{name}.tmp")
    try:
        if path.endswith(SUFFIX):
            write_safetensors(dic, aside)
        else:
            write_npz(aside, dic, compress=True)
        os.replace(aside, path)
    finally:
        if os.path.exists(aside):
            os.remove(aside)


def read_parameter_file(path: str) -> dict[str, np.ndarray]:
    """Read a file with one of PARAMETER_SUFFIXES; see `load_parameter_file`."""
    if path.endswith(SUFFIX):
        return read_safetensors(path)
    return load_npy_dict(path) if path.endswith(".npy") else read_npz(path)


def load_npy_dict(path: str) -> dict[str, np.ndarray]:
    """
    Read a dictionary of arrays from an `.npy` file.

    Args:
        path: a file written by `np.save(path, {"conv0/W": array, ...})`, with Python 2 or 3.

    Returns:
        `{name: array}`.

    Raises:
        DamagedFileError: the file is damaged, does not contain a dictionary, or would execute code on loading.
        OSError: the file cannot be read.
    """
    with open(path, "rb") as file, parsing(path, "a dictionary of arrays", "Convert it to .npz if you trust it."):
        dtype = read_npy_header(file)[2]
        content = load_plain(file, encoding="latin1").tolist() if dtype.hasobject else dtype
    if not isinstance(content, dict):
        what = f"an array of {content}" if content is dtype else f"a {type(content).__name__}"
        raise DamagedFileError(
            f"{path} has the wrong content (expected a dictionary {{name: array}}, got {what}). Save it with np.savez as .npz."
        )
    return content


def refuse_other_format(path: str) -> None:
    """
    Raise an error if a path is a file or directory of another format.

    Args:
        path: an existing or missing path. A checkpoint whose name has the suffix of another format is accepted.

    Raises:
        ValueError: see above; the message names the format and how to load it.
    """
    if tf.gfile.Exists(f"{path}.index") or not tf.gfile.Exists(path):
        return
    if tf.gfile.IsDirectory(path):
        variables = os.path.join(path, "variables", "variables")
        if tf.gfile.Exists(os.path.join(path, "saved_model.pb")) and not tf.gfile.Exists(
            os.path.join(path, "checkpoint")
        ):
            raise ValueError(
                f"{path} is a SavedModel, not a checkpoint. Its variables are the checkpoint {variables}; to see their names, run: "
                f"tensorpack-lite ls-checkpoint {variables}"
            )
        return
    refuse_index(path)
    suffix = os.path.splitext(path)[1].lower()
    kind, advice = _FORMATS.get(suffix, ("", ""))
    if not kind and _starts_with_zip(path):
        kind, advice = _TORCH
    if kind:
        raise ValueError(f"{path} is {kind}, not a checkpoint of TensorFlow. {advice}")


def _starts_with_zip(path: str) -> bool:
    try:
        with tf.gfile.GFile(path, "rb") as file:
            return bool(file.read(len(_ZIP)) == _ZIP)
    except tf.errors.PermissionDeniedError:
        return False  # whoever reads the checkpoint reports it
