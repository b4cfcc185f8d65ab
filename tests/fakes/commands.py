"""A script for the commands that run one, such as `lint` and `rehearse`, and a function that runs Python in its directory."""

from __future__ import annotations

import subprocess
import sys

from fakes.processes import python_environment

__all__ = ["MODEL", "SOFTMAX_LINE", "python_runner"]

MODEL = """
import os, sys
import numpy as np
from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.utils import schedules

class Model(ModelDesc):
    def inputs(self):
        return [tf.TensorSpec([None, 8], tf.float32, "x"), tf.TensorSpec([None], tf.int32, "label")]
    def build_graph(self, x, label):
        logits = FullyConnected("fc", x, 3)
        if "softmax" in sys.argv:
            logits = tf.nn.softmax(logits)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label), name="cost")
    def optimizer(self):
        rate = tf.get_variable("learning_rate", initializer=0.1, trainable=False)
        momentum = tf.get_variable("momentum", initializer=0.9, trainable=False)
        return tf.train.MomentumOptimizer(rate, momentum)

def note(text):
    with open(os.environ["NOTES"], "a") as file:
        print(text, file=file)
"""
SOFTMAX_LINE = 1 + [line.strip() for line in MODEL.splitlines()].index("logits = tf.nn.softmax(logits)")


def python_runner(directory, script):
    """
    Write `train.py`, which begins with `MODEL`, and return a function that runs Python in its directory.

    Args:
        directory: the directory, a path.
        script: the rest of the script.

    Returns:
        A function that takes arguments, and returns the exit code, the output, and the lines of the script's calls of `note`.
    """
    (directory / "train.py").write_text(MODEL + script)
    notes = directory / "notes"

    def run(*arguments):
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=str(directory),
            env=python_environment(NOTES=str(notes)),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=600,
        )
        lines = notes.read_text().splitlines() if notes.exists() else []
        return done.returncode, done.stdout.decode(), lines

    return run
