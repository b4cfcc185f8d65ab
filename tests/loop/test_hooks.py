"""loop/hooks.py: adapters between callbacks and session hooks."""

from __future__ import annotations

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.loop.hooks import CallbackToHook, HookToCallback
from tensorpack_lite.loop.session import HookedSession


class Hook(tf.train.SessionRunHook):
    def __init__(self):
        self.calls = []

    def begin(self):
        self.scope = tf.get_default_graph().get_name_scope() or ""
        self.calls.append("begin")

    def after_create_session(self, session, coord):
        self.calls.append(("after_create_session", session, coord))

    def before_run(self, ctx):
        self.calls.append("before_run")
        return tf.train.SessionRunArgs("one:0")

    def after_run(self, ctx, values):
        self.calls.append(("after_run", values.results))

    def end(self, session):
        self.calls.append(("end", session))


def test_hook_to_callback(sess):
    """A hook's methods are called at the moments of a callback, `begin` in the root scope."""
    tf.constant(1.0, name="one")
    hook = Hook()
    callback = HookToCallback(hook)

    class Trainer:
        pass

    trainer = Trainer()
    trainer.sess = sess
    callback.setup_graph(trainer)
    callback.before_train()
    HookedSession(sess, [CallbackToHook(callback)]).run([])
    callback.after_train()
    expected = [
        "begin",
        ("after_create_session", sess, None),
        "before_run",
        ("after_run", 1.0),
        ("end", sess),
    ]
    assert expected == hook.calls
    assert "" == hook.scope


def test_callback_to_hook(sess):
    """CallbackToHook works in TensorFlow's MonitoredSession."""
    one = tf.constant(1.0)

    class Fetch(Callback):
        def _before_run(self, ctx):
            return [one]

        def _after_run(self, ctx, run_values):
            self.got = run_values.results

    callback = Fetch()
    with tf.train.MonitoredSession(hooks=[CallbackToHook(callback)]) as session:
        session.run(one)
    assert [1.0] == callback.got
