"""Writing of variables to checkpoints and npz files, for `save_checkpoint_vars`."""

from __future__ import annotations

import os

import numpy as np

from ..compat import tfv1 as tf
from ..compat.session import Session
from ..utils.fs import absolute
from ..utils.npz import write_npz
from .checkpoint_background import background_save
from .checkpoint_reader import STATE_FILE
from .checkpoint_store import CheckpointStore
from .common import get_op_tensor_name


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
        save = tf.raw_ops.SaveV2(
            prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(names), tensors=tensors
        )
        sess.run(save, feed_dict={tensor.name: arrays[name] for tensor, name in zip(tensors, names)})


def write_npz_file(dic: dict[str, np.ndarray], path: str) -> None:
    """Write a compressed npz file; see `save_checkpoint_vars`."""
    directory, name = os.path.split(path)
    aside = os.path.join(directory, f".{name}.tmp")
    try:
        with open(aside, "wb") as file:
            write_npz(file, dic, compress=True)
        os.replace(aside, path)
    finally:
        if os.path.exists(aside):
            os.remove(aside)
