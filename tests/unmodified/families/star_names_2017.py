# Names of `from tensorpack import *`, of tensorpack 0.1 to 0.8, and imports that are not used.
import os
import tempfile
from collections import Counter as stat

import numpy as np
import tensorflow as tf
import tensorpack.tfutils.symbolic_functions as symbf
from tensorpack import *
from tensorpack.dataflow.parallel import PlasmaGetData
from tensorpack.RL import *
from tensorpack.tfutils.argscope import argscope as scope
from tensorpack.utils.loadcaffe import get_caffe_pb
import tensorpack.tfutils.argscope

assert scope is argscope and callable(argscope)
assert symbf is symbolic_functions
nr_gpu = get_nr_gpu()
with change_gpu("0"):
    pass


# submodules that the star import gave; `stat` is the script's own
path = os.path.join(tempfile.mkdtemp(), "weights", "values.npz")
fs.mkdir_p(os.path.dirname(path))
with timer.timed_operation("saving"):
    varmanip.save_chkpt_vars({"W": np.ones(3)}, path)
assert serialize.loads(serialize.dumps([1])) == [1] and stat("aab")["a"] == 2
counter = stats.StatCounter()
counter.feed(1.0)
assert counter.average == 1.0 and viz.stack_patches(np.zeros([2, 4, 4, 3], "uint8"), 1, 2).shape[2] == 3
assert get_tqdm_kwargs(leave=True)["leave"] and GLOBAL_STEP_VAR_NAME == "global_step:0" and STATICA_HACK
assert symbf.triplet_loss and callable(symbf.one_hot) and concurrency.LoopThread and model_utils
if nr_gpu > 100:
    cfg = globvars.get("cfg")
    model = ModelFromMetaGraph("graph.meta")


class Unpickler(PlasmaGetData):
    pass


x = InputVar(tf.float32, [None, 3], "x").build_placeholder()
y = tf.reduce_sum(x, 1)
with argscope(FullyConnected, nl=tf.nn.relu), TowerContext("", is_training=False):
    l = FullyConnected("fc", x, 4, W_init=tf.constant_initializer(0.5))
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    predictor = OnlinePredictor([x], [y, l], sess=sess)
    first, layer = predictor([[1.0, 2.0, 3.0]])
    second, _ = predictor([np.ones(3), np.ones(3)])
assert first.tolist() == [6.0] and second.tolist() == [3.0, 3.0], (first, second)
print("error: %.5f" % abs(layer.sum() - 12.0))
