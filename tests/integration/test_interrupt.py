"""Ctrl-C and exit codes of real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest
from fakes.processes import python_environment

SCRIPT = """
    import sys
    import numpy as np
    from tensorpack_lite import *
    from tensorpack_lite import tfv1 as tf

    class Model(ModelDesc):
        def inputs(self):
            return [tf.TensorSpec([None], tf.float32, "x")]
        def build_graph(self, x):
            w = tf.get_variable("w", initializer=0.0)
            return tf.reduce_mean((w - x) ** 2, name="cost")
        def optimizer(self):
            return tf.train.GradientDescentOptimizer(0.1)

    def data():
        n = 0
        while True:
            n += 1
            if n == FAULT_AT:
                raise ZeroDivisionError("planted")
            yield [np.ones([4], "float32")]

    class Ready(Callback):
        def _trigger_step(self):
            if self.global_step == 5:
                print("READY", flush=True)
        def _after_train(self):
            print("AFTER_TRAIN", flush=True)

    FAULT_AT = int(sys.argv[2])
    source = {"feed": FeedInput, "queue": QueueInput}[sys.argv[1]](DataFromGenerator(data))
    config = TrainConfig(model=Model(), data=source, callbacks=[Ready()], steps_per_epoch=10**7, max_epoch=1)
    launch_train_with_config(config, SimpleTrainer())
    print("RETURNED", flush=True)
"""


@pytest.fixture
def start(tmp_path, start_python):
    """Start the script as a process that receives Ctrl-C even if the tests run in the background."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))

    def start(*args):
        return start_python(
            script,
            *args,
            stderr=subprocess.STDOUT,
            cwd=str(tmp_path),
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    return start


@pytest.mark.slow
@pytest.mark.parametrize("source", ["feed", "queue"])
@pytest.mark.any_tensorflow
class TestProcess:
    def test_ctrl_c(self, start, source):
        """Ctrl-C ends training at once, runs after_train, sets the exit code, and prints one line."""
        process = start(source, -1)
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "READY" in line:
                process.send_signal(signal.SIGINT)
                break
        rest, _ = process.communicate(timeout=60)
        output = "".join(lines) + rest
        assert process.returncode not in (0, None), output
        assert "AFTER_TRAIN" in rest, output
        assert "RETURNED" not in rest, output
        assert "Traceback (most recent call last)" not in output, output
        assert "KeyboardInterrupt: Ctrl-C ended the training." == output.splitlines()[-1]

    def test_data_crash(self, start, source):
        """An error in the data prints a traceback that names it, and the exit code is 1."""
        process = start(source, "20")
        output, _ = process.communicate(timeout=60)
        assert 1 == process.returncode, output
        assert "ZeroDivisionError" in output.splitlines()[-1], output
        assert "planted" in output.splitlines()[-1], output
        assert "AFTER_TRAIN" in output
        assert "RETURNED" not in output


class TestWaitingForData:
    """One Ctrl-C for each training of `fakes/interrupt_script.py`, whose main thread waits inside TensorFlow."""

    QUICK = ["queue", "staging_first", "dataset", "inference"]
    OTHERS = [
        "feed", "batch_queue", "staging", "staging_dataset", "zmq", "replicated", "parameter_server", "async",
        "inference_dataset", "data_parallel_inference",
    ]  # fmt: skip

    @staticmethod
    def report(tmp_path, cases):
        script = os.path.join(os.path.dirname(os.path.dirname(__file__)), "fakes", "interrupt_script.py")
        output = subprocess.check_output(
            [sys.executable, script, *cases],
            stderr=subprocess.DEVNULL,
            cwd=str(tmp_path),
            env=python_environment(),
            timeout=300,
        )
        return json.loads(output.splitlines()[-1])

    @pytest.mark.parametrize(
        "cases",
        [pytest.param(QUICK, marks=pytest.mark.slow), pytest.param(OTHERS, marks=pytest.mark.full)],
        ids=["quick", "others"],
    )
    def test_ctrl_c(self, tmp_path, cases):
        """The first Ctrl-C ends training with KeyboardInterrupt, and callbacks can use the session in after_train."""
        for case, result in self.report(tmp_path, cases).items():
            output = result["output"]
            assert "RAISED KeyboardInterrupt" in output, (case, output)
            assert "AFTER_TRAIN" in output, (case, output)
            assert "RETURNED" not in output, (case, output)
            assert "SIGINT default_int_handler -1" in output, (case, output)

    @pytest.mark.slow
    @pytest.mark.any_tensorflow
    def test_handler_of_the_user(self, tmp_path):
        """The user's handler is called once, in the main thread. Training ends with its error or with KeyboardInterrupt."""
        expected = {
            "raising_handler": "ZeroDivisionError", "exit_handler": "SystemExit", "quiet_handler": "KeyboardInterrupt",
        }  # fmt: skip
        for case, result in self.report(tmp_path, expected).items():
            output = result["output"]
            assert f"RAISED {expected[case]}" in output, (case, output)
            assert 1 == output.count("HANDLER"), (case, output)
            assert "AFTER_TRAIN" in output, (case, output)
            assert f"SIGINT {case} -1" in output, (case, output)
