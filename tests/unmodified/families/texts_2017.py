# Batches of sentences of similar length, by queues, and distributions, with tf.contrib of 2016 to 2018
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow.contrib import learn
from tensorflow.contrib.distributions import Logistic, MultivariateNormalDiag, Normal

ds = tf.contrib.distributions
texts = ["a cat", "a dog sat", "the cat sat on the mat", "the dog", "dogs sat on mats too", "cat", "on a mat", "a cat"]
vocabulary = learn.preprocessing.VocabularyProcessor(6)
rows = np.array(list(vocabulary.fit_transform(texts)))
lengths = (rows > 0).sum(axis=1)
assert rows.shape == (8, 6) and rows[0].tolist() == [1, 2, 0, 0, 0, 0] and len(vocabulary.vocabulary_) == 11
assert list(vocabulary.reverse(rows[5:6, :2])) == ["cat <UNK>"] and vocabulary.vocabulary_._mapping["dog"] == 3
assert list(vocabulary.transform(["cat zebra"]))[0].tolist() == [2, 0, 0, 0, 0, 0]
path = tempfile.mkdtemp() + "/vocabulary"
vocabulary.save(path)
assert len(learn.preprocessing.VocabularyProcessor.restore(path).vocabulary_) == 11

index = tf.train.range_input_producer(len(texts), num_epochs=1, shuffle=False).dequeue()
length = tf.gather(tf.constant(lengths, tf.int32), index)
words = tf.slice(tf.gather(tf.constant(rows), index), [0], tf.expand_dims(length, 0))
length_out, batch = tf.contrib.training.bucket_by_sequence_length(
    length, {"words": words, "index": index}, 2, [3, 5], dynamic_pad=True, allow_smaller_final_batch=True
)
assert batch["words"].get_shape().as_list() == [None, None]

normal = Normal(0.0, 2.0)
log_density = normal.log_prob(0.0)


def build(make):
    """Return None where the distribution is not installed."""
    try:
        return make()
    except NotImplementedError as error:
        assert "tensorflow_probability" in str(error), error


logistic = build(lambda: Logistic(0.0, 1.0).cdf(0.0))
diagonal = build(lambda: MultivariateNormalDiag([0.0, 0.0], [1.0, 2.0]).log_prob([0.0, 0.0]))
assert (logistic is not None) == hasattr(ds, "Logistic") == (diagonal is not None)

taken = []
with tf.Session() as sess:
    sess.run(tf.local_variables_initializer())
    coord = tf.train.Coordinator()
    threads = tf.train.start_queue_runners(sess, coord)
    try:
        while not coord.should_stop():
            n, b = sess.run([length_out, batch])
            assert len({(0, 0, 0, 1, 1, 2, 2)[k] for k in n}) == 1 and b["words"].shape == (len(n), n.max())
            for row, k, i in zip(b["words"], n, b["index"]):
                np.testing.assert_array_equal(row[:k], rows[i][:k])
                taken.append(i)
    except tf.errors.OutOfRangeError:
        pass
    coord.request_stop()
    coord.join(threads)
    np.testing.assert_allclose(sess.run(log_density), -np.log(2 * np.sqrt(2 * np.pi)), rtol=1e-5)
    if logistic is not None:
        np.testing.assert_allclose(sess.run([logistic, diagonal]), [0.5, -np.log(4 * np.pi)], rtol=1e-5)
print("error: %d" % (sorted(taken) != list(range(8))))
