"""
Files that old scripts left behind load on every TensorFlow: meta graphs, checkpoints, parameters and pickles.

The files in tests/data/old_graph were written by running this file as a script with TensorFlow 1.15:
    python tests/integration/test_old_files.py
"""

from __future__ import annotations

import io
import os
import pickle
import sys
import types

import numpy as np
import pytest
from fakes.look_ups import install_value_names

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow import BatchData, imgaug
from tensorpack_lite.predict.base import OnlinePredictor
from tensorpack_lite.tfutils.common import get_global_step_var
from tensorpack_lite.tfutils.sessinit import SmartInit, get_model_loader
from tensorpack_lite.tfutils.varmanip import load_checkpoint_vars

OLD_GRAPH = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "old_graph")
META = os.path.join(OLD_GRAPH, "graph-0101-000000.meta")
MODEL = os.path.join(OLD_GRAPH, "model-0")
W, B = np.array([[1, 2], [3, 4]], np.float32), np.array([0.5, -0.5], np.float32)
X = np.array([[1, 1], [2, 0]], np.float32)
LOGITS = X @ W + B


def write_old_graph():
    """Write a graph with a condition, a loop, a Python function, a queue and both kinds of variables, and a checkpoint."""
    tf.disable_v2_behavior()
    x = tf.placeholder(tf.float32, [None, 2], "input")
    is_training = tf.placeholder_with_default(False, [], "is_training")
    with tf.variable_scope("fc"):
        weights = tf.get_variable("W", initializer=W, use_resource=False)
        bias = tf.get_variable("b", initializer=B, use_resource=True)
    logits = tf.add(tf.matmul(x, weights), bias, name="logits")
    chosen = tf.cond(is_training, lambda: tf.matmul(logits, weights) + bias, lambda: logits)
    _, looped = tf.while_loop(lambda i, _: i < 2, lambda i, v: (i + 1, tf.matmul(v, weights)), [0, chosen])
    tf.identity(looped, name="looped")
    tf.py_func(lambda value: value, [logits], tf.float32, name="debug")
    queue = tf.FIFOQueue(10, [tf.float32], name="input_queue")
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue([x])]))
    tf.add_to_collection("tower_inputs", x)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, MODEL, write_meta_graph=False)
    tf.train.export_meta_graph(META)


@pytest.fixture(params=[False, True], ids=["plain", "under_run"])
def look_ups(request, monkeypatch):
    """Run a test with TensorFlow's look-ups by name, and with those of `tensorpack-lite run`."""
    if request.param:
        install_value_names(monkeypatch)


@pytest.mark.usefixtures("look_ups")
class TestMetaGraph:
    def test_predict(self, sess):
        """A graph and a checkpoint of TensorFlow 1.15 give their outputs, through a condition and a loop."""
        tf.train.import_meta_graph(META)
        get_model_loader(MODEL).init(sess)
        predict = OnlinePredictor(["input", "is_training"], ["logits", "looped", "fc/W", "fc/b"], sess=sess)
        logits, looped, weights, bias = predict(X, False)
        np.testing.assert_allclose(logits, LOGITS)
        np.testing.assert_allclose(looped, LOGITS @ W @ W)
        np.testing.assert_allclose(weights, W)
        np.testing.assert_allclose(bias, B)
        np.testing.assert_allclose(predict(X, True)[1], (LOGITS @ W + B) @ W @ W)

    def test_the_collections(self, fresh_graph):
        """Variables, queue runners, tensors and the contexts of conditions and loops are in their collections."""
        tf.train.import_meta_graph(META)
        assert ["fc/W:0", "fc/b:0"] == [var.name for var in tf.trainable_variables()]
        assert ["input:0"] == [tensor.name for tensor in tf.get_collection("tower_inputs")]
        assert 1 == len(tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS))
        assert 2 == len(tf.get_collection(tf.GraphKeys.COND_CONTEXT))
        assert 1 == len(tf.get_collection(tf.GraphKeys.WHILE_CONTEXT))

    def test_continue_training(self, sess, fresh_graph):
        """Gradients pass through the imported loop and condition, and update the variables."""
        tf.train.import_meta_graph(META)
        loss = tf.reduce_sum(fresh_graph.get_tensor_by_name("looped:0"))
        update = tf.train.GradientDescentOptimizer(0.001).minimize(loss)
        get_model_loader(MODEL).init(sess)
        before = sess.run(loss, {"input:0": X})
        sess.run(update, {"input:0": X})
        assert sess.run(loss, {"input:0": X}) < before


