"""Callbacks that hold something between two calls: their training runs end at every possible point, resume, and have the same effects."""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from fakes.mlflow import FakeMlflow
from fakes.trainers import CountingTrainer, Killed, ScalingTrainer, run_resumed

from tensorpack_lite import callbacks as cb
from tensorpack_lite.callbacks import saver as saver_module
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.batch import BatchData
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.train.config import AutoResumeTrainConfig
from tensorpack_lite.train.exact.what_is_exact import begin_exact_resume
from tensorpack_lite.utils import logger
from tensorpack_lite.utils.random_streams import fix_rng_seed, get_rng

STAT = [5.0, 4.0, 4.5, 6.0, 3.0, 3.5, 3.2, 7.0, 8.0]  # by step, from 1
NO_POINT = ()


class Kill(cb.Callback):
    """Ends the training at a point, and lists all points."""

    def __init__(self, name, point, points):
        self.name, self.point, self.points = name, point, points

    def _check(self, moment):
        here = (self.name, moment, self.global_step)
        self.points.append(here)
        if here == self.point:
            raise Killed

    def _trigger_step(self):
        self._check("step")

    def _trigger_epoch(self):
        self._check("epoch")


class Report(cb.Callback):
    """Reports the statistic after each step, and again, as another one, after each epoch."""

    def _trigger_step(self):
        self.trainer.monitors.put_scalar("stat", STAT[self.global_step - 1])

    def _trigger_epoch(self):
        self.trainer.monitors.put_scalar("at_end", STAT[self.global_step - 1])


class Watch(cb.Callback):
    """Records the result of a function after each step and each epoch. A step that is repeated must have the same result."""

    def __init__(self, seen, look):
        self.seen, self.look = seen, look

    def _record(self, moment):
        value = json.dumps(self.look(self.trainer))
        assert value == self.seen.setdefault((moment, self.global_step), value)

    def _trigger_step(self):
        self._record("step")

    def _trigger_epoch(self):
        self._record("epoch")


def train(
    makes,
    seen,
    point=NO_POINT,
    exact=False,
    epochs=3,
    steps=3,
    make_trainer=CountingTrainer,
    is_saver_last=False,
    is_grouped=False,
):
    """Train with a checkpoint after each step and epoch. Return the trainer, and the points at which it could have been killed."""
    points = []
    with tf.Graph().as_default():
        if exact:
            begin_exact_resume(AutoResumeTrainConfig.get_sessinit_resume(), exact)
        trainer = make_trainer()
        cases = [make() for make in makes]
        saver = cb.PeriodicTrigger(cb.ModelSaver(max_to_keep=2), every_k_steps=1, every_k_epochs=1)
        listed = [
            Report(),
            Kill("first", point, points),
            saver,
            Kill("middle", point, points),
            *(callback for case in cases for callback in case.callbacks),
            Watch(seen, lambda trainer: [case.look(trainer) for case in cases]),
            Kill("last", point, points),
        ]
        if is_saver_last:
            listed.remove(saver)
            listed.insert(-2, saver)
        callbacks = [cb.Callbacks(listed)] if is_grouped else listed
        monitors = [cb.JSONWriter(), *(monitor for case in cases for monitor in case.monitors)]
        run_resumed(trainer, callbacks, monitors, steps, epochs)
    return trainer, points


def rows():
    with open(os.path.join(logger.get_logger_dir(), "stats.json")) as file:
        return json.load(file)


def variables():
    reader = tf.train.NewCheckpointReader(tf.train.latest_checkpoint(logger.get_logger_dir()))
    return {name: reader.get_tensor(name).tolist() for name in reader.get_variable_to_shape_map()}


class Case:
    """
    Callbacks whose effects are compared.

    Args:
        callbacks, monitors: the lists.
        look: function of the trainer that returns what to compare, as JSON values.
    """

    def __init__(self, callbacks=(), look=lambda trainer: None, monitors=()):
        self.callbacks, self.look, self.monitors = callbacks, look, monitors


