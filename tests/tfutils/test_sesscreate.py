"""Tests of session creators."""

from __future__ import annotations

import os

import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.sesscreate import NewSessionCreator, ReuseSessionCreator, SessionCreatorAdapter


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    """Restore the environment variables that create_session sets."""
    for name in ("TF_GPU_THREAD_MODE", "TF_GPU_THREAD_COUNT", "TF_USE_CUDNN_BATCHNORM_SPATIAL_PERSISTENT"):
        monkeypatch.setenv(name, "before")
        monkeypatch.delenv(name)


class TestNewSessionCreator:
    @pytest.mark.parametrize("use_resource", [True, False])
    def test_initializes_everything(self, use_resource):
        """Global variables, local variables and tables are initialized."""
        var = tf.get_variable("w", initializer=3.0, use_resource=use_resource)
        local = tf.get_variable(
            "l", initializer=4.0, use_resource=use_resource, collections=[tf.GraphKeys.LOCAL_VARIABLES]
        )
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(tf.constant(["a"]), tf.constant([7])), -1)
        found = table.lookup(tf.constant("a"))
        with NewSessionCreator().create_session() as sess:
            assert (3.0, 4.0, 7) == tuple(sess.run([var, local, found]))

    def test_config(self, capsys):
        """The library's default config, or that of the user, with a warning about its GPU options."""
        creator = NewSessionCreator()
        assert (False, "") == (creator.user_provided_config, creator.target)
        assert creator.config.allow_soft_placement is True
        config = tf.ConfigProto(inter_op_parallelism_threads=3)
        creator = NewSessionCreator(config=config)
        assert (config, True) == (creator.config, creator.user_provided_config)
        assert "GPU options" in capsys.readouterr().out

    def test_nothing_else(self, monkeypatch, capsys):
        """The graph stays open. Without a GPU, the environment stays as it is; plain initial values log no warning."""
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
        tf.get_variable("w", shape=[3, 3])
        NewSessionCreator().create_session().close()
        assert not tf.get_default_graph().finalized
        assert "TF_GPU_THREAD_MODE" not in os.environ
        assert "may hang" not in capsys.readouterr().out

    def test_environment_is_set_late_and_only_if_unset(self, monkeypatch):
        """Environment variables are set when the session is created, except those that are already set."""
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
        monkeypatch.setenv("TF_GPU_THREAD_COUNT", "5")
        creator = NewSessionCreator()
        assert "TF_GPU_THREAD_MODE" not in os.environ
        tf.no_op()
        creator.create_session().close()
        assert ("gpu_private", "5") == (os.environ["TF_GPU_THREAD_MODE"], os.environ["TF_GPU_THREAD_COUNT"])

    def test_warns_of_blocking_initializers(self, capsys):
        """An initial value from a queue logs a warning that names the queue. The test fills the queue just before."""
        queue = tf.FIFOQueue(1, [tf.float32], shapes=[[]])

        def initial_value():
            with tf.control_dependencies([queue.enqueue(2.0)]):
                return queue.dequeue(name="take")

        var = tf.get_variable("w", initializer=initial_value, dtype=tf.float32)
        with NewSessionCreator().create_session() as sess:
            assert 2.0 == sess.run(var)
        assert "'w/Initializer/take' (QueueDequeueV2), which waits for data" in capsys.readouterr().out


def test_others(sess):
    """ReuseSessionCreator returns its session, SessionCreatorAdapter the function's result; all are TensorFlow's creators."""
    reuse = ReuseSessionCreator(sess)
    assert reuse.create_session() is sess
    adapter = SessionCreatorAdapter(reuse, lambda made: ("wrapped", made))
    assert ("wrapped", sess) == adapter.create_session()
    assert all(isinstance(one, tf.train.SessionCreator) for one in (NewSessionCreator(), reuse, adapter))
