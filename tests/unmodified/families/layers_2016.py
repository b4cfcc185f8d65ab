# Digits of two classes with the layers, callbacks and modules of tensorpack 0.1. Processes start in the constructor of PrefetchData.
import numpy as np
import tensorflow as tf
from tensorpack import *
from tensorpack.callbacks.base import PeriodicCallback
from tensorpack.models.model_desc import InputVar, ModelDesc
from tensorpack.models.nonlin import LeakyReLU
from tensorpack.predict.common import PredictConfig, get_predict_func
from tensorpack.tfutils.summary import add_moving_summary
from tensorpack.tfutils.symbolic_functions import *

rng = np.random.RandomState(0)
labels = np.arange(64) % 2
images = rng.rand(64, 8, 8, 1).astype("float32") * 0.5
images[labels == 1, 2:6, 2:6] += 0.5


class Model(ModelDesc):
    def _get_input_vars(self):
        return [InputVar(tf.float32, (None, 8, 8, 1), "input"), InputVar(tf.int32, (None,), "label")]

    def _build_graph(self, input_vars, is_training):
        image, label = input_vars
        with argscope(Conv2D, kernel_shape=3, nl=lambda x, name: BatchNorm(name, x)):
            l = Conv2D("conv0", image, 4)
        l = LeakyReLU(l, 0.1)
        l = BilinearUpSample("up", l, 2)
        l = GlobalAvgPooling("gap", l)
        logits = FullyConnected("fc", l, 2, nl=tf.identity)
        tf.nn.softmax(logits, name="prob")
        wrong = tf.reduce_mean(prediction_incorrect(logits, label), name="train_error")
        cost = tf.nn.sparse_softmax_cross_entropy_with_logits(logits, label)
        self.cost = tf.reduce_mean(cost, name="cost")
        add_moving_summary([wrong, self.cost])
        add_moving_summary(self.cost)

    def _get_optimizer(self):
        return tf.train.AdamOptimizer(0.05)


class Counter(PeriodicCallback):
    epochs = []

    def _trigger_periodic(self):
        self.epochs.append(self.epoch_num)


def get_data():
    return PrefetchData(DataFromList(list(zip(images, labels)), shuffle=False), 2, 1)


if __name__ == "__main__":
    for dp in BatchData(get_data(), 16).get_data():
        assert dp[0].shape == (16, 8, 8, 1)
    TestDataSpeed(DataFromList([[0]] * 4), 10, warmup=8).start()
    logger.set_logger_dir("train_log", action="d")
    config = TrainConfig(
        dataset=BatchData(get_data(), 16),
        model=Model(),
        callbacks=Callbacks([StatPrinter(), ModelSaver(), Counter(3), StepTensorPrinter(["cost"])]),
        step_per_epoch=20,
        max_epoch=4,
    )
    QueueInputTrainer(config).train()
    assert Counter.epochs == [3], Counter.epochs
    path = tf.train.latest_checkpoint("train_log")
    assert "conv0/output/gamma" in varmanip.dump_chkpt_vars(path)
    predict = get_predict_func(
        PredictConfig(
            model=Model(), session_init=SaverRestore(path), input_var_names=["input"], output_var_names=["prob"]
        )
    )
    print("error: %.4f" % np.mean(predict([images])[0].argmax(axis=1) != labels))
