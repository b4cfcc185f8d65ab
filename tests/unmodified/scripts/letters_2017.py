#!/usr/bin/env python
# -*- coding: utf-8 -*-
# File: letters_2017.py
# Which of four shapes is in a noisy picture?  Style: tensorpack 0.2 to 0.7, 2017

import argparse
import os
import numpy as np
import tensorflow as tf

from tensorpack import *
from tensorpack.tfutils import symbolic_functions as symbf, summary
from tensorpack.tfutils.common import get_tf_version_number
from tensorpack.utils.gpu import get_nr_gpu

SIZE = 10
BATCH = 25


class Model(ModelDesc):
    def __init__(self, channels=8):
        self.channels = channels

    def _get_inputs(self):
        return [InputDesc(tf.float32, (None, SIZE, SIZE), 'input'),
                InputDesc(tf.int32, (None,), 'label')]

    def _build_graph(self, inputs):
        image, label = inputs
        image = tf.expand_dims(image, 3)

        with argscope([Conv2D, FullyConnected],
                      W_init=tf.contrib.layers.variance_scaling_initializer(
                          factor=2.0, mode='FAN_IN', uniform=False, seed=3)), \
                argscope(Conv2D, kernel_shape=3, nl=tf.nn.relu, out_channel=self.channels):
            logits = (LinearWrap(image)
                      .Conv2D('conv0')
                      .MaxPooling('pool0', 2)
                      .Conv2D('conv1', padding='SAME', stride=1)
                      .AvgPooling('pool1', shape=2)
                      .FullyConnected('fct', 4, nl=tf.identity)())
        tf.nn.softmax(logits, name='output')

        cost = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
        cost = tf.reduce_mean(cost, name='cross_entropy_loss')
        wrong = symbf.prediction_incorrect(logits, label, name='wrong-top1')
        summary.add_moving_summary(tf.reduce_mean(wrong, name='train-error-top1'), cost)

        wd_cost = regularize_cost('fct/W', tf.contrib.layers.l2_regularizer(1e-4), name='wd_cost')
        self.cost = tf.add_n([cost, wd_cost], name='total_cost')

    def _get_optimizer(self):
        lr = symbf.get_scalar_var('learning_rate', 0.02, summary=True)
        opt = tf.train.MomentumOptimizer(lr, 0.9, use_nesterov=True)
        return optimizer.apply_grad_processors(
            opt, [gradproc.MapGradient(lambda grad: tf.clip_by_average_norm(grad, 0.5)),
                  gradproc.SummaryGradient()])


class Shapes(RNGDataFlow):
    """ Pictures of a cross, a plus, a box and a bar, with noise. """
    def __init__(self, number, seed):
        self.number, self.seed = number, seed
        eye = np.eye(5)
        bar = np.zeros((5, 5))
        bar[2] = 1
        box = np.ones((5, 5))
        box[1:-1, 1:-1] = 0
        self.shapes = [np.maximum(eye, eye[::-1]), np.maximum(bar, bar.T), box, bar]

    def size(self):
        return self.number

    def get_data(self):
        rng = np.random.RandomState(self.seed)
        for i in range(self.number):
            image = rng.uniform(-0.5, 0.5, size=(SIZE, SIZE)).astype('float32')
            y, x = rng.randint(0, SIZE - 4, size=2)
            image[y:y + 5, x:x + 5] += self.shapes[i % 4]
            yield [image, i % 4]


def get_data():
    train = Shapes(1000, seed=1)
    train = AugmentImageComponent(train, [imgaug.Flip(horiz=True), imgaug.Flip(vert=True)])
    train = PrefetchDataZMQ(train, nr_proc=2)
    train = BatchData(train, BATCH)
    train = PrefetchData(train, 10, 1)
    test = BatchData(Shapes(400, seed=2), 100)
    return train, test


def get_config():
    dataset_train, dataset_test = get_data()
    return TrainConfig(
        model=Model(),
        dataflow=dataset_train,
        callbacks=[
            ModelSaver(keep_recent=10, keep_freq=0.5),
            InferenceRunner(dataset_test, [ScalarStats('cross_entropy_loss'),
                                           ClassificationError('wrong-top1', 'val-error-top1')]),
            MinSaver('val-error-top1'),
            ScheduledHyperParamSetter('learning_rate', [(3, 0.005), (5, 0.001)]),
            HumanHyperParamSetter('learning_rate'),
        ],
        extra_callbacks=[MovingAverageSummary(), ProgressBar(['cross_entropy_loss']),
                         MergeAllSummaries(), RunUpdateOps()],
        steps_per_epoch=40,
        max_epoch=5,
    )


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--gpu', help='comma separated list of GPU(s) to use.')
    parser.add_argument('--load', help='load model')
    args = parser.parse_args()
    assert get_tf_version_number() >= 1.0

    if args.gpu:
        os.environ['CUDA_VISIBLE_DEVICES'] = args.gpu
    logger.set_logger_dir(os.path.join('train_log', 'letters'))

    config = get_config()
    if args.load:
        config.session_init = get_model_loader(args.load)
    config.nr_tower = max(get_nr_gpu(), 1)
    trainer = SyncMultiGPUTrainerParameterServer if config.nr_tower > 1 else SimpleTrainer
    trainer(config).train()

    pred = PredictConfig(
        model=Model(),
        session_init=SaverRestore(os.path.join(logger.LOG_DIR, 'checkpoint')),
        input_names=['input', 'label'],
        output_names=['wrong-top1'],
        return_input=False)
    with tf.Graph().as_default():
        ds = BatchData(Shapes(400, seed=2), 100)
        errors = [out[0] for out in SimpleDatasetPredictor(pred, ds).get_result()]
    print('val error: %.4f' % np.mean(errors))
