"""The command `rehearse`: goes through a whole training of a script in seconds."""

from __future__ import annotations

import argparse

from ..diagnostics.probe.rehearse import rehearse
from .programs import find_program


def run(args: argparse.Namespace) -> int:
    """
    Rehearse the training. No log directory is changed.

    Returns:
        0; 1 if a part of the training has failed; 2 if the script has failed before, or does not train.
    """
    return rehearse(find_program(args))
