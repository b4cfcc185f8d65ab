"""
Script whose process is killed at each file operation while it replaces the copy of a checkpoint. Argument: a directory.

Each copy is made by a process that is forked before TensorFlow creates a session. For each kill, the script prints whether the
process was killed, whether it had begun to replace files, and what the next start finds: the value of the variable `x` in the
copy, and in its record.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys

import numpy as np
from fakes.checkpoints import value_in

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.checkpoint_state import write_state
from tensorpack_lite.tfutils.checkpoint_store import CheckpointStore
from tensorpack_lite.tfutils.varmanip import save_checkpoint_vars

OPERATIONS = ("copy", "remove", "rename", "GFile")


def prepare(directory):
    """Make two checkpoints, and a copy of the first one with its record. Only the first one has a state."""
    for step in (1, 2):
        save_checkpoint_vars({"x": np.float32(step)}, os.path.join(directory, f"model-{step}"))
    write_state(os.path.join(directory, "model-1.state"), {"step": 1})
    CheckpointStore(directory, "test").copy("model-1", "best", {"best.json": "1"})


def kill_at(nth):
    """Kill the process right before its nth file operation."""
    numbers = iter(range(1, 1000))

    def counting(function):
        def wrapped(*args, **kwargs):
            if next(numbers) == nth:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)

        return wrapped

    for name in OPERATIONS:
        setattr(tf.io.gfile, name, counting(getattr(tf.io.gfile, name)))


def replace(directory, nth):
    """Replace the copy by one of the second checkpoint, with a kill."""
    kill_at(nth)
    CheckpointStore(directory, "test").copy("model-2", "best", {"best.json": "2"})
    return True


def start_again(directory):
    """Return the values in the copy and in its record, whether it has a state, and the hidden files."""
    store = CheckpointStore(directory, "test")
    store.remove_leftovers("best", r"\.best\.json\.tmp")
    hidden = [name for name in os.listdir(directory) if name.startswith(".")]
    has_state = "best.state" in store.files("best")
    return [float(value_in(directory, "best")), int(store.read_bytes("best.json")), has_state, hidden]


def in_child(function, *args):
    """Call a function in a forked process. Return its result, or None if the process was killed."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writer, json.dumps(function(*args)).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        text = stream.read()
    os.waitpid(pid, 0)
    return json.loads(text) if text else None


def main(root):
    template = os.path.join(root, "template")
    os.mkdir(template)
    in_child(prepare, template)
    nth, killed = 1, True
    while killed:
        directory = os.path.join(root, str(nth))
        shutil.copytree(template, directory)
        killed = in_child(replace, directory, nth) is None
        journal = os.path.join(directory, ".saving", "moving")
        begun = not killed or os.path.exists(journal) or not os.path.exists(os.path.dirname(journal))
        found = in_child(start_again, directory)
        print("RESULT", json.dumps({"nth": nth, "killed": killed, "begun": begun, "found": found}), flush=True)
        nth += 1


if __name__ == "__main__":
    main(*sys.argv[1:])
