"""
CPU time and memory of a process that imports TensorFlow, alone and through the library, which leaves out Keras.

    python benchmarks/import_time.py [--repetitions 7]

All are read from the process itself, and run in turn. The ratios are to `import tensorflow`.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys

PROGRAM = """
import resource, time
{}
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""
IMPORTS = {
    "import tensorflow": "import tensorflow",
    "from tensorpack_lite import tfv1": "from tensorpack_lite import tfv1",
    "from tensorpack_lite import *": "from tensorpack_lite import *",
    "from tensorpack_lite import *; tfv1.keras.layers": "from tensorpack_lite import *; from tensorpack_lite import tfv1; tfv1.keras.layers",
}


def run_once(statement: str) -> tuple:
    """Return the seconds of CPU time and the MB of memory of a process."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(statement)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return tuple(map(float, done.stdout.split()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--repetitions", type=int, default=7)
    args = parser.parse_args()
    for statement in IMPORTS.values():
        run_once(statement)  # compiles
    rounds = [[run_once(statement) for statement in IMPORTS.values()] for _ in range(args.repetitions)]
    print(f"{'':50} CPU s  ratio (range)            MB")
    for number, name in enumerate(IMPORTS):
        ratios = [results[number][0] / results[0][0] for results in rounds]
        seconds, memory = (statistics.median(results[number][k] for results in rounds) for k in (0, 1))
        print(
            f"{name:50} {seconds:5.2f}  {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
            f"  {memory:7.0f}"
        )


if __name__ == "__main__":
    main()
