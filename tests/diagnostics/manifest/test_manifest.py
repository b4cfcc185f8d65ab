"""ManifestWriter: the content of `manifest.json`, how training runs end, and resumptions."""

from __future__ import annotations

import json
import os
import sys
import time
from unittest import mock

import pytest
from fakes.models import Golden, threes
from fakes.processes import run_python
from fakes.trainers import CountingTrainer, launch, run

from tensorpack_lite.callbacks.monitor.json_file import JSONWriter
from tensorpack_lite.callbacks.saver import ModelSaver
from tensorpack_lite.compat import tensorflow
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.diagnostics.manifest import writer as module
from tensorpack_lite.diagnostics.manifest.writer import ManifestWriter
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.input_source.queueing import QueueInput
from tensorpack_lite.input_source.tfdata import TFDatasetInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.loop.callback_factory import CallbackFactory
from tensorpack_lite.loop.resume_point import ResumePoint
from tensorpack_lite.loop.signals.end_signals import Preempted
from tensorpack_lite.loop.state import StopTraining
from tensorpack_lite.train.config import AutoResumeTrainConfig, TrainConfig
from tensorpack_lite.utils import random_streams
from tensorpack_lite.utils.memory import peak_memory

EAGER_OUTSIDE = """
from fakes.models import Mean, threes
from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.diagnostics.manifest import writer

writer._MAX_SECONDS = 120
logger.set_logger_dir("log")
with tf.Graph().as_default():
    tf.set_random_seed(1)
    config = TrainConfig(model=Mean(), dataflow=threes(), steps_per_epoch=2, max_epoch=1)
    launch_train_with_config(config, SimpleTrainer())
"""


@pytest.fixture(autouse=True)
def no_time_limit(monkeypatch):
    """On a loaded machine, a part may take long."""
    monkeypatch.setattr(module, "_MAX_SECONDS", 120)


def read(directory):
    """Return the manifest in a directory."""
    with open(os.path.join(directory, "manifest.json")) as file:
        return json.load(file)


def ended(directory, callback, error=None):
    """Train with a callback; return the last part of the manifest."""
    callbacks = [callback, ManifestWriter()]
    if error is None:
        run(CountingTrainer(), callbacks)
    else:
        with pytest.raises(error):
            run(CountingTrainer(), callbacks)
    return read(directory)["exit"]


def train(config_class=TrainConfig, max_epoch=1, callbacks=(), **kwargs):
    """Train `Mean` with the default callbacks."""
    launch(kind=config_class, callbacks=list(callbacks), steps_per_epoch=3, max_epoch=max_epoch, **kwargs)


def test_content(log_dir, monkeypatch):
    """A training with the default callbacks describes its settings, data, graph, seeds and results."""
    monkeypatch.setenv("MADE_UP_TOKEN", "do not write me down")
    monkeypatch.setenv("MADE_UP", "neither me, please")
    random_streams.fix_rng_seed(5)
    train(session_config=tf.ConfigProto(log_device_placement=True), callbacks=[ModelSaver(max_to_keep=4)])
    found = read(log_dir)
    assert {} == found["left out"]
    assert ("SimpleTrainer", 1) == (found["settings"]["trainer"], found["settings"]["ranks"])
    assert found["settings"]["model"]["type"].endswith("Mean")
    assert '"log_device_placement": true' in json.dumps(found["settings"]["session_creator"])
    (source,) = found["data"]
    assert ("FeedInput", 10) == (source["type"], source["arguments"]["ds"]["length"])
    assert ["float32", [], True] == found["graph"]["variables"]["w"]
    assert [{"alpha": 0.25}] == found["graph"]["optimizer"]["ResourceApplyGradientDescent"]
    assert 5 == found["seeds"]["fix_rng_seed"]
    callbacks = {one["type"]: one.get("arguments") for one in found["callbacks"]}
    assert 4 == callbacks["ModelSaver"]["max_to_keep"]
    assert {"ProgressBar", "JSONWriter"} <= set(callbacks)
    assert {"steps_per_epoch": 3, "max_epoch": 1, "starting_epoch": 1} == found["length"]
    assert tensorflow.__version__ == found["packages"]["tensorflow"]
    assert ("finished", None, 1, 3) == tuple(found["exit"][k] for k in ("outcome", "error", "epoch", "global_step"))
    assert found["statistics"]["cost"]["last"] == found["statistics"]["cost"]["min"]
    text = json.dumps(found)
    assert "do not write me down" not in text
    assert "neither me, please" not in text


def test_before_the_first_step(log_dir):
    """The manifest is complete before the first step, except for the results."""
    seen = []

    class Look(Callback):
        def _before_epoch(self):
            seen.append(read(log_dir))

    run(CountingTrainer(), [Look(), ManifestWriter()], epochs=1)
    assert (None, {}) == (seen[0]["exit"], seen[0]["statistics"])
    assert set(seen[0]) | {"first datapoints", "longest waits", "peak memory"} == set(read(log_dir))
    assert 10**7 < read(log_dir)["peak memory"] <= peak_memory()


