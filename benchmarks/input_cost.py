"""
Cost of input sources: steps per second of a trivial model.

    python benchmarks/input_cost.py [--steps 3000] [--repetitions 5] [--large]

The reference is a queue of 50 datapoints. A thread enqueues, and a loop runs steps, each by a `Session.make_callable`, which
uses `Session.run` internally if there is a feed. The target for QueueInput is at least 1.8 x the reference on small batches
(3 x tensorpack, which reaches 0.55 to 0.65 of the reference), and at least the reference on large batches. For comparison,
the same loop is measured with the runtime's private callables, on which QueueInput is built.

StagingInput(QueueInput) has another reference, which does what tensorpack does: it enqueues by Session.run and runs steps in a
MonitoredSession whose hook fetches the stage and unstage operations. The target is at least 3 x this reference on small
batches, and at least the reference on large ones. The last line below the table is this ratio.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import threading
import time

import numpy as np
from _measure import import_tensorpack, measure, print_table

from tensorpack_lite.compat import ensure_graph_mode, private, tensorflow
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow import DataFromGenerator
from tensorpack_lite.input_source import (
    DummyConstantInput,
    FeedInput,
    QueueInput,
    StagingInput,
    TFDatasetInput,
)
from tensorpack_lite.loop import Callback
from tensorpack_lite.tfutils.sesscreate import NewSessionCreator, ReuseSessionCreator
from tensorpack_lite.train import SimpleTrainer

SMALL = ((64, 28, 28), (64,))
LARGE = ((64, 224, 224, 3), (64,))

REFERENCE = "reference: one enqueue a call"
STAGED, STAGED_REFERENCE = "StagingInput(QueueInput)", "reference: staged, MonitoredSession"


def make_datapoint(shapes):
    return [make_array(shapes[0], np.uint8), make_array(shapes[1], np.int32)]


def make_array(shape, dtype):
    """Zeros that start 16 bytes after a cache line, like large arrays from malloc. TensorFlow copies them; it borrows aligned arrays."""
    num_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(num_bytes + 128, np.uint8)
    start = (-memory.ctypes.data) % 64 + 16
    return memory[start : start + num_bytes].view(dtype).reshape(shape)


def repeat(datapoint):
    while True:
        yield datapoint


def signature(shapes):
    image, label = shapes
    return [
        tf.TensorSpec((None, *image[1:]), tf.uint8, "image"),
        tf.TensorSpec((None, *label[1:]), tf.int32, "label"),
    ]


def build_step(image, label):
    """A model that trains nothing, but adds the size of the batch to a counter."""
    counter = tf.get_variable("counter", [], tf.int32, tf.zeros_initializer(), trainable=False, use_resource=True)
    return counter.assign_add(tf.shape(image)[0] + tf.shape(label)[0], read_value=False)


class Clock(Callback):
    """Measures the steps after the warm-up."""

    def __init__(self, warmup):
        self.warmup = warmup

    def _trigger_step(self):
        if self.local_step == self.warmup:
            self.start = time.perf_counter()

    def _after_epoch(self):
        self.seconds = time.perf_counter() - self.start


class InputTrainer(SimpleTrainer):
    """Trains the trivial model on an input."""

    def build(self, source, shapes):
        for callback in source.setup(signature(shapes)):
            self.register_callback(callback)
        self.train_op = build_step(*source.get_input_tensors())
        return self


def ours(make_source, shapes, steps, defaults=False):
    def run_once():
        with tf.Graph().as_default():
            trainer = InputTrainer().build(make_source(), shapes)
            warmup = steps // 4
            clock = Clock(warmup)
            extra = {} if defaults else {"extra_callbacks": []}
            trainer.train_with_defaults(
                callbacks=[clock], monitors=[], steps_per_epoch=steps + warmup + 1, max_epoch=1, **extra
            )
        return steps / clock.seconds

    return run_once


def in_own_loop(shapes, steps, make_enqueue, make_step, stage=None):
    """A queue of 50 datapoints, a thread that enqueues, and a loop of steps. `stage` may add a stage after the queue."""

    def run_once():
        with tf.Graph().as_default(), tf.device("/cpu:0"):
            queue = tf.FIFOQueue(50, [tf.uint8, tf.int32])
            placeholders = [tf.placeholder(spec.dtype, spec.shape) for spec in signature(shapes)]
            enqueue_op = queue.enqueue(placeholders)
            cancel = queue.close(cancel_pending_enqueues=True)
            tensors = queue.dequeue()
            for tensor, spec in zip(tensors, signature(shapes)):
                tensor.set_shape(spec.shape)
            hooks = []
            if stage is not None:
                tensors, hook = stage(tensors)
                hooks.append(hook)
            train_op = build_step(*tensors)
            sess = NewSessionCreator().create_session()
            with tf.train.MonitoredSession(ReuseSessionCreator(sess), hooks) as monitored:
                enqueue = make_enqueue(sess, enqueue_op, placeholders)
                step = make_step(sess, monitored, train_op)
                thread = threading.Thread(target=enqueue_until_cancelled, args=(enqueue, make_datapoint(shapes)))
                thread.start()
                for _ in range(steps // 4):
                    step()
                start = time.perf_counter()
                for _ in range(steps):
                    step()
                seconds = time.perf_counter() - start
                sess.run(cancel)
                thread.join()
        return steps / seconds

    return run_once


def reference(shapes, steps):
    """Step and enqueue by callables of TensorFlow's public API."""
    return in_own_loop(
        shapes,
        steps,
        lambda sess, op, placeholders: sess.make_callable(op, feed_list=placeholders),
        lambda sess, monitored, op: sess.make_callable(op),
    )


