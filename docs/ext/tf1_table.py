"""
The directive `tf1-table`: which names of TensorFlow 1.15 exist on this TensorFlow under `tensorpack-lite run`.

It reads tests/data/tf1/tf115_names.txt, and looks each name up in another process, because Keras 2 must be chosen before
TensorFlow is imported. `python docs/ext/tf1_table.py` prints the same as Markdown, and `--tsv` a line per name.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

__all__ = ["markdown", "read_sources", "setup", "source"]

ROOT = Path(__file__).resolve().parents[2]
NAMES = ROOT / "tests" / "data" / "tf1" / "tf115_names.txt"
SOURCES = ("TensorFlow", "tf_keras", "tf_slim", "tensorpack_lite", "missing")
SHOWN = 40  # modules with more missing names are counted only
PACKAGES = {"tensorflow": "TensorFlow", "keras": "TensorFlow", "tensorflow_core": "TensorFlow"}


def markdown(rows: str = "") -> str:
    """Return the table of counts, and the missing names by module. `rows` replaces the output of `read_sources`."""
    counts: dict = {}
    missing: dict = {}
    for line in (rows or read_sources()).splitlines():
        name, where = line.split("\t")
        module = _module(name)
        counts.setdefault(module, dict.fromkeys(SOURCES, 0))[where] += 1
        if where == "missing":
            missing.setdefault(module, []).append(name)
    lines = ["| module | names | " + " | ".join(SOURCES) + " |", "| --- |" + " --: |" * 6]
    total = {where: sum(count[where] for count in counts.values()) for where in SOURCES}
    for module, count in [*sorted(counts.items()), ("all", total)]:
        title = f"`{module}`" if module != "all" else "**all**"
        numbers = [sum(count.values()), *(count[where] for where in SOURCES)]
        lines.append(f"| {title} | " + " | ".join(str(number or "") for number in numbers) + " |")
    return "\n".join([*lines, "", "**Missing names**", "", *_missing(missing)])


def _missing(missing: dict) -> list:
    if not missing:
        return ["No name is missing."]
    lines = ["| module | names |", "| --- | --- |"]
    for module, names in sorted(missing.items()):
        short = ", ".join(f"`{name.rsplit('.', 1)[-1]}`" for name in names[:SHOWN])
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        lines.append(f"| `{module}` | {short}{more} |")
    return lines


def _module(name: str) -> str:
    return f"tf.{name.rpartition('.')[0]}".rstrip(".")


@lru_cache(maxsize=None)
def read_sources() -> str:
    """Return a line `name<TAB>source` for each name, from a process with Keras 2."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*sys.path, str(ROOT)]),
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    if find_spec("tf_keras"):
        environment["TF_USE_LEGACY_KERAS"] = "1"
    command = [sys.executable, "-W", "ignore", __file__, "--tsv"]
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"tf1_table: the process that looks up the names failed.\n{done.stderr}")
    return done.stdout


def source(name: str) -> str:
    """Return where a dotted name below `tf` comes from, one of SOURCES. This process must use Keras 2."""
    from tensorpack_lite.compat import TF_VERSION, tensorflow, tfv1
    from tensorpack_lite.tf1 import contrib
    from tensorpack_lite.tf1.missing import MISSING

    if name in MISSING:
        return "tensorpack_lite"
    first, _, rest = name.partition(".")
    if TF_VERSION < (2, 0):
        found, path = tensorflow, name
    else:
        found, path = (contrib, rest) if first == "contrib" else (tfv1, name)
    try:
        for part in path.split("."):
            found = getattr(found, part)
    except (AttributeError, ImportError):
        return "missing"
    package = (getattr(found, "__module__", None) or getattr(found, "__name__", "")).partition(".")[0]
    return PACKAGES.get(package, package if package in SOURCES else "TensorFlow")


def setup(app) -> dict:
    """Register the directive in Sphinx."""
    from _directive import from_markdown

    app.add_directive("tf1-table", from_markdown(markdown))
    return {"parallel_read_safe": True}


if __name__ == "__main__":
    if "--tsv" in sys.argv:
        print("\n".join(f"{name}\t{source(name)}" for name in NAMES.read_text(encoding="utf-8").split()))
    else:
        print(markdown())
