# A linear model in the frame of a detection project, which counts on GPUs and watches them.
import json

import numpy as np
import tensorflow as tf
from tensorpack import *
from tensorpack.callbacks.prof import GPUMemoryTracker
from tensorpack.utils.gpu import get_nr_gpu


class Model(ModelDesc):
    def inputs(self):
        return [tf.placeholder(tf.float32, (None, 3), "x"), tf.placeholder(tf.float32, (None,), "y")]

    def build_graph(self, x, y):
        W = tf.get_variable("W", [3, 1], initializer=tf.zeros_initializer())
        return tf.reduce_mean(tf.square(tf.squeeze(tf.matmul(x, W), [1]) - y), name="cost")

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.2)


if __name__ == "__main__":
    nr_gpu = get_nr_gpu()
    assert tf.test.is_gpu_available() and nr_gpu == 2
    logger.set_logger_dir("train_log", action="d")
    points = np.random.RandomState(0).randn(64, 3).astype("float32")
    values = points.dot([1.0, -2.0, 0.5]).astype("float32")
    config = TrainConfig(
        model=Model(),
        dataflow=BatchData(RepeatedData(DataFromList(list(zip(points, values)), shuffle=False), -1), 16),
        callbacks=[GPUUtilizationTracker(), GPUMemoryTracker(list(range(nr_gpu))), MergeAllSummaries()],
        steps_per_epoch=100,
        max_epoch=2,
    )
    launch_train_with_config(config, SyncMultiGPUTrainerReplicated(nr_gpu, mode="cpu"))
    with open("train_log/stats.json") as f:
        last = json.load(f)[-1]
    assert not [name for name in last if name.startswith(("GPUUtil", "PeakMemory"))], last
    print("error: %.5f" % last["cost"])
