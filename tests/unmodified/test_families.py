"""
Scripts with what stopped other people's projects run with `tensorpack-lite run`, the same file on each TensorFlow.

`families/` has one script for each kind: names of TensorFlow 0.x, its costs without keywords and its FLAGS, the MNIST
tutorials, `conv2d_transpose` with a fixed batch, grouped convolutions, old names of `from tensorpack import *`,
callbacks that watch GPUs, modules of Keras 1 and 2, buckets and distributions of `tf.contrib`, layers, callbacks and modules
of tensorpack 0.1, and losses and inputs of 2017.
"""

from __future__ import annotations

import pytest
from unmodified import corpus

from tensorpack_lite.compat import tfv1 as tf

pytestmark = pytest.mark.slow

FOLDER = corpus.FOLDER / "families"

# script: the largest error that is a success
ERRORS = {
    "dcgan_2016": 0.065,
    "embeddings_2017": 0.05,
    "flags_2016": 0.02,
    "grouped_2017": 0.10,
    "keras_2018": 0.05,
    "layers_2016": 0.05,
    "mnist_tutorial_2016": 0.05,
    "names_2016": 0.01,
    "star_names_2017": 0.0,
    "texts_2017": 0.0,
    "trackers_2018": 1e-3,
}
ARGUMENTS = {"keras_2018": ["--pretend-gpu=2"], "trackers_2018": ["--pretend-gpu=2"]}

# script: what its log says once
SAID = {
    "flags_2016": ["tf.nn.sparse_softmax_cross_entropy_with_logits takes its arguments in the order of TensorFlow 0.x"],
    "layers_2016": [
        "MultiProcessRunner: reset_state() was not called",
        "TestDataSpeed: DataFromList has no datapoint after the warm-up of 8",
    ],
    "trackers_2018": [
        "GPUUtilizationTracker: the GPUs are pretended, so nothing is reported.",
        "GPUMemoryTracker: the session has no GPU, so nothing is reported.",
    ],
}


def test_all_scripts_are_tested():
    """Each script of the folder has an error."""
    assert sorted(ERRORS) == sorted(file.stem for file in FOLDER.glob("*.py"))


# CI runs all scripts on TensorFlow 1.15 and on the newest one, and one of them on 2.15.
OTHERS = [pytest.mark.any_tensorflow] if tf.__version__.startswith("2.") else []


@pytest.mark.parametrize(
    "script", [pytest.param(name, marks=[] if name == "grouped_2017" else OTHERS) for name in sorted(ERRORS)]
)
def test_training(script, tmp_path):
    """A script runs to its end on a machine without a GPU, and reaches its error."""
    arguments = ["--cpu-layout", "on", *ARGUMENTS.get(script, []), str(FOLDER / f"{script}.py")]
    result = corpus.run_python("-m", "tensorpack_lite", "run", *arguments, cwd=tmp_path, CUDA_VISIBLE_DEVICES="")
    assert corpus.last_number(result.stdout) <= ERRORS[script]
    log = result.stdout + result.stderr
    assert {text: log.count(text) for text in SAID.get(script, [])} == dict.fromkeys(SAID.get(script, []), 1)