@pytest.mark.parametrize("write_version", [tf.train.SaverDef.V1, tf.train.SaverDef.V2])
@pytest.mark.parametrize("suffix", ["", ".meta"])
def test_a_checkpoint_of_2016(tmp_path, sess, write_version, suffix):
    """A checkpoint in the old format, with an int32 `global_step` and variables that no longer exist, is restored."""
    path = str(tmp_path / "model-7")
    with tf.Graph().as_default(), tf.Session() as old:
        for name, value in {
            "fc/W": W,
            "global_step": np.int32(7),
            "tower0/EMA/cost": 1.0,
            "step_per_epoch": 3,
        }.items():
            tf.get_variable(name, initializer=value, use_resource=False)
        old.run(tf.global_variables_initializer())
        tf.train.Saver(write_version=write_version).save(old, path)
    variable = tf.get_variable("fc/W", [2, 2], use_resource=True)
    step = get_global_step_var()
    init = SmartInit(path + suffix)
    init._setup_graph()
    sess.run(tf.global_variables_initializer())
    sess.graph.finalize()
    init._run_init(sess)
    assert tf.int64 == step.dtype
    assert (W.tolist(), 7) == (sess.run(variable).tolist(), sess.run(step))
    assert 3 == load_checkpoint_vars(path)["step_per_epoch"]


def test_a_float_for_an_integer(tmp_path, sess):
    """A value that cannot be cast to the dtype of its variable raises a TypeError that names the variable."""
    path = str(tmp_path / "model")
    with tf.Graph().as_default(), tf.Session() as old:
        tf.get_variable("count", initializer=1.5)
        old.run(tf.global_variables_initializer())
        tf.train.Saver().save(old, path)
    tf.get_variable("count", initializer=0, use_resource=True)
    with pytest.raises(TypeError, match="Variable count has dtype int32, but its new value has dtype float32"):
        SmartInit(path).init(sess)


def test_a_graph_is_not_a_checkpoint():
    """The path of a meta graph without a checkpoint of this name raises an error that names the argument to pass."""
    with pytest.raises(FileNotFoundError, match=r"000000.meta is a graph, .* Pass a checkpoint, e.g. .*checkpoint"):
        SmartInit(META)


@pytest.mark.parametrize("suffix", ["", ":0"])
def test_parameters_of_2016(tmp_path, sess, suffix):
    """Parameters load with and without `:0` in their names; those that the model does not have are ignored."""
    path = str(tmp_path / "model.npz")
    old = {
        "fc/W": W,
        "tower0/learning_rate": 0.1,
        "global_step": np.int32(7),
        "step_per_epoch": 3,
        "bn/mean/EMA": B,
    }
    np.savez(path, **{name + suffix: value for name, value in old.items()})
    variable = tf.get_variable("fc/W", [2, 2], use_resource=True)
    mean = tf.get_variable("bn/mean/EMA", [2], use_resource=True)
    sess.run([tf.global_variables_initializer(), get_global_step_var().initializer])
    SmartInit(path).init(sess)
    assert (W.tolist(), B.tolist(), 7) == tuple(
        np.asarray(value).tolist() for value in sess.run([variable, mean, get_global_step_var()])
    )


