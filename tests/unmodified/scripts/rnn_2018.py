#!/usr/bin/env python
# -*- coding: utf-8 -*-
# File: rnn_2018.py
# Is a wave rising or falling in frequency?  Style: tensorpack 0.9 with tf.layers, end of 2018

import argparse
import os
import numpy as np
import tensorflow as tf

from tensorpack import *
from tensorpack.tfutils.argscope import argscope, enable_argscope_for_module
from tensorpack.tfutils.summary import add_moving_summary, add_param_summary
from tensorpack.tfutils.varreplace import freeze_variables

enable_argscope_for_module(tf.layers)

STEPS = 24
rnn = tf.nn.rnn_cell


class Model(ModelDesc):
    def _get_inputs(self):
        return [InputDesc(tf.float32, (None, STEPS), 'wave'),
                InputDesc(tf.int32, (None,), 'label')]

    def _build_graph(self, inputs):
        wave, label = inputs
        init = tf.variance_scaling_initializer(scale=2.0, seed=11)
        l = tf.expand_dims(wave, 2)
        with argscope([tf.layers.conv1d], padding='same', activation=tf.nn.relu,
                      kernel_initializer=init):
            l = tf.layers.conv1d(l, 6, 3, name='conv0')
            l = tf.layers.max_pooling1d(l, 2, 2, name='pool0')
            l = tf.layers.conv1d(l, 8, 3, name='conv1')
        l = tf.layers.batch_normalization(l, momentum=0.9, training=self.training, name='bn')

        with tf.variable_scope('rnn', initializer=tf.orthogonal_initializer(seed=12)):
            cell = rnn.MultiRNNCell([rnn.BasicLSTMCell(num_units=8), rnn.GRUCell(6)])
            cell = rnn.DropoutWrapper(cell, output_keep_prob=1.0)
            outputs, state = tf.nn.dynamic_rnn(cell, l, dtype=tf.float32)
        last = outputs[:, outputs.shape[1].value - 1]
        logits = tf.layers.dense(last, 2, name='linear', kernel_initializer=init)
        tf.nn.softmax(logits, name='prob')

        wrong = tf.cast(tf.logical_not(tf.nn.in_top_k(logits, label, 1)), tf.float32, name='incorrect_vector')
        cost = tf.losses.sparse_softmax_cross_entropy(label, logits)
        cost = tf.identity(cost, name='cross_entropy_loss')
        wd = regularize_cost('linear/kernel', tf.contrib.layers.l2_regularizer(1e-4), name='wd')
        add_moving_summary(tf.reduce_mean(wrong, name='train_error'), cost)
        add_param_summary(('.*/kernel', ['histogram']))
        self.cost = tf.add(cost, wd, name='total_cost')

    def _get_optimizer(self):
        lr = tf.get_variable('learning_rate', initializer=0.03, trainable=False)
        opt = tf.train.MomentumOptimizer(lr, 0.9)
        return optimizer.apply_grad_processors(opt, [gradproc.GlobalNormClip(5)])


def get_waves(number, seed):
    rng = np.random.RandomState(seed)
    t = np.linspace(0, 1, STEPS)
    for k in range(number):
        label = k % 2
        chirp = rng.uniform(0.1, 2) * (1 if label else -1)
        phase = 2 * np.pi * ((3.5 + rng.randn() * 0.3 - chirp / 2) * t + chirp / 2 * t ** 2)
        wave = np.sin(phase + rng.uniform(0, 6)) + rng.randn(STEPS) * 0.3
        yield [wave.astype('float32'), label]


def get_data():
    train = BatchData(DataFromList(list(get_waves(960, 1)), shuffle=False), 32)
    test = BatchData(DataFromList(list(get_waves(400, 2)), shuffle=False), 100)
    return train, test


def evaluate(args):
    pred = OfflinePredictor(PredictConfig(
        model=Model(), session_init=get_model_loader(args.load),
        input_names=['wave', 'label'], output_names=['incorrect_vector', 'prob']))
    errors, probs = [], []
    for wave, label in get_data()[1]:
        wrong, prob = pred(wave, label)
        errors.extend(wrong)
        probs.extend(prob[:, 1])
    print('val error: %.4f' % np.mean(errors))
    np.save(args.eval, np.array(probs))


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--gpu', help='comma separated list of GPU(s) to use.')
    parser.add_argument('--load', help='load model')
    parser.add_argument('--eval', help='write the probabilities of the validation set to this file')
    args = parser.parse_args()
    if args.gpu:
        os.environ['CUDA_VISIBLE_DEVICES'] = args.gpu

    if args.eval:
        evaluate(args)
    else:
        logger.set_logger_dir('train_log/rnn')
        train, test = get_data()
        config = TrainConfig(
            model=Model(),
            dataflow=train,
            callbacks=[
                ModelSaver(max_to_keep=1),
                InferenceRunner(test, [ScalarStats('cross_entropy_loss'), ClassificationError()]),
                ScheduledHyperParamSetter('learning_rate', [(5, 0.01)]),
            ],
            steps_per_epoch=30,
            max_epoch=7,
            session_init=get_model_loader(args.load) if args.load else None,
        )
        trainer = SimpleTrainer()
        launch_train_with_config(config, trainer)
        print('val error: %.4f' % trainer.monitors.get_latest('validation_error'))
