#!/usr/bin/env python
# -*- coding: utf-8 -*-
# File: gan_2017.py
# A GAN learns where points are.  Style: tensorpack 0.5, summer of 2017

import argparse
import numpy as np
import tensorflow as tf

from tensorpack import *
from tensorpack.tfutils.scope_utils import auto_reuse_variable_scope
from tensorpack.tfutils.summary import add_moving_summary
from tensorpack.tfutils.symbolic_functions import *
from tensorpack.tfutils import optimizer, gradproc

BATCH = 64
Z_DIM = 4
CENTER = np.array([1.5, -0.5], dtype='float32')


class GANModelDesc(ModelDesc):
    def collect_variables(self, g_scope='gen', d_scope='discrim'):
        self.g_vars = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, g_scope)
        assert self.g_vars
        self.d_vars = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, d_scope)
        assert self.d_vars

    def build_losses(self, logits_real, logits_fake):
        with tf.name_scope('GAN_loss'):
            score_real = tf.sigmoid(logits_real)
            tf.summary.histogram('score-real', score_real)
            with tf.name_scope('discrim'):
                d_loss_pos = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(
                    logits=logits_real, labels=tf.ones_like(logits_real)), name='loss_real')
                d_loss_neg = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(
                    logits=logits_fake, labels=tf.zeros_like(logits_fake)), name='loss_fake')
                self.d_loss = tf.add(.5 * d_loss_pos, .5 * d_loss_neg, name='loss')
            with tf.name_scope('gen'):
                self.g_loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(
                    logits=logits_fake, labels=tf.ones_like(logits_fake)), name='loss')
            add_moving_summary(self.g_loss, self.d_loss)


class Model(GANModelDesc):
    def _get_inputs(self):
        return [InputDesc(tf.float32, (None, 2), 'input')]

    def generator(self, z):
        return FullyConnected('fc', z, 2, nl=tf.identity,
                              W_init=tf.random_normal_initializer(stddev=0.1, seed=1))

    @auto_reuse_variable_scope
    def discriminator(self, points):
        init = tf.random_normal_initializer(stddev=0.5, seed=2)
        with argscope(FullyConnected, W_init=init):
            l = FullyConnected('fc0', points, 16, nl=tf.nn.tanh)
            l = FullyConnected('fc1', l, 1, nl=tf.identity)
        return l

    def _build_graph(self, inputs):
        real = inputs[0]
        z = tf.random_uniform([BATCH, Z_DIM], -1, 1, name='z_train', seed=3)
        z = tf.placeholder_with_default(z, [None, Z_DIM], name='z')
        with tf.variable_scope('gen'):
            fake = tf.identity(self.generator(z), name='points')
        with tf.variable_scope('discrim'):
            logits_real = self.discriminator(real)
            logits_fake = self.discriminator(fake)
        self.build_losses(logits_real, logits_fake)
        self.collect_variables()

    def _get_optimizer(self):
        lr = get_scalar_var('learning_rate', 0.01, summary=True)
        return tf.train.AdamOptimizer(lr, beta1=0.5, epsilon=1e-3)


class GANTrainer(FeedfreeTrainerBase):
    """ Minimizes g_loss, then d_loss. """
    def __init__(self, config):
        self._input_source = QueueInput(config.dataflow)
        super(GANTrainer, self).__init__(config)

    def _setup(self):
        super(GANTrainer, self)._setup()
        self.build_train_tower()
        opt = self.model.get_optimizer()
        self.g_min = opt.minimize(self.model.g_loss, var_list=self.model.g_vars, name='g_op')
        with tf.control_dependencies([self.g_min]):
            self.d_min = opt.minimize(self.model.d_loss, var_list=self.model.d_vars, name='d_op')
        self.train_op = self.d_min


class Points(DataFlow):
    def get_data(self):
        rng = np.random.RandomState(0)
        while True:
            yield [(CENTER + rng.randn(2) * 0.3).astype('float32')]


class Report(Callback):
    """ Samples in every epoch. """
    def _setup_graph(self):
        self.pred = self.trainer.get_predictor(['z'], ['gen/points'])

    def _trigger_epoch(self):
        z = np.random.RandomState(1).uniform(-1, 1, size=(200, Z_DIM))
        points = self.pred(z)[0]
        self.trainer.monitors.put_scalar('distance', np.linalg.norm(points.mean(axis=0) - CENTER))


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--load', help='load model')
    args = parser.parse_args()
    logger.auto_set_dir('k')

    config = TrainConfig(
        model=Model(),
        dataflow=BatchData(Points(), BATCH),
        callbacks=[ModelSaver(), Report(),
                   PeriodicTrigger(ScheduledHyperParamSetter('learning_rate', [(6, 0.002)]),
                                   every_k_epochs=1)],
        steps_per_epoch=150,
        max_epoch=8,
        session_init=SaverRestore(args.load) if args.load else None
    )
    trainer = GANTrainer(config)
    trainer.train()
    print('distance: %.4f' % trainer.monitors.get_latest('distance'))