class OldUnpickler(pickle.Unpickler):
    """Unpickler that finds the modules of tensorpack, like `tensorpack-lite run`."""

    def find_class(self, module, name):
        return super().find_class(module.replace("tensorpack.", "tensorpack_lite.", 1), name)


@pytest.fixture
def old_object(monkeypatch):
    """Function that returns an object of a class of tensorpack, with the attributes that tensorpack gives it."""

    def old_object(path, **attributes):
        *parents, name = path.split(".")
        for depth in range(1, len(parents) + 1):
            module = ".".join(parents[:depth])
            monkeypatch.setitem(sys.modules, module, sys.modules.get(module, types.ModuleType(module)))
        kind = type(name, (), {"__module__": module})
        setattr(sys.modules[module], name, kind)
        obj = kind()
        obj.__dict__.update(attributes)
        return obj

    return old_object


def again(obj):
    """Pickle an object of tensorpack, and unpickle it as one of this library."""
    return OldUnpickler(io.BytesIO(pickle.dumps(obj, 2))).load()


def negative(datapoint):
    return [-datapoint[0]]


class TestPickles:
    def test_dataflows(self, old_object):
        """A pickled pipeline of tensorpack has the attributes of the constructors, and yields its datapoints."""
        common = "tensorpack.dataflow.common"
        source = old_object("tensorpack.dataflow.raw.DataFromList", lst=[[1], [2], [3], [4]], shuffle=False)
        proxy = old_object("tensorpack.dataflow.base.ProxyDataFlow", ds=source)
        mapped = old_object(f"{common}.MapData", ds=proxy, func=negative)
        repeated = old_object(f"{common}.RepeatedData", ds=mapped, num=2)
        joined = old_object(f"{common}.JoinData", df_lists=[repeated, repeated])
        batch = old_object(f"{common}.BatchData", ds=joined, batch_size=2, remainder=False, use_list=False)
        flow = again(batch)
        assert isinstance(flow, BatchData)
        flow.reset_state()
        assert 4 == len(flow)
        assert [-1, -2] == next(iter(flow))[1].tolist()

    def test_augmentors(self, old_object):
        """Pickled augmentors keep their arguments and get a new random stream."""
        place, rng = "tensorpack.dataflow.imgaug", np.random.RandomState(0)
        augmentors = again(
            old_object(
                f"{place}.base.AugmentorList",
                rng=rng,
                augmentors=[
                    old_object(f"{place}.misc.Resize", rng=rng, shape=(8, 6), interp=1),
                    old_object(f"{place}.misc.Flip", rng=rng, horiz=True, vert=False, prob=1.0),
                    old_object(f"{place}.crop.RandomCutout", rng=rng, h_range=2, w_range=(2, 3), fill=0.0),
                    old_object(f"{place}.imgproc.Brightness", rng=rng, delta=10, clip=True),
                ],
            )
        )
        assert isinstance(augmentors, imgaug.AugmentorList)
        augmentors.reset_state()
        assert (8, 6, 3) == augmentors.augment(np.zeros((20, 30, 3), "uint8")).shape
        assert "AugmentorList" in repr(augmentors)

    def test_transforms(self, old_object):
        """Pickled transforms do what they did."""
        place = "tensorpack.dataflow.imgaug.transform"
        transform = again(
            old_object(
                f"{place}.TransformList",
                tfms=[
                    old_object(f"{place}.ResizeTransform", h=4, w=4, new_h=8, new_w=8, interp=1),
                    old_object(f"{place}.CropTransform", y0=2, x0=1, h=5, w=3),
                ],
            )
        )
        assert (5, 3) == transform.apply_image(np.zeros((4, 4), "uint8")).shape
        assert [[1.0, 4.0]] == transform.apply_coords(np.array([[1.0, 3.0]])).tolist()


if __name__ == "__main__":
    os.makedirs(OLD_GRAPH, exist_ok=True)
    write_old_graph()
    os.remove(os.path.join(OLD_GRAPH, "checkpoint"))  # contains an absolute path
