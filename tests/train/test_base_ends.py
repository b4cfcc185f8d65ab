"""train/trainer.py: the ends of a training, with and without an error."""

from __future__ import annotations

import contextlib

import pytest
from fakes.quadratic import QuadraticTrainer
from fakes.recording import RecordingCallback

from tensorpack_lite.callbacks.saver import ModelSaver
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.loop.callback_factory import CallbackFactory
from tensorpack_lite.loop.moments import MOMENTS
from tensorpack_lite.loop.state import Outcome, StopTraining

ENDS = [StopTraining("enough"), tf.errors.OutOfRangeError(None, None, "no more data")]
ERRORS = [ValueError("mine"), KeyboardInterrupt(), StopIteration("over")]
DURING = ["before_train", *[name for name, row in MOMENTS.items() if row.period]]


class TestEnds:
    @pytest.mark.parametrize("moment", DURING)
    @pytest.mark.parametrize("end", ENDS, ids=lambda e: type(e).__name__)
    def test_quiet_end(self, trainer, run, moment, end):
        """StopTraining and OutOfRangeError end training without an error; `after_train` is called once for each callback."""
        log = []
        run(
            trainer,
            RecordingCallback("a", log=log),
            RecordingCallback("b", moment, end, log=log),
            RecordingCallback("c", log=log),
        )
        assert ["a", "b", "c"] == [name for name, m, *_ in log if m == "after_train"]
        assert trainer.hooked_sess.should_stop()

    @pytest.mark.parametrize(
        ("end_in", "moment", "expected"),
        [
            (1, "before_train", (0, -1)),
            (1, "before_epoch", (0, -1)),
            (2, "before_epoch", (1, 1)),
            (2, "before_run", (1, 1)),
            (2, "trigger_step", (2, 0)),
            (1, "trigger_epoch", (1, 1)),
        ],
    )
    def test_the_last_epoch(self, trainer, run, end_in, moment, expected):
        """In `after_train`, epoch_num is the last epoch of which a step was done, wherever StopTraining is raised."""
        seen = []

        def stop(self, *_):
            if moment == "before_train" or self.epoch_num == end_in:
                raise StopTraining

        def end(self):
            seen.append((self.epoch_num, self.local_step))

        run(trainer, type("Stop", (Callback,), {f"_{moment}": stop, "_after_train": end})())
        assert [expected] == seen

    def test_a_requested_stop(self, trainer, run):
        """A stop that is requested at the end of an epoch ends training in that epoch."""
        seen = []
        run(
            trainer,
            CallbackFactory(
                trigger=lambda self: self.trainer.hooked_sess.request_stop(),
                after_train=lambda self: seen.append(self.epoch_num),
            ),
        )
        assert [1] == seen

    def test_the_end_of_the_data(self, trainer, run, log_lines):
        """The log says in one line, without TensorFlow's list of operations, that the data ended, and how to repeat it."""
        end = tf.errors.OutOfRangeError(None, None, "Graph execution error:\n\nDetected at node\nEnd of sequence")
        run(trainer, RecordingCallback("a", "before_run", end))
        assert [
            "Training was stopped by OutOfRangeError: the data ended at global_step=0. To train longer, repeat it: "
            "dataset.repeat(), or RepeatedData(dataflow, -1)."
        ] == [line for line in log_lines if "stopped" in line]

    @pytest.mark.parametrize("moment", DURING)
    @pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
    def test_error(self, trainer, run, moment, error):
        """Any other exception is raised as the same object, after `after_train` of all callbacks."""
        log = []
        with pytest.raises(type(error)) as raised:
            run(
                trainer,
                RecordingCallback("a", log=log),
                RecordingCallback("b", moment, error, log=log),
                RecordingCallback("c", log=log),
            )
        assert raised.value is error
        assert ["a", "b", "c"] == [name for name, m, *_ in log if m == "after_train"]
        assert trainer.hooked_sess.should_stop()

    @pytest.mark.parametrize(
        ("error", "outcome"),
        [
            (None, Outcome.FINISHED),
            (ENDS[0], Outcome.STOPPED),
            (ENDS[1], Outcome.STOPPED),
            (ERRORS[0], Outcome.FAILED),
            (ERRORS[1], Outcome.INTERRUPTED),
        ],
        ids=lambda value: getattr(value, "name", type(value).__name__),
    )
    def test_after_train_knows_the_outcome(self, trainer, run, error, outcome):
        """In `after_train`, `trainer.loop` has the outcome and the exception; before, both are None."""

        class Reads(Callback):
            def _before_train(self):
                seen.append((self.trainer.loop.outcome, self.trainer.loop.error))

            def _after_train(self):
                seen.append((self.trainer.loop.outcome, self.trainer.loop.error))

        seen = []
        with contextlib.suppress(ValueError, KeyboardInterrupt):
            run(trainer, Reads(), RecordingCallback("a", None if error is None else "trigger_step", error))
        assert [(None, None), (outcome, error)] == seen

    def test_error_in_setup(self, trainer, run):
        """An error before the session exists is raised directly."""
        with pytest.raises(ValueError, match="mine"):
            run(trainer, RecordingCallback("a", "setup_graph", ValueError("mine")))

    def test_interrupted_epoch(self, trainer, run):
        """An interrupted epoch has no `after_epoch` and no `trigger_epoch`."""
        trace = RecordingCallback("a", "trigger_step", StopTraining(), nth=2)
        run(trainer, trace, steps_per_epoch=3)
        assert "after_epoch" not in trace.calls
        assert 2 == trainer.global_step

    def test_stop_in_trigger_epoch_skips_later_callbacks(self, trainer, run):
        """After a callback stops training in `trigger_epoch`, later callbacks are not triggered."""
        log = []
        run(
            trainer,
            RecordingCallback("a", "trigger_epoch", StopTraining(), log=log),
            RecordingCallback("b", log=log),
        )
        assert ["a"] == [name for name, m, *_ in log if m == "trigger_epoch"]

    def test_request_stop(self, trainer, run):
        """After `ctx.request_stop()` the step finishes, and no other step starts."""

        class Requests(Callback):
            def _after_run(self, ctx, run_values):
                ctx.request_stop()

        trace = RecordingCallback()
        run(trainer, Requests(), trace)
        assert (1, 1) == (trainer.global_step, trace.calls.count("trigger_step"))
        assert "after_epoch" not in trace.calls
        assert "after_train" == trace.calls[-1]
        assert Outcome.STOPPED is trainer.loop.outcome

    @pytest.mark.parametrize(
        "error", [KeyboardInterrupt(), SystemExit(3), StopIteration("mine")], ids=lambda e: type(e).__name__
    )
    def test_unusual_error_in_after_train(self, trainer, run, error):
        """Ctrl-C and other exceptions in `after_train` of one callback are raised after all callbacks are called."""
        log = []
        with pytest.raises(type(error)) as raised:
            run(
                trainer,
                RecordingCallback("a", "after_train", error, log=log),
                RecordingCallback("b", log=log),
            )
        assert raised.value is error
        assert ["a", "b"] == [name for name, m, *_ in log if m == "after_train"]
        assert trainer.hooked_sess.should_stop()

    def test_end_in_after_train(self, trainer, run):
        """StopTraining in `after_train` has no effect."""
        log = []
        run(
            trainer,
            RecordingCallback("a", "after_train", StopTraining(), log=log),
            RecordingCallback("b", log=log),
        )
        assert ["a", "b"] == [name for name, m, *_ in log if m == "after_train"]

    def test_error_of_training_wins(self, trainer, run):
        """If both training and `after_train` fail, training's error is raised."""
        with pytest.raises(KeyError, match="training"):
            run(
                trainer,
                RecordingCallback("a", "trigger_step", KeyError("training")),
                RecordingCallback("b", "after_train", ValueError("later")),
            )

    def test_error_after_a_quiet_end(self, trainer, run):
        """After StopTraining, an error in `after_train` is raised."""
        with pytest.raises(ValueError, match="later"):
            run(
                trainer,
                RecordingCallback("a", "trigger_step", StopTraining()),
                RecordingCallback("b", "after_train", ValueError("later")),
            )

    def test_error_in_close(self, run):
        """An error while closing the session is raised, unless training itself failed."""

        class ClosesBadly(QuadraticTrainer):
            def initialize_hooks(self):
                super().initialize_hooks()
                close = self.hooked_sess.close

                def close_and_fail():
                    close()
                    raise ValueError("closing")

                self.hooked_sess.close = close_and_fail

        with pytest.raises(ValueError, match="closing"):
            run(ClosesBadly())
        with tf.Graph().as_default(), pytest.raises(KeyError, match="training"):
            run(ClosesBadly(), RecordingCallback("a", "trigger_step", KeyError("training")))

    def test_failure_is_logged_with_step(self, trainer, run, log_lines):
        """The log contains the step at which training failed."""
        with pytest.raises(ValueError, match="mine"):
            run(trainer, RecordingCallback("a", "trigger_step", ValueError("mine"), nth=3))
        assert "Training failed at global_step=3: ValueError: mine" in log_lines

    def test_session_open_in_after_train(self, trainer, run):
        """In `after_train` the session is open and is the default session."""

        class Reads(Callback):
            def _after_train(self):
                self.same = tf.get_default_session() is self.trainer.sess
                self.value = self.trainer.sess.run(self.trainer.x)

        reads = Reads()
        run(trainer, reads, RecordingCallback("a", "before_train", StopTraining()))
        assert (True, 0.0) == (reads.same, reads.value)


class TestLatestCheckpoint:
    @pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("mine")], ids=["Ctrl-C", "error"])
    def test_named(self, trainer, run, log_dir, log_lines, error):
        """After Ctrl-C or an error, the log names the latest checkpoint, from which the training can continue."""
        with pytest.raises(type(error)):
            run(trainer, ModelSaver(), RecordingCallback("a", "trigger_epoch", error))
        (line,) = [line for line in log_lines if "latest checkpoint" in line]
        assert line.endswith(f"model-{trainer.global_step}. AutoResumeTrainConfig continues from it.")
        assert trainer.global_step

    def test_none(self, trainer, run, log_dir, log_lines):
        """Without a checkpoint, or at a quiet end, no line names one."""
        with pytest.raises(ValueError, match="mine"):
            run(trainer, ModelSaver(), RecordingCallback("a", "trigger_step", ValueError("mine")))
        assert [] == [line for line in log_lines if "latest checkpoint" in line]
