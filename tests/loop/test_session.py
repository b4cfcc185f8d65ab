"""loop/session.py: HookedSession, which runs the fetches of the caller and of all hooks together."""

from __future__ import annotations

import gc
from collections import namedtuple

import numpy as np
import pytest
from fakes.recording import RecordingCallback

from tensorpack_lite.compat import private
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop import step as step_module
from tensorpack_lite.loop.callback import Call, Callback
from tensorpack_lite.loop.hooks import CallbackToHook
from tensorpack_lite.loop.observer import RunObserver
from tensorpack_lite.loop.session import HookedSession

Pair = namedtuple("Pair", ["one", "two"])


class Hook(tf.train.SessionRunHook):
    """A hook that requests its `args` and records contexts and values."""

    def __init__(self, args=None):
        self.args = args
        self.contexts = []
        self.values = []

    def before_run(self, ctx):
        self.contexts.append(ctx)
        return self.args() if callable(self.args) else self.args

    def after_run(self, ctx, values):
        self.values.append(values)


def fetch(fetches, **kwargs):
    return tf.train.SessionRunArgs(fetches, **kwargs)


@pytest.fixture
def counter(sess):
    """A variable and the operation that adds one to it."""
    var = tf.get_variable("counter", initializer=0.0, use_resource=True)
    sess.run(var.initializer)
    return var, var.assign_add(1.0, read_value=False)


class TestFetches:
    def test_operation_gives_none(self, sess, counter):
        """Running an operation returns None."""
        var, increment = counter
        assert HookedSession(sess, []).run(increment) is None
        assert 1.0 == sess.run(var)

    def test_structures(self, sess):
        """The values have the structure of the fetches."""
        one, two = tf.constant(1.0, name="one"), tf.constant(2.0)
        session = HookedSession(sess, [])
        fetches = {"a": [one, (two, one.op)], "b": Pair(one, "one:0"), "c": []}
        assert {"a": [1.0, (2.0, None)], "b": Pair(1.0, 1.0), "c": []} == session.run(fetches)

    def test_variable(self, sess, counter):
        """Fetching a variable returns its value."""
        assert [0.0] == HookedSession(sess, []).run([counter[0]])

    def test_sparse(self, sess):
        """Fetching sparse tensors and slices returns their value types."""
        sparse = tf.SparseTensor([[0, 1]], [5.0], [2, 2])
        slices = tf.IndexedSlices(tf.constant([1.0]), tf.constant([3]))
        got_sparse, got_slices = HookedSession(sess, []).run([sparse, slices])
        assert ([[0, 1]], [5.0], [2, 2]) == tuple(part.tolist() for part in got_sparse)
        assert ([1.0], [3], None) == (
            got_slices.values.tolist(),
            got_slices.indices.tolist(),
            got_slices.dense_shape,
        )

    def test_not_fetchable(self, sess):
        """An object that cannot be fetched raises TypeError."""
        with pytest.raises(TypeError, match="cannot fetch 3 .expected .*, got int"):
            HookedSession(sess, []).run(3)

    @pytest.mark.parametrize("name", ["contant:0", "contant"])
    def test_unknown_name(self, sess, name):
        """A name that is not in the graph raises KeyError, which shows the nearest names."""
        tf.constant(1.0, name="constant")
        with pytest.raises(KeyError, match=f"'{name}' is not in the graph. The nearest names are: constant"):
            HookedSession(sess, []).run(name)
        hook = Hook(fetch(name))
        with pytest.raises(KeyError, match="The nearest names are: constant"):
            HookedSession(sess, [hook]).run([])

    @pytest.mark.parametrize("use_resource", [True, False])
    def test_name_of_a_variable(self, sess, use_resource):
        """The name of a variable means its value, for the caller and for hooks, and for both kinds of variables."""
        variable = tf.get_variable("v", initializer=3.0, use_resource=use_resource)
        sess.run(variable.initializer)
        hook = Hook(fetch(["v:0"]))
        assert 3.0 == HookedSession(sess, [hook]).run("v:0")
        assert 3.0 == HookedSession(sess, []).run(sess.graph.get_tensor_by_name("v:0"))
        assert [3.0] == hook.values[0].results

    def test_names_without_an_index(self, sess):
        """The name of an operation means its first value: for the caller, in SessionRunArgs, and in a list of a callback."""
        tf.constant(2.0, name="cost")
        tf.FIFOQueue(1, [tf.float32], name="queue")  # its only output cannot be fetched
        variable = tf.get_variable("v", initializer=3.0, use_resource=True)
        sess.run(variable.initializer)
        tf.no_op("nothing")
        names, expected = ["cost", "v", "nothing", "queue"], [2.0, 3.0, None, None]
        hook, recorder = Hook(fetch(names)), RecordingCallback(names=names)
        assert expected == HookedSession(sess, [hook, recorder]).run(names)
        assert [expected] == [values.results for values in hook.values] == recorder.results

    def test_operation_of_several(self, sess, counter):
        """An operation that the caller and several hooks request runs once."""
        var, increment = counter
        HookedSession(sess, [Hook(fetch([increment, increment]))]).run(increment)
        assert 1.0 == sess.run(var)

    def test_hooks_with_and_without_values(self, sess, counter):
        """Each hook gets its structure in each run: None for operations, and values also for a tensor that others request."""
        var, increment = counter
        one = tf.constant(1.0)
        requests = [[increment], {"a": increment, "b": []}, [one], [one, increment], one, None]
        hooks = [Hook(fetch(fetches)) for fetches in requests]
        session = HookedSession(sess, hooks)
        for _ in range(3):
            session.run(one)
        expected = [[None], {"a": None, "b": []}, [1.0], [1.0, None], 1.0, None]
        assert [[each] * 3 for each in expected] == [[v.results for v in hook.values] for hook in hooks]
        assert 3.0 == sess.run(var)

    def test_changed_list(self, sess):
        """A list that was changed between two runs is read again."""
        one, two = tf.constant(1.0), tf.constant(2.0)
        session, fetches = HookedSession(sess, []), [one]
        assert [1.0] == session.run(fetches)
        fetches.append(two)
        assert [1.0, 2.0] == session.run(fetches)

    def test_each_combination_is_prepared_once(self, sess, counter, monkeypatch):
        """The same fetches are prepared once, also in a new list of the same objects."""
        made = []
        original = private.make_callable
        monkeypatch.setattr(private, "make_callable", lambda *args: made.append(args) or original(*args))
        one, two = tf.constant(1.0), tf.constant(2.0)
        session = HookedSession(sess, [])
        for _ in range(3):
            assert [1.0, 2.0] == session.run([one, two])
            assert 1.0 == session.run(one)
        assert 2 == len(made)

    def test_many_combinations(self, sess, monkeypatch):
        """The number of prepared steps is limited; a step that was dropped is prepared again."""
        monkeypatch.setattr(step_module, "_MAX_STEPS", 2)
        constants = [tf.constant(i) for i in range(5)]
        session = HookedSession(sess, [])
        assert [0, 1, 2, 3, 4, 0] == [session.run([c])[0] for c in [*constants, constants[0]]]
        assert len(session._steps._steps) <= 2

    def test_ids_are_not_confused(self, sess):
        """A new object whose id is that of a freed one is not taken for it."""
        constants = [tf.constant(float(i), name=f"c{i}") for i in range(50)]
        session = HookedSession(sess, [])
        for i in range(50):
            assert [float(i)] == session.run([sess.graph.get_tensor_by_name(f"c{i}:0")])
            gc.collect(1)
        assert 50 == len(constants)