def set_attribute(make_setter):
    """Return a function that makes a case in which a setter changes an attribute."""

    def make():
        thing = SimpleNamespace(rate=1.0)
        setter = make_setter(cb.ObjAttrParam(thing, "rate"))
        return Case([setter], lambda trainer: thing.rate)

    return make


def set_variable(name, make_setter):
    """Return a function that makes a case in which a callback changes a variable."""

    def make():
        tf.get_variable(name, initializer=1.0, trainable=False, use_resource=True)
        return Case([make_setter(name)], lambda trainer: value_of(trainer, name))

    return make


def value_of(trainer, name):
    return float(trainer.sess.run(trainer.find_tensor(name)))


def halve_without_gain(param):
    setter = cb.StatMonitorParamSetter(param, "stat", lambda rate: rate * 0.5, 0.0, 3)
    return cb.PeriodicTrigger(setter, every_k_steps=1)


def decay(param):
    return cb.HyperParamSetterWithFunc(param, lambda epoch, rate: rate * 0.9 if epoch else None)


def jump(param):
    return cb.ScheduledHyperParamSetter(param, [(0, 0.5), (2, 0.25)])


def slide(param):
    return cb.ScheduledHyperParamSetter(param, [(2, 0.5), (7, 0.1)], interp="linear", step_based=True)


def add_one(name, **arguments):
    variable = next(one for one in tf.global_variables() if one.op.name == name)
    return cb.RunOp(lambda: variable.assign_add(1.0, read_value=False), **arguments)


def average_weights():
    return Case([cb.EMAWeights(0.9)], lambda trainer: value_of(trainer, "x/ExponentialMovingAverage"))


def average_costs():
    average = cb.SimpleMovingAverage(["cost"], 4)
    return Case([average], lambda trainer: np.sum(average._values).item())


class Draw(cb.Callback):
    """Draws random numbers from a generator that it creates before training."""

    def _setup_graph(self):
        self.early = get_rng(self)

    def _before_train(self):
        self.late = get_rng(self)

    def _trigger_step(self):
        self.drawn = [self.early.rand(), self.late.rand(), np.random.rand()]


class Countdown(cb.Callback):
    """Counts triggers, and saves the count."""

    count = 0

    def _trigger_step(self):
        self.count += 1

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state):
        self.count = state["count"]


class Rounds(cb.Inferencer):
    """Reports the number of rounds."""

    rounds = 0

    def _get_fetches(self):
        return ["cost"]

    def _on_fetches(self, results):
        pass

    def _after_inference(self):
        self.rounds += 1
        return {"rounds": self.rounds}

    state_dict, load_state_dict = Countdown.state_dict, Countdown.load_state_dict

    @property
    def count(self):
        return self.rounds

    @count.setter
    def count(self, value):
        self.rounds = value


def inference():
    rounds = Rounds()
    runner = cb.InferenceRunner(DataFromList([[np.float32([0, 1])]], shuffle=False), rounds)
    return Case([runner], lambda trainer: rounds.rounds)


def measures(kind, name):
    """Validate after each step, over the shuffled samples 0 to 6 in batches of 2. With the weight w, y = x * w and `cost` = mean(y)."""

    def make():
        samples = DataFromList([[np.float32(i)] for i in range(7)], shuffle=True)
        infs = [cb.ScalarStats("cost", name), cb.RegressionErrors("y", "x", prefix=name)]
        runner = kind(BatchData(samples, 2, remainder=True), infs, tower_name=name)

        def look(trainer):
            step, cost = trainer.monitors.get_history(f"{name}_cost")[-1]
            mae = trainer.monitors.get_latest(f"{name}_mae")
            assert (trainer.global_step, 3.0 * (1 + step), 3.0 * step) == (step, cost, mae)
            return cost

        return Case([cb.PeriodicTrigger(runner, every_k_steps=1)], look)

    return make


