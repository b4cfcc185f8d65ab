"""TFEventWriter: TensorBoard's event file."""

from __future__ import annotations

import glob
import os

import pytest
from fakes.trainers import CountingTrainer, run

from tensorpack_lite.callbacks.monitor.event_file import TFEventWriter
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.diagnostics.manifest.hyperparams import RecordHyperParams
from tensorpack_lite.loop.callback_factory import CallbackFactory


def event_files(directory):
    """The paths of all event files, the oldest first."""
    return sorted(glob.glob(os.path.join(directory, "events.out.tfevents.*")), key=os.path.getmtime)


def events(directory):
    """All events in all files."""
    return [event for path in event_files(directory) for event in tf.train.summary_iterator(path)]


def put_epoch():
    """A callback that reports the number of each epoch."""
    return CallbackFactory(trigger=lambda self: self.trainer.monitors.put_scalar("n", self.epoch_num))


def test_scalars_with_their_steps(log_dir):
    """Reported scalars are in the file with their steps."""
    run(CountingTrainer(), [put_epoch()], [TFEventWriter()])

    found = [(e.step, v.tag, v.simple_value) for e in events(log_dir) for v in e.summary.value]
    assert [(2, "n", 1.0), (4, "n", 2.0)] == found


def test_the_graph_is_written(log_dir):
    """One event holds the graph definition."""
    run(CountingTrainer(), monitors=[TFEventWriter()], steps=1, epochs=1)

    graphs = [tf.GraphDef.FromString(e.graph_def) for e in events(log_dir) if e.HasField("graph_def")]
    assert ["x" in [node.name for node in graph.node] for graph in graphs] == [True]


def test_events_are_passed_on(log_dir):
    """An event that is not a summary is written with the current step."""

    def put(self):
        self.trainer.monitors.put_event(tf.Event(tagged_run_metadata=tf.summary.TaggedRunMetadata(tag="t")))

    run(CountingTrainer(), [CallbackFactory(trigger=put)], [TFEventWriter()], steps=2, epochs=1)

    assert [2] == [e.step for e in events(log_dir) if e.HasField("tagged_run_metadata")]


def test_a_scalar_before_training(log_dir):
    """Scalars that callbacks report in before_train are written."""
    early = CallbackFactory(before_train=lambda self: self.trainer.monitors.put_scalar("early", 1))
    run(CountingTrainer(), [early], [TFEventWriter()], steps=1, epochs=1)

    assert ["early"] == [v.tag for e in events(log_dir) for v in e.summary.value]


def test_texts(log_dir):
    """Texts are strings for TensorBoard's plugin of that name, with their step."""
    put = CallbackFactory(trigger=lambda self: self.trainer.monitors.put_text("said", ["a", "\u00fc"]))
    run(CountingTrainer(), [put], [TFEventWriter()], epochs=1)

    ((step, value),) = [(e.step, v) for e in events(log_dir) for v in e.summary.value]
    assert (2, "said", "text") == (step, value.tag, value.metadata.plugin_data.plugin_name)
    assert [b"a", "\u00fc".encode()] == tf.make_ndarray(value.tensor).tolist()


def test_hyperparams(log_dir):
    """TensorBoard's own code reads the hyper-parameters, with their types."""
    plugin_data_pb2 = pytest.importorskip("tensorboard.plugins.hparams.plugin_data_pb2")
    values = {"lr": 0.5, "name": "\u00fc" * 100, "flag": False, "depth": 3}
    run(CountingTrainer(), [RecordHyperParams(values)], [TFEventWriter()], epochs=1)

    (value,) = [v for e in events(log_dir) for v in e.summary.value]
    assert ("_hparams_/session_start_info", "hparams") == (value.tag, value.metadata.plugin_data.plugin_name)
    data = plugin_data_pb2.HParamsPluginData.FromString(value.metadata.plugin_data.content)
    found = {name: getattr(v, v.WhichOneof("kind")) for name, v in data.session_start_info.hparams.items()}
    assert (values, 0) == (found, data.version)
    assert os.path.basename(log_dir) == data.session_start_info.group_name


def test_split_files(log_dir):
    """With split_files, each trigger starts a new file, and each file holds one epoch."""
    run(CountingTrainer(), [put_epoch()], [TFEventWriter(split_files=True)], epochs=3)

    found = [
        [v.simple_value for e in tf.train.summary_iterator(path) for v in e.summary.value]
        for path in event_files(log_dir)
    ]
    assert [[1.0], [2.0], [3.0]] == sorted(f for f in found if f)


def test_a_directory_of_its_own(tmp_path):
    """logdir and the other arguments can be passed by position."""
    run(CountingTrainer(), monitors=[TFEventWriter(str(tmp_path), 10, 120, True)], steps=1, epochs=1)

    assert event_files(str(tmp_path))
