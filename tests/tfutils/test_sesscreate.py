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
        table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(tf.constant(["a"]), tf.constant([7])), -1
        )
        found = table.lookup(tf.constant("a"))
        with NewSessionCreator().create_session() as sess:
            assert (3.0, 4.0, 7) == tuple(sess.run([var, local, found]))

    def test_leaves_the_graph_open(self):
        """The graph is not finalized; the trainer does that."""
        tf.get_variable("w", initializer=3.0)
        with NewSessionCreator().create_session():
            tf.constant(1.0)
        assert not tf.get_default_graph().finalized

    def test_default_config(self):
        """Without a config, the library's default is used."""
        creator = NewSessionCreator()
        assert creator.config.allow_soft_placement is True
        assert (False, "") == (creator.user_provided_config, creator.target)

    def test_config_of_the_user(self, capsys):
        """A custom config is used, with a warning about its GPU options."""
        config = tf.ConfigProto(inter_op_parallelism_threads=3)
        creator = NewSessionCreator(config=config)
        assert creator.config is config
        assert creator.user_provided_config is True
        assert "GPU options" in capsys.readouterr().out

    def test_refuses_other_configs(self):
        """A dictionary as config raises a TypeError."""
        with pytest.raises(
            TypeError, match="NewSessionCreator: config .*expected a tf.ConfigProto, got dict"
        ):
            NewSessionCreator(config={})

    def test_environment_is_set_late_and_only_if_unset(self, monkeypatch):
        """Environment variables are set when the session is created, except those that are already set."""
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
        monkeypatch.setenv("TF_GPU_THREAD_COUNT", "5")
        creator = NewSessionCreator()
        assert "TF_GPU_THREAD_MODE" not in os.environ
        tf.no_op()
        creator.create_session().close()
        assert ("gpu_private", "5") == (os.environ["TF_GPU_THREAD_MODE"], os.environ["TF_GPU_THREAD_COUNT"])

    def test_the_environment_stays_as_it_is_without_a_gpu(self, monkeypatch):
        """If TensorFlow can use no GPU, no environment variable is set."""
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
        NewSessionCreator().create_session().close()
        assert "TF_GPU_THREAD_MODE" not in os.environ

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

    def test_does_not_warn_of_plain_initializers(self, capsys):
        """Random and constant initial values log no warning."""
        tf.get_variable("w", shape=[3, 3])
        NewSessionCreator().create_session().close()
        assert "may hang" not in capsys.readouterr().out


class TestReuseSessionCreator:
    def test_hands_the_session_out(self, sess):
        """The given session is returned."""
        assert ReuseSessionCreator(sess).create_session() is sess


class TestSessionCreatorAdapter:
    def test_passes_the_session_through(self, sess):
        """The result of the function is returned."""
        creator = SessionCreatorAdapter(ReuseSessionCreator(sess), lambda made: ("wrapped", made))
        assert ("wrapped", sess) == creator.create_session()

    def test_refuses_a_session(self, sess):
        """A session instead of a creator raises a TypeError."""
        with pytest.raises(TypeError, match="expected SessionCreator, got Session"):
            SessionCreatorAdapter(sess, lambda made: made)


def test_all_are_session_creators(sess):
    """All session creators are instances of TensorFlow's SessionCreator."""
    for creator in (NewSessionCreator(), ReuseSessionCreator(sess)):
        assert isinstance(creator, tf.train.SessionCreator)
