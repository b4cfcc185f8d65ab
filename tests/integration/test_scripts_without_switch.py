"""
Scripts that build their graph before any `launch_*` call run unmodified, with TensorFlow 2's eager default.

Each script is a process that imports TensorFlow first and does not switch it to graph mode.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import pytest
from fakes.processes import python_environment

GAN = """
    import tensorflow
    import sys
    import numpy as np
    from tensorpack_lite import *
    from tensorpack_lite import tfv1 as tf
    from tensorpack_lite.tfutils.scope_utils import auto_reuse_variable_scope
    from tensorpack_lite.tfutils.summary import add_moving_summary
    from tensorpack_lite.tfutils.tower import TowerContext, TowerFunc
    from tensorpack_lite.utils import logger

    class Model(ModelDesc):
        def inputs(self):
            return [tf.TensorSpec((None, 4), tf.float32, 'input')]

        @auto_reuse_variable_scope
        def discriminator(self, x):
            with argscope(FullyConnected, activation=tf.nn.relu):
                x = FullyConnected('fc0', x, 8)
            return FullyConnected('fct', x, 1, activation=tf.identity)

        def generator(self, z):
            with argscope(BatchNorm, training=True):
                l = FullyConnected('fc0', z, 8, nl=BNReLU)
                return FullyConnected('fc1', l, out_dim=4, nl=tf.tanh)

        def build_graph(self, real):
            z = tf.random_uniform([4, 3], -1, 1, name='z_train')
            z = tf.placeholder_with_default(z, [None, 3], name='z')
            with tf.variable_scope('gen'):
                fake = self.generator(z)
                tf.identity(fake, name='fake')
            with tf.variable_scope('discrim'):
                on_real = self.discriminator(real)
                on_fake = self.discriminator(fake)
            self.d_loss = tf.reduce_mean(tf.nn.softplus(-on_real) + tf.nn.softplus(on_fake), name='d_loss')
            self.g_loss = tf.reduce_mean(tf.nn.softplus(-on_fake), name='g_loss')
            add_moving_summary(self.d_loss, self.g_loss)
            variables = tf.trainable_variables()
            self.g_vars = [v for v in variables if v.op.name.startswith('gen/')]
            self.d_vars = [v for v in variables if v.op.name.startswith('discrim/')]

        def optimizer(self):
            lr = tf.get_variable('learning_rate', initializer=2e-4, trainable=False)
            return tf.train.AdamOptimizer(lr, beta1=0.5, epsilon=1e-3)

    class Trainer(TowerTrainer):
        def __init__(self, input, model):
            super().__init__()
            self.register_callback(input.setup(model.get_input_signature()))
            self.tower_func = TowerFunc(model.build_graph, model.get_input_signature())
            with TowerContext('', is_training=True):
                self.tower_func(*input.get_input_tensors())
            opt = model.get_optimizer()
            with tf.name_scope('optimize'):
                self.d_min = opt.minimize(model.d_loss, var_list=model.d_vars, name='d_min')
                with tf.control_dependencies([self.d_min] if JOINT else []):
                    self.g_min = opt.minimize(model.g_loss, var_list=model.g_vars, name='g_min')
            if JOINT:
                self.train_op = self.g_min

        def run_step(self):
            if JOINT:
                return super().run_step()
            self.hooked_sess.run(self.d_min)
            self.hooked_sess.run(self.g_min)

    JOINT = sys.argv[1] == 'joint'
    logger.set_logger_dir(sys.argv[2], 'd')
    source = QueueInput(FakeData([[4, 4]], 100, dtype='float32'))
    Trainer(source, Model()).train_with_defaults(callbacks=[ModelSaver()], steps_per_epoch=5, max_epoch=2)
    latest = sys.argv[2] + '/checkpoint'
    with tf.Graph().as_default():
        predict = OfflinePredictor(PredictConfig(
            session_init=SmartInit(latest), model=Model(), input_names=['z'], output_names=['gen/fake', 'z']))
        print('SHAPES', [list(x.shape) for x in predict(np.zeros([5, 3], 'float32'))])
"""

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
@pytest.mark.parametrize(
    ("kind", "runs_per_step"), [("joint", 1), pytest.param("separate", 2, marks=pytest.mark.any_tensorflow)]
)
def test_gan(tmp_path, kind, runs_per_step):
    """A GAN whose trainer builds the graph in its constructor trains, saves, and generates samples."""
    log = str(tmp_path / "log")
    assert "SHAPES [[5, 4], [5, 3]]" == run(tmp_path, GAN, kind, log)[-1]
    with open(os.path.join(log, "stats.json")) as f:
        stats = json.load(f)
    assert [5 * runs_per_step, 10 * runs_per_step] == [element["global_step"] for element in stats]
    assert {"d_loss", "g_loss"} <= set(stats[-1])


@pytest.mark.slow
def test_entry_points(tmp_path):
    """Each entry point that adds to the graph switches TensorFlow to graph mode if it is called first."""
    entries = {name: textwrap.dedent(code) for name, code in ENTRIES.items()}
    lines = run(tmp_path, f"ENTRIES = {entries!r}\n" + textwrap.dedent(ENTRY))
    assert [f"{name}, fc/W, fc/b, y:0" for name in ENTRIES] == [line for line in lines if line.endswith("y:0")]
