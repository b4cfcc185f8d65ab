"""
Run tests on a machine that is busy with other programs, and look for reports of hangs that are none.

`python tests/false_alarms.py [--load 6] [--minutes 15] PYTEST_ARGUMENTS`, e.g. `-m "not slow" tests/train`. Prints each log of a
training in which a hang was reported and the sentence. The exit code is 1 if there is one, 2 if no training ran, else 0; tests that fail for
another reason, such as a limit of time, do not count.

Training runs write their logs below the directory of pytest, and `--log-file` collects those without a directory. Tests that hang on
purpose (tests/integration/test_hangs.py, test_hanging_ranks.py, tests/diagnostics/hangs/test_detector.py) are omitted.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SENTENCE = "Nothing has moved for"
LOCKED = "No Python code of this process ran"
ON_PURPOSE = (
    "integration/test_hangs.py",
    "integration/test_hanging_ranks.py",
    "diagnostics/hangs/test_detector.py",
)
TESTS = Path(__file__).resolve().parent


def find_alarms(directory):
    """Return (number of logs, [(path, line)]) of the files below a directory."""
    paths = [path for path in Path(directory).rglob("*") if path.suffix in (".log", ".txt", ".out") and path.is_file()]
    alarms = []
    for path in paths:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        alarms += [(path, line) for line in lines if SENTENCE in line or LOCKED in line]
    return len(paths), alarms


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--load", type=int, default=3 * (os.cpu_count() or 1), help="number of busy processes")
    parser.add_argument("--minutes", type=float, default=15.0, help="when to stop")
    args, rest = parser.parse_known_args()
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(args.load)]
    directory = tempfile.mkdtemp(prefix="false-alarms-")
    ignored = [f"--ignore={TESTS / name}" for name in ON_PURPOSE]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        f"--basetemp={directory}/tests",
    ]
    command += [
        f"--log-file={directory}/all.log",
        "--log-file-level=INFO",
        "-o",
        "tmp_path_retention_policy=all",
    ]
    begin = time.monotonic()
    with open(f"{directory}/output.txt", "w") as output:
        tests = subprocess.Popen([*command, *ignored, *rest], stdout=output, stderr=subprocess.STDOUT)
        try:
            tests.wait(60 * args.minutes)
        except subprocess.TimeoutExpired:
            tests.terminate()
            tests.wait()
        finally:
            for process in busy:
                process.kill()
                process.wait()
    num_logs, alarms = find_alarms(directory)
    print(Path(f"{directory}/output.txt").read_text()[-2000:])
    print(f"{num_logs} logs in {directory}, {args.load} busy processes, {time.monotonic() - begin:.0f} s")
    for path, line in alarms:
        print(f"FALSE ALARM {path}: {line}")
    return 1 if alarms else 0 if num_logs > 2 else 2


if __name__ == "__main__":
    sys.exit(main())
