"""Rules of lint about callbacks: schedules without effect, the order of savers, and training runs without any."""

from __future__ import annotations

import pytest
from fakes.linted import lint, validation
from fakes.models import FinalW

from tensorpack_lite.callbacks.param.schedule import ScheduledHyperParamSetter
from tensorpack_lite.callbacks.saver import MinSaver, ModelSaver
from tensorpack_lite.callbacks.top_k import TopKSaver
from tensorpack_lite.callbacks.trigger import PeriodicTrigger
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop.callback_factory import CallbackFactory
from tensorpack_lite.loop.hooks import HookToCallback
from tensorpack_lite.models import FullyConnected
from tensorpack_lite.tfutils.sessinit import SmartInit


def regression(image, label):
    """A model without update operations."""
    tf.summary.scalar("rate", tf.zeros([]))
    scores = FullyConnected("fc", image, 1)
    return tf.reduce_mean(tf.square(scores - tf.cast(tf.expand_dims(label, 1), tf.float32)))


def set_rate() -> ScheduledHyperParamSetter:
    """Return a schedule of the learning rate."""
    return ScheduledHyperParamSetter("learning_rate", [(1, 0.1), (5, 0.01)])


def lint_again(callbacks, **kwargs):
    """Apply the rules in a new graph."""
    with tf.Graph().as_default():
        return lint(regression, callbacks, **kwargs)


@pytest.mark.slow
def test_rate_that_the_optimizer_does_not_read():
    """A remark names the variable if the optimizer got a number instead."""
    (remark,) = lint(regression, [set_rate()], reads_rate=False)
    assert ("G04", "learning_rate") == (remark.rule, remark.name)
    assert remark.place.rpartition("/")[2].startswith("linted.py:")
    assert [] == lint_again([set_rate()])


def test_parameter_that_inference_reads():
    """A variable that only the inference tower reads has an effect."""

    def noisy(image, label):
        from tensorpack_lite.tfutils.tower.context import get_current_tower_context

        noise = tf.get_variable("noise", initializer=0.0, trainable=False)
        is_training = get_current_tower_context().is_training
        return regression(image if is_training else image + noise, label)

    setter = ScheduledHyperParamSetter("noise", [(1, 0.1)])
    assert [] == lint(noisy, [validation(), setter])


def test_saver_before_model_saver(log_dir):
    """A saver of the best model must come after the ModelSaver. Other callbacks may report its statistic at any place."""
    (remark,) = lint(regression, [validation(), MinSaver("validation_cost"), ModelSaver()])
    assert ("G14", "MinSaver(min-validation_cost)") == (remark.rule, remark.name)
    assert "before the ModelSaver" in remark.text
    assert [] == lint_again([validation(), ModelSaver(), MinSaver("validation_cost")])
    assert [] == lint_again([ModelSaver(), MinSaver("cost")])


@pytest.mark.slow
def test_saver_before_its_statistic(log_dir):
    """A saver of the best model must come after the runner that reports its statistic, also inside a proxy."""
    saver = PeriodicTrigger(TopKSaver("validation_cost"), every_k_epochs=1)
    (remark,) = lint(regression, [ModelSaver(), saver, validation()])
    assert "before InferenceRunner, which reports 'validation_cost'" in remark.text
    assert [] == lint_again([ModelSaver(), validation(), MinSaver("validation_cost")])


@pytest.mark.parametrize("has_other", [False, True])
def test_no_model_saver(log_dir, tmp_path, has_other):
    """Without a ModelSaver for the directory there is a remark, unless a callback of the user may save there."""
    callbacks = [
        validation(),
        ModelSaver(checkpoint_dir=str(tmp_path / "other")),
        MinSaver("validation_cost"),
    ]
    remarks = lint(regression, [*callbacks, *([FinalW()] if has_other else [])])
    assert ([] if has_other else ["G14"]) == [remark.rule for remark in remarks]


def resumed_later(init=None):
    """Return an initializer like that of an AutoResumeTrainConfig."""
    init = SmartInit(init)
    init.expects_checkpoints = True
    return init


def test_nothing_saves_what_a_resume_needs(log_dir):
    """A training that is to resume later has a remark if no callback saves a checkpoint."""
    (remark,) = lint(regression, [validation()], resumed_later())
    assert ("G22", "AutoResumeTrainConfig") == (remark.rule, remark.name)
    assert "nothing saves a checkpoint, so a later start cannot resume." == remark.text
    assert "Add ModelSaver()." == remark.advice


@pytest.mark.parametrize(
    "make",
    [
        ModelSaver,
        lambda: PeriodicTrigger(ModelSaver(), every_k_epochs=5),
        FinalW,
        lambda: CallbackFactory(trigger=lambda self: None),
        lambda: HookToCallback(tf.train.SessionRunHook()),
    ],
    ids=["saver", "periodic saver", "callback of the user", "function of the user", "hook"],
)
def test_something_may_save(log_dir, make):
    """A ModelSaver, or code of the user that may save a checkpoint, has no remark, and a training that does not resume none."""
    assert [] == lint(regression, [make()], resumed_later())
    assert [] == lint_again([])
