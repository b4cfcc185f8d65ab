"""
Command that builds and installs Horovod for the installed TensorFlow: `python -m tensorpack_lite.contrib.install_horovod`.

Horovod 0.28.1, its last release, does not compile against TensorFlow 2.19 and later: one of its sources,
which serves XLA on GPUs only, includes headers that TensorFlow no longer ships. This command downloads the
sources, leaves that one out where needed, and builds and installs a wheel with pip. The page "Horovod" of the
documentation lists what has to be installed before.

Environment variables that Horovod's build reads, such as `HOROVOD_GPU_OPERATIONS=NCCL` or
`HOROVOD_WITH_MPI=1`, have an effect here too. By default Horovod is built for TensorFlow over Gloo, which
does not need MPI.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from pathlib import Path
from typing import Mapping, Sequence

from ..compat import TF_VERSION, tensorflow

_VERSION = "0.28.1"
_XLA_SOURCE = "xla_mpi_ops.cc"
_FIRST_WITHOUT_XLA_HEADERS = (2, 19)

# Used unless the user has set them.
_BUILD_DEFAULTS = {
    "HOROVOD_WITH_TENSORFLOW": "1",
    "HOROVOD_WITHOUT_PYTORCH": "1",
    "HOROVOD_WITHOUT_MXNET": "1",
    "HOROVOD_WITH_GLOO": "1",
    "MAKEFLAGS": f"-j{multiprocessing.cpu_count()}",
    "CMAKE_POLICY_VERSION_MINIMUM": "3.5",  # CMake 4 otherwise refuses the files of Gloo
}


def main(argv: Sequence[str] | None = None) -> int:
    """
    Build and install Horovod.

    Args:
        argv: command line arguments. Default: those of this process.

    Returns:
        The exit code: 0, or 2 after an error, which is written to stderr.
    """
    parser = argparse.ArgumentParser(
        prog="python -m tensorpack_lite.contrib.install_horovod",
        description=f"Build Horovod {_VERSION} for the installed TensorFlow, and install it.",
    )
    parser.add_argument(
        "--wheel-dir",
        metavar="DIR",
        help="keep the wheel in a folder of DIR for this Python and TensorFlow; if there is one, install it without a build",
    )
    options = parser.parse_args(argv)
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    key = f"cp{sys.version_info[0]}{sys.version_info[1]}-tf{tensorflow.__version__}-{platform}"
    try:
        with tempfile.TemporaryDirectory(prefix="install_horovod-") as work:
            wheel_dir = Path(options.wheel_dir or work, key)
            if not _wheels(wheel_dir):
                _build(Path(work), wheel_dir)
            (wheel,) = _wheels(wheel_dir)
            _pip("install", "--no-deps", "--force-reinstall", wheel)
            _pip("install", wheel)  # what it depends on
    except (RuntimeError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"install_horovod: {error}\n")
        return 2
    return 0


def _wheels(directory: Path) -> list[str]:
    return [str(path) for path in directory.glob(f"horovod-{_VERSION}-*.whl")]


def _build(work: Path, wheel_dir: Path) -> None:
    flags = ["--no-deps", "--no-build-isolation"]  # the build imports the installed TensorFlow
    _pip("download", *flags, "--no-binary=:all:", f"--dest={work}", f"horovod=={_VERSION}")
    with tarfile.open(str(work / f"horovod-{_VERSION}.tar.gz")) as tar:
        options = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        tar.extractall(str(work), **options)  # type: ignore[arg-type]
    source = work / f"horovod-{_VERSION}"
    if TF_VERSION >= _FIRST_WITHOUT_XLA_HEADERS:
        _leave_out_xla(source)
    environment = {**_BUILD_DEFAULTS, **os.environ}
    if "HOROVOD_WITH_MPI" not in environment:
        environment["HOROVOD_WITHOUT_MPI"] = "1"
    _pip("wheel", *flags, "--no-cache-dir", f"--wheel-dir={wheel_dir}", str(source), env=environment)


def _leave_out_xla(source: Path) -> None:
    path = source / "horovod" / "tensorflow" / "CMakeLists.txt"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if _XLA_SOURCE not in line]
    if len(kept) != len(lines) - 1:
        raise RuntimeError(
            f"{path} does not name {_XLA_SOURCE} once, so these are not the sources of Horovod {_VERSION}."
        )
    path.write_text("".join(kept), encoding="utf-8")


def _pip(*arguments: str, env: Mapping[str, str] | None = None) -> None:
    """Run pip, which writes its progress to this process's output."""
    subprocess.check_call([sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments], env=env)


if __name__ == "__main__":
    sys.exit(main())
