"""
Options, seeds and the closing summary, which all examples share. Copy this file together with an example.

Expect: this is a module for the examples; run one of those.
"""

from __future__ import annotations

import argparse
import json
import os

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf


def get_parser(
    doc: str | None, name: str, *, max_epoch: int, steps_per_epoch: int = 0, has_resume: bool = True
) -> argparse.ArgumentParser:
    """
    Return a parser with the options of all examples.

    Args:
        doc: the docstring of the example, for --help.
        name: the default log directory is train_log/<name>.
        max_epoch: the default number of epochs.
        steps_per_epoch: the default number of steps of an epoch. 0: as many as the training data has batches.
        has_resume: whether there is --resume.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps_help = f"default: {steps_per_epoch or 'all training data'}"
    parser.add_argument("--max-epoch", type=int, default=max_epoch, help=f"default: {max_epoch}")
    parser.add_argument("--steps-per-epoch", type=int, default=steps_per_epoch, help=steps_help)
    parser.add_argument("--seed", type=int, default=1, help="of weights and training data; held-out data has its own")
    parser.add_argument("--log-dir", default=os.path.join("train_log", name), help=f"default: train_log/{name}")
    parser.add_argument("--verbose", action="store_true", help="show the whole log, not one line for each epoch")
    if has_resume:
        parser.add_argument("--resume", action="store_true", help="continue from the last checkpoint")
    return parser


def start(args: argparse.Namespace, rank: int = 0) -> None:
    """Set the log directory and the seeds. Only rank 0 of several processes has a log directory."""
    if not args.verbose:
        logger.set_quiet()
    if rank == 0:
        logger.set_logger_dir(args.log_dir, action="k" if getattr(args, "resume", False) else "b")
    tf.disable_eager_execution()  # so that the next line seeds the graph
    tf.set_random_seed(args.seed + rank)
    fix_rng_seed(args.seed)


def get_config_class(args: argparse.Namespace) -> type:
    """Return AutoResumeTrainConfig with --resume, and TrainConfig without."""
    return AutoResumeTrainConfig if args.resume else TrainConfig


def find_checkpoint(directory: str) -> str:
    """Return the last checkpoint in a directory; without one, end the program with a message."""
    checkpoint = tf.train.latest_checkpoint(directory)
    if checkpoint is None:
        raise SystemExit(f"There is no checkpoint in {directory}. Train first, or pass another --log-dir.")
    return checkpoint


def print_summary(args: argparse.Namespace, title: str, figures: dict, files: dict | None = None) -> None:
    """
    Print the closing lines of an example, and write its figures to summary.json, which measure.py reads.

    Args:
        args: the options.
        title: what is measured, and on which data.
        figures: {name: number}. The first one is that of the network, the others are for comparison.
        files: {name of a file in the log directory: what it shows}.
    """
    content = {"title": title, "seed": args.seed, "figures": {name: float(x) for name, x in figures.items()}}
    with open(os.path.join(args.log_dir, "summary.json"), "w", encoding="utf-8") as file:
        json.dump(content, file, indent=2)

    print(f"\n{title[0].upper()}{title[1:]}:")
    width = max(map(len, figures))
    for name, value in figures.items():
        print(f"    {name:<{width}}  {value:.4g}")
    shown = dict(files or {})
    if os.path.exists(os.path.join(args.log_dir, "report.html")):
        shown["report.html"] = "curves"
    print(f"See in {args.log_dir}: " + ", ".join(f"{name} ({text})" for name, text in shown.items()))