class Watcher(RunObserver):
    """An observer that notes what it is told."""

    def __init__(self):
        self.told = []

    def begin_run(self, step):
        self.told.append(("begin", step))

    def end_run(self, step, succeeded):
        self.told.append((succeeded, step))


class TestObservers:
    def test_sees_runs_while_it_is_attached(self, sess, counter):
        """An observer sees the runs between its attachment and its removal, each with its step."""
        hooked, watcher = HookedSession(sess, []), Watcher()
        hooked.run(counter)
        hooked.observers.append(watcher)
        hooked.run(counter)
        hooked.run(counter)
        hooked.observers.remove(watcher)
        hooked.run(counter)

        moments, steps = zip(*watcher.told)
        assert ("begin", True, "begin", True) == moments
        assert 1 == len(set(steps))
        assert {counter[1].name} < {one.name for one in steps[0].fetches}

    def test_a_run_that_fails(self, sess, counter):
        """An observer is told of a run that fails, and the session keeps its step."""
        hooked, watcher = HookedSession(sess, []), Watcher()
        hooked.observers.append(watcher)
        hooked.run(counter)
        failing = tf.debugging.Assert(tf.less(counter[0], 0.0), ["failed"])
        with pytest.raises(tf.errors.InvalidArgumentError, match="failed"):
            hooked.run(failing)

        assert [True, False] == [told for told, _ in watcher.told if told != "begin"]
        assert watcher.told[-1][1] is hooked.failed
        assert [failing] == hooked.failed.fetches

    def test_removes_itself(self, sess, counter):
        """An observer that removes itself before a run still sees its end, and so do the others."""

        class Leaves(Watcher):
            def begin_run(self, step):
                super().begin_run(step)
                hooked.observers.remove(self)

        hooked, leaves, other = HookedSession(sess, []), Leaves(), Watcher()
        hooked.observers += [leaves, other]
        hooked.run(counter)
        hooked.run(counter)
        assert (2, 4) == (len(leaves.told), len(other.told))


