#!/usr/bin/env python
# -*- coding: utf-8 -*-
# File: slim_2019.py
# Handwritten digits with slim, NCHW.  Style: tensorpack 0.9.x with TF 1.14, 2019

import argparse
import os
import numpy as np
import tensorflow as tf
import tensorflow.contrib.slim as slim
from tensorflow.contrib.framework import arg_scope
from sklearn.datasets import load_digits

from tensorpack import *
from tensorpack.tfutils import argscope, get_model_loader
from tensorpack.tfutils.summary import add_moving_summary
from tensorpack.utils import logger
from tensorpack.utils.gpu import get_num_gpu


def slim_head(l, is_training):
    """ 1x1 convolutions and a classifier, by slim. """
    he = tf.contrib.layers.variance_scaling_initializer(seed=21)
    norm = dict(is_training=is_training, decay=0.9, data_format='NCHW', scale=True)
    with slim.arg_scope([slim.conv2d], data_format='NCHW', weights_initializer=he,
                        normalizer_fn=slim.batch_norm, normalizer_params=norm,
                        weights_regularizer=slim.l2_regularizer(1e-4)), \
            arg_scope([slim.max_pool2d, slim.avg_pool2d], data_format='NCHW'):
        l = slim.repeat(l, 2, slim.conv2d, 8, [1, 1], scope='mlpconv')
        l = slim.avg_pool2d(l, [2, 2], scope='pool')
        l = slim.flatten(l)
        l = slim.dropout(l, 1.0, is_training=is_training)
        return slim.fully_connected(
            l, 10, activation_fn=None, scope='logits',
            weights_initializer=tf.contrib.layers.xavier_initializer(seed=22))


class Model(ModelDesc):
    def inputs(self):
        return [tf.TensorSpec([None, 8, 8], tf.float32, 'input'),
                tf.TensorSpec([None], tf.int32, 'label')]

    def build_graph(self, image, label):
        is_training = get_current_tower_context().is_training
        image = tf.expand_dims(image, 1)        # NCHW
        with argscope([Conv2D, MaxPooling, BatchNorm], data_format='channels_first'), \
                argscope(Conv2D, kernel_size=3, use_bias=False, activation=BNReLU,
                         kernel_initializer=tf.contrib.layers.variance_scaling_initializer(seed=20)), \
                argscope(BatchNorm, momentum=0.9):
            l = Conv2D('conv0', image, 8)
            shortcut = l
            l = Conv2D('conv1', l, l.shape[1].value)
            l = tf.nn.relu(l + shortcut)
            l = MaxPooling('pool', l, 2)
        with tf.variable_scope('head'):
            logits = slim_head(l, is_training)
        tf.nn.softmax(logits, name='prob')

        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
            logits=logits, labels=label), name='xentropy-loss')
        wrong = tf.logical_not(tf.nn.in_top_k(logits, label, 1))
        tf.cast(wrong, tf.float32, name='wrong-top1')
        regularization = tf.add_n(slim.losses.get_regularization_losses(), name='wd')
        add_moving_summary(loss, regularization)
        if is_training:
            slim.model_analyzer.analyze_vars(tf.trainable_variables(), print_info=False)
        return tf.add_n([loss, regularization], name='cost')

    def optimizer(self):
        lr = tf.get_variable('learning_rate', initializer=0.02, trainable=False)
        tf.summary.scalar('learning_rate-summary', lr)
        return tf.train.MomentumOptimizer(lr, 0.9)


def get_data(name):
    digits = load_digits()
    is_val = np.arange(len(digits.target)) % 5 == 0
    points = [[(image / 16.).astype('float32'), label]
              for image, label, val in zip(digits.images, digits.target, is_val) if val == (name == 'val')]
    np.random.RandomState(7).shuffle(points)
    return BatchData(DataFromList(points, shuffle=False), 40, remainder=name == 'val')


def count_flops():
    """ Print the flops of one forward pass, and return the number of parameters. """
    with tf.Graph().as_default():
        with TowerContext('', is_training=False):
            Model().build_graph(tf.placeholder(tf.float32, [1, 8, 8]), tf.zeros([1], tf.int32))
        options = tf.profiler.ProfileOptionBuilder.float_operation()
        options['output'] = 'none'
        flops = tf.profiler.profile(tf.get_default_graph(), cmd='op', options=options)
        tf.contrib.tfprof.model_analyzer.print_model_analysis(
            tf.get_default_graph(),
            tfprof_options=dict(tf.contrib.tfprof.model_analyzer.TRAINABLE_VARS_PARAMS_STAT_OPTIONS,
                                output='none'))
        logger.info("{} flops".format(flops.total_float_ops))
        assert flops.total_float_ops > 10000


def evaluate(args):
    predictor = OfflinePredictor(PredictConfig(
        model=Model(), session_init=get_model_loader(args.load),
        input_names=['input', 'label'], output_names=['wrong-top1', 'prob']))
    results = [predictor(*dp) for dp in get_data('val')]
    print('val error: %.4f' % np.concatenate([r[0] for r in results]).mean())
    np.save(args.eval, np.concatenate([r[1] for r in results]))


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--gpu', help='comma separated list of GPU(s) to use.')
    parser.add_argument('--load', help='load a model')
    parser.add_argument('--eval', help='write the probabilities of the validation set to this file')
    parser.add_argument('--logdir', default='train_log/slim')
    args = parser.parse_args()
    if args.gpu:
        os.environ['CUDA_VISIBLE_DEVICES'] = args.gpu

    if args.eval:
        evaluate(args)
    else:
        logger.set_logger_dir(args.logdir, 'd')
        count_flops()
        trainer = SimpleTrainer() if get_num_gpu() <= 1 else SyncMultiGPUTrainerReplicated(get_num_gpu())
        launch_train_with_config(TrainConfig(
            model=Model(),
            data=QueueInput(get_data('train')),
            callbacks=[
                ModelSaver(max_to_keep=1),
                EstimatedTimeLeft(),
                ScheduledHyperParamSetter('learning_rate', [(0, 0.02), (4, 0.005)], interp=None),
                InferenceRunner(get_data('val'), [ClassificationError('wrong-top1', 'val-error-top1'),
                                                  ScalarStats('xentropy-loss')]),
            ],
            steps_per_epoch=35,
            max_epoch=5,
        ), trainer)
        print('val error: %.4f' % trainer.monitors.get_latest('val-error-top1'))
