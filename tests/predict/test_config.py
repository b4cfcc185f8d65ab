"""PredictConfig: defaults and checks."""

from __future__ import annotations

import pytest
from fakes.models import Mean

from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.input_source.placeholder import PlaceholderInput
from tensorpack_lite.predict.base import OfflinePredictor
from tensorpack_lite.predict.config import PredictConfig
from tensorpack_lite.predict.feedfree import FeedfreePredictor
from tensorpack_lite.predict.multigpu import DataParallelOfflinePredictor, MultiTowerOfflinePredictor
from tensorpack_lite.tfutils.sesscreate import NewSessionCreator
from tensorpack_lite.tfutils.sessinit import JustCurrentSession, SessionInit
from tensorpack_lite.tfutils.tower.context import PredictTowerContext
from tensorpack_lite.tfutils.tower.func import TowerFunc

SIGNATURE = [TensorSpec([None], tf.float32, "a"), TensorSpec([None], tf.float32, "b")]


def build(a, b):
    return tf.add(a, b, name="sum")


def test_defaults():
    """The defaults are all inputs, a new session, initial values, and a graph for each predictor."""
    config = PredictConfig(tower_func=build, input_signature=SIGNATURE, output_names=["sum"])

    assert ["a", "b"] == config.input_names
    assert ["sum"] == config.output_names
    assert isinstance(config.tower_func, TowerFunc)
    assert NewSessionCreator is type(config.session_creator)
    assert JustCurrentSession is type(config.session_init)
    assert (False, True) == (config.return_input, config.create_graph)
    assert config.input_signature == SIGNATURE


def test_model():
    """A ModelDesc defines tower function and signature."""
    config = PredictConfig(model=Mean(), output_names=["cost"])
    assert Mean().get_input_signature() == config.input_signature


def test_graph():
    """Each predictor gets a new graph, or the default graph."""
    config = PredictConfig(tower_func=build, input_signature=SIGNATURE, output_names=["sum"])
    assert config._maybe_create_graph() is not config._maybe_create_graph()
    config.create_graph = False
    assert tf.get_default_graph() is config._maybe_create_graph()


def test_tower_func_is_not_wrapped_again():
    """A trainer's TowerFunc works as tower_func, and keeps its towers."""
    tower_func = TowerFunc(build, SIGNATURE)
    placeholders = [tf.placeholder(tf.float32, [None], spec.name) for spec in SIGNATURE]
    with PredictTowerContext("first"):
        tower_func(*placeholders)
    config = PredictConfig(tower_func=tower_func, output_names=["sum"])
    with PredictTowerContext("second"):
        config.tower_func(*placeholders)

    assert ["first", "second"] == [tower.ns_name for tower in tower_func.towers]
    assert SIGNATURE == config.input_signature


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({}, ValueError, "PredictConfig: there is no model"),
        ({"tower_func": build}, ValueError, "PredictConfig: there is no model"),
        (
            {"tower_func": 3, "input_signature": SIGNATURE},
            TypeError,
            "tower_func has .*expected a function of",
        ),
        ({"model": build}, TypeError, "model has .*expected ModelDescBase, got function"),
        ({"model": Mean(), "input_signature": SIGNATURE}, ValueError, "model already defines tower_func"),
        ({"model": Mean(), "tower_func": build}, ValueError, "model already defines tower_func"),
        ({"model": Mean(), "output_names": []}, ValueError, "output_names is empty"),
        ({"model": Mean(), "output_names": None}, ValueError, "output_names is empty"),
        (
            {"model": Mean(), "output_names": "cost"},
            TypeError,
            "output_names: expected a list of names, got str",
        ),
        ({"model": Mean(), "input_names": [3]}, TypeError, "input_names: expected a list of names, got list"),
        (
            {"model": Mean(), "session_init": "path"},
            TypeError,
            r"session_init has .*expected SessionInit, got str\). Use SmartInit",
        ),
        (
            {"model": Mean(), "session_creator": 3},
            TypeError,
            "session_creator has .*expected SessionCreator, got int",
        ),
    ],
)
def test_mistakes(arguments, error, match):
    """Each invalid argument raises an error that names it."""
    with pytest.raises(error, match=match):
        PredictConfig(**{"output_names": ["cost"], **arguments})


def test_no_inputs_is_a_warning(log_lines):
    """A predictor without inputs is possible, with a warning."""
    PredictConfig(tower_func=build, input_signature=SIGNATURE, input_names=[], output_names=["sum"])
    assert 1 == len(log_lines)


class FailingInit(SessionInit):
    """Fails to load, like a damaged checkpoint, and remembers the session."""

    def _run_init(self, sess):
        self.sess = sess
        raise OSError("planted")


@pytest.mark.parametrize(
    "make",
    [
        OfflinePredictor,
        lambda config: FeedfreePredictor(config, PlaceholderInput()),
        lambda config: MultiTowerOfflinePredictor(config, [-1]),
        lambda config: DataParallelOfflinePredictor(config, [-1]),
    ],
    ids=["offline", "feedfree", "multi_tower", "data_parallel"],
)
def test_failed_load_closes_the_session(make):
    """A predictor whose variables cannot be loaded closes its session."""
    init = FailingInit()
    config = PredictConfig(tower_func=build, input_signature=SIGNATURE, output_names=["sum"], session_init=init)
    with pytest.raises(OSError, match="planted"):
        make(config)
    with pytest.raises(RuntimeError, match="closed"):
        init.sess.run([])