def test_without_a_directory():
    """Without a logger directory, nothing is written."""
    assert 4 == run(CountingTrainer(), [ManifestWriter()]).global_step


def test_graph_without_callbacks(log_dir):
    """The fingerprint does not contain operations that callbacks add."""

    class Adds(Callback):
        def _setup_graph(self):
            tf.get_variable("added", initializer=1.0)

    graphs = []
    for callbacks in ([], [Adds()]):
        with tf.Graph().as_default():
            run(CountingTrainer(), [*callbacks, ManifestWriter()], epochs=1, steps=1)
        graphs.append(read(log_dir)["graph"])
    assert graphs[0]["fingerprint"] == graphs[1]["fingerprint"]
    assert {"x"} == set(graphs[1]["variables"])
    assert {"added", "global_step"} == set(graphs[1]["variables of callbacks"])


def test_a_graph_outside_of_which_tensorflow_is_eager(tmp_path):
    """The graph is described if the script trains inside `tf.Graph()`, without disabling eager execution."""
    script = tmp_path / "train.py"
    script.write_text(EAGER_OUTSIDE)
    run_python(script, cwd=tmp_path)
    assert "graph" not in read(tmp_path / "log")["left out"]


def test_a_learning_rate_in_a_variable(log_dir):
    """The optimizer's inputs are constants, or variables with their initial values."""
    data = DataFromList([[[[1.0, 2.0, 3.0]] * 4, [0, 1, 0, 1]]] * 5)
    train(model=Golden(), dataflow=data)
    updates = read(log_dir)["graph"]["optimizer"]["ResourceApplyMomentum"]
    assert [{"lr": "learning_rate, initially 0.1", "momentum": 0.9}] == updates


@pytest.mark.parametrize("make", [FeedInput, QueueInput, TFDatasetInput])
def test_first_datapoints(log_dir, make):
    """The checksums of the first 8 datapoints are those of the arrays that the graph gets, whatever the input is."""
    train(data=make(threes(50)), dataflow=None, max_epoch=3)
    ((first, *others),) = read(log_dir)["first datapoints"]
    assert 7 == len(others)
    assert ["float32 (4,) "] == [text[:13] for text in first]
    assert all(first == other for other in others)


class TestEnds:
    @pytest.mark.parametrize(
        ("error", "outcome"),
        [
            (StopTraining, "stopped"),
            (ArithmeticError, "failed"),
            (KeyboardInterrupt, "interrupted"),
            (Preempted, "preempted"),
        ],
    )
    def test_errors(self, log_dir, error, outcome):
        """StopTraining, an error, Ctrl-C and a preemption are recorded with their type and text."""

        def fail(self):
            raise error("why")

        found = ended(log_dir, CallbackFactory(trigger=fail), None if error is StopTraining else error)
        assert (outcome, f"{error.__name__}: why", 2) == (
            found["outcome"],
            found["error"],
            found["global_step"],
        )

    def test_before_it_was_written(self, log_dir):
        """If a callback fails before the manifest is written, the manifest is written at the end."""

        def fail(self):
            raise ArithmeticError("early")

        found = ended(log_dir, CallbackFactory(before_train=fail), ArithmeticError)
        assert ("failed", 0) == (found["outcome"], found["global_step"])
        assert read(log_dir)["machine"] is not None


class TestFailures:
    def test_a_part_that_fails(self, log_dir, monkeypatch):
        """A part that fails is omitted with its reason, and training continues."""
        monkeypatch.setattr(module, "describe_graph", mock.Mock(side_effect=KeyError("no graph")))
        monkeypatch.setitem(module._PARTS_OF_THE_PROCESS, "machine", mock.Mock(side_effect=OSError("no machine")))
        assert 4 == run(CountingTrainer(), [ManifestWriter()]).global_step
        found = read(log_dir)
        assert (None, None) == (found["graph"], found["machine"])
        assert {"graph": "KeyError: 'no graph'", "machine": "OSError: no machine"} == found["left out"]

    def test_a_part_that_takes_long(self, log_dir, monkeypatch):
        """Training does not wait for a slow part, which is added at the end."""
        monkeypatch.setattr(module, "_MAX_SECONDS", 0.0)
        release = module.threading.Event()
        parts = {"machine": lambda: release.wait(60) and "slow"}
        monkeypatch.setattr(module, "_PARTS_OF_THE_PROCESS", parts)
        seen = []

        class Release(Callback):
            def _before_epoch(self):
                seen.append(read(log_dir)["left out"])
                release.set()
                while any(thread.name == "ManifestWriter" for thread in module.threading.enumerate()):
                    time.sleep(0.001)

        run(CountingTrainer(), [Release(), ManifestWriter()], epochs=1)
        assert "it took longer than 0.0 s" == seen[0]["machine"]
        assert ("slow", {}) == (read(log_dir)["machine"], read(log_dir)["left out"])

    def test_a_disk_error(self, log_dir, monkeypatch, log_lines):
        """A disk error is logged, and training continues."""
        monkeypatch.setattr(module, "write_manifest", mock.Mock(side_effect=OSError("disk full")))
        assert 4 == run(CountingTrainer(), [ManifestWriter()]).global_step
        assert 2 == len([line for line in log_lines if "cannot write" in line and "disk full" in line])


