"""Rules of lint about schedules: units, lengths, and callbacks that set the same parameter."""

from __future__ import annotations

import pytest
from fakes.linted import Classifier, lint, updates

from tensorpack_lite.callbacks.param.hyperparam import ObjAttrParam
from tensorpack_lite.callbacks.param.schedule import ScheduledHyperParamSetter
from tensorpack_lite.callbacks.param.setter import HumanHyperParamSetter, HyperParamSetterWithFunc
from tensorpack_lite.callbacks.param.statistic import StatMonitorParamSetter
from tensorpack_lite.callbacks.trigger import PeriodicTrigger
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop.callback_factory import CallbackFactory
from tensorpack_lite.loop.trainer import TrainArguments
from tensorpack_lite.models import FullyConnected
from tensorpack_lite.tfutils.lamb import LAMBOptimizer
from tensorpack_lite.tfutils.sessinit import JustCurrentSession
from tensorpack_lite.tfutils.weight_decay import AdamWOptimizer
from tensorpack_lite.train.simple import SimpleTrainer
from tensorpack_lite.utils import schedules
from tensorpack_lite.utils.utils import ENDLESS

RATE = "learning_rate"
STEPS = 500


def regression(image, label):
    """A model without update operations."""
    scores = FullyConnected("fc", image, 1)
    return tf.reduce_mean(tf.square(scores - tf.cast(tf.expand_dims(label, 1), tf.float32)))


def points(schedule, **kwargs):
    """Return a schedule of the learning rate by points."""
    return ScheduledHyperParamSetter(RATE, schedule, **kwargs)


def function(func, **kwargs):
    """Return a schedule of the learning rate by a function."""
    return HyperParamSetterWithFunc(RATE, func, **kwargs)


def judged(callbacks, epochs=90, first=1, **kwargs):
    """Return the remarks about a training of some epochs."""
    trainer = SimpleTrainer()
    trainer.arguments = TrainArguments(None, JustCurrentSession(), STEPS, first, epochs)
    with tf.Graph().as_default():
        return lint(regression, callbacks, trainer=trainer, **kwargs)


@pytest.mark.parametrize(
    ("setter", "words"),
    [
        (lambda: points([(0, 0), (30, 0.0)]), "the value is always 0"),
        (lambda: function(schedules.cosine(0.0, 90)), "the value is always 0"),
        (lambda: function(schedules.constant(0), step_based=True), "the value is always 0"),
        (
            lambda: function(schedules.cosine(0.1, 10)),
            "from epoch 10 on, the value is 0, but training ends after epoch 90",
        ),
        (
            lambda: function(schedules.polynomial(0.1, 60 * STEPS), step_based=True),
            "from step 30000 on, the value is 0",
        ),
        (lambda: points([(0, 0.1), (50, 0.0)]), "from epoch 50 on, the value is 0"),
        (lambda: function(schedules.one_cycle(0.1, 45)), "from epoch 45 on, the value is 4e-07"),
        (lambda: function(schedules.cosine(0.1, 20, end=1e-4)), "from epoch 20 on, the value is 0.0001"),
        (lambda: points([(100, 0.01)]), "its changes come too late: training ends after epoch 90"),
        (lambda: points([(1, 0.1), (90, 0.01), (120, 0.001)]), "its changes come too late"),
        (lambda: points([(46000, 0.01)], step_based=True), "its changes come too late: training ends after step 45000"),
        (lambda: points([(15000, 0.01), (30000, 0.001)]), "its points look like steps, but it counts epochs"),
        (lambda: points([(0, 0.1), (45000, 0)], interp="linear"), "its points look like steps"),
        (lambda: function(schedules.cosine(0.1, 45000)), "its points look like steps"),
        (lambda: function(schedules.step(0.1, [15000, 30000])), "its points look like steps"),
        (lambda: function(schedules.constant(0.1, warmup=2000)), "its points look like steps"),
        (lambda: function(schedules.cosine(0.1, 45000, warmup=1000)), "its points look like steps"),
        (lambda: function(schedules.cosine(0.1, 800)), "its changes come too late"),
        (lambda: function(schedules.inverse_sqrt(0.1, 10**6), step_based=True), "its changes come too late"),
        (lambda: points([(30, 0.01), (60, 0.001)], step_based=True), "its last change is in the first of 90 epochs"),
        (lambda: points([(0, 0.1), (90, 0.0)], step_based=True, interp="linear"), "its last change is in the first"),
        (lambda: function(schedules.cosine(0.1, 90), step_based=True), "its last change is in the first of 90 epochs"),
        (lambda: function(schedules.step(0.1, [30, 60, 80]), step_based=True), "its last change is in the first"),
    ],
)
def test_schedules_of_another_length(setter, words):
    """A schedule that is 0, ends early, begins late or counts in the wrong unit has a remark, which says how long training is."""
    (remark,) = judged([setter()])
    assert ("G23", RATE) == (remark.rule, remark.name)
    assert words in remark.text


