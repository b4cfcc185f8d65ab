"""Users' objects that are large, recursive or mocks, or that block, before the first step of a training."""

from __future__ import annotations

import itertools
import json
import os
from unittest import mock

import numpy as np
import pytest
from fakes.models import FinalW, Mean
from fakes.trainers import launch

from tensorpack_lite.callbacks.saver import ModelSaver
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.base import DataFlow
from tensorpack_lite.dataflow.batch import BatchData
from tensorpack_lite.dataflow.mapping import MapData
from tensorpack_lite.dataflow.raw import DataFromGenerator, DataFromList
from tensorpack_lite.diagnostics.lint import training as lint_training
from tensorpack_lite.input_source.queueing import QueueInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.train.config import AutoResumeTrainConfig, TrainConfig
from tensorpack_lite.train.multi_gpu import SyncMultiGPUTrainerReplicated
from tensorpack_lite.train.simple import SimpleTrainer

calls = []


def record(self, *args):
    """Note that something of the object was called, and fail."""
    calls.append(args)
    raise RuntimeError("called")


class Hostile:
    """An object of which everything that can be called fails, and is noted."""

    __len__ = __iter__ = __repr__ = __str__ = __getattribute__ = __bool__ = __eq__ = __hash__ = record
    __class__ = property(record)


class Data(DataFlow):
    """A pipeline that generates threes. Its length is not known before it is reset, and it keeps all kinds of objects."""

    def __init__(self) -> None:
        self.hostile, self.parent, self.mock = Hostile(), self, mock.MagicMock()
        self.large = [[k] for k in range(30000)]
        self.func = Hostile()

    def __len__(self):
        return len(self.files)

    def __iter__(self):
        yield from ([[3.0] * 4] for _ in range(10))


class Users(Callback):
    """A callback that keeps all kinds of objects, among them a list that contains itself."""

    _chief_only = False

    def __init__(self) -> None:
        self.hostile, self.mock, self.recursive = Hostile(), mock.MagicMock(), []
        self.recursive += [self.recursive, {"again": self.recursive}, Hostile()]
        self.large = list(range(100000))


@pytest.fixture(autouse=True)
def no_calls():
    """Each test begins without calls, and ends without any."""
    calls.clear()
    yield
    assert [] == calls


def train(data, config_class=TrainConfig, trainer=None, **kwargs):
    """Train `Mean` for three steps; return the weight."""
    end, trainer, model = FinalW(), trainer or SimpleTrainer(), Mean()
    model.users = trainer.users = Users()
    callbacks = [Users(), ModelSaver(), end]
    name = "data" if isinstance(data, QueueInput) else "dataflow"
    kwargs = {name: data, "model": model, "callbacks": callbacks, "steps_per_epoch": 3, "lint": "error", **kwargs}
    launch(trainer, config_class, **kwargs)
    return end.w


def manifest(directory):
    """Return the manifest in a directory."""
    with open(os.path.join(directory, "manifest.json")) as file:
        return json.load(file)


def test_a_closure_over_a_module(log_dir):
    """A mapper that has imported a library inside the function around it is described at once."""
    pytest.importorskip("PIL.Image")

    def get_data():
        from PIL import Image

        def resize(datapoint):
            return [np.asarray(Image.fromarray(datapoint[0])).astype("float32")[0, 0]]

        image = np.full((4, 4), 3, "uint8")
        return BatchData(MapData(DataFromList([[image]] * 8, shuffle=False), resize), 2)

    assert 2.625 == train(get_data())
    (source,) = manifest(log_dir)["data"]
    mapper = source["arguments"]["ds"]["arguments"]["ds"]["arguments"]["func"]
    assert {"Image": {"module": "PIL.Image"}} == mapper["captured"]


def test_objects_in_all_places(log_dir):
    """Objects that fail, contain themselves or have every attribute are looked at, and nothing of them is called."""
    hostile = Hostile()
    data = MapData(Data(), lambda datapoint: datapoint if hostile is not None else None)
    assert 2.625 == train(data)
    found = manifest(log_dir)
    assert {} == found["left out"]
    assert "error" not in json.dumps([found[name] for name in ("settings", "data", "callbacks")])


@pytest.mark.slow
def test_an_input_and_an_exact_resume(log_dir):
    """The same holds for a QueueInput and exact resume."""
    assert 2.625 == train(QueueInput(Data()), AutoResumeTrainConfig, exact=True)


def test_several_towers(log_dir):
    """The same holds for a trainer that looks for the size of a batch."""
    with tf.Graph().as_default():
        assert 2.625 == train(Data(), trainer=SyncMultiGPUTrainerReplicated([0]))


@pytest.mark.slow
def test_a_length_that_takes_long(log_dir, monkeypatch):
    """Lint skips the length of a user's class that computes for a long time."""
    monkeypatch.setattr(lint_training, "_MAX_SECONDS", 0.01)
    is_over = []

    class Slow(DataFromGenerator):
        def __len__(self):
            next(number for number in itertools.count() if is_over)

    try:
        assert 2.625 == train(Slow(lambda: iter([[[3.0] * 4]] * 5)))
    finally:
        is_over.append(True)
