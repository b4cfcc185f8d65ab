"""The line for each epoch in a quiet log."""

from __future__ import annotations

import re
import textwrap

import pytest
from fakes.processes import run_python
from fakes.trainers import CountingTrainer, run

from tensorpack_lite.callbacks.monitor.printer import ScalarPrinter
from tensorpack_lite.callbacks.monitor.table import ScalarTable
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.launch import _PROGRESS
from tensorpack_lite.loop.callback_factory import CallbackFactory
from tensorpack_lite.utils import logger


def messages(output):
    """Return log lines without date, file and the seconds."""
    lines = [line.split("] ", 1)[1] for line in output.splitlines()]
    return [re.sub(r"[\d.e-]+ s,", "S s,", line) for line in lines]


def report(**scalars):
    """Return a callback that reports scalars, times the number of the epoch, in each epoch."""

    def trigger(self):
        for name, value in scalars.items():
            self.trainer.monitors.put_scalar(name, value * self.epoch_num)

    return CallbackFactory(trigger=trigger)


def test_one_line_for_each_epoch(capsys):
    """A quiet training prints the number, the steps, the time and the scalars of each epoch, and nothing else."""
    logger.set_quiet()
    run(CountingTrainer(), [report(cost=0.5, accuracy=0.123456789)], [ScalarTable(), ScalarPrinter()], 3, 2)
    assert [
        "Epoch 1 of 2: 3 steps in S s, global_step 3. accuracy 0.12346, cost 0.5",
        "Epoch 2 of 2: 3 steps in S s, global_step 6. accuracy 0.24691, cost 1",
    ] == messages(capsys.readouterr().out)


def test_scalars_of_earlier_epochs(capsys):
    """A scalar that was not reported in an epoch is not in its line."""

    def trigger(self):
        self.trainer.monitors.put_scalar(f"only{self.epoch_num}", 1)

    logger.set_quiet()
    run(CountingTrainer(), [CallbackFactory(trigger=trigger)], [], 1, 2)
    assert ["only1 1", "only2 1"] == [line.split(". ")[1] for line in messages(capsys.readouterr().out)]


def test_without_the_switch(capsys):
    """A log that is not quiet has no such line."""
    run(CountingTrainer(), [report(cost=0.5)], [ScalarTable()], 3, 2)
    output = capsys.readouterr().out
    assert "] Epoch 2: cost 1" in output
    assert "Epoch 2 of 2" not in output


def test_other_ranks(capsys):
    """Only the chief prints the lines."""
    logger.set_quiet()
    trainer = CountingTrainer()
    trainer.is_chief = False
    run(trainer, [report(cost=0.5)], [], 3, 2)
    assert "" == capsys.readouterr().out


def test_several_trainings(capsys):
    """Five training runs in one process print one line for each of their epochs."""
    logger.set_quiet()
    for number in range(1, 6):
        with tf.Graph().as_default():
            run(CountingTrainer(), [report(cost=number)], [ScalarTable()], 1, 2)
    costs = [line.rpartition(" ")[2] for line in messages(capsys.readouterr().out)]
    assert ["1", "2", "2", "4", "3", "6", "4", "8", "5", "10"] == costs


def test_a_warning(capsys):
    """Warnings are shown."""
    logger.set_quiet()
    run(CountingTrainer(), [report(cost=float("nan"))], [], 1, 1)
    line, warning = messages(capsys.readouterr().out)
    assert line.endswith("cost nan")
    assert warning.startswith("WRN Monitors: not finite: 'cost'")


FOLDS = textwrap.dedent(
    """
    import sys
    import numpy as np
    from tensorpack_lite import *
    from tensorpack_lite import tfv1 as tf

    class Model(ModelDesc):
        def inputs(self):
            return [tf.TensorSpec([None, 2], tf.float32, "x")]

        def build_graph(self, x):
            return tf.reduce_mean(tf.square(FullyConnected("fc", x, 1)), name="cost")

        def optimizer(self):
            return tf.train.AdamOptimizer(1e-3)

    for fold in range(5):
        logger.set_logger_dir(f"{sys.argv[1]}/fold{fold}")
        data = QueueInput(DataFromList([[np.ones([4, 2], "float32")]] * 3))
        config = TrainConfig(model=Model(), data=data, callbacks=[ModelSaver()], steps_per_epoch=3, max_epoch=2)
        with tf.Graph().as_default():
            launch_train_with_config(config, SimpleTrainer())
    """
)


@pytest.mark.slow
@pytest.mark.any_tensorflow
def test_a_process(tmp_path):
    """With TENSORPACK_LITE_LOG=quiet, five folds print ten lines; log.log has all lines."""
    done = run_python("-W", "ignore", "-c", FOLDS, tmp_path, TENSORPACK_LITE_LOG="quiet")
    starts = [line.split(":")[0] for line in messages(done.stdout)]
    assert ["Epoch 1 of 2", "Epoch 2 of 2"] * 5 == starts
    log = (tmp_path / "fold4" / "log.log").read_text()
    for text in ("Argv: ", "Model saved to ", "Epoch 2 (global_step 6) finished", "] Epoch 2: cost"):
        assert text in log


def test_what_the_launcher_reads(capsys):
    """The launcher takes the step of a quiet rank from this line, to tell whether a restarted rank has come further."""
    logger.set_quiet()
    run(CountingTrainer(), [report(cost=0.5)], [], 3, 2)
    lines = capsys.readouterr().out.splitlines()
    assert ["3", "6"] == [_PROGRESS.search(line).group(1) for line in lines]
    assert _PROGRESS.search("[1126 22:29:39 @base.py:250] Epoch 1 (global_step 22) finished, time: 1 s.") is None
