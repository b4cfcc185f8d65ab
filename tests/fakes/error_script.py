"""A training with one mistake of the user, which `kind.txt` in the working directory names."""

from __future__ import annotations

import numpy as np

import tensorpack_lite as tp
from tensorpack_lite import tfv1 as tf

with open("kind.txt") as file:
    KIND = file.read()


def reshape(dp):
    return [dp[0].reshape(3, 5), dp[1]]  # PLACE mapper


def double(dp):
    dp[0] = dp[0] * 2


class Model(tp.ModelDesc):
    def inputs(self):
        return [tf.TensorSpec([None, 4], tf.float32, "x"), tf.TensorSpec([None], tf.int32, "y")]

    def build_graph(self, x, y):
        if KIND == "tower function":
            x = tf.reshape(x, [3, 7])  # PLACE tower function
        if KIND == "name clash":
            x = tp.FullyConnected("fc", x, 4)
        if KIND == "condition" and tf.reduce_mean(x) > 0:  # PLACE condition
            x = x * 2
        if KIND == "argument":
            x = tp.FullyConnected("hidden", x, 4, activaton=tf.nn.relu)  # PLACE argument
        if KIND == "operation":
            x = tf.gather(x, y + 100)  # PLACE operation
        x = tp.FullyConnected("fc", x, 2)  # PLACE name clash
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=x, labels=y))

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.1)


class Report(tp.Callback):
    def _trigger_epoch(self):
        if KIND == "callback":
            raise ValueError("no report")  # PLACE callback


def make_data():
    df = tp.DataFromList([[np.zeros(4, "float32"), 1]] * 20)
    if KIND in ("MapData", "MapData, iterated"):
        df = tp.MapData(df, reshape)
    if KIND in ("MultiProcessMapData", "MultiProcessMapData, iterated"):
        df = tp.MultiProcessMapData(df, 2, reshape, buffer_size=5)
    if KIND == "MultiProcessRunnerZMQ":
        df = tp.MultiProcessRunnerZMQ(tp.MapData(df, reshape), 2)
    if KIND == "no return":
        df = tp.MapData(df, double)
    return tp.BatchData(df, 2)


def main():
    data = make_data()
    if KIND.endswith("iterated"):
        data.reset_state()
        list(data)  # PLACE iterated
    steps = {"misspelt": 2} if KIND == "TrainConfig" else {"max_epoch": 2}
    source = tp.FeedInput(data) if KIND == "MapData" else tp.QueueInput(data)
    config = tp.TrainConfig(model=Model(), data=source, callbacks=[Report()], steps_per_epoch=3, **steps)
    tp.launch_train_with_config(config, tp.SimpleTrainer())  # PLACE training


if __name__ == "__main__":
    main()
