"""Laws that every public InputSource obeys."""

from __future__ import annotations

import threading

import pytest
from conformance.input_source_rows import NO_ROW, ROWS, SIGNATURE
from fakes.inputs import Numbers, driven

from tensorpack_lite import input_source
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.input_source import FeedfreeInput
from tensorpack_lite.input_source.base import ProxyInputSource
from tensorpack_lite.train.base import Trainer

pytestmark = pytest.mark.law

ALL = pytest.mark.parametrize("row", ROWS, ids=str)
READING = pytest.mark.parametrize("row", [row for row in ROWS if row.uses_dataflow], ids=str)


def first_number(run):
    """Return the first number of the next datapoint."""
    (x,) = run.tensors
    return int(run.hooked.run(x)[0])


def train(source, steps):
    """Train on an input, with a model that only reads it."""
    trainer = Trainer()
    trainer.register_callback(source.setup(SIGNATURE))
    trainer.train_op = tf.reduce_sum(source.get_input_tensors()[0]).op
    trainer.train_with_defaults(callbacks=[], monitors=[], extra_callbacks=[], steps_per_epoch=steps, max_epoch=1)
    return trainer


def test_every_public_input_has_a_row():
    """Each public name has a row here, or a reason in NO_ROW."""
    assert sorted(input_source.__all__) == sorted([*[row.name for row in ROWS], *NO_ROW])


@ALL
def test_set_up_once(row):
    """A second setup raises RuntimeError."""
    source = row.make(Numbers())
    assert not source.setup_done()
    source.setup(SIGNATURE)
    assert source.setup_done()
    with pytest.raises(RuntimeError, match="already set up"):
        source.setup(SIGNATURE)


@ALL
def test_tensors_match_the_signature(row):
    """Tensors match the signature in number, dtypes and shapes."""
    source = row.make(Numbers())
    source.setup(SIGNATURE)
    tensors = source.get_input_tensors()

    assert len(SIGNATURE) == len(tensors)
    for tensor, spec in zip(tensors, SIGNATURE):
        assert spec.dtype == tensor.dtype
        assert tensor.shape.is_compatible_with(spec.shape)
        assert len(spec.shape) == len(tensor.shape)


@ALL
def test_towers(row):
    """A FeedfreeInput returns different tensors for each tower; other inputs return the same placeholders."""
    source = row.make(Numbers())
    source.setup(SIGNATURE)
    first, second = source.get_input_tensors()[0], source.get_input_tensors()[0]

    assert row.is_feedfree == isinstance(source, FeedfreeInput)
    assert row.is_feedfree == (first.name != second.name)


@ALL
def test_callbacks(row):
    """Callbacks are the same objects at each call, run on every rank, use no trainer, and add nothing to a final graph."""
    source = row.make(Numbers())
    callbacks = source.setup(SIGNATURE)
    assert callbacks is source.get_callbacks()
    assert not any(cb.chief_only for cb in callbacks)
    source.get_input_tensors()
    for cb in callbacks:
        cb.setup_graph(None)
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        sess.graph.finalize()
        for moment in ("before_train", "after_train"):
            for cb in callbacks:
                getattr(cb, moment)()


@READING
def test_the_dataflow_is_reset_once(row):
    """The DataFlow is reset once, before the session exists."""
    flow = Numbers()
    with driven(row.make(flow), SIGNATURE) as run:
        assert 1 == flow.resets
        for _ in range(12 if row.name != "TFDatasetInput" else 5):
            first_number(run)
    assert 1 == flow.resets


@READING
def test_datapoints_come_in_order(row):
    """Datapoints arrive in order, from the first one, none missing."""
    with driven(row.make(Numbers(30)), SIGNATURE) as run:
        assert list(range(30)) == [first_number(run) for _ in range(30)]


@pytest.mark.parametrize("row", [row for row in ROWS if row.restarts], ids=str)
def test_reset_state(row):
    """reset_state restarts with the first datapoint."""
    source = row.make(Numbers())
    with driven(source, SIGNATURE) as run:
        first_number(run)
        first_number(run)
        with run.session.as_default():
            source.reset_state()
        assert 0 == first_number(run)


@READING
def test_an_error_reaches_the_trainer(row):
    """train() raises an error of the DataFlow with its type, the input's name, and the error as its cause."""
    error = ZeroDivisionError("planted")
    with pytest.raises(ZeroDivisionError, match=r"\w+Input: the DataFlow \w+ failed: planted") as caught:
        train(row.make(Numbers(3, error)), steps=50)
    assert error is caught.value.__cause__


@READING
def test_a_datapoint_that_does_not_fit_reaches_the_trainer(row):
    """train() raises an error that names the input, the component, and both dtypes."""
    with pytest.raises(TypeError, match=r"\w+Input: component 0 'x.*' .*\(expected float32 .*, got complex64"):
        train(row.make(Numbers(dtype="complex64")), steps=50)


@READING
def test_no_thread_is_left(row):
    """No thread is left after training."""
    before = set(threading.enumerate())
    train(row.make(Numbers(1000)), steps=5)
    left = [
        t for t in threading.enumerate() if t not in before and type(t).__name__ not in ("TMonitor", "_DummyThread")
    ]
    assert [] == left


@ALL
def test_inside_a_proxy(row):
    """A proxy of an input behaves like the input."""
    source = ProxyInputSource(row.make(Numbers()))
    with driven(source, SIGNATURE) as run:
        if row.uses_dataflow:
            assert [0, 1] == [first_number(run), first_number(run)]
        assert len(SIGNATURE) == len(run.tensors)
