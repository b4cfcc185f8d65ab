"""
Comparison of two versions of the library: another benchmark runs with each of them in turn.

    python benchmarks/versions.py [--rounds 5] OLD NEW input_cost.py --only QueueInput --repetitions 2

OLD and NEW are directories that contain `tensorpack_lite`, e.g. worktrees of git. The benchmark is that of this directory. For
each row of its tables, the output is the ratio of the medians NEW / OLD: its median over the rounds, and its range.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROW = re.compile(r"(\S.*?) {2,}([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)")


def run_once(library: str, script: str, arguments: list) -> dict:
    """Run a benchmark with a version of the library. Return the median of each row by (table, row)."""
    done = subprocess.run(
        [sys.executable, str(HERE / script), *arguments],
        env={**os.environ, "PYTHONPATH": os.path.abspath(library), "TF_CPP_MIN_LOG_LEVEL": "3"},
        stdout=subprocess.PIPE,
        check=True,
    )
    title, medians = "", {}
    for line in done.stdout.decode().splitlines():
        row = ROW.fullmatch(line.rstrip())
        if row is not None:
            medians[title, row.group(1)] = float(row.group(2))
        elif "[TF" in line:
            title = line.split("  [")[0]
    return medians


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("script")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="of the benchmark")
    args = parser.parse_args()
    rounds = []
    for _ in range(args.rounds):
        rounds.append([run_once(each, args.script, args.arguments) for each in (args.old, args.new)])
    for key in rounds[0][0]:
        pairs = [(old[key], new[key]) for old, new in rounds if key in new]
        ratios = [new / old for old, new in pairs]
        print(
            f"{' | '.join(key):80} {statistics.median(old for old, _ in pairs):10.1f} "
            f"{statistics.median(new for _, new in pairs):10.1f} {statistics.median(ratios):6.3f} "
            f"({min(ratios):.3f} to {max(ratios):.3f})"
        )


if __name__ == "__main__":
    main()
