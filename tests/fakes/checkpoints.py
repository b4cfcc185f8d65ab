"""Small training runs that save checkpoints, helpers that inspect their directories, and a full disk."""

from __future__ import annotations

import os
import resource
from contextlib import contextmanager

import numpy as np
from fakes.trainers import CountingTrainer, run

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.sessinit import DictRestore

__all__ = ["disk_full_after", "files_of", "names", "train", "value_in"]


def names(directory):
    """Return the names of the visible files, without the meta graphs and the files that are added at the end of an epoch."""
    return sorted(f for f in os.listdir(directory) if not f.endswith((".meta", ".end")) and f != "log.log")


def files_of(name):
    """Return the names of the three files of a checkpoint that a trainer saved, sorted."""
    return [f"{name}.data-00000-of-00001", f"{name}.index", f"{name}.state"]


def value_in(directory, name, key="x"):
    """Return the value of a variable in a checkpoint."""
    return tf.train.NewCheckpointReader(os.path.join(directory, name)).get_tensor(key)


def train(callbacks, epochs=2, starting_epoch=1, steps=2, step=None):
    """Train in a new graph, as a new process would."""
    init = None if step is None else DictRestore({"global_step": np.int64(step)})
    with tf.Graph().as_default():
        return run(CountingTrainer(), callbacks, (), steps, epochs, starting_epoch, init)


@contextmanager
def disk_full_after(num_bytes):
    """Limit the size of files in this context, so that larger writes fail as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
