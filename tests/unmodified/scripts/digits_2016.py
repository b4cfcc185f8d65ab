#!/usr/bin/env python
# -*- coding: UTF-8 -*-
# File: digits_2016.py
# A small convnet on handwritten digits.  Style: tensorpack 0.1, 2016

import os
import argparse
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

from tensorpack import *
import tensorpack.tfutils.symbolic_functions as symbf
from tensorpack.tfutils.summary import *

BATCH_SIZE = 32


class Model(ModelDesc):
    def _get_input_vars(self):
        return [InputVar(tf.float32, [None, 8, 8], 'input'),
                InputVar(tf.int32, [None], 'label')]

    def _build_graph(self, input_vars):
        image, label = input_vars
        is_training = get_current_tower_context().is_training
        image = tf.expand_dims(image * 2 - 1, 3)

        init = tf.contrib.layers.variance_scaling_initializer(seed=16)
        with argscope(Conv2D, kernel_shape=3, nl=BNReLU, out_channel=8, W_init=init):
            l = Conv2D('conv0', image)
            l = MaxPooling('pool0', l, 2)
            l = Conv2D('conv1', l, out_channel=16, use_bias=False)
            l = BatchNorm('bn1', l, use_local_stat=is_training)
        l = FullyConnected('fc0', l, 32, nl=tf.nn.relu,
                           W_init=tf.contrib.layers.xavier_initializer(seed=17))
        if is_training:
            l = tf.nn.dropout(l, 1.0)
        logits = FullyConnected('fc1', l, out_dim=10, nl=tf.identity,
                                W_init=tf.contrib.layers.xavier_initializer(seed=18))
        prob = tf.nn.softmax(logits, name='prob')

        cost = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
        cost = tf.reduce_mean(cost, name='cross_entropy_loss')

        wrong = symbf.prediction_incorrect(logits, label)
        add_moving_summary(tf.reduce_mean(wrong, name='train_error'))

        wd_cost = tf.multiply(1e-5, regularize_cost('fc.*/W', tf.nn.l2_loss), name='regularize_loss')
        add_moving_summary(cost, wd_cost)

        add_param_summary([('.*/W', ['histogram', 'rms'])])
        self.cost = tf.add_n([wd_cost, cost], name='cost')


class Digits(RNGDataFlow):
    def __init__(self, train_or_test, shuffle=True):
        digits = load_digits()
        is_test = np.arange(len(digits.target)) % 5 == 0
        chosen = is_test if train_or_test == 'test' else ~is_test
        self.images = (digits.images[chosen] / 16.).astype('float32')
        self.labels = digits.target[chosen]
        self.shuffle = shuffle

    def size(self):
        return len(self.labels)

    def reset_state(self):
        self.rng = np.random.RandomState(42)

    def get_data(self):
        idxs = np.arange(self.size())
        if self.shuffle:
            self.rng.shuffle(idxs)
        for k in idxs:
            yield [self.images[k], self.labels[k]]


def get_config():
    logger.auto_set_dir()

    dataset_train = BatchData(Digits('train'), BATCH_SIZE)
    dataset_test = BatchData(Digits('test', shuffle=False), 2 * BATCH_SIZE, remainder=True)
    step_per_epoch = dataset_train.size()

    lr = tf.train.exponential_decay(
        learning_rate=1e-2,
        global_step=get_global_step_var(),
        decay_steps=step_per_epoch * 2,
        decay_rate=0.3, staircase=True, name='learning_rate')
    tf.summary.scalar('learning_rate', lr)

    return TrainConfig(
        dataset=dataset_train,
        optimizer=tf.train.AdamOptimizer(lr),
        callbacks=Callbacks([
            StatPrinter(),
            ModelSaver(),
            InferenceRunner(dataset_test, [ScalarStats('cross_entropy_loss'),
                                           ClassificationError('incorrect_vector')]),
        ]),
        session_config=get_default_sess_config(0.5),
        model=Model(),
        step_per_epoch=step_per_epoch,
        max_epoch=4,
    )


def evaluate(model_path):
    """Error on the test set with the saved model."""
    predict = OfflinePredictor(PredictConfig(
        model=Model(),
        session_init=SaverRestore(model_path),
        input_var_names=['input'],
        output_var_names=['prob']))
    ds = Digits('test', shuffle=False)
    prob = predict(ds.images)[0]
    return np.mean(prob.argmax(axis=1) != ds.labels)


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--gpu', help='comma separated list of GPU(s) to use.')
    parser.add_argument('--load', help='load model')
    args = parser.parse_args()
    if args.gpu:
        os.environ['CUDA_VISIBLE_DEVICES'] = args.gpu

    config = get_config()
    if args.load:
        config.session_init = SaverRestore(args.load)
    if args.gpu:
        config.nr_tower = len(args.gpu.split(','))
    QueueInputTrainer(config).train()

    with tf.Graph().as_default():
        print('test error: %.4f' % evaluate(tf.train.latest_checkpoint(logger.LOG_DIR)))
