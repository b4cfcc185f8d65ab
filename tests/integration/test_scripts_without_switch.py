"""
Scripts that build their graph before any `launch_*` call run unmodified, with TensorFlow 2's eager default.

Each script is a process that imports TensorFlow first and does not switch it to graph mode.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
from fakes.processes import python_environment

ENTRIES = {
    "tower context": """
        with TowerContext('', is_training=False):
            model.build_graph(tf.placeholder(tf.float32, [None, 3], 'x'))
    """,
    "input source": """
        source = PlaceholderInput()
        source.setup([tf.TensorSpec([None, 3], tf.float32, 'x')])
        with TowerContext('', is_training=False):
            model.build_graph(*source.get_input_tensors())
    """,
    "predictor": """
        OfflinePredictor(PredictConfig(
            model=model, input_names=['x'], output_names=['y'], create_graph=False))
    """,
    "global step": """
        get_global_step_var()
        with TowerContext('', is_training=False):
            model.build_graph(tf.placeholder(tf.float32, [None, 3], 'x'))
    """,
    "trainer": """
        trainer = SimpleTrainer()
        with TowerContext('', is_training=True):
            model.build_graph(tf.placeholder(tf.float32, [None, 3], 'x'))
    """,
}

ENTRY = """
    import tensorflow
    import os
    from tensorpack_lite import *
    from tensorpack_lite import tfv1 as tf
    from tensorpack_lite.compat import is_tfv2

    class Model(ModelDesc):
        def inputs(self):
            return [tf.TensorSpec([None, 3], tf.float32, 'x')]
        def build_graph(self, x):
            return tf.reduce_mean(FullyConnected('fc', x, 2), name='y')

    def in_a_process_of_its_own(name, code):
        child = os.fork()
        if not child:
            assert is_tfv2() == tf.executing_eagerly()
            exec(code, dict(globals(), model=Model()))
            variables = sorted(v.op.name for v in tf.trainable_variables())
            print(name, *variables, tf.get_default_graph().get_tensor_by_name('y:0').name, sep=', ', flush=True)
            os._exit(0)
        assert 0 == os.waitpid(child, 0)[1], name

    for name, code in ENTRIES.items():
        in_a_process_of_its_own(name, code)
"""


def run(tmp_path, code, *args):
    """Run a script and return the lines of its output."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(code))
    process = subprocess.run(
        [sys.executable, str(script), *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=str(tmp_path),
        env=python_environment(),
        text=True,
        timeout=180,
    )
    assert 0 == process.returncode, process.stdout
    return process.stdout.strip().splitlines()


@pytest.mark.slow
def test_entry_points(tmp_path):
    """Each entry point that adds to the graph switches TensorFlow to graph mode if it is called first."""
    entries = {name: textwrap.dedent(code) for name, code in ENTRIES.items()}
    lines = run(tmp_path, f"ENTRIES = {entries!r}\n" + textwrap.dedent(ENTRY))
    assert [f"{name}, fc/W, fc/b, y:0" for name in ENTRIES] == [line for line in lines if line.endswith("y:0")]
