"""Tests of graph_builder/placement.py."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.graph_builder.allreduce import aggregate_grads_colocate
from tensorpack_lite.graph_builder.data_parallel import DataParallelBuilder
from tensorpack_lite.graph_builder.placement import LeastLoadedDeviceSetter, OverrideCachingDevice
from tensorpack_lite.tfutils.varreplace import custom_getter_scope

SHAPES = {"a": [10], "b": [4, 2], "c": [1], "d": [3], "e": []}


def get(name, use_resource):
    return tf.get_variable(name, SHAPES[name], initializer=tf.zeros_initializer(), use_resource=use_resource)


class TestLeastLoaded:
    @pytest.mark.parametrize("use_resource", [True, False])
    def test_variables_are_balanced(self, use_resource):
        """A variable is placed on the device with the fewest elements; on a tie, on the first one."""
        with tf.device(LeastLoadedDeviceSetter("/gpu:1", ["/gpu:0", "/gpu:1"])):
            devices = [get(name, use_resource).op.device for name in "abcde"]
        assert [f"/device:GPU:{k}" for k in (0, 1, 1, 1, 0)] == devices

    def test_the_rest_goes_to_the_worker(self):
        """Other operations are on the worker, unless they have a device, or read or write a variable."""
        with tf.device(LeastLoadedDeviceSetter("/gpu:1", ["/cpu:0"])):
            variable = get("a", True)
            value = tf.add(variable, 1.0)
            with tf.device("/cpu:3"):
                elsewhere = tf.constant(1.0)
        assert ("/device:GPU:1", "/device:CPU:3") == (value.op.device, elsewhere.op.device)
        uses = ("ReadVariableOp", "AssignVariableOp")
        uses_of_variable = [op for op in value.graph.get_operations() if op.type in uses]
        # On newer versions of TensorFlow, a read without a device is placed with its variable, too.
        assert {op.device or "/device:CPU:0" for op in uses_of_variable} == {"/device:CPU:0"}
        assert set(uses) == {op.type for op in uses_of_variable}

    def test_name(self):
        """str() names the worker."""
        assert "LeastLoadedDeviceSetter-/device:GPU:2" == str(LeastLoadedDeviceSetter("/gpu:2", ["/cpu:0"]))

    def test_no_devices(self):
        """An empty list of devices raises a ValueError."""
        with pytest.raises(ValueError, match="ps_devices is empty"):
            LeastLoadedDeviceSetter("/gpu:0", [])

    def test_unknown_shape_counts_nothing(self):
        """A variable of unknown shape counts as empty."""
        setter = LeastLoadedDeviceSetter("/gpu:0", ["/gpu:0", "/gpu:1"])
        with tf.device(setter):
            tf.Variable(tf.placeholder(tf.float32, None), validate_shape=False, use_resource=False)
        assert [0, 0] == setter.ps_sizes

    @pytest.mark.slow
    def test_really_on_those_devices(self):
        """On distinct devices, without soft placement, two towers train like one."""
        data = np.random.RandomState(0).uniform(size=(2, 4, 3)).astype("float32")
        rows = np.array([0, 1, 1, 2], "int32")

        def tower(batches):
            batch = next(batches)
            x = tf.constant(batch)
            w = tf.get_variable("w", [3, 2], initializer=tf.ones_initializer())
            table = tf.get_variable("table", [3, 2], initializer=tf.ones_initializer())
            y = tf.matmul(x, w) * tf.nn.embedding_lookup(table, np.resize(rows, len(batch)))
            return tf.train.MomentumOptimizer(0.1, 0.9).compute_gradients(tf.reduce_mean(y**2))

        def train(batches, devices):
            with tf.Graph().as_default():
                setters = [LeastLoadedDeviceSetter(device, devices) for device in devices]
                iterator = iter(batches)
                grads = DataParallelBuilder.call_for_each_tower(range(len(devices)), lambda: tower(iterator), setters)
                pairs = aggregate_grads_colocate(grads)
                update = tf.train.MomentumOptimizer(0.1, 0.9).apply_gradients(pairs)
                places = {var.op.name: var.device for var in tf.trainable_variables()}
                config = tf.ConfigProto(device_count={"CPU": 3}, allow_soft_placement=False)
                with tf.Session(config=config) as sess:
                    sess.run(tf.global_variables_initializer())
                    for _ in range(3):
                        sess.run(update)
                    return places, sess.run(tf.trainable_variables())

        places, several = train(data, ["/cpu:1", "/cpu:2"])
        _, single = train([data.reshape(8, 3)], ["/cpu:0"])
        assert {"w": "/device:CPU:1", "table": "/device:CPU:2"} == places
        for a, b in zip(several, single):
            np.testing.assert_allclose(a, b, rtol=1e-6)


class TestCaching:
    def test_devices(self):
        """Large trainable variables are cached on the least loaded device, small ones on their device."""
        getter = OverrideCachingDevice(["/cpu:1", "/cpu:2"], "/cpu:0", small_variable_size_threshold=3)
        asked = []

        def note(inner, *args, **kwargs):
            asked.append(kwargs.get("caching_device"))
            return inner(*args, **kwargs)

        with custom_getter_scope(note), custom_getter_scope(getter):
            for name in "abcd":
                get(name, True)
            tf.get_variable("fixed", [100], trainable=False)
        assert ["/cpu:1", "/cpu:2", "/cpu:0", "/cpu:2", None] == asked