class TestExisting:
    def test_another_training(self, log_dir):
        """The manifest of another training is moved away."""
        for steps in (1, 2):
            with tf.Graph().as_default():
                run(CountingTrainer(), [ManifestWriter()], epochs=1, steps=steps)
        (moved,) = [name for name in os.listdir(log_dir) if name.startswith("manifest.json.")]
        assert 2 == read(log_dir)["length"]["steps_per_epoch"]
        with open(os.path.join(log_dir, moved)) as file:
            assert 1 == json.load(file)["length"]["steps_per_epoch"]

    def test_a_damaged_one(self, log_dir, log_lines):
        """A damaged manifest is moved away, with a warning."""
        with open(os.path.join(log_dir, "manifest.json"), "w") as file:
            file.write("{")
        run(CountingTrainer(), [ManifestWriter()], epochs=1, starting_epoch=1)
        assert "finished" == read(log_dir)["exit"]["outcome"]
        assert any("cannot be read as the manifest" in line for line in log_lines)

    @pytest.mark.slow
    def test_resumed(self, log_dir, monkeypatch):
        """A resumed training keeps what is true of the first start, and adds a resumption with what has changed."""
        monkeypatch.setattr(sys, "argv", ["train.py", "first"])
        train(callbacks=[ModelSaver()])
        before = read(log_dir)
        monkeypatch.setattr(module, "describe_machine", None)
        monkeypatch.setitem(module._PARTS_OF_THE_PROCESS, "machine", lambda: {"host": "another"})
        train(AutoResumeTrainConfig, max_epoch=2, callbacks=[ModelSaver()])
        after = read(log_dir)
        (resumption,) = after["resumptions"]
        assert (before["started"], before["machine"]) == (after["started"], after["machine"])
        assert (2, 3, False) == tuple(resumption[k] for k in ("epoch", "global_step", "exact"))
        assert "model-3" in json.dumps(resumption["from"])
        assert {"host": "another"} == resumption["changed"]["machine"]
        # resuming advances the seed of the graph
        assert {"machine", "length", "seeds"} == set(resumption["changed"])
        # the length is that of the whole training
        assert (1, 2) == (before["length"]["max_epoch"], after["length"]["max_epoch"])
        assert before["length"]["starting_epoch"] == after["length"]["starting_epoch"]
        assert before["exit"] == resumption["exit before"]
        assert (6, before["first datapoints"]) == (after["exit"]["global_step"], after["first datapoints"])

    @pytest.mark.slow
    def test_resumed_exactly(self, log_dir):
        """A resumption says whether it was exact."""
        for max_epoch in (1, 2):
            train(AutoResumeTrainConfig, max_epoch=max_epoch, callbacks=[ModelSaver()], exact=True)
        assert [True] == [one["exact"] for one in read(log_dir)["resumptions"]]


def test_a_checkpoint_of_a_training_without_it(log_dir):
    """A checkpoint that was saved before the default callbacks had a ManifestWriter is resumed completely."""
    train(callbacks=[ModelSaver()], extra_callbacks=[], monitors=[JSONWriter()])
    rows = JSONWriter.load_existing_json(log_dir)
    train(AutoResumeTrainConfig, callbacks=[ModelSaver()], extra_callbacks=[ManifestWriter()], monitors=[JSONWriter()])
    assert rows == JSONWriter.load_existing_json(log_dir)
    assert 1 == [one["type"] for one in read(log_dir)["callbacks"]].count("ManifestWriter")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a", "saver", "new", "b"], 3),
        (["a", "new", "saver", "b"], 3),
        (["new", "a", "saver", "b"], 3),
        (["saver", "b", "new"], 1),
        (["a", "saver", "b", "other"], None),
    ],
)
def test_place_with_a_callback_without_calls(names, expected):
    """A callback that has nothing to do in the loop may be added to a resumed training, others may not."""
    place = ResumePoint(1, 3, 3, 3, "trigger_epoch", ["a", "saver", "b"], 2)
    called = place.num_called_of(names, ["new"])
    assert (expected is None) == (called is None)
    if called is not None:
        assert "saver" in names[:called]
        assert "b" not in names[:called]
