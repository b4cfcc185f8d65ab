"""`tensorpack` as a script sees it: the modules of tensorpack_lite, with the attributes that they have there."""

from __future__ import annotations

import json

import pytest
from tf1.command import python, run

# Imports each module of the library below a root, and prints {module: type of its package's attribute of that name}.
LAW = """
import importlib, json, pkgutil, sys
import tensorpack_lite
from tensorpack_lite.utils.old_names_table import OLD_MODULES

root = sys.argv[1]
found = {}
modules = [one.name.partition('.')[2] for one in pkgutil.walk_packages(tensorpack_lite.__path__, 'tensorpack_lite.')]
skipped = ('tf1', 'contrib', 'cli', '__main__')
old = [name for name, old in OLD_MODULES.items() if old.target and root == 'tensorpack']
for name in [one for one in modules if not one.startswith(skipped) and one not in OLD_MODULES] + old:
    try:
        importlib.import_module(root + '.' + name)
    except ImportError:
        continue
    package, _, child = (root + '.' + name).rpartition('.')
    if name not in old:
        found[name] = type(getattr(sys.modules[package], child)).__name__
print(json.dumps(found))
"""


@pytest.mark.slow
def test_a_function_named_like_its_module(write, tmp_path):
    """After an import of `tensorpack.tfutils.argscope`, the name `argscope` of the package is still the function."""
    script = """
        import tensorpack.tfutils.argscope
        import tensorpack.tfutils as tfutils
        from tensorpack.tfutils import argscope
        print(type(tfutils.argscope).__name__, type(argscope).__name__)
        """
    write("train.py", script)
    result = run("train.py", cwd=tmp_path)
    assert "function function\n" == result.stdout, result.stderr


@pytest.mark.nightly
@pytest.mark.slow
def test_all_modules(write, tmp_path):
    """An import of any module by its old name, old addresses included, leaves attributes of packages as they were."""
    write("law.py", LAW)
    expected = python("law.py", "tensorpack_lite", cwd=tmp_path)
    actual = run("law.py", "tensorpack", cwd=tmp_path)
    assert expected.returncode == 0, expected.stderr
    found = json.loads(actual.stdout)
    assert 200 < len(found)
    assert "function" == found["tfutils.argscope"]
    assert json.loads(expected.stdout) == found


@pytest.mark.slow
def test_check_lists_unsupported_names(write, tmp_path):
    """`--check` lists names and modules that can be imported but not used, with their sentences."""
    write(
        "train.py",
        """
        import tensorflow as tf
        from tensorpack.utils.loadcaffe import get_caffe_pb
        from tensorpack.RL.envbase import RLEnvironment
        from tensorflow.contrib.training import FeedingQueueRunner
        tf.mul, tf.neg, tf.pack, tf.train.SummaryWriter
        """,
    )
    result = run("--check", "train.py", cwd=tmp_path)
    lines = [line.split(": ", 2) for line in result.stdout.splitlines()[:-1]]
    names = ["tensorpack.utils.loadcaffe.get_caffe_pb", "tensorpack.RL"]
    expected = [["train.py:3", names[0]], ["train.py:4", names[1]]]
    if not result.stdout.startswith("train.py:5") and "FeedingQueueRunner" in result.stdout:  # not on TensorFlow 1.15
        expected.append(["train.py:5", "tensorflow.contrib.training.FeedingQueueRunner"])
    assert expected == [line[:2] for line in lines], result.stderr
    assert "caffe.proto" in lines[0][2]
    assert "gymnasium" in lines[1][2]
    assert result.returncode == 1


QUEUE_SCRIPT = """
import sys
import numpy as np
import tensorflow as tf
from tensorpack import *
from tensorpack.callbacks import StartProcOrThread
from tensorpack.input_source.input_source import EnqueueThread

class Shuffled(QueueInput):
    def _setup(self, inputs):
        self._input_placehdrs = [v.build_placeholder_reuse() for v in inputs]
        with self.cached_name_scope():
            self.queue = tf.RandomShuffleQueue(20, 2, [x.dtype for x in self._input_placehdrs], name='input_queue')
            self.thread = EnqueueThread(self.queue, self._inf_ds, self._input_placehdrs)

    def _get_input_tensors(self):
        with self.cached_name_scope():
            x = self.queue.dequeue(name='input_deque')
        x.set_shape(self._input_placehdrs[0].shape)
        return [x]

class WithCallback(Shuffled):
    def _get_callbacks(self):
        callback = StartProcOrThread(self.thread)
        callback.chief_only = False
        return [callback]

class Model(ModelDesc):
    def _get_inputs(self):
        return [InputDesc(tf.float32, [None], 'x')]

    def _build_graph(self, inputs):
        w = tf.get_variable('w', initializer=0.0)
        self.cost = tf.reduce_mean(tf.square(w - inputs[0]), name='cost')

    def _get_optimizer(self):
        return tf.train.GradientDescentOptimizer(0.5)

class Last(Callback):
    def _after_train(self):
        print('W', float(self.trainer.sess.run('w:0')))

def data():
    for _ in range(10):
        yield [np.full([4], 3, 'float32')]
    if sys.argv[1] == 'broken':
        raise ValueError('the file is broken')

if sys.argv[1] == 'callback':
    source = WithCallback(DataFromGenerator(data))
else:
    source = Shuffled(DataFromGenerator(data))
config = TrainConfig(model=Model(), data=source, callbacks=[Last()], steps_per_epoch=20, max_epoch=2)
launch_train_with_config(config, SimpleTrainer())
"""


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.parametrize("how", ["thread", "callback"])
def test_an_input_of_the_script(write, tmp_path, how):
    """A QueueInput of the script's own, with `_inf_ds` and `EnqueueThread(queue, ds, placeholders)`, trains over several passes."""
    write("train.py", QUEUE_SCRIPT)
    result = run("train.py", how, cwd=tmp_path)
    assert "W 3.0" in result.stdout, result.stderr


@pytest.mark.slow
def test_an_input_of_the_script_whose_data_fails(write, tmp_path):
    """An error of its data ends the training with this error."""
    write("train.py", QUEUE_SCRIPT)
    result = run("train.py", "broken", cwd=tmp_path)
    assert result.returncode == 1
    assert "the file is broken" in result.stderr.splitlines()[-1]
