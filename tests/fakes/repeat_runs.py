"""
Runs the cases of repeat_rows.py in fresh sessions, with one number of threads, and returns a digest of each result.

`python repeat_runs.py THREADS SESSIONS GROUP... [--all]` prints a line of JSON for each group. Without groups, it runs all.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys

import numpy as np

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.not_repeatable import find_not_repeatable
from tensorpack_lite.tfutils.sesscreate import NewSessionCreator
from tensorpack_lite.tfutils.tower.context import TowerContext
from tensorpack_lite.utils import logger

ABSENT, NAMED = "absent: ", "named: "


def measure(cases, make_inputs, threads, sessions, also_named=False):
    """
    Run cases at the same time, once in each session.

    Returns:
        {case: [digest of each run]}. Instead of the list, there is a sentence that begins with `ABSENT` if this TensorFlow lacks an
        operation, or with `NAMED` if `find_not_repeatable` lists one and `also_named` is False.
    """
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        inputs = make_inputs()
        with TowerContext("", is_training=True):
            tensors, results = _build(cases, inputs)
        for name in [] if also_named else list(tensors):
            operations = find_not_repeatable(tensors[name], threads)
            if operations:
                results[name] = f"{NAMED}{operations[0].name}: {operations[0].reason}"
                del tensors[name]
        for _ in range(sessions):
            creator = NewSessionCreator()
            creator.config.intra_op_parallelism_threads = threads
            with creator.create_session() as session:
                for name, arrays in session.run(tensors, inputs.feeds).items():
                    results.setdefault(name, []).append(_digest(arrays))
    return results


def _build(cases, inputs):
    """Return the tensors of all cases, and the errors of those that TensorFlow lacks."""
    tensors, absent = {}, {}
    for number, (name, case) in enumerate(cases.items()):
        try:
            with tf.variable_scope(f"case{number}"):
                tensors[name] = [tensor for tensor in tf.nest.flatten(case(inputs)) if tensor is not None]
        except (AttributeError, TypeError, ValueError, NotImplementedError, RuntimeError) as error:
            absent[name] = f"{ABSENT}{type(error).__name__}: {error}".splitlines()[0][:120]
    return tensors, absent


def _digest(arrays):
    """Return a short digest of the bytes of arrays."""
    return hashlib.md5(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()[:8]


def main(threads, sessions, *options):
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    from conformance.repeat_rows import Inputs
    from conformance.repeat_updates import GROUPS

    tf.disable_eager_execution()
    logger.set_quiet()
    groups = [option for option in options if option != "--all"]
    for group in groups or GROUPS:
        results = measure(GROUPS[group], Inputs, int(threads), int(sessions), "--all" in options)
        print(json.dumps(results), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
