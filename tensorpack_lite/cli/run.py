"""The command `run`: runs a script of TensorFlow 1 and tensorpack, unmodified, on the installed TensorFlow."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

from .._version import __version__
from ..utils.gpu import count_gpus, get_num_gpu
from .files import check_exists

_STARTUP = Path(__file__).resolve().parents[1] / "tf1" / "startup"  # Python imports its sitecustomize.py


def run(args: argparse.Namespace) -> int:
    """
    Replace this process with Python, which runs the script.

    Returns:
        Nothing: the exit code of the process is that of the script.
    """
    program = args.program
    if not program or program == ["-m"]:
        raise ValueError("expected a script. Example: tensorpack-lite run train.py --gpu 0")
    if sys.flags.ignore_environment:
        raise ValueError("python -E and -I ignore PYTHONPATH, which this command needs. Start it without them.")
    if program[0].startswith("-m") and program[0] != "-m":  # -mpackage.train
        program = ["-m", program[0][2:], *program[1:]]
    is_stdin = program[0] == "-" and not args.check
    if program[0] != "-m" and not is_stdin:
        check_exists(program[0])
    if find_spec("tensorflow") is None:
        raise ImportError('TensorFlow is not installed. Run: pip install "tensorpack_lite[tf]"')
    # CUDA_VISIBLE_DEVICES may name GPUs that the machine does not have
    has_gpu = bool(count_gpus()) and get_num_gpu() > 0
    transposes = not has_gpu if args.cpu_layout == "auto" else args.cpu_layout == "on"
    if args.check:
        program = ["-m", "tensorpack_lite.tf1.check", *program]
        os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", TF_ENABLE_ONEDNN_OPTS="0")
    else:
        sys.stderr.write(f"tensorpack-lite run: {_describe(transposes, args)}\n")
        sys.stderr.flush()
    if args.pretend_gpu < 0:
        raise ValueError(f"--pretend-gpu is negative (expected a number of GPUs, got {args.pretend_gpu}).")
    for package in filter(None, args.tf1_packages.split(",")):
        if find_spec(package) is None:
            raise ValueError(f"--tf1-packages: the package {package} is not installed.")
    environment = _environment(transposes)
    environment.update(
        TENSORPACK_LITE_HAS_GPU="1" if has_gpu else "",
        TENSORPACK_LITE_PRETEND_GPU=str(args.pretend_gpu or ""),
        TENSORPACK_LITE_TF1_PACKAGES=args.tf1_packages,
    )
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    os.execve(sys.executable, [sys.executable, *flags, *program], environment)


def _environment(transposes: bool) -> dict[str, str]:
    """Return the environment of the script and of the processes that it starts."""
    environment = dict(os.environ, TENSORPACK_LITE_RUN="1", TENSORPACK_LITE_PREFIX=sys.prefix)
    environment["TENSORPACK_LITE_CPU_LAYOUT"] = "on" if transposes else "off"
    folders = [str(_STARTUP), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(folder for folder in folders if folder)
    if find_spec("tf_keras") is not None:
        environment["TF_USE_LEGACY_KERAS"] = "1"
    return environment


def _describe(transposes: bool, args: argparse.Namespace) -> str:
    """Describe in one line what the script gets."""
    tensorflow = _version("tensorflow")
    parts = [f"TensorFlow {tensorflow}", f"tensorpack is tensorpack_lite {__version__}"]
    if not tensorflow.startswith("1."):
        packages = [f"{name} {_version(name)}" for name in ("tf_keras", "tf_slim") if find_spec(name)]
        parts.append(f"TensorFlow 1 names from {', '.join(['compat.v1', *packages])}")
    if transposes:
        parts.append("NCHW on the CPU by transposing")
    if args.pretend_gpu:
        parts.append(f"it seems to have {args.pretend_gpu} GPU{'s' if args.pretend_gpu > 1 else ''}")
    if args.tf1_packages:
        parts.append(f"TensorFlow 1 also for {args.tf1_packages}")
    if PathFinder.find_spec("tensorpack") is not None:
        parts.append("the installed tensorpack is not used")
    return "; ".join(parts) + "."


def _version(package: str) -> str:
    """Return the version of an installed package. tensorflow has several distributions, such as tensorflow_cpu."""
    spec = find_spec(package)
    folder = Path(str(spec.origin)).parents[1] if spec else Path()
    found = [re.fullmatch(rf"{package}(?:_cpu|_gpu|_rocm)?-(.+)\.dist-info", path.name) for path in folder.iterdir()]
    return next((match.group(1) for match in found if match), "")
