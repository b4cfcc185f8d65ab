"""Start `tensorpack-lite run`, and plain Python, in a folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import tensorpack_lite

PACKAGES = str(Path(tensorpack_lite.__file__).parents[1])
STARTUP = str(Path(tensorpack_lite.__file__).parent / "tf1" / "startup")


def python(*arguments, cwd, path=(PACKAGES,), **environment):
    """Run Python in a folder. Return the finished process, with the text of its stdout and stderr."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(map(str, path)), TF_CPP_MIN_LOG_LEVEL="3", **environment),
        capture_output=True,
        text=True,
        timeout=300,
    )


def run(*arguments, cwd, **environment):
    """Run `tensorpack-lite run` in a folder."""
    return python("-m", "tensorpack_lite", "run", *arguments, cwd=cwd, **environment)


def run_quickly(*arguments, cwd, **environment):
    """Run Python in a folder as `tensorpack-lite run` starts it, without the command's own start."""
    return python(
        *arguments,
        cwd=cwd,
        TENSORPACK_LITE_RUN="1",
        TENSORPACK_LITE_PREFIX=sys.prefix,
        path=[STARTUP, PACKAGES],
        **environment,
    )


def without_first_line(text):
    """Return what the script printed to stderr, after the command's own line."""
    first, _, rest = text.partition("\n")
    assert first.startswith("tensorpack-lite run: TensorFlow ")
    return rest
