"""
Files in the format safetensors: arrays by name, without code, of any dtype of weights, also bfloat16.

The package `safetensors` reads and writes them: `pip install "tensorpack_lite[safetensors]"`.
"""

from __future__ import annotations

import json
import os
from typing import Mapping

import numpy as np

from ..compat import tfv1 as tf
from ..utils.errors import parsing
from ..utils.optional import load_optional
from .common import get_op_tensor_name

SUFFIX = ".safetensors"
_INDEX_SUFFIX = f"{SUFFIX}.index.json"
# name in the file -> name in NumPy; older versions of the package do not have all others
_DTYPES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32", "I32": "int32",
    "U64": "uint64", "I64": "int64", "F16": "float16", "F32": "float32", "F64": "float64", "BF16": "bfloat16",
}  # fmt: skip


def read_safetensors(path: str) -> dict[str, np.ndarray]:
    """
    Read all arrays of a safetensors file.

    Args:
        path: the file.

    Returns:
        `{name: array}`, sorted by name.

    Raises:
        ImportError: the package safetensors is not installed.
        DamagedFileError: the file is damaged. The format has no checksums, so damage inside an array remains unnoticed.
        ValueError: an array has a dtype that NumPy does not have.
        OSError: the file cannot be read.
    """
    package = load_optional("safetensors", f"read {path}")
    with open(path, "rb") as file:
        content = file.read()
    with parsing(path, "a safetensors file"):
        entries = dict(package.deserialize(content))
    others = [f"{name} ({entry['dtype']})" for name, entry in sorted(entries.items()) if entry["dtype"] not in _DTYPES]
    if others:
        raise ValueError(
            f"{path} has arrays of dtypes that NumPy does not have: {', '.join(others)}. Convert them first."
        )
    with parsing(path, "a safetensors file"):
        return {name: _to_array(entries[name]) for name in sorted(entries)}


def write_safetensors(arrays: Mapping[str, np.ndarray], path: str) -> None:
    """
    Write a safetensors file, with names without `:0`.

    Args:
        arrays: `{name: array}`, with or without `:0`.
        path: the file.

    Raises:
        ImportError: the package safetensors is not installed.
        ValueError: the format does not have the dtype of an array, or two names mean the same variable.
        OSError: the file cannot be written.
    """
    who = "save_checkpoint_vars"
    package = load_optional("safetensors.numpy", f"{who}: {path}")
    # the package reads the memory of an array in row-major order
    by_name = {get_op_tensor_name(name)[0]: np.asarray(array, order="C") for name, array in arrays.items()}
    if len(by_name) != len(arrays):
        raise ValueError(f"{who}: two names mean the same variable, one with and one without ':0'. Remove one.")
    others = [f"{name} ({array.dtype})" for name, array in by_name.items() if array.dtype.name not in _DTYPES.values()]
    if others:
        raise ValueError(f"{who}: safetensors does not have the dtype of {', '.join(others)}. Use the suffix .npz.")
    content = package.save(by_name)
    with open(path, "wb") as file:
        file.write(content)


def refuse_index(path: str) -> None:
    """
    Raise an error if a path is the list of the parts of a large model.

    Raises:
        ValueError: see above; the message has the call that loads all parts.
    """
    if not path.endswith(_INDEX_SUFFIX):
        return
    with open(path, encoding="utf-8") as file, parsing(path, "a list of safetensors files"):
        parts = sorted(set(json.load(file)["weight_map"].values()))
    calls = ", ".join(repr(os.path.join(os.path.dirname(path), part)) for part in parts)
    raise ValueError(
        f"{path} only lists the {len(parts)} files that have the arrays. Load them all: SmartInit([{calls}])"
    )


def _to_array(entry: dict) -> np.ndarray:
    kind = _DTYPES[entry["dtype"]]
    dtype = np.dtype(tf.bfloat16.as_numpy_dtype if kind == "bfloat16" else kind)
    stored = np.dtype("<u2") if kind == "bfloat16" else dtype.newbyteorder("<")
    array = np.frombuffer(entry["data"], stored).reshape(entry["shape"])
    return array.view(dtype) if kind == "bfloat16" else array.astype(dtype, copy=False)
