"""Files of other programs and formats that are given as a checkpoint by mistake: errors that name the format and what to do."""

from __future__ import annotations

import os

from ..compat import tfv1 as tf

_AS_DICTIONARY = "and pass a dictionary with the names of the graph: SmartInit({'conv/W': array, ...})"
_TORCH = (
    "a file of PyTorch",
    f"Read it with torch.load(path, map_location='cpu', weights_only=True), convert the tensors to arrays (kernels of convolutions "
    f"from [out, in, h, w] to [h, w, in, out], matrices transposed), {_AS_DICTIONARY}.",
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
    ".safetensors": (
        "a file of safetensors",
        f"Read it with safetensors.numpy.load_file(path), {_AS_DICTIONARY}.",
    ),
}
_ZIP = b"PK\x03\x04"  # of a PyTorch file with the suffix of a checkpoint, as Lightning writes it


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
