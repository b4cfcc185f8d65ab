# A script for Python 2.7: print statements, integer division, xrange
import cPickle as pickle
import StringIO
import sys

import numpy as np
import tensorflow as tf
from tensorpack import *

BATCH = 32


def load():
    rng = np.random.RandomState(0)
    buf = StringIO.StringIO(pickle.dumps(rng.rand(640, 4).astype('float32'), protocol=2))
    x = pickle.load(buf)
    return {'image': x, 'label': (x.sum(axis=1) > 2).astype('int32')}


class Model(ModelDesc):
    def _get_inputs(self):
        return [InputVar(tf.float32, (None, 4), 'image'), InputVar(tf.int32, (None,), 'label')]

    def _build_graph(self, inputs):
        image, label = inputs
        logits = FullyConnected('fc', image, out_dim=2, nl=tf.identity,
                                W_init=tf.constant_initializer(0.1))
        cost = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
        self.cost = tf.reduce_mean(cost, name='cost')

    def _get_optimizer(self):
        return tf.train.AdamOptimizer(0.05)


class Report(Callback):
    def _after_train(self):
        print 'sum of weights: %.4f' % np.abs(self.trainer.sess.run('fc/W:0')).sum()


if __name__ == '__main__':
    data = load()
    for k, v in data.iteritems():
        print >>sys.stderr, k, v.shape
    if not data.has_key('label'):
        raise KeyError, 'label'
    rows = [[data['image'][i], data['label'][i]] for i in xrange(len(data['label']))]
    steps = len(rows) / BATCH
    print 'steps', steps, data.keys()[0]
    config = TrainConfig(
        model=Model(),
        dataflow=BatchData(DataFromList(rows, shuffle=False), BATCH),
        callbacks=[Report()], steps_per_epoch=steps, max_epoch=5)
    SimpleTrainer(config).train()
