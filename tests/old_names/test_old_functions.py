"""Functions, layers and DataFlows of tensorpack 0.2 to 0.10 that exist at their old addresses."""

from __future__ import annotations

import pickle
from itertools import islice

import numpy as np
import pytest

import tensorpack_lite
from tensorpack_lite import trainv1
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow import (
    AugmentImageComponent,
    BatchData,
    DataFromList,
    LMDBData,
    MultiProcessRunner,
    MultiThreadMapData,
    MultiThreadRunner,
    dftools,
    imgaug,
)
from tensorpack_lite.dataflow.base import stop_workers
from tensorpack_lite.models import BatchNorm, Conv2D, PReLU
from tensorpack_lite.tfutils import summary
from tensorpack_lite.tfutils import symbolic_functions as symbf
from tensorpack_lite.tfutils.tower.context import TowerContext
from tensorpack_lite.tfutils.varmanip import SessionUpdate
from tensorpack_lite.utils.serialize import loads


class TestFunctions:
    """Functions that exist at their old addresses."""

    def test_prediction_incorrect(self, sess):
        """It is 1 where the label is not among the top k; `accuracy` is the mean of the complement."""
        logits = tf.constant([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0], [0.0, 2.0, 1.0]])
        labels = tf.constant([2, 2, 2])
        wrong = symbf.prediction_incorrect(logits, labels)
        assert "incorrect_vector:0" == wrong.name
        top_two = symbf.prediction_incorrect(logits, labels, topk=2, name="top2")
        share = symbf.accuracy(logits, labels)
        one, two, right = sess.run([wrong, top_two, share])
        np.testing.assert_array_equal([0, 1, 1], one)
        np.testing.assert_array_equal([0, 1, 0], two)
        assert 1 / 3 == pytest.approx(right)

    def test_others(self, sess):
        """The loss is quadratic below delta; the batch axis stays; layers without a name; a value for a variable."""
        loss = sess.run(symbf.huber_loss(tf.constant([0.5, -3.0]), delta=2.0))
        np.testing.assert_allclose([0.125, 2 * (3 - 1)], loss)
        flat = symbf.batch_flatten(tf.placeholder(tf.float32, [None, 2, 3]))
        assert [None, 6] == flat.shape.as_list()
        with tf.variable_scope("act"):
            PReLU.symbolic_function(tf.constant([1.0]))
        assert ["act/alpha"] == [v.op.name for v in tf.trainable_variables()]
        variable = tf.get_variable("v", shape=[2])
        SessionUpdate.load_value_to_var(variable, np.array([1.0, 2.0], "float32"))
        np.testing.assert_array_equal([1, 2], sess.run(variable))

    def test_get_scalar_var(self, sess):
        """It is a float32 variable with a summary on request."""
        variable = symbf.get_scalar_var("lr", 2, summary=True)
        sess.run(tf.global_variables_initializer())
        assert 2.0 == sess.run(variable)
        assert ["lr-summary:0"] == [t.name for t in tf.get_collection(tf.GraphKeys.SUMMARIES)]

    def test_shapeless_placeholder(self, sess):
        """The given axes have an unknown size, and other sizes can be fed."""
        x = symbf.shapeless_placeholder(tf.zeros([2, 3]), 0, "free")
        assert [None, 3] == x.shape.as_list()
        assert (2, 3) == sess.run(x).shape
        assert (5, 3) == sess.run(x, {x: np.ones((5, 3))}).shape

    def test_input_desc(self, fresh_graph):
        """InputDesc creates placeholders, finds them again, and describes existing ones."""
        desc = trainv1.InputDesc(tf.float32, (None, 3), "x")
        x = desc.build_placeholder()
        assert x is desc.build_placeholder_reuse()
        assert desc == trainv1.InputDesc.from_placeholder(x)

    def test_layers(self, sess, accepted):
        """SeparableConv2D is a depthwise and a pointwise convolution; ResizeImages and the others keep their meaning."""
        x = tf.constant(np.arange(32, dtype="float32").reshape(1, 4, 4, 2))
        y = tensorpack_lite.SeparableConv2D("sep", x, 3, 1, kernel_initializer=tf.ones_initializer())
        small = tensorpack_lite.ResizeImages(x, [2, 2])
        leaky = tensorpack_lite.LeakyReLU(tf.constant([-2.0, 2.0]), 0.5)
        sess.run(tf.global_variables_initializer())
        values, pixels, slope = sess.run([y, small, leaky])
        np.testing.assert_allclose(np.repeat(sess.run(x).sum(-1, keepdims=True), 3, -1), values)
        assert (1, 2, 2, 2) == pixels.shape
        np.testing.assert_array_equal([-1, 2], slope)
        assert tensorpack_lite.GroupedConv2D is Conv2D


