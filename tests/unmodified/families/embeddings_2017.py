# Embeddings of three clusters with the losses of symbolic_functions, an input of its own, and an LMDB that it reads itself.
import numpy as np
import tensorflow as tf
import tensorpack.tfutils.symbolic_functions as symbf
from tensorpack import *
from tensorpack.input_source.input_source import EnqueueThread
from tensorpack.tfutils.summary import *
from tensorpack.utils.concurrency import ShareSessionThread

rng = np.random.RandomState(0)
centers = rng.randn(3, 8).astype("float32")
points = (centers[:, None] + 0.3 * rng.randn(3, 20, 8)).astype("float32")


class Triplets(RNGDataFlow):
    def get_data(self):
        while True:
            same, other = self.rng.choice(3, 2, replace=False)
            first, second = self.rng.choice(20, 2, replace=False)
            yield [points[same, first], points[same, second], points[other, self.rng.randint(20)]]

    def size(self):
        return 640


class Stored(LMDBData):
    def get_data(self):
        with self._guard:
            for key in self.keys:
                yield [serialize.loads(self._txn.get(key))]


class Filler(ShareSessionThread):
    def __init__(self, queue, ds, placehdrs):
        super(Filler, self).__init__()
        self.daemon = True
        self.ds, self.placehdrs = ds, placehdrs
        self.op, self.close_op = queue.enqueue(placehdrs), queue.close(cancel_pending_enqueues=True)

    def run(self):
        with self.default_sess():
            try:
                self.ds.reset_state()
                for dp in self.ds.get_data():
                    self.op.run(feed_dict=dict(zip(self.placehdrs, dp)))
            except tf.errors.CancelledError:
                pass


class ShuffledInput(QueueInput):
    thread_class = EnqueueThread

    def _setup(self, inputs):
        self._input_placehdrs = [v.build_placeholder_reuse() for v in inputs]
        self.queue = tf.RandomShuffleQueue(50, 10, [x.dtype for x in self._input_placehdrs], name="input_queue")
        self.thread = self.thread_class(self.queue, self.ds, self._input_placehdrs)


class OwnThreadInput(ShuffledInput):
    thread_class = Filler


class Model(ModelDesc):
    def _get_inputs(self):
        return [InputDesc(tf.float32, (None, 8), name) for name in ("anchor", "positive", "negative")]

    def _build_graph(self, inputs):
        with tf.variable_scope("embed"):
            W = tf.get_variable("W", [8, 2])
        a, p, n = [tf.matmul(x, W) for x in inputs]
        triplet, pos, neg = symbf.triplet_loss(a, p, n, 1.0, extra=True)
        soft, _, _ = symbf.soft_triplet_loss(a, p, n)
        ones = tf.ones([tf.shape(a)[0]])
        pairs = symbf.contrastive_loss(a, p, ones, 1.0) + symbf.contrastive_loss(a, n, 1 - ones, 1.0)
        cosine = symbf.siamese_cosine_loss(a, n, 1 - ones)
        self.cost = tf.add_n([triplet, soft, pairs, 0.1 * cosine], name="cost")
        add_moving_summary(pos, neg, self.cost)

    def _get_optimizer(self):
        return tf.train.AdamOptimizer(0.05)


def train(input_class):
    logger.set_logger_dir("train_log", action="d")
    config = TrainConfig(
        model=Model(),
        data=input_class(BatchData(Triplets(), 32)),
        callbacks=[ModelSaver()],
        steps_per_epoch=100,
        max_epoch=1,
    )
    with tf.Graph().as_default():
        SimpleTrainer(config).train()
    W = varmanip.load_chkpt_vars(tf.train.latest_checkpoint("train_log"))["embed/W"]
    embedded, means = points.dot(W), points.dot(W).mean(axis=1)
    nearest = ((embedded[:, :, None] - means[None, None]) ** 2).sum(axis=-1).argmin(axis=-1)
    return np.mean(nearest != np.arange(3)[:, None])


if __name__ == "__main__":
    dftools.dump_dataflow_to_lmdb(DataFromList([[k, k * k] for k in range(5)], shuffle=False), "squares.lmdb")
    squares = Stored("squares.lmdb", shuffle=False, keys="{:0>8d}")
    squares.reset_state()
    assert [int(dp[0][1]) for dp in squares.get_data()] == [0, 1, 4, 9, 16]
    print("error: %.4f" % max(train(ShuffledInput), train(OwnThreadInput)))
