"""Two ranks of which the data of rank 1 is slow: `slow_rank.py DIRECTORY`, started by the launcher. Rank r logs to DIRECTORY/r."""

from __future__ import annotations

import os
import sys
import time

import numpy as np
from fakes.hanging_script import Model

from tensorpack_lite import QueueInput, TrainConfig, launch_train_with_config, logger
from tensorpack_lite.dataflow import DataFromList, MapData, RepeatedData
from tensorpack_lite.diagnostics.speed.speed import Speed
from tensorpack_lite.train.collective import CollectiveTrainer


def wait_30ms(datapoint):
    time.sleep(0.030)
    return datapoint


def main(directory):
    trainer = CollectiveTrainer(time_limit=60.0)
    logger.set_logger_dir(os.path.join(directory, str(trainer.rank)), action="d")
    data = RepeatedData(DataFromList([[np.float32(1)]]), -1)
    config = TrainConfig(
        data=QueueInput(MapData(data, wait_30ms) if trainer.rank == 1 else data),
        model=Model(),
        extra_callbacks=[Speed(after=1.0)],
        steps_per_epoch=40,
        max_epoch=4,
    )
    launch_train_with_config(config, trainer)


if __name__ == "__main__":
    main(sys.argv[1])