class TestLayersAndSummaries:
    @pytest.mark.parametrize(
        ("nonlinearity", "first", "variables"),
        [
            (
                lambda x, name: BatchNorm(name, x),
                "c/activation/output/output",
                {"c/output/gamma", "c/output/beta"},
            ),
            (lambda x, name: tf.nn.relu(x, name=name), "c/activation/output", set()),
            (lambda x, name=None: tf.nn.relu(x, name=name), "c/Relu", set()),
            (tf.nn.relu, "c/Relu", set()),
        ],
    )
    def test_name_of_an_activation(self, fresh_graph, accepted, nonlinearity, first, variables):
        """An activation that requires a name gets "output", and others None. The layer is always named "output"."""
        with TowerContext("", is_training=True):
            y = Conv2D("c", tf.zeros([2, 5, 5, 3]), 4, 3, nl=nonlinearity)
        assert ["c/output", first] == [y.op.name, y.op.inputs[0].op.name]
        assert {"c/W", "c/b"} | variables == {v.op.name for v in tf.trainable_variables()}

    def test_lists_of_summaries(self, fresh_graph, accepted):
        """`add_moving_summary` takes lists, and a tensor that has an average gets no second one."""
        a, b, c = (tf.constant(1.0, name=name) for name in "abc")
        assert ["EMA/a_EMA_apply", "EMA/b_EMA_apply"] == names_of(summary.add_moving_summary([a, b]))
        assert ["EMA/c_EMA_apply"] == names_of(summary.add_moving_summary(a, [c, c], decay=0.5))
        assert 3 == len(tf.get_collection(tf.GraphKeys.SUMMARIES))
        with pytest.raises(TypeError, match="expected a tensor"):
            summary.add_moving_summary([1.0])

    def test_a_tensor_twice(self, fresh_graph):
        """Without `run`, a second average is an error."""
        with pytest.raises(ValueError, match="'a' already has a moving average"):
            summary.add_moving_summary(*[tf.constant(1.0, name="a")] * 2)


def names_of(tensors):
    return [tensor.op.name for tensor in tensors]


