"""New sessions, old sessions, and sessions changed on the way."""

from __future__ import annotations

import os

import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.sesscreate import NewSessionCreator, ReuseSessionCreator, SessionCreatorAdapter


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    """What create_session sets is taken back."""
    for name in ("TF_GPU_THREAD_MODE", "TF_GPU_THREAD_COUNT", "TF_USE_CUDNN_BATCHNORM_SPATIAL_PERSISTENT"):
        monkeypatch.setenv(name, "before")
        monkeypatch.delenv(name)


class TestNewSessionCreator:
    @pytest.mark.parametrize("use_resource", [True, False])
    def test_initializes_everything(self, use_resource):
        """Global and local variables, and tables."""
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
        """Nothing is finalized: the trainer does that."""
        tf.get_variable("w", initializer=3.0)
        with NewSessionCreator().create_session():
            tf.constant(1.0)
        assert not tf.get_default_graph().finalized

    def test_default_config(self):
        """Without a config, the library's."""
        creator = NewSessionCreator()
        assert creator.config.allow_soft_placement is True
        assert (False, "") == (creator.user_provided_config, creator.target)

    def test_config_of_the_user(self, capsys):
        """A config is used as it is, and what may surprise is said."""
        config = tf.ConfigProto(inter_op_parallelism_threads=3)
        creator = NewSessionCreator(config=config)
        assert creator.config is config
        assert creator.user_provided_config is True
        assert "GPU options" in capsys.readouterr().out

    def test_refuses_other_configs(self):
        """A dictionary is no config."""
        with pytest.raises(TypeError, match="NewSessionCreator: takes a tf.ConfigProto as config, got dict"):
            NewSessionCreator(config={})

    def test_environment_is_set_late_and_only_if_unset(self, monkeypatch):
        """At the session, not before; what the user set stays."""
        monkeypatch.setenv("TF_GPU_THREAD_COUNT", "5")
        creator = NewSessionCreator()
        assert "TF_GPU_THREAD_MODE" not in os.environ
        tf.no_op()
        creator.create_session().close()
        assert ("gpu_private", "5") == (os.environ["TF_GPU_THREAD_MODE"], os.environ["TF_GPU_THREAD_COUNT"])

    def test_warns_of_blocking_initializers(self, capsys):
        """An initial value that comes out of a queue is named (here the queue is filled just before)."""
        queue = tf.FIFOQueue(1, [tf.float32], shapes=[[]])

        def initial_value():
            with tf.control_dependencies([queue.enqueue(2.0)]):
                return queue.dequeue(name="take")

        var = tf.get_variable("w", initializer=initial_value, dtype=tf.float32)
        with NewSessionCreator().create_session() as sess:
            assert 2.0 == sess.run(var)
        assert "'w/Initializer/take' (QueueDequeueV2), which waits for data" in capsys.readouterr().out

    def test_does_not_warn_of_plain_initializers(self, capsys):
        """Random and constant values are fine."""
        tf.get_variable("w", shape=[3, 3])
        NewSessionCreator().create_session().close()
        assert "may hang" not in capsys.readouterr().out


class TestReuseSessionCreator:
    def test_hands_the_session_out(self, sess):
        """The very session."""
        assert ReuseSessionCreator(sess).create_session() is sess


class TestSessionCreatorAdapter:
    def test_passes_the_session_through(self, sess):
        """What the function returns is the session."""
        creator = SessionCreatorAdapter(ReuseSessionCreator(sess), lambda made: ("wrapped", made))
        assert ("wrapped", sess) == creator.create_session()

    def test_refuses_a_session(self, sess):
        """It adapts creators."""
        with pytest.raises(TypeError, match="takes a tf.train.SessionCreator, got Session"):
            SessionCreatorAdapter(sess, lambda made: made)


def test_all_are_session_creators(sess):
    """TensorFlow's own class is the common base."""
    for creator in (NewSessionCreator(), ReuseSessionCreator(sess)):
        assert isinstance(creator, tf.train.SessionCreator)
