"""
Time and size of the report: 100 scalars with 10,000 points each, and 50 images.

    python benchmarks/report.py

Exits with 1 if a report takes longer than 3 s or is larger than 5 MB.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time

import numpy as np

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.report.page import write_report
from tensorpack_lite.tfutils.summary import create_image_summary

SCALARS, POINTS, TAGS, IMAGES_PER_TAG = 100, 10_000, 5, 10
REPETITIONS = 5
MAX_SECONDS, MAX_MB = 3.0, 5.0


def write_training(directory: str) -> None:
    random = np.random.RandomState(1)
    values = random.rand(POINTS, SCALARS)
    rows = [
        {**{f"scalar{n}": value for n, value in enumerate(row)}, "epoch_num": step, "global_step": step}
        for step, row in enumerate(values.tolist(), 1)
    ]
    with open(os.path.join(directory, "stats.json"), "w") as file:
        json.dump(rows, file)
    with tf.Graph().as_default(), tf.summary.FileWriter(directory) as writer:
        for number in range(1, IMAGES_PER_TAG + 1):
            for tag in range(TAGS):
                image = random.randint(0, 255, [1, 128, 128, 3]).astype(np.uint8)
                writer.add_summary(create_image_summary(f"image{tag}", image), number * POINTS // IMAGES_PER_TAG)
        for step in range(1, POINTS + 1):
            scalars = [tf.Summary.Value(tag=f"scalar{n}", simple_value=0.5) for n in range(SCALARS)]
            writer.add_summary(tf.Summary(value=scalars), step)


def main() -> int:
    with tempfile.TemporaryDirectory() as directory:
        write_training(directory)
        path = os.path.join(directory, "report.html")
        seconds = []
        for _ in range(REPETITIONS):
            start = time.process_time()  # other programs do not count
            write_report([directory], path)
            seconds.append(time.process_time() - start)
        megabytes = os.path.getsize(path) / 1e6
    median = statistics.median(seconds)
    print(
        f"{SCALARS} scalars x {POINTS} points, {TAGS * IMAGES_PER_TAG} images: {median:.2f} s "
        f"({min(seconds):.2f} to {max(seconds):.2f}; limit {MAX_SECONDS:.0f}), {megabytes:.1f} MB (limit {MAX_MB:.0f})"
    )
    return int(median > MAX_SECONDS or megabytes > MAX_MB)


if __name__ == "__main__":
    sys.exit(main())
