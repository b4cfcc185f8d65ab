"""
Training runs of `exact_script.py` that are ended in many ways, and compared with one without interruption.

As a program, it prints a table of random kills of all pipelines and trainers; arguments: kills of each, and by option a seed.

    PYTHONPATH=.:tests python -m fakes.exact_trainings 10
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import tempfile
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

from .programs import ProgramRunner, program_runner

__all__ = [
    "CASES",
    "EPOCHS",
    "INTERRUPTED",
    "TERMINATED",
    "Trainings",
    "compared_rows",
    "lines",
    "results",
    "row",
    "trainings",
]

PIPELINES = ["user", "shuffled", "mixed, staged", "samples", "images"]
TRAINERS = ["simple", "replicated", "parameter server", "two runs"]
CASES = [(pipeline, trainer) for pipeline in PIPELINES for trainer in TRAINERS]

EPOCHS = 3
TERMINATED = 143  # exit code after SIGTERM
INTERRUPTED = 130  # and after Ctrl-C
NOT_COMPARED = ("queue_size",)  # measured, so it differs in every training

_SCRIPT = Path(__file__).with_name("exact_script.py")


class Trainings:
    """Starts training runs of one pipeline and trainer in directories."""

    def __init__(self, runner: ProgramRunner, parent: Path, pipeline: str, trainer: str) -> None:
        self._runner, self._parent = runner, parent
        self._told = {"pipeline": pipeline, "trainer": trainer}
        self._control = None

    def new_directory(self) -> Path:
        """Create the directory of a new training."""
        directory = Path(tempfile.mkdtemp(dir=str(self._parent)))
        shutil.copy(str(_SCRIPT), str(directory / "script.py"))
        return directory

    def run(self, directory: Path, epochs: int = EPOCHS, **told: object) -> tuple[int, str]:
        """Start the training in a directory. Return its exit code, negative for a signal, and its output."""
        (directory / "exact.json").write_text(json.dumps({**self._told, "epochs": epochs, **told}))
        status, output = self._runner.run_to_any_end(directory, "script.py")
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
        return code, output

    def finish(self, directory: Path, **told: object) -> None:
        """Let a training end by itself."""
        code, output = self.run(directory, **told)
        assert 0 == code, output

    def control(self) -> dict:
        """Return the results of an uninterrupted training, after comparing two of them."""
        if self._control is None:
            directories = [self.new_directory(), self.new_directory()]
            for directory in directories:
                self.finish(directory)
            first, second = map(results, directories)
            differing = [name for name in first if first[name] != second[name]]
            assert not differing, f"two uninterrupted training runs differ in {differing}: nothing can be proved"
            self._control = first
        return self._control

    def compare(self, directory: Path) -> None:
        """Assert that a training has the results of the uninterrupted one, and did no step twice in different ways."""
        expected, found = self.control(), results(directory)
        differing = [name for name in expected if expected[name] != found[name]]
        repeated = [line for line in lines(directory) if line not in expected["batches"]]
        assert not repeated, f"{directory}: not in the uninterrupted training: {repeated[:3]}"
        assert not differing, f"{directory}: {differing} differ"

    def kill_at_random(self, seed: int, kills: int) -> Counter:
        """
        Kill training runs at random times, and compare each that has finished.

        Returns:
            The number of processes by exit code.
        """
        rng, codes = random.Random(seed), Counter()
        directory = None
        while sum(codes.values()) - codes[0] < kills or directory is not None:
            assert codes[0] <= kills, f"too few training runs were killed: {dict(codes)}"
            directory = directory or self.new_directory()
            done = sum(codes.values()) - codes[0] >= kills
            code, output = self.run(directory, **({} if done else _random_end(rng)))
            assert code in (0, -signal.SIGKILL, -signal.SIGTERM, TERMINATED), output
            codes[code] += 1
            if code == 0:
                self.compare(directory)
                shutil.rmtree(str(directory))
                directory = None
        return codes


def _random_end(rng: random.Random) -> dict:
    """Draw a signal and a time: one in five is received before training starts."""
    early = rng.random() < 0.2
    return {
        "signal": rng.choice(["SIGKILL", "SIGTERM", "GROUP"]),
        "after": round(rng.uniform(0.1, 1.5) if early else rng.uniform(0.02, 0.4), 3),
        "early": early,
        "snapshot_seconds": rng.choice([0.01, 1]),
    }


def lines(directory: Path) -> list[str]:
    """Return the lines of all runs, also those that were repeated after a kill."""
    return (directory / "batches.txt").read_text().splitlines()


def results(directory: Path) -> dict:
    """Return the last checkpoint, the rows of stats.json and the batches of all runs."""
    log = directory / "log"
    last = max((path.stem for path in log.glob("model-*.index")), key=lambda name: int(name[6:]))
    return {
        "name": last,
        "data": (log / f"{last}.data-00000-of-00001").read_bytes(),
        "index": (log / f"{last}.index").read_bytes(),
        "rows": compared_rows(log),
        "batches": set(lines(directory)),
    }


def compared_rows(log: Path) -> list:
    """Return the rows of `stats.json`, without measured values."""
    rows = json.loads((log / "stats.json").read_text())
    return [{k: v for k, v in row.items() if not k.endswith(NOT_COMPARED)} for row in rows]


@contextmanager
def trainings(parent: Path):
    """Context with a function that returns the training runs of a case, the same at each call."""
    with program_runner() as runner:
        found: dict[tuple[str, str], Trainings] = {}

        def of(case: tuple[str, str]) -> Trainings:
            if case not in found:
                found[case] = Trainings(runner, parent, *case)
            return found[case]

        yield of


def row(case: tuple[str, str], seed: int, codes: Counter) -> str:
    """Return a row of the table."""
    counts = [codes[-signal.SIGKILL], codes[TERMINATED] + codes[-signal.SIGTERM], codes[0], seed]
    return " | ".join(["", *case, *map(str, counts), "equal", ""]).strip()


HEADER = """\
| pipeline | trainer | SIGKILL | SIGTERM | finished | seed | result |
| --- | --- | --- | --- | --- | --- | --- |"""


def main() -> None:
    """Print the table."""
    kills = int(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(10**6)
    total: Counter = Counter()
    print(HEADER, flush=True)
    with tempfile.TemporaryDirectory() as parent, trainings(Path(parent)) as of:
        for number, case in enumerate(CASES):
            codes = of(case).kill_at_random(seed + number, kills)
            total += codes
            print(row(case, seed + number, codes), flush=True)
    print(row(("all", "all"), seed, total))


if __name__ == "__main__":
    main()
