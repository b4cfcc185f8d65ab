"""The division of a GPU for tests, as far as it can be tested without one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fakes.logical_gpus import VARIABLE, divide_config

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.utils.gpu import count_gpus


def test_config():
    """A session's config gets logical GPUs, and keeps its other settings."""
    config = tf.ConfigProto(allow_soft_placement=True)
    config.gpu_options.allow_growth = True
    divided = divide_config(config, 2)
    assert divided.allow_soft_placement
    assert divided.gpu_options.allow_growth
    (of_first,) = divided.gpu_options.experimental.virtual_devices
    assert 2 == len(of_first.memory_limit_mb)
    assert "0" == divided.gpu_options.visible_device_list
    assert not config.gpu_options.experimental.virtual_devices
    with tf.Session(config=divide_config(None, 2)) as sess:  # TensorFlow accepts it
        assert 3 == sess.run(tf.constant(1) + 2)


@pytest.mark.slow
@pytest.mark.skipif(bool(count_gpus()), reason="this machine has a GPU")
def test_without_a_gpu():
    """The tests of GPUs fail on a machine without a GPU, instead of skipping everything."""
    tests = Path(__file__).parent
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "gpu", str(tests / "test_on_gpus.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, VARIABLE: "2"},
        cwd=str(tests.parents[1]),
    )
    assert result.returncode != 0
    assert "neither NVML nor nvidia-smi finds a GPU" in result.stdout
