"""TensorFlow's own log lines in the processes of users."""

from __future__ import annotations

import logging
import subprocess
import sys
import textwrap

import pytest
from fakes.processes import python_environment

from tensorpack_lite.compat.tf_log import silence_python_log

# An error of the C++ part long after the import, like "failed call to cuInit" when devices are created, and a warning of
# the Python part.
SCRIPT = textwrap.dedent(
    """
    import logging, os, sys
    before = dict(os.environ)
    exec(sys.argv[1])
    from tensorpack_lite import *
    from tensorpack_lite import tfv1 as tf
    assert before == dict(os.environ)
    assert logging.getLogger("tensorflow").level == eval(sys.argv[2])
    exec(sys.argv[3])
    with TowerContext("", is_training=False):
        x = tf.constant(1)
    with tf.Session() as session:
        session.run(x)
    try:
        from tensorflow.python.lib.io._pywrap_record_io import RecordIterator
        RecordIterator(os.devnull, "python")
    except ImportError:
        from tensorflow.python import pywrap_tensorflow
        from tensorflow.python.framework.errors import raise_exception_on_not_ok_status
        with raise_exception_on_not_ok_status() as status:
            pywrap_tensorflow.PyRecordReader_New(os.devnull.encode(), 0, b"python", status).Close()
    tf.logging.warning("a warning of the Python part")
    tf.logging.error("an error of the Python part")
    assert before == dict(os.environ)
    """
)
CPP, WARNING, ERROR = "compression_type", "a warning of the Python part", "an error of the Python part"


def lines_of(first="", level="0", second="", **variables):
    """Run the script, with code before and after its import of the library, and return what it writes to stderr."""
    environment = python_environment(**variables)
    if not variables:
        environment.pop("TF_CPP_MIN_LOG_LEVEL")
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, first, level, second],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=300,
    )
    assert 0 == process.returncode, process.stderr
    return process.stderr


@pytest.mark.slow
class TestProcess:
    def test_the_default(self):
        """Of the Python part of TensorFlow, only errors are shown. Its C++ part shows the same lines as without the library."""
        lines = lines_of()
        assert f"ERROR:tensorflow:{ERROR}" in lines
        assert CPP in lines
        assert WARNING not in lines

    @pytest.mark.nightly
    def test_the_level_of_the_user(self):
        """With TF_CPP_MIN_LOG_LEVEL, the C++ part shows what the user wants."""
        assert CPP not in lines_of(TF_CPP_MIN_LOG_LEVEL="3")

    @pytest.mark.matrix
    @pytest.mark.parametrize("when", ["before", "after"])
    @pytest.mark.any_tensorflow
    def test_the_python_level_of_the_user(self, when):
        """With a level of `tf.get_logger()`, set before or after the import of the library, its warnings are shown."""
        code = "logging.getLogger('tensorflow').setLevel('INFO')"
        lines = lines_of(first=code, level="20") if when == "before" else lines_of(second=code)
        assert WARNING in lines


@pytest.fixture
def tensorflows_logger():
    logger = logging.getLogger("tensorflow")
    before = logger.level
    silence_python_log.cache_clear()
    yield logger
    logger.setLevel(before)


@pytest.mark.parametrize(
    ("level", "expected"),
    [("NOTSET", "ERROR"), ("INFO", "INFO"), ("DEBUG", "DEBUG"), ("CRITICAL", "CRITICAL")],
)
def test_levels(tensorflows_logger, level, expected):
    """Only a level that was not set is changed, and only once."""
    tensorflows_logger.setLevel(level)
    silence_python_log()
    assert expected == logging.getLevelName(tensorflows_logger.level)
    tensorflows_logger.setLevel("NOTSET")
    silence_python_log()
    assert logging.NOTSET == tensorflows_logger.level
