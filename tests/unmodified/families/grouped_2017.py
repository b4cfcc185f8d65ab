# Grouped convolutions in NCHW, as in AlexNet and ShuffleNet, with the star names of tensorpack.
import numpy as np
import tensorflow as tf
from tensorpack import *
from tensorpack.tfutils.summary import add_moving_summary


class Model(ModelDesc):
    def _get_inputs(self):
        return [InputDesc(tf.float32, (None, 4, 8, 8), "image"), InputDesc(tf.int32, (None,), "label")]

    def _build_graph(self, inputs):
        image, label = inputs
        with argscope([Conv2D, GlobalAvgPooling], data_format="NCHW"):
            l = Conv2D("conv1", image, 8, 3, nl=tf.nn.relu)
            w = tf.get_variable("grouped/W", [3, 3, 4, 8], initializer=tf.random_normal_initializer(stddev=0.3, seed=1))
            l = tf.nn.relu(tf.nn.conv2d(l, w, [1, 1, 1, 1], "SAME", data_format="NCHW"))
            l = GlobalAvgPooling("gap", l)
        scale = tf.get_variable("scale", initializer=1.0)
        scale += 1.0
        logits = FullyConnected("fc", l, 2, nl=tf.identity) * scale
        cost = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
        self.cost = tf.reduce_mean(cost, name="cost")
        wrong = symbolic_functions.prediction_incorrect(logits, label)
        add_moving_summary(tf.reduce_mean(wrong, name="train_error"), self.cost)

    def _get_optimizer(self):
        return tf.train.AdamOptimizer(0.02)


def get_data():
    random = np.random.RandomState(0)
    images = random.rand(256, 4, 8, 8).astype("float32")
    labels = random.randint(2, size=256)
    images[:, 0] *= (0.3 + 0.7 * labels)[:, None, None]
    return BatchData(DataFromList([[i, l] for i, l in zip(images, labels)], shuffle=False), 32)


class Report(Callback):
    def _after_train(self):
        print("error: %.5f" % self.trainer.monitors.get_latest("train_error"))


if __name__ == "__main__":
    with change_gpu(-1):
        nr_tower = max(get_nr_gpu(), 1)
    logger.auto_set_dir()
    config = TrainConfig(
        model=Model(), dataflow=get_data(), callbacks=[Report()], max_epoch=6, steps_per_epoch=8, nr_tower=nr_tower
    )
    SimpleTrainer(config).train()