class TestHooks:
    def test_runs_together(self, sess, counter):
        """The fetches of the caller and of the hooks run in one step."""
        var, increment = counter
        hook = Hook(fetch([increment, tf.constant(7.0)]))
        assert HookedSession(sess, [hook]).run(tf.constant(5.0)) == 5.0
        assert [None, 7.0] == hook.values[0].results
        assert 1.0 == sess.run(var)

    def test_no_request(self, sess):
        """`after_run` of a hook that requests nothing is called too."""
        hook = Hook(None)
        HookedSession(sess, [hook]).run([])
        assert (None, None, None) == tuple(hook.values[0])

    def test_context(self, sess):
        """The context of a hook has the caller's arguments and the raw session."""
        hook, one = Hook(None), tf.constant(1.0)
        HookedSession(sess, [hook]).run(one)
        assert one is hook.contexts[0].original_args.fetches
        assert sess is hook.contexts[0].session

    def test_request_that_changes(self, sess):
        """A hook may request fetches in some runs only."""
        one, every_other = tf.constant(1.0), iter([True, False] * 3)
        hook = Hook(lambda: fetch(one) if next(every_other) else None)
        session = HookedSession(sess, [hook])
        for _ in range(6):
            session.run([])
        assert [1.0, None] * 3 == [v.results for v in hook.values]

    def test_order(self, sess):
        """Hooks are called in order, before and after the run."""
        calls = []

        class Named(tf.train.SessionRunHook):
            def __init__(self, name):
                self.name = name

            def before_run(self, ctx):
                calls.append("before " + self.name)

            def after_run(self, ctx, values):
                calls.append("after " + self.name)

        HookedSession(sess, [Named("a"), Named("b")]).run([])
        assert ["before a", "before b", "after a", "after b"] == calls

    def test_hook_that_completes(self, sess):
        """`complete_run` of a hook that requested nothing gets all fetches; it is called again only when these change."""
        one, two = tf.constant(1.0), tf.constant(2.0)
        request, seen = fetch(one), []

        class Completing(Hook):
            def complete_run(self, ctx, fetches):
                seen.append(fetches)
                return request if any(fetched is two for fetched in fetches[1:]) else None

        first, last = Completing(), Hook(fetch(two))
        session = HookedSession(sess, [first, last])
        for _ in range(3):
            session.run(one)
        assert [[id(one), id(None), id(two)]] == [[id(x) for x in fetches] for fetches in seen]
        assert ([1.0] * 3, [2.0] * 3) == tuple([v.results for v in hook.values] for hook in (first, last))
        last.args = None
        session.run(one)
        assert seen[1][0] is one
        assert seen[1][1:] == [None, None]
        assert first.values[-1].results is None
        first.args = fetch(two)
        session.run(one)
        assert 2 == len(seen)

    def test_idle_callbacks_cost_nothing(self, sess):
        """A callback that overrides neither method is not called in a run."""

        class Idle(Callback):
            def _trigger(self):
                pass

        session = HookedSession(sess, [CallbackToHook(Idle())])
        assert [] == session._befores + session._afters

    def test_callback_patched_on_the_instance(self, sess):
        """A method set on the instance counts as overridden."""
        callback, seen = Callback(), []
        callback._after_run = lambda ctx, values: seen.append(values)
        HookedSession(sess, [CallbackToHook(callback)]).run([])
        assert 1 == len(seen)

    def test_callback_that_overrides_the_public_methods(self, sess):
        """Overridden public methods are called instead of those with an underscore."""
        seen = []

        class Public(Callback):
            def before_run(self, ctx):
                return ["one:0"]

            def after_run(self, ctx, run_values):
                seen.append(run_values.results)

        tf.constant(1.0, name="one")
        HookedSession(sess, [CallbackToHook(Public())]).run([])
        assert [[1.0]] == seen

    @pytest.mark.parametrize("wrong", ["cost", 5])
    def test_request_of_another_kind(self, sess, wrong):
        """A request of the wrong type raises TypeError, which names the callback."""

        class Wrong(Callback):
            def _before_run(self, ctx):
                return wrong

        session = HookedSession(sess, [CallbackToHook(Wrong())])
        with pytest.raises(TypeError, match=f"Wrong: _before_run returned {type(wrong).__name__}, expected None"):
            session.run([])

    def test_error_in_a_hook(self, sess):
        """A hook's exception is raised to the caller, and the session is not running afterwards."""

        def fail():
            raise ZeroDivisionError

        session = HookedSession(sess, [Hook(fail)])
        with pytest.raises(ZeroDivisionError):
            session.run([])
        assert not session.is_running

    def test_current_call(self, sess):
        """During a run the session reports the callback that is being called, and that it is running."""
        seen = []

        class Asks(Callback):
            def _before_run(self, ctx):
                seen.append((session.is_running, session.current_call))

            def _after_run(self, ctx, values):
                seen.append((session.is_running, session.current_call))

        asks, hook = Asks(), Hook(lambda: seen.append((session.is_running, session.current_call)))
        session = HookedSession(sess, [CallbackToHook(asks), hook])
        session.run([])
        assert [(True, Call(asks, "_before_run")), (True, None), (True, Call(asks, "_after_run"))] == seen
        assert (False, None) == (session.is_running, session.current_call)


