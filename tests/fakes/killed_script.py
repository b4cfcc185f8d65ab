"""
Script whose training is killed at given places and restarted. Arguments: the directory, and the places in order.

Each start is a process that is forked before TensorFlow creates a session. For each start, the script prints the place, the
leftover files in the directory, and the exit status.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from unittest import mock

from fakes.trainers import CountingTrainer, run

from tensorpack_lite.callbacks.monitor.csv_file import CSVWriter
from tensorpack_lite.callbacks.monitor.json_file import JSONWriter
from tensorpack_lite.callbacks.saver import MinSaver, ModelSaver
from tensorpack_lite.callbacks.top_k import TopKSaver
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop.callback_factory import CallbackFactory
from tensorpack_lite.tfutils.checkpoint_store import CheckpointStore
from tensorpack_lite.train.config import AutoResumeTrainConfig
from tensorpack_lite.utils import logger


def kill_if(function, pattern):
    """Return a function that kills the process if its first argument matches, and otherwise calls the given function."""

    def wrapped(*args, **kwargs):
        if re.search(pattern, str(args[0])):
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **kwargs)

    return wrapped


def plant(place):
    """Kill the process during a write: at a named place, or when it renames a matching file."""
    gfile = tf.io.gfile
    if place == "meta graph":
        from tensorflow.python.lib.io import file_io

        mock.patch.object(file_io, "rename", kill_if(file_io.rename, r"\.meta\.tmp")).start()
    elif place in ("stats.json.tmp", "stats.csv.tmp"):
        mock.patch("os.replace", kill_if(os.replace, re.escape(place))).start()
    elif place == "removing a copy":
        mock.patch.object(gfile, "remove", kill_if(gfile.remove, r"/top-.*data")).start()
    elif place == "making a copy":  # its files exist, and the record does not list it yet
        write = CheckpointStore.write_text
        nth_record = iter(range(1, 100))

        def write_text(self, file, text):
            if file == "top-cost.json" and next(nth_record) == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            write(self, file, text)

        mock.patch.object(CheckpointStore, "write_text", write_text).start()
    elif place != "nowhere":
        mock.patch.object(gfile, "rename", kill_if(gfile.rename, place)).start()


def train(directory, place):
    logger.set_logger_dir(directory, action="k")
    config = AutoResumeTrainConfig(steps_per_epoch=1)
    plant(place)
    put = CallbackFactory(trigger=lambda self: self.trainer.monitors.put_scalar("cost", -self.global_step))
    run(
        CountingTrainer(),
        [put, ModelSaver(max_to_keep=2), MinSaver("cost"), TopKSaver("cost", k=1)],
        [JSONWriter(), CSVWriter()],
        steps=1,
        epochs=config.starting_epoch + 2,
        starting_epoch=config.starting_epoch,
        session_init=config.session_init,
    )


def leftovers(directory):
    """Return the files that a completed training would have removed."""
    files = sorted(os.listdir(directory))
    kept = []
    if "top-cost.json" in files:
        with open(os.path.join(directory, "top-cost.json")) as file:
            kept = [f"top-cost-{entry['step']}" for entry in json.load(file)["kept"]]
    return [
        name
        for name in files
        if name.startswith(".")
        or ".tmp" in name
        or ((".data-" in name or name.endswith(".state")) and name.split(".")[0] + ".index" not in files)
        or (re.match(r"top-cost-\d+\.", name) and name.split(".")[0] not in kept)
    ]


def main(directory, *places):
    for place in places:
        pid = os.fork()
        if pid == 0:
            train(directory, place)
            os._exit(0)
        status = os.waitpid(pid, 0)[1]
        print("RESULT", json.dumps([place, leftovers(directory), status]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