def private_callables(shapes, steps):
    """Step and enqueue by callables of the runtime."""
    return in_own_loop(
        shapes,
        steps,
        lambda sess, op, placeholders: private.make_callable(sess, [], [op], placeholders),
        lambda sess, monitored, op: private.make_callable(sess, [], [op]),
    )


def plain_tensorflow(shapes, steps, stage=None):
    """As in TensorFlow's documentation: enqueue by Session.run with a feed, step by a MonitoredSession."""
    return in_own_loop(
        shapes,
        steps,
        lambda sess, op, placeholders: lambda *arrays: sess.run(op, dict(zip(placeholders, arrays))),
        lambda sess, monitored, op: lambda: monitored.run(op),
        stage,
    )


class StageEachStep(tf.train.SessionRunHook):
    """Fetches the stage and unstage operations in every step, after staging once."""

    def __init__(self, put, get):
        self.put, self.get = put, get
        self.is_filled = False

    def before_run(self, context):
        if not self.is_filled:
            context.session.run(self.put)
            self.is_filled = True
        return tf.train.SessionRunArgs(fetches=[self.put, self.get])


def stage_each_step(tensors):
    """Keep one datapoint in a staging area. Return the staged tensors and the hook."""
    options = {"capacity": 0, "shared_name": "area"}
    put = tensorflow.raw_ops.Stage(values=tensors, **options)
    staged = tensorflow.raw_ops.Unstage(dtypes=[tensor.dtype for tensor in tensors], **options)
    for inner, outer in zip(tensors, staged):
        outer.set_shape(inner.shape)
    return staged, StageEachStep(put, staged[0].op)


def staged_plain_tensorflow(shapes, steps):
    """Like `plain_tensorflow`, with a staging area between queue and model."""
    return plain_tensorflow(shapes, steps, stage_each_step)


def enqueue_until_cancelled(enqueue, datapoint):
    try:
        for arrays in repeat(datapoint):
            enqueue(*arrays)
    except tf.errors.CancelledError:
        return


def theirs(tensorpack, shapes, steps, stage=lambda source: source):
    """tensorpack's QueueInput without callbacks. `stage` may wrap it."""

    def run_once():
        with tf.Graph().as_default():
            queue = tensorpack.QueueInput(tensorpack.DataFromGenerator(lambda: repeat(make_datapoint(shapes))))
            source = stage(queue)
            trainer = tensorpack.SimpleTrainer()
            for callback in source.setup(signature(shapes)):
                trainer.register_callback(callback)
            trainer.train_op = build_step(*source.get_input_tensors())

            class TheirClock(Clock, tensorpack.Callback):
                pass

            warmup = steps // 4
            clock = TheirClock(warmup)
            trainer.train_with_defaults(
                callbacks=[clock],
                monitors=[],
                extra_callbacks=[],
                steps_per_epoch=steps + warmup + 1,
                max_epoch=1,
            )
        return steps / clock.seconds

    return run_once


def candidates(shapes, steps):
    def flow():
        return DataFromGenerator(lambda: repeat(make_datapoint(shapes)))

    found = {
        REFERENCE: reference(shapes, steps),
        "the same on private callables": private_callables(shapes, steps),
        "Session.run, MonitoredSession": plain_tensorflow(shapes, steps),
        STAGED_REFERENCE: staged_plain_tensorflow(shapes, steps),
        "floor: DummyConstantInput": ours(lambda: DummyConstantInput(shapes), shapes, steps),
        "QueueInput": ours(lambda: QueueInput(flow()), shapes, steps),
        STAGED: ours(lambda: StagingInput(QueueInput(flow())), shapes, steps),
        "QueueInput, default callbacks": ours(lambda: QueueInput(flow()), shapes, steps, defaults=True),
        "FeedInput": ours(lambda: FeedInput(flow()), shapes, steps),
        "TFDatasetInput(DataFlow)": ours(lambda: TFDatasetInput(flow()), shapes, steps),
    }
    tensorpack = import_tensorpack()
    if tensorpack is not None:
        found["tensorpack QueueInput"] = theirs(tensorpack, shapes, steps)
        found["tensorpack StagingInput(QueueInput)"] = theirs(tensorpack, shapes, steps, tensorpack.StagingInput)
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--large", action="store_true", help="also 9.6 MB batches")
    parser.add_argument("--only", help="measure only candidates with this in their name, and the reference")
    args = parser.parse_args()
    ensure_graph_mode()
    logging.disable(logging.WARNING)
    cases = [("64x28x28 uint8", SMALL, args.steps)]
    if args.large:
        cases.append(("64x224x224x3 uint8 (9.6 MB)", LARGE, max(args.steps // 10, 50)))
    for title, shapes, steps in cases:
        chosen = candidates(shapes, steps)
        if args.only:
            chosen = {name: run for name, run in chosen.items() if args.only in name or "reference" in name}
        figures = measure(chosen, args.repetitions)
        print_table(f"From a DataFlow into the graph, {title}", "steps/s", figures, REFERENCE)
        if STAGED in figures:
            pairs = zip(figures[STAGED], figures[STAGED_REFERENCE])
            ratio = statistics.median(value / other for value, other in pairs)
            print(f"{STAGED} is {ratio:.2f} x {STAGED_REFERENCE}")


if __name__ == "__main__":
    main()