@pytest.mark.parametrize(
    "setter",
    [
        lambda: points([(1, 0.1), (30, 0.01), (60, 0.001), (85, 0)]),
        lambda: points([(30, 0.01), (60, 0.001), (120, 0.0001)]),
        lambda: points([(0, 0), (5, 0.1)], interp="linear"),
        lambda: points([(0, 0), (50, 0.1)], interp="linear", step_based=True),
        lambda: points([(0, 0.1), (100, 0.1)]),
        lambda: points([(60, 0.05), (90, 0.01)]),
        lambda: points([(0, 0.1), (80, 0.001)], interp="linear"),
        lambda: function(schedules.cosine(0.1, 90)),
        lambda: function(schedules.cosine(0.1, 89)),
        lambda: function(schedules.cosine(0.1, 90 * STEPS, warmup=STEPS), step_based=True),
        lambda: function(schedules.cosine(0.1, 300)),
        lambda: function(schedules.cosine_restarts(0.1, 10, growth=2)),
        lambda: function(schedules.inverse_sqrt(0.1, 4000), step_based=True),
        lambda: function(schedules.constant(0.1, warmup=300), step_based=True),
        lambda: function(schedules.inverse_sqrt(0.1, 60 * STEPS), step_based=True),
        lambda: function(schedules.constant(0.1)),
        lambda: function(schedules.step(0.1, [30, 60, 80], warmup=5)),
        lambda: function(schedules.one_cycle(0.1, 90 * STEPS), step_based=True),
        lambda: function(lambda epoch, rate: 0.0 if epoch < 1 else 0.1),
    ],
)
def test_schedules_of_the_right_length(setter):
    """Drops, warm-ups and restarts within training, and functions of the script, have no remark."""
    assert [] == judged([setter()])


@pytest.mark.parametrize(
    ("setter", "epochs"),
    [
        (lambda: points([(30, 0.01)]), 4),
        (lambda: function(schedules.cosine(0.1, 90)), 2),
        (lambda: function(schedules.cosine(0.1, 90, warmup=5)), 3),
        (lambda: points([(0, 0.1), (60, 0.01), (120, 0.001)]), 2),
        (lambda: function(schedules.cosine(0.1, 10)), ENDLESS),
        (lambda: points([(1, 0.1), (200000, 0.01)]), ENDLESS),
    ],
    ids=["a trial", "a short trial", "a trial of a warm-up", "a trial of points", "endless", "endless, late"],
)
def test_training_runs_that_do_not_judge_schedules(setter, epochs):
    """A schedule has no remark in a trial of few epochs, or in a training without an end."""
    assert [] == judged([setter()], epochs)


