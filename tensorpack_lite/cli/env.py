"""The command `env`: describes this machine and its versions for a bug report."""

from __future__ import annotations

import argparse
import sys

from ..diagnostics.gpu.report import make_gpu_report
from ..tfutils.environment import collect_env_info


def env(args: argparse.Namespace) -> int:
    """Print the description. Return 1 with `--gpu` if no GPU works, otherwise 0."""
    if args.gpu:
        report = make_gpu_report()
        sys.stdout.write(report.text + "\n")
        return 0 if report.works else 1
    sys.stdout.write(collect_env_info() + "\n")
    return 0
