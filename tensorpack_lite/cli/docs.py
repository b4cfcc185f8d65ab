"""The command `docs`: builds the pages of a clone, the API reference among them, and opens them in a browser."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import webbrowser
from importlib.util import find_spec
from pathlib import Path

_LIBRARY = Path(__file__).resolve().parents[1]
_BUILDERS = (
    "sphinx", "myst_parser", "furo", "sphinx_copybutton", "sphinx_design", "sphinx_reredirects", "tensorflow",
)  # fmt: skip


def docs(args: argparse.Namespace) -> int:
    """Build the pages that are not up to date, and open the first one."""
    source = _find_sources()
    missing = [name for name in _BUILDERS if find_spec(name) is None]
    if missing:
        raise ImportError(
            f"{', '.join(missing)} must be installed to build the pages. Run in {source.parent}: pip install '.[tf,docs]'"
        )
    target = source / "_build" / "html"
    finished = target.parent / "finished"  # exists while `target` is what a whole build has written
    is_whole = finished.exists()
    time = "" if is_whole else ", which takes about five minutes of CPU time"
    sys.stdout.write(f"Building {target}{time} ...\n")
    sys.stdout.flush()
    if is_whole:
        finished.unlink()
    if not _build(source, target, is_whole):
        return 1
    target.mkdir(parents=True, exist_ok=True)
    finished.touch()
    index = target / "index.html"
    is_open = not args.no_browser and webbrowser.open(index.as_uri())
    sys.stdout.write(f"{'Opened' if is_open else 'Open this file in a browser:'} {index}\n")
    return 0


def _find_sources() -> Path:
    source = _LIBRARY.parent / "docs"
    if (source / "conf.py").exists():
        return source
    raise FileNotFoundError(
        "the installed package does not contain the sources of the pages. Run the command in a clone of the repository: "
        "python -m tensorpack_lite docs. To read about one module here, run for example: "
        "python -m pydoc tensorpack_lite.callbacks.saver"
    )


def _build(source: Path, target: Path, is_whole: bool) -> bool:
    """
    Run Sphinx.

    Args:
        source: the folder of the pages.
        target: the folder to write.
        is_whole: whether the last build has finished. Then Sphinx reads only what has changed. After an interruption, it
            would fail, because its search index lacks the pages that are not written again.

    Returns:
        Whether it succeeded.
    """
    command = [sys.executable, "-m", "sphinx", "-q", "-j", str(min(4, os.cpu_count() or 1)), "-b", "html"]
    command += [*([] if is_whole else ["-E", "-a"]), str(source), str(target)]
    paths = [str(_LIBRARY.parent), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    return subprocess.run(command, env=environment, check=False).returncode == 0