def test_schedules_of_other_parameters():
    """A weight of the cost may be 0 for as long as the script wants; the rate that an optimizer reads may not, whatever its name is."""

    class Weighted(Classifier):
        def build_graph(self, image, label):
            weight = tf.get_variable("weight", initializer=0.0, trainable=False)
            return tf.identity(regression(image, label) * (1 + weight), name="cost")

        def optimizer(self):
            return tf.train.AdamOptimizer(tf.get_variable("speed", initializer=0.1, trainable=False))

    model = lambda: Weighted(None)  # noqa: E731
    zeros = [(0, 0.0), (20, 0.0)]
    assert [] == judged([ScheduledHyperParamSetter("weight", zeros)], model=model())
    (remark,) = judged([ScheduledHyperParamSetter("speed", zeros)], model=model())
    assert ("G23", "speed") == (remark.rule, remark.name)


def rated(make, wrap=tf.train.AdamOptimizer):
    """Return a model whose optimizer has the rate that a function returns."""

    class Rated(Classifier):
        def optimizer(self):
            return wrap(make())

    return Rated(regression)


def variable(value, name=RATE):
    """Create the variable of a learning rate."""
    return tf.get_variable(name, initializer=float(value), trainable=False)


def step():
    """Return the step counter."""
    return tf.train.get_or_create_global_step()


def stairs(bounds, values):
    """Return a rate by steps."""
    return tf.train.piecewise_constant(tf.cast(step(), tf.int32), bounds, values)


@pytest.mark.parametrize(
    ("make", "epochs", "words"),
    [
        (lambda: stairs([1000, 2000], [0.0, 0.1, 0.01]), 2, "is 0 at all steps"),
        (lambda: stairs([1000, 2000], [0.0, 0.1, 0.01]), 1, "is 0 at all steps"),
        (lambda: tf.placeholder_with_default(0.0, []), 2, "is 0 at all steps"),
        (lambda: tf.train.exponential_decay(0.1, step(), 1, 0.9), 3, "is almost 0 from step"),
        (lambda: tf.train.polynomial_decay(0.1, step(), 500, 0.0), 3, "is almost 0 from step"),
        (lambda: stairs([1, 2], [0.1, 0.01, 0.001]), 3, "has its last change in the first 3 steps"),
        (lambda: stairs([32000, 48000], [0.1, 0.01, 0.001]), 20, "does not change: training ends after step 10000"),
        (lambda: tf.train.exponential_decay(0.1, step(), 500000, 0.1, staircase=True), 20, "does not change"),
        (lambda: 0.1 * tf.minimum(1.0, tf.cast(step() + 1, tf.float32) / 1e5), 20, "only rises"),
    ],
)  # fmt: skip
def test_computed_rates_of_another_length(make, epochs, words):
    """A rate that the graph computes from the step has a remark if it is 0, ends early, never changes or counts epochs."""
    (remark,) = judged([], epochs, model=rated(make))
    assert "G23" == remark.rule
    assert words in remark.text
    assert remark.place


@pytest.mark.parametrize(
    ("make", "epochs"),
    [
        (lambda: stairs([500, 1000], [0.1, 0.01, 0.001]), 3),
        (lambda: stairs([500], [0.0, 0.1]), 3),
        (lambda: tf.train.exponential_decay(0.1, step(), 500, 0.7, staircase=True), 3),
        (lambda: tf.train.cosine_decay(0.1, step(), 1500), 3),
        (lambda: tf.train.cosine_decay(0.1, step(), 1500), 1),
        (lambda: tf.train.polynomial_decay(0.1, step(), 1500, 0.0, power=5.0), 3),
        (lambda: stairs([32000, 48000], [0.1, 0.01, 0.001]), 4),
        (lambda: 0.1 * tf.minimum(1.0, tf.cast(step() + 1, tf.float32) / 1e4), 2),
        (lambda: 0.1 * tf.minimum(1.0, tf.cast(step(), tf.float32) / 5000), 20),
        (lambda: tf.train.exponential_decay(variable(0.1), step(), 1, 0.9), 3),
        (lambda: tf.train.cosine_decay_restarts(0.1, step(), 500), 3),
        (lambda: tf.train.cosine_decay(0.1, step(), 1500), ENDLESS),
    ],
)  # fmt: skip
def test_computed_rates_of_the_right_length(make, epochs):
    """Decays within training, warm-ups, trials, and rates that depend on more than the step have no remark."""
    assert [] == judged([], epochs, model=rated(make))