class TestDataFlow:
    @pytest.mark.parametrize(
        "stage",
        [
            lambda ds: MultiProcessRunner(ds, 2, 1),
            lambda ds: MultiThreadRunner(lambda: ds, 2, 1),
            lambda ds: MultiThreadMapData(ds, 1, lambda dp: dp, buffer_size=2),
        ],
    )
    def test_the_first_iteration_resets(self, accepted, stage, log_lines):
        """Stages whose workers a constructor started until 2018 are reset by their first iteration, with a warning."""
        flow = BatchData(stage(DataFromList([[k] for k in range(6)], shuffle=False)), 2)
        batches = islice(flow.get_data(), 3)
        assert [[0, 1], [2, 3], [4, 5]] == [batch[0].tolist() for batch in batches]
        stop_workers(flow)
        assert 1 == "\n".join(log_lines).count("reset_state() was not called")

    def test_transaction(self, tmp_path, accepted):
        """A class that a script derives from LMDBData reads by `self._txn`, also in its constructor."""
        pytest.importorskip("lmdb")
        path = str(tmp_path / "data.lmdb")
        dftools.dump_dataflow_to_lmdb(DataFromList([[1], [2]], shuffle=False), path)

        class Values(LMDBData):
            def __init__(self, path):
                super().__init__(path, shuffle=False)
                self.num_entries = self._txn.stat()["entries"]

            def get_data(self):
                for key in (b"00000000", b"00000001"):
                    yield loads(self._txn.get(key))

        flow = Values(path)
        flow.reset_state()
        assert 3 == flow.num_entries  # one lists the keys
        assert [[1], [2]] == list(flow)

    def test_lmdb(self, tmp_path):
        """LMDBDataPoint reads a file of `dump_dataflow_to_lmdb`, from an LMDBData or a path."""
        pytest.importorskip("lmdb")
        path = str(tmp_path / "data.lmdb")
        dftools.dump_dataflow_to_lmdb(DataFromList([[1], [2]], shuffle=False), path)
        for flow in (
            dftools.LMDBDataPoint(LMDBData(path, shuffle=False)),
            dftools.LMDBDataPoint(path, shuffle=False),
        ):
            flow.reset_state()
            assert [[1], [2]] == list(flow)

    def test_tfrecord(self, tmp_path):
        """`dump_dataflow_to_tfrecord` writes a file that TFRecordSerializer loads."""
        path = str(tmp_path / "data.tfrecord")
        dftools.dump_dataflow_to_tfrecord(DataFromList([[1], [2]], shuffle=False), path)
        flow = tensorpack_lite.TFRecordSerializer.load(path, size=2)
        flow.reset_state()
        assert [[1], [2]] == list(flow)

    def test_gaussian_deform(self):
        """Without displacement the image stays; one anchor moves all pixels alike. Another size is a ValueError."""
        pytest.importorskip("cv2")
        image = np.random.RandomState(0).rand(16, 12, 3).astype("float32")
        still = imgaug.GaussianDeform([(0.5, 0.5)], (16, 12), randrange=0)
        np.testing.assert_allclose(image, still.augment(image))
        augmentor = imgaug.GaussianDeform([(0.5, 0.5)], (16, 12), randrange=2)
        augmentor._rand_range = lambda *args: np.array([[2, 1]], "float32")
        np.testing.assert_allclose(image[5, 4], augmentor.augment(image)[3, 3], rtol=1e-5)
        assert (16, 12, 3) == imgaug.GaussianDeform([(0, 0), (1, 1)], (16, 12)).augment(image).shape
        with pytest.raises(ValueError, match=r"expected \(16, 12\), got \(12, 16\)"):
            still.augment(np.zeros((12, 16), "uint8"))


class TestPickles:
    """tensorpack pickles augmentors and DataFlows with the names of their arguments as attributes."""

    def test_augmentors(self):
        """Augmentors that contain others, and those without a newer argument, are loaded and work."""
        pytest.importorskip("cv2")
        image = np.full((4, 4, 3), 100, "uint8")
        clip = imgaug.Clip(max=7)
        for augmentor in (
            load(imgaug.RandomApplyAug, aug=clip, prob=1.0),
            load(imgaug.RandomOrderAug, aug_lists=[clip]),
            load(imgaug.AugmentorList, augmentors=[clip]),
        ):
            augmentor.reset_state()
            np.testing.assert_array_equal(np.full((4, 4, 3), 7), augmentor.augment(image))
        np.testing.assert_array_equal(image, load(imgaug.Saturation, alpha=0.0, rgb=True).augment(image))

    @pytest.mark.parametrize(
        ("cls", "state"),
        [
            (imgaug.RandomChooseAug, {"aug_lists": []}),
            (imgaug.transform.PhotometricTransform, {"func": np.abs}),
            (AugmentImageComponent, {"ds": None, "augs": None, "index": 0}),
        ],
    )
    def test_unknown_attributes(self, cls, state):
        """Where tensorpack's private attributes would be needed, the error gives advice."""
        with pytest.raises(ValueError, match=f"{cls.__name__}: cannot load this pickle.*pickle it again"):
            load(cls, **state)


def load(cls, **state):
    """Unpickle an object with these attributes."""
    old = cls.__new__(cls)
    old.__dict__.update(state)
    return pickle.loads(pickle.dumps(old))
