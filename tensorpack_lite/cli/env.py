"""`env`: this machine and its versions, for a bug report."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from ..tfutils.environment import collect_env_info

__all__ = ["add_parser", "run"]


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add the command's arguments."""
    text = "Describe this machine, its versions and what its TensorFlow can do."
    parser: argparse.ArgumentParser = commands.add_parser("env", help=text, description=text)
    return parser


def run(args: argparse.Namespace) -> int:
    """Print the description."""
    sys.stdout.write(collect_env_info() + "\n")
    return 0
