"""The command `env`: describes this machine and its versions for a bug report."""

from __future__ import annotations

import argparse
import sys

from ..tfutils.environment import collect_env_info

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """Print the description."""
    sys.stdout.write(collect_env_info() + "\n")
    return 0