def test_computed_rate_that_a_callback_may_feed():
    """A placeholder's default value of 0 has no remark if a callback of the user may feed it."""
    model = rated(lambda: tf.placeholder_with_default(0.0, []))
    assert [] == judged([CallbackFactory(trigger=lambda self: None)], 2, model=model)


def changed_in_steps():
    """Create a rate that each step changes."""
    rate = variable(0.1)
    tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign(rate, 0.999 * rate))
    return rate


def test_schedule_of_a_rate_that_steps_change():
    """A schedule of a variable that an update operation changes has a remark, but not a reaction to a statistic."""
    model = lambda: rated(changed_in_steps)  # noqa: E731
    (remark,) = judged([points([(30, 0.01)]), updates()], model=model())
    assert ("G24", RATE) == (remark.rule, remark.name)
    monitor = StatMonitorParamSetter(RATE, "cost", lambda rate: rate / 2, 0, 3)
    assert [] == judged([monitor, updates()], model=model())


def unused_variable():
    variable(0.1)
    return 0.1


def shown_variable():
    tf.summary.scalar("rate", variable(0.1, "lr"))
    return 0.1


@pytest.mark.parametrize(
    ("rule", "make", "wrap"),
    [
        ("G28", lambda: 1 // 10, tf.train.AdamOptimizer),
        ("G28", lambda: variable(0), tf.train.GradientDescentOptimizer),
        ("G28", lambda: variable(0, "speed"), lambda rate: tf.train.MomentumOptimizer(rate, 0.9)),
        ("G28", lambda: variable(0), lambda rate: AdamWOptimizer(rate, 1e-4)),
        ("G28", lambda: variable(0, "opt/lr"), LAMBOptimizer),
        ("G04", unused_variable, tf.train.AdamOptimizer),
        ("G04", shown_variable, tf.train.AdagradOptimizer),
    ],
)
def test_rates_without_effect(rule, make, wrap):
    """A rate of 0 that nothing sets, and a variable that is called a rate and that nothing reads, have a remark."""
    (remark,) = judged([], model=rated(make, wrap))
    assert rule == remark.rule
    assert (remark.name == "optimizer") == (remark.place == "")


@pytest.mark.parametrize(
    ("callbacks", "init"),
    [
        (lambda: [function(lambda epoch, rate: 0.1)], None),
        (lambda: [CallbackFactory(trigger=lambda self: None)], None),
        (lambda: [HumanHyperParamSetter(RATE)], None),
        (list, {RATE: 0.1}),
    ],
    ids=["schedule", "function", "file", "restored"],
)
def test_rates_that_something_sets(log_dir, callbacks, init):
    """A rate that begins with 0 has no remark if a callback may set it, or if it is restored."""
    assert [] == judged(callbacks(), model=rated(lambda: variable(0)), init=init)


class Holder:
    """An object with an attribute."""

    rate = 0.1


HOLDER = Holder()
WARMUP = [(0, 0.01), (5, 0.1)]


@pytest.mark.parametrize(
    "setters",
    [
        lambda: [points([(30, 0.01)]), points([(30, 0.02)])],
        lambda: [points([(30, 0.01), (60, 0.001)]), function(schedules.constant(0.1, warmup=5))],
        lambda: [function(schedules.cosine(0.1, 90)), function(schedules.polynomial(0.1, 90))],
        lambda: [points([(0, 0.1), (90, 0.0)], interp="linear"), points([(40, 0.1)])],
        lambda: [function(schedules.cosine(0.1, 90)), function(schedules.cosine(0.2, 90 * STEPS), step_based=True)],
        lambda: [points([(30, 0.01)]), function(lambda epoch, rate: 0.1 * 0.97**epoch)],
        lambda: [function(lambda epoch, rate: 0.1 / (epoch + 1)), function(lambda epoch, _: 0.1 * 0.97**epoch)],
        lambda: [StatMonitorParamSetter(RATE, "cost", lambda rate: rate / 2, 0, 3), function(lambda epoch, _: 0.1 * 0.9**epoch)],
        lambda: [function(schedules.cosine(0.1, 90)), StatMonitorParamSetter(RATE, "cost", lambda rate: rate / 2, 0, 3)],
        lambda: [
            PeriodicTrigger(function(lambda epoch, _: 0.1 * (1 + epoch)), every_k_steps=10),
            function(schedules.cosine(0.1, 90)),
        ],
        lambda: [
            ScheduledHyperParamSetter(ObjAttrParam(HOLDER, "rate"), [(20, value)]) for value in (0.1, 0.2)
        ],
    ],
)  # fmt: skip
def test_two_schedules_of_one_parameter(setters):
    """Two callbacks that set one parameter to different values at the same time have one remark."""
    found = judged(setters())
    assert ["G24"] == [remark.rule for remark in found]
    assert found[0].name in (RATE, "rate")


@pytest.mark.parametrize(
    "setters",
    [
        lambda: [points(WARMUP, interp="linear"), points([(30, 0.01), (60, 0.001)])],
        lambda: [points([(0, 0.1), (30, 0.01)]), points(WARMUP, interp="linear")],
        lambda: [points([(0, 0.01), (5 * STEPS, 0.1)], interp="linear", step_based=True), points([(5, 0.1), (30, 0.01)])],
        lambda: [points([(30, 0.01), (60, 0.001)]), points([(30, 0.01), (60, 0.001)])],
        lambda: [function(schedules.cosine(0.1, 90)), function(schedules.cosine(0.1, 90))],
        lambda: [points([(30, 0.01)]), function(lambda epoch, rate: rate * 0.97)],
        lambda: [points([(30, 0.01)]), function(lambda epoch, rate: 0.05 if epoch == 10 else None)],
        lambda: [points([(30, 0.01)]), StatMonitorParamSetter(RATE, "cost", lambda rate: rate / 2, 0, 3)],
        lambda: [
            StatMonitorParamSetter(RATE, "cost", lambda rate: rate / 2, 0, 3),
            function(lambda epoch, rate: 0.05 if epoch == 1 else rate),
        ],
        lambda: [PeriodicTrigger(function(lambda epoch, rate: rate * 0.9), every_k_steps=10), function(schedules.cosine(0.1, 90))],
        lambda: [points([(30, 0.01)]), PeriodicTrigger(points([(30, 0.02)]), every_k_epochs=7)],
        lambda: [
            ScheduledHyperParamSetter(ObjAttrParam(holder, "rate"), [(20, value)])
            for holder, value in ((Holder(), 0.1), (HOLDER, 0.2))
        ],
    ],
)  # fmt: skip
def test_schedules_that_follow_each_other(setters):
    """A warm-up with its schedule, equal schedules, and callbacks that react to something have no remark."""
    assert [] == judged(setters())


def test_values_set_by_hand(log_dir):
    """A file that the user edits may overwrite a schedule."""
    assert [] == judged([points([(30, 0.01)]), HumanHyperParamSetter(RATE)])


def test_values_stay_feedable():
    """Lint leaves initial values feedable, which is how a callback sets a variable."""
    with tf.Graph().as_default() as graph:
        trainer = SimpleTrainer()
        lint(lambda image, label: 100 * regression(image, label), [points([(0, 0.1), (1, 0.0)])], trainer=trainer)
        (rate,) = [one for one in tf.global_variables() if one.op.name == RATE]
        assert graph.is_feedable(rate.initializer.inputs[1])
