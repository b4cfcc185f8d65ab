#!/usr/bin/env python
# -*- coding: utf-8 -*-
# File: autoencoder_2021.py
# A denoising autoencoder.  Style: tensorpack 0.11 with TF 2, 2021

import argparse
import os
import numpy as np

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
import tensorflow as tf
from tensorpack import *
from tensorpack.compat import tfv1
from tensorpack.dataflow import BatchData, MapData, MultiProcessRunnerZMQ
from tensorpack.tfutils import optimizer
from tensorpack.tfutils.export import ModelExporter
from tensorpack.utils.argtools import log_once
from tensorpack.utils.utils import fix_rng_seed

DIM = 16


class Autoencoder(ModelDesc):
    def __init__(self, hidden):
        super().__init__()
        self.hidden = hidden

    def inputs(self):
        return [tf.TensorSpec((None, DIM), tf.float32, name='noisy'),
                tf.TensorSpec((None, DIM), tf.float32, name='clean')]

    def build_graph(self, noisy, clean):
        init = tfv1.glorot_uniform_initializer(seed=31)
        layers = tf.keras.layers
        with tfv1.variable_scope('encoder'):
            code = FullyConnected('fc', noisy, self.hidden, activation=tf.nn.tanh, kernel_initializer=init)
            code = layers.Lambda(lambda x: x * 2)(code)
        decoded = FullyConnected('decoder', code, DIM, kernel_initializer=init)
        decoded = tf.identity(decoded, name='decoded')
        cost = tf.reduce_mean(tfv1.squared_difference(decoded, clean), name='mse')
        summary.add_moving_summary(cost, decay=0.9)
        summary.add_tensor_summary(decoded, ['histogram'], main_tower_only=True)
        log_once("the graph was built")
        return cost

    def optimizer(self):
        lr = tfv1.get_variable('learning_rate', initializer=0.02, trainable=False)
        opt = tfv1.train.AdamOptimizer(lr)
        return optimizer.AccumGradOptimizer(opt, 2)


class Signals(RNGDataFlow):
    """ Sums of two sines, with and without noise. """
    def __init__(self, size, seed):
        self._size, self._seed = size, seed

    def __len__(self):
        return self._size

    def __iter__(self):
        rng = np.random.RandomState(self._seed)
        t = np.linspace(0, 2 * np.pi, DIM, endpoint=False)
        for _ in range(self._size):
            a, b = rng.randn(2)
            clean = a * np.sin(t) + b * np.cos(2 * t)
            yield {'noisy': clean + 0.3 * rng.randn(DIM), 'clean': clean}


def get_data(size, seed, batch):
    ds = Signals(size, seed)
    ds = MapData(ds, lambda dp: [dp['noisy'].astype('float32'), dp['clean'].astype('float32')])
    if seed == 1:
        ds = MultiProcessRunnerZMQ(ds, num_proc=1)
    return BatchData(ds, batch, use_list=False)


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--load', help='a checkpoint or an npz file to load')
    parser.add_argument('--hidden', type=int, default=4)
    args = parser.parse_args()

    fix_rng_seed(2021)
    logger.set_logger_dir(os.path.join('train_log', 'autoencoder'), action='d')
    config = TrainConfig(
        model=Autoencoder(args.hidden),
        dataflow=get_data(1600, 1, 32),
        callbacks=[
            ModelSaver(),
            MinSaver('val_mse'),
            InferenceRunner(get_data(320, 2, 32), ScalarStats('mse', prefix='val')),
            HyperParamSetterWithFunc('learning_rate', lambda epoch, old: 0.02 * 0.7 ** (epoch - 1)),
            CallbackFactory(trigger=lambda self: logger.info("an epoch is over")),
        ],
        monitors=DEFAULT_MONITORS(),
        steps_per_epoch=50,
        max_epoch=8,
        session_init=SmartInit(args.load),
    )
    trainer = SimpleTrainer()
    launch_train_with_config(config, trainer)

    with tfv1.Graph().as_default():
        export = PredictConfig(model=Autoencoder(args.hidden), input_names=['noisy'], output_names=['decoded'],
                               session_init=SmartInit(tfv1.train.latest_checkpoint(logger.get_logger_dir())))
        ModelExporter(export).export_compact('compact.pb')
    assert os.path.getsize('compact.pb') > 1000
    print('val mse: %.4f' % trainer.monitors.get_latest('val_mse'))
