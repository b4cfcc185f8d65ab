"""Command that prints a description of the environment: `python -m tensorpack_lite.tfutils.collect_env`."""

from __future__ import annotations

import sys

from .environment import collect_env_info

if __name__ == "__main__":  # pragma: no cover (its test runs it as a process)
    sys.stdout.write(collect_env_info() + "\n")