def stop_early(*args, **kwargs):
    def make():
        stop = cb.EarlyStopping(*args, **kwargs)
        every = cb.PeriodicTrigger(stop, every_k_steps=1) if args[0] == "stat" else stop
        return Case([every], lambda trainer: [stop.best, stop.num_bad])

    return make


def keep_best(make_saver):
    def make():
        saver = make_saver()
        kept = lambda trainer: [saver.best, getattr(saver, "kept", None)]  # noqa: E731
        return Case([cb.PeriodicTrigger(saver, every_k_steps=1)], kept)

    return make


def history():
    return Case(
        look=lambda trainer: [trainer.monitors.get_history(name) for name in ("stat", "at_end")],
        monitors=[cb.CSVWriter()],
    )


def printer():
    monitor = cb.ScalarPrinter()
    return Case(look=lambda trainer: monitor._values, monitors=[monitor])


def table():
    monitor = cb.ScalarTable()
    return Case(look=lambda trainer: [monitor._values, monitor._best], monitors=[monitor])


def command():
    monitor = cb.SendMonitorData("true", ["stat", "at_end"])
    return Case(look=lambda trainer: monitor._values, monitors=[monitor])


def nested():
    count = Countdown()
    return Case([cb.Callbacks([count])], lambda trainer: count.count)


def draw():
    callback = Draw()
    return Case([callback], lambda trainer: callback.drawn)


SETTERS = [
    *(set_attribute(make) for make in (halve_without_gain, decay, jump, slide)),
    set_variable("rate1", halve_without_gain),
    set_variable("rate2", decay),
    set_variable("rate3", jump),
    set_variable("rate4", slide),
]

# name -> (functions that make cases, arguments of `train`)
GROUPS = {
    "setters": (SETTERS, {}),
    "setters before the saver": (SETTERS, {"is_saver_last": True}),
    "setters in a group": (SETTERS[:2], {"is_grouped": True}),
    "EarlyStopping": ([stop_early("stat", mode="min", patience=3)], {}),
    "EarlyStopping before the saver": (
        [stop_early("at_end", mode="max", patience=1)],
        {"is_saver_last": True},
    ),
    "savers": (
        [
            keep_best(lambda: cb.MinSaver("stat")),
            keep_best(lambda: cb.MaxSaver("stat")),
            keep_best(lambda: cb.TopKSaver("stat", k=2, mode="min")),
        ],
        {},
    ),
    "averages": (
        [
            average_weights,
            average_costs,
            nested,
            set_variable("runs", partial(add_one, run_step=True, run_before=False)),
        ],
        {"is_saver_last": True},
    ),
    "monitors": ([history, printer, table, command], {}),
    "before training": (
        [
            set_variable("runs", add_one),
            set_variable(
                "triggers",
                lambda name: cb.PeriodicTrigger(add_one(name, run_before=False), every_k_epochs=1, before_train=True),
            ),
        ],
        {"exact": True},
    ),
    "generators": ([draw], {"exact": True}),
    "inferencers": ([inference], {"make_trainer": ScalingTrainer}),
    "measures": (
        [
            measures(cb.InferenceRunner, "one"),
            measures(partial(cb.DataParallelInferenceRunner, gpus=3), "towers"),
            measures(cb.ShardedInferenceRunner, "ranks"),
        ],
        {"make_trainer": ScalingTrainer, "exact": True},
    ),
}


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.any_tensorflow
@pytest.mark.parametrize("name", GROUPS)
def test_a_kill_at_every_point(name, tmp_path):
    """A training that is killed before and after each save and each trigger, and resumed each time, has the effects of one that is not."""
    makes, arguments = GROUPS[name]
    logger.set_logger_dir(str(tmp_path / "undisturbed"), action="d")
    fix_rng_seed(3)
    np.random.seed(3)
    wanted = {}
    whole, points = train(makes, wanted, **arguments)
    results = rows(), variables(), whole.global_step, whole.loop.outcome
    assert len(points) > 20

    logger.set_logger_dir(str(tmp_path / "killed"), action="d")
    found = {}
    np.random.seed(3)
    for point in points:
        fix_rng_seed(3)
        train(makes, found, point, **arguments)
    trainer, _ = train(makes, found, **arguments)
    assert wanted == found
    assert results == (rows(), variables(), trainer.global_step, trainer.loop.outcome)