class TestFeeds:
    @pytest.fixture
    def x(self):
        return tf.placeholder(tf.float32, [None, 2], "x")

    def test_caller_and_hook_feed(self, sess, x):
        """Feeds of the caller and of hooks are combined, by tensor or by name."""
        y = tf.placeholder(tf.int32, [], "y")
        hook = Hook(lambda: fetch(None, feed_dict={y: 3}))
        session = HookedSession(sess, [hook])
        for scale in (1, 2):
            got = session.run([x, y], {"x:0": np.ones([1, 2]) * scale})
            assert [[[scale, scale]], 3] == [got[0].tolist(), got[1]]

    def test_fed_twice(self, sess, x):
        """Feeding a tensor in `run` and in a hook raises RuntimeError."""
        session = HookedSession(sess, [Hook(fetch(None, feed_dict={x: [[1, 2]]}))])
        with pytest.raises(RuntimeError, match="x:0 is fed twice"):
            session.run(x, {x: [[3, 4]]})

    def test_a_variable_by_name(self, sess):
        """Feeding a variable by name raises an error with another way to set it."""
        tf.get_variable("v", initializer=3.0, use_resource=True)
        with pytest.raises(ValueError, match=r"HookedSession.run: 'v:0' is a variable.*variable.load\("):
            HookedSession(sess, []).run("v:0", {"v:0": 1.0})

    def test_wrong_shape(self, sess, x):
        """A value of the wrong shape is refused before it reaches TensorFlow."""
        with pytest.raises(ValueError, match=r"the value for x:0 has the wrong shape \(expected .*, got .*\(3,\)\)"):
            HookedSession(sess, []).run(x, {x: [1, 2, 3]})

    def test_tensor_as_value(self, sess, x):
        """A tensor cannot be a fed value."""
        with pytest.raises(TypeError, match="the value for x:0 is a tensor"):
            HookedSession(sess, []).run(x, {x: tf.zeros([1, 2])})

    def test_fetching_what_is_fed(self, sess, x):
        """A fed tensor can be fetched."""
        assert [[1.0, 2.0]] == HookedSession(sess, []).run(x, {x: [[1, 2]]}).tolist()

    def test_strings(self, sess):
        """Strings can be fed."""
        text = tf.placeholder(tf.string, [None])
        assert [b"a", b"bc"] == HookedSession(sess, []).run(tf.identity(text), {text: ["a", "bc"]}).tolist()

    @pytest.mark.slow
    def test_fed_arrays_are_not_kept(self, sess, x):
        """The session keeps no reference to a fed array."""

        class Array(np.ndarray):
            pass

        import weakref

        array = np.ones([1, 2], "float32").view(Array)
        alive = weakref.ref(array)
        session = HookedSession(sess, [])
        session.run(x, {x: array})
        del array
        gc.collect()
        assert alive() is None


