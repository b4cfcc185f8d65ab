"""
Two ranks of which rank 1 hangs: `hanging_ranks.py DIRECTORY CASE TIME_LIMIT WATCH_LIMIT ON_HANG`, started by the launcher.

Cases: "map" (a function of a worker sleeps), "stop" (SIGSTOP), "ahead" (rank 1 waits for a value of rank 0, which sleeps in a
callback). Rank r logs to DIRECTORY/r.
"""

from __future__ import annotations

import os
import signal
import sys
import time

import numpy as np
from fakes.hanging_script import FOREVER, Model, files, numbers, read_and_crop

from tensorpack_lite import Callback, QueueInput, TrainConfig, launch_train_with_config, logger
from tensorpack_lite.dataflow import DataFromList, MultiProcessMapData, RepeatedData
from tensorpack_lite.diagnostics.hangs import detector
from tensorpack_lite.train.collective import CollectiveTrainer


class Stops(Callback):
    """Stops the process of rank 1."""

    _chief_only = False

    def _trigger_step(self):
        if self.trainer.rank == 1 and self.global_step == 20:
            time.sleep(2)  # rank 0 receives the status
            os.kill(os.getpid(), signal.SIGSTOP)


class Gathers(Callback):
    """Gathers values, which rank 0 does too late."""

    _chief_only = False

    def _trigger_step(self):
        if self.global_step == 20:
            if self.trainer.rank == 0:
                time.sleep(FOREVER)
            self.trainer.ranks.channel.all_gather("the planted values", 0)


def main(directory, case, time_limit, watch_limit, on_hang):
    detector._POLL_SECONDS = 0.25
    detector._STEP_SECONDS = detector._FIRST_SECONDS = float(watch_limit)
    trainer = CollectiveTrainer(time_limit=float(time_limit))
    logger.set_logger_dir(os.path.join(directory, str(trainer.rank)), action="d")
    if case == "map" and trainer.rank == 1:
        data = QueueInput(MultiProcessMapData(files(), 1, read_and_crop, buffer_size=8))
    elif case == "map":
        data = QueueInput(RepeatedData(DataFromList([[np.float32(1)]]), -1))
    else:
        data = QueueInput(RepeatedData(numbers(), -1))
    config = TrainConfig(
        data=data,
        model=Model(),
        callbacks={"map": [], "stop": [Stops()], "ahead": [Gathers()]}[case],
        steps_per_epoch=100,
        max_epoch=1,
        on_hang=on_hang,
    )
    launch_train_with_config(config, trainer)


if __name__ == "__main__":
    main(*sys.argv[1:])
