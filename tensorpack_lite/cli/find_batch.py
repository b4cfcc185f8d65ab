"""The command `find-batch`: proposes a batch size for a script."""

from __future__ import annotations

import argparse

from ..diagnostics.probe.find_batch import find_batch
from .programs import find_program


def run(args: argparse.Namespace) -> int:
    """
    Double the batch until memory or the gain ends. No log directory is changed.

    Returns:
        0; 1 if the batch of the script does not fit into memory; 2 if the script has failed or cannot be measured.
    """
    return find_batch(find_program(args), args.steps, args.gain, args.memory)
