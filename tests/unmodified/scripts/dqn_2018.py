#!/usr/bin/env python
# -*- coding: utf-8 -*-
# File: dqn_2018.py
# Q-learning with a target network, in a corridor of eight rooms.  Style: tensorpack 0.8, 2018

import argparse
import os
import numpy as np
import tensorflow as tf

from tensorpack import *
from tensorpack.tfutils import gradproc, optimizer, summary, varreplace
from tensorpack.tfutils.scope_utils import auto_reuse_variable_scope

GAMMA = 0.9
ROOMS = 8
BATCH_SIZE = 32


class DQNModel(ModelDesc):
    learning_rate = 1e-2

    def __init__(self, gamma):
        self.gamma = gamma

    def inputs(self):
        return [tf.placeholder(tf.float32, (None, 2, ROOMS), 'comb_state'),
                tf.placeholder(tf.int64, (None,), 'action'),
                tf.placeholder(tf.float32, (None,), 'reward'),
                tf.placeholder(tf.bool, (None,), 'isOver')]

    @auto_reuse_variable_scope
    def get_DQN_prediction(self, state):
        init = tf.random_normal_initializer(stddev=0.3, seed=5)
        with argscope(FullyConnected, kernel_initializer=init):
            l = FullyConnected('fc0', state, 16, activation=tf.nn.relu)
            Q = FullyConnected('fct', l, 2)
        return tf.identity(Q, name='Qvalue')

    def build_graph(self, comb_state, action, reward, isOver):
        state = tf.slice(comb_state, [0, 0, 0], [-1, 1, -1], name='state_4d')
        state = tf.reshape(state, [-1, ROOMS], name='state')
        self.predict_value = self.get_DQN_prediction(state)
        if not get_current_tower_context().is_training:
            return

        next_state = comb_state[:, 1]
        action_onehot = tf.one_hot(action, 2, 1.0, 0.0)
        pred_action_value = tf.reduce_sum(self.predict_value * action_onehot, 1)
        max_pred_reward = tf.reduce_mean(tf.reduce_max(self.predict_value, 1), name='predict_reward')
        summary.add_moving_summary(max_pred_reward)

        with tf.variable_scope('target'), varreplace.freeze_variables(skip_collection=True):
            target_predict = self.get_DQN_prediction(next_state)
        best_v = tf.reduce_max(target_predict, 1)
        target = reward + (1.0 - tf.cast(isOver, tf.float32)) * self.gamma * tf.stop_gradient(best_v)

        cost = tf.losses.huber_loss(target, pred_action_value, reduction=tf.losses.Reduction.MEAN)
        summary.add_param_summary(('fc.*/W', ['histogram', 'rms']))
        summary.add_moving_summary(cost)
        return cost

    def optimizer(self):
        lr = tf.get_variable('learning_rate', initializer=self.learning_rate, trainable=False)
        opt = tf.train.AdamOptimizer(lr, epsilon=1e-3)
        return optimizer.apply_grad_processors(
            opt, [gradproc.GlobalNormClip(10), gradproc.SummaryGradient()])

    @staticmethod
    def update_target_param():
        vars = tf.global_variables()
        ops = []
        G = tf.get_default_graph()
        for v in vars:
            target_name = v.op.name
            if target_name.startswith('target'):
                new_name = target_name.replace('target/', '')
                logger.info("Target Network Update: {} <- {}".format(target_name, new_name))
                ops.append(v.assign(G.get_tensor_by_name(new_name + ':0')))
        return tf.group(*ops, name='update_target_network')


class ExpReplay(DataFlow, Callback):
    """ Steps of a random walk: room, next room, action, reward, is over. """
    def __init__(self, seed):
        self.seed = seed

    def __iter__(self):
        rng = np.random.RandomState(self.seed)
        eye = np.eye(ROOMS, dtype='float32')
        while True:
            room, action = rng.randint(0, ROOMS - 1), rng.randint(0, 2)
            next_room = max(room - 1, 0) if action == 0 else room + 1
            over = next_room == ROOMS - 1
            yield [np.stack([eye[room], eye[next_room]]), action, np.float32(over), over]

    def _before_train(self):
        logger.info("Warming up ...")

    def _trigger(self):
        self.trainer.monitors.put_scalar('expreplay/steps', self.trainer.global_step)


class Evaluator(Callback):
    def _setup_graph(self):
        self.pred = self.trainer.get_predictor(['state'], ['Qvalue'])

    def _trigger(self):
        q = self.pred(np.eye(ROOMS, dtype='float32')[:-1])[0]
        best = GAMMA ** np.arange(ROOMS - 2, -1, -1)
        self.trainer.monitors.put_scalar('Q-error', np.abs(q.max(axis=1) - best).max())
        self.trainer.monitors.put_scalar('way-right', (q.argmax(axis=1) == 1).mean())


def get_config():
    expreplay = ExpReplay(0)
    return AutoResumeTrainConfig(
        data=QueueInput(BatchData(expreplay, BATCH_SIZE)),
        model=DQNModel(GAMMA),
        callbacks=[
            ModelSaver(),
            PeriodicTrigger(
                RunOp(DQNModel.update_target_param, verbose=True),
                every_k_steps=50),
            expreplay,
            ScheduledHyperParamSetter('learning_rate', [(6, 4e-3), (9, 1e-3)]),
            Evaluator(),
        ],
        steps_per_epoch=200,
        max_epoch=10,
    )


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--gpu', help='comma separated list of GPU(s) to use.')
    parser.add_argument('--load', help='load model')
    args = parser.parse_args()
    if args.gpu:
        os.environ['CUDA_VISIBLE_DEVICES'] = args.gpu
    logger.set_logger_dir(os.path.join('train_log', 'DQN-corridor'))
    config = get_config()
    if args.load:
        config.session_init = get_model_loader(args.load)
    trainer = SimpleTrainer()
    launch_train_with_config(config, trainer)
    print('Q error: %.4f' % trainer.monitors.get_latest('Q-error'))