class TestOptions:
    def test_metadata_for_the_caller(self, sess):
        """The caller's run_metadata is filled."""
        metadata = tf.RunMetadata()
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        HookedSession(sess, []).run(tf.constant(1.0) + 1.0, options=options, run_metadata=metadata)
        assert len(metadata.step_stats.dev_stats) > 0

    def test_metadata_for_hooks(self, sess):
        """When one hook requests a trace, every hook gets options and metadata."""
        tracer = Hook(fetch(None, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)))
        other = Hook(None)
        HookedSession(sess, [tracer, other]).run(tf.constant(1.0) + 1.0)
        for hook in (tracer, other):
            assert tf.RunOptions.FULL_TRACE == hook.values[0].options.trace_level
            assert len(hook.values[0].run_metadata.step_stats.dev_stats) > 0

    def test_merged(self, sess):
        """Merged options have the longest timeout and the highest trace level."""
        short = Hook(fetch(None, options=tf.RunOptions(timeout_in_ms=1000, trace_level=tf.RunOptions.SOFTWARE_TRACE)))
        long = Hook(fetch(None, options=tf.RunOptions(timeout_in_ms=5000)))
        HookedSession(sess, [short, long]).run([])
        merged = long.values[0].options
        assert (5000, tf.RunOptions.SOFTWARE_TRACE) == (merged.timeout_in_ms, merged.trace_level)

    def test_timeout(self, sess):
        """A run that takes longer than its limit fails."""
        queue = tf.FIFOQueue(1, [tf.float32])
        with pytest.raises(tf.errors.DeadlineExceededError):
            HookedSession(sess, []).run(queue.dequeue(), options=tf.RunOptions(timeout_in_ms=50))


class TestErrors:
    def test_says_where(self, sess):
        """TensorFlow's error names the operation."""
        bad = tf.debugging.check_numerics(tf.constant(float("nan")), "it is nan", name="checked")
        with pytest.raises(tf.errors.InvalidArgumentError, match="it is nan") as error:
            HookedSession(sess, []).run(bad)
        assert "checked" == error.value.op.name

    def test_background_error(self, sess):
        """The background error of a callback is raised instead of TensorFlow's error, which is only its effect."""

        class Reader(Callback):
            def background_error(self):
                return ZeroDivisionError("in the data")

        queue = tf.FIFOQueue(1, [tf.float32])
        sess.run(queue.close())
        session = HookedSession(sess, [CallbackToHook(Callback()), CallbackToHook(Reader())])
        with pytest.raises(ZeroDivisionError, match="in the data") as error:
            session.run(queue.dequeue())
        assert error.value.__cause__ is None
        assert error.value.__suppress_context__

    def test_out_of_range(self, sess):
        """Without a background error, TensorFlow's OutOfRangeError is raised."""
        queue = tf.FIFOQueue(1, [tf.float32])
        sess.run(queue.close())
        with pytest.raises(tf.errors.OutOfRangeError):
            HookedSession(sess, [CallbackToHook(Callback())]).run(queue.dequeue())


class TestEnd:
    def test_request_stop_by_a_hook(self, sess):
        """After a hook requests to stop, the run finishes and `should_stop` returns True."""

        class Stopper(tf.train.SessionRunHook):
            def after_run(self, ctx, values):
                ctx.request_stop()

        session = HookedSession(sess, [Stopper()])
        assert not session.should_stop()
        assert session.run(tf.constant(1.0)) == 1.0
        assert session.should_stop()

    def test_request_stop(self, sess):
        """`request_stop` makes `should_stop` return True."""
        session = HookedSession(sess, [])
        session.request_stop()
        assert session.should_stop()

    def test_close(self, fresh_graph):
        """`close` closes the raw session, after which `run` raises RuntimeError. A second `close` does nothing."""
        raw = tf.Session()
        session = HookedSession(raw, [])
        session.close()
        session.close()
        assert session.should_stop()
        with pytest.raises(RuntimeError, match="the session is closed"):
            session.run([])
        with pytest.raises(RuntimeError, match="closed"):
            raw.run(tf.no_op())

    def test_queue_runners(self, fresh_graph):
        """The graph's queue runners are started, and `close` stops them."""
        queue = tf.FIFOQueue(3, [tf.float32])
        tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(1.0)]))
        dequeue = queue.dequeue()
        session = HookedSession(tf.Session(), [], start_queue_runners=True)
        assert [1.0] * 5 == [session.run(dequeue) for _ in range(5)]
        session.close()

    def test_queue_runner_that_fails(self, fresh_graph):
        """The error of a queue runner is raised instead of the error of its empty queue."""
        queue = tf.FIFOQueue(1, [tf.float32], shapes=[[]])
        fails = queue.enqueue(tf.debugging.check_numerics(tf.constant(float("nan")), "planted"))
        tf.train.add_queue_runner(tf.train.QueueRunner(queue, [fails]))
        session = HookedSession(tf.Session(), [], start_queue_runners=True)
        with pytest.raises(tf.errors.InvalidArgumentError, match="planted"):
            session.run(queue.dequeue())
        assert session.should_stop()
        with pytest.raises(tf.errors.InvalidArgumentError, match="planted"):
            session.close()

    def test_graph(self, sess, fresh_graph):
        """`graph` is the raw session's graph."""
        assert fresh_graph is HookedSession(sess, []).graph