class TestOneEffect:
    @pytest.mark.slow
    def test_the_period_of_lasting_checkpoints(self, log_dir, monkeypatch):
        """keep_checkpoint_every_n_hours counts training time: the time between a kill and the resume does not matter."""
        clock = [1e6]
        monkeypatch.setattr(saver_module, "time", SimpleNamespace(monotonic=lambda: clock[0]))

        class Tick(cb.Callback):
            def _trigger_step(self):
                clock[0] += 1800

        directory = os.path.join(log_dir, "lasting")

        def make():
            return Case([Tick(), cb.ModelSaver(1, 1.5, directory)])

        train([make], {}, ("last", "epoch", 2), steps=2, epochs=4)
        clock[0] += 1e6
        train([make], {}, steps=2, epochs=4)
        assert {"model-4", "model-8"} == {name[:-6] for name in os.listdir(directory) if name.endswith(".index")}

    @pytest.mark.slow
    def test_the_event_file(self, log_dir):
        """A resumed training writes an event after which TensorBoard ignores later steps of the first one."""
        make = lambda: Case(monitors=[cb.TFEventWriter()])  # noqa: E731
        train([make], {}, ("last", "step", 5))
        train([make], {})
        starts = [
            event.step
            for name in sorted(os.listdir(log_dir))
            if name.startswith("events.")
            for event in tf.train.summary_iterator(os.path.join(log_dir, name))
            if event.session_log.status == tf.SessionLog.START
        ]
        assert [6] == starts

    @pytest.mark.slow
    def test_mlflow(self, log_dir, log_lines, monkeypatch):
        """MLflowMonitor continues the run of the checkpoint."""
        mlflow = FakeMlflow()
        monkeypatch.setitem(sys.modules, "mlflow", mlflow)
        make = lambda: Case(monitors=[cb.MLflowMonitor()])  # noqa: E731
        train([make], {}, ("last", "step", 5))
        train([make], {})
        assert 1 == len([call for call in mlflow.calls if call[0] == "run"])
        assert ("update", "r1", "RUNNING") in mlflow.calls
        assert any("continues run r1" in line for line in log_lines)

    @pytest.mark.slow
    def test_wandb(self, log_dir, monkeypatch):
        """WandbMonitor continues the run of the checkpoint."""
        wandb = mock.Mock()
        wandb.init.return_value.id = "w1"
        monkeypatch.setitem(sys.modules, "wandb", wandb)
        make = lambda: Case(monitors=[cb.WandbMonitor()])  # noqa: E731
        train([make], {}, ("last", "step", 5))
        train([make], {})
        first, second = (call[1] for call in wandb.init.call_args_list)
        assert "id" not in first
        assert ("w1", "allow") == (second["id"], second["resume"])

    @pytest.mark.slow
    def test_names_of_states(self, log_dir):
        """A setter that is added before another one does not take its state."""
        make = set_attribute(lambda param: cb.StatMonitorParamSetter(param, "at_end", lambda rate: rate / 2, 0, 2))
        other = set_attribute(lambda param: cb.StatMonitorParamSetter(param, "stat", lambda rate: rate / 2, 0, 9))
        train([make], {}, epochs=2)
        found = {}
        train([other, make], found)
        assert [1.0, 0.5] == json.loads(found["epoch", 9])


class TestRunOpWithoutExact:
    @pytest.mark.slow
    def test_run_before(self, log_dir):
        """Without exact, an operation runs before each training, as it always has."""
        make = set_variable("runs", lambda name: add_one(name, run_as_trigger=False))
        train([make], {}, epochs=1)
        found = {}
        train([make], found, epochs=2)
        assert [3.0] == json.loads(found["step", 4])
