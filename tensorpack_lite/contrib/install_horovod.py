"""
Build and install Horovod for the TensorFlow that is installed: `python -m tensorpack_lite.contrib.install_horovod`.

Horovod's last release, 0.28.1, is older than today's TensorFlow: one of its sources, for XLA on GPUs, does not compile there any
more and is left out. It must be compiled against the very TensorFlow that is installed, which `pip install horovod` does not make
sure of. What is missing for that is said before anything begins; the result is tried with two processes.

Options that Horovod's own build reads from the environment, such as `HOROVOD_GPU_OPERATIONS=NCCL` or `HOROVOD_WITH_MPI=1`, count
here as well. Without any, it is built for TensorFlow over Gloo, which needs no MPI.
"""

from __future__ import annotations

import argparse
import importlib.util
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Mapping, Sequence

from ..compat import TF_VERSION, tensorflow

__all__ = ["main"]

_VERSION = "0.28.1"
_BUILD_TOOLS = ("setuptools", "wheel", "packaging")
_NEEDED_TO_RUN = ("cloudpickle", "psutil", "pyyaml", "packaging")
_OLDEST_CMAKE = (3, 13)
_XLA_SOURCE = "xla_mpi_ops.cc"
_HAS_NO_XLA_SOURCE = (
    2,
    19,
)  # from this TensorFlow on that source does not compile: headers it includes are not shipped
_NEEDS_CPP17 = (2, 10)
_LAST_LINES = 40
_ERROR = 2

# What Horovod's build reads; a user may set otherwise.
_BUILD_DEFAULTS = {
    "HOROVOD_WITH_TENSORFLOW": "1",
    "HOROVOD_WITHOUT_PYTORCH": "1",
    "HOROVOD_WITHOUT_MXNET": "1",
    "HOROVOD_WITH_GLOO": "1",
    "MAKEFLAGS": f"-j{multiprocessing.cpu_count()}",
    "CMAKE_POLICY_VERSION_MINIMUM": "3.5",  # CMake 4 refuses what Gloo's files ask for
}

_TRIAL = """
import horovod.tensorflow as hvd
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
hvd.init()
mine = tf.constant([1.0, 2.0, 3.0]) * (hvd.rank() + 1)
with tf.Session() as session:
    total, chiefs = session.run([hvd.allreduce(mine, op=hvd.Sum), hvd.broadcast(mine, 0)])
assert hvd.size() == 2, hvd.size()
assert total.tolist() == [3, 6, 9], total
assert chiefs.tolist() == [1, 2, 3], chiefs
print("rank", hvd.rank(), "of", hvd.size(), "got the sum", total.tolist(), "and rank 0's numbers", chiefs.tolist())
"""


def main(argv: Sequence[str] | None = None) -> int:
    """
    Check, fetch, build, install, try.

    Args:
        argv: the arguments; None means those of this process.

    Returns:
        The exit code: 0, or 2 after an error, which is told on stderr.

    tensorpack: new.
    """
    parser = argparse.ArgumentParser(
        prog="python -m tensorpack_lite.contrib.install_horovod",
        description=f"Build and install Horovod {_VERSION} for the TensorFlow that is installed.",
    )
    parser.add_argument(
        "--wheel-dir",
        metavar="DIR",
        help="keep the built wheel in DIR, in a folder for this Python and TensorFlow; if it is there already, install that one",
    )
    parser.add_argument(
        "--no-test", action="store_true", help="do not try the result with two processes at the end"
    )
    options = parser.parse_args(argv)
    try:
        with tempfile.TemporaryDirectory(prefix="install_horovod-") as work:
            wheel_dir = os.path.join(options.wheel_dir or work, _key())
            wheel = _find_wheel(wheel_dir) or _build(Path(work), wheel_dir)
            _install(wheel)
            if not options.no_test:
                _try(Path(work))
    except RuntimeError as error:
        sys.stderr.write(f"install_horovod: {error}\n")
        return _ERROR
    _say(
        f"Horovod {_VERSION} is installed. Start ranks with: python -m tensorpack_lite.launch -n 2 script.py"
    )
    return 0


# The steps ------------------------------------------------------------------------------------------------------------
def _key() -> str:
    """The folder of wheels that fit this Python and this TensorFlow."""
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return f"cp{sys.version_info[0]}{sys.version_info[1]}-tf{tensorflow.__version__}-{platform}"


def _find_wheel(wheel_dir: str) -> str | None:
    found = sorted(Path(wheel_dir).glob(f"horovod-{_VERSION}-*.whl"))
    if not found:
        return None
    _say(f"Found {found[0]}, which was built before.")
    return str(found[0])


def _build(work: Path, wheel_dir: str) -> str:
    _check_tools()
    missing = [name for name in _BUILD_TOOLS if importlib.util.find_spec(name) is None]
    if missing:
        _pip(f"Installing what builds wheels: {', '.join(missing)}.", "install", *missing)
    where = ["--no-deps", "--no-binary=:all:", "--no-build-isolation", f"--dest={work}"]
    _pip(f"Fetching the sources of Horovod {_VERSION} ...", "download", *where, f"horovod=={_VERSION}")
    source = _unpack(work / f"horovod-{_VERSION}.tar.gz", work)
    if TF_VERSION >= _HAS_NO_XLA_SOURCE:
        _leave_out_xla(source)
    began = time.monotonic()
    how = ["--no-deps", "--no-build-isolation", "--no-cache-dir", f"--wheel-dir={wheel_dir}"]
    about = f"Building it against TensorFlow {tensorflow.__version__}, which takes minutes ..."
    _pip(about, "wheel", *how, str(source), env={**_build_environment(os.environ), **os.environ})
    _say(f"Built in {time.monotonic() - began:.0f} s.")
    wheel = _find_wheel(wheel_dir)
    if wheel is None:
        raise RuntimeError(f"pip has built no wheel of Horovod in {wheel_dir}.")
    return wheel


def _install(wheel: str) -> None:
    _pip("Installing what Horovod needs to run ...", "install", *_NEEDED_TO_RUN)
    _pip("Installing Horovod ...", "install", "--no-deps", "--force-reinstall", wheel)


def _try(work: Path) -> None:
    _say("Trying it with two processes ...")
    script = work / "two_ranks.py"
    script.write_text(_TRIAL, encoding="utf-8")
    code = subprocess.run([sys.executable, "-m", "tensorpack_lite.launch", "-n", "2", str(script)]).returncode
    if code != 0:
        raise RuntimeError(
            f"Horovod is installed, but two processes failed with exit code {code}; see above. If they did not find each other, set "
            "HOROVOD_GLOO_IFACE to the network interface they should use."
        )


# What is needed -------------------------------------------------------------------------------------------------------
def _check_tools() -> None:
    """Raise RuntimeError for the first thing that is missing, with how to get it."""
    if importlib.util.find_spec("pip") is None:
        raise RuntimeError("this Python has no pip. Run: python -m ensurepip")
    compiler, standard = _compiler(), "17" if TF_VERSION >= _NEEDS_CPP17 else "11"
    if compiler is None:
        raise RuntimeError(
            "there is no C++ compiler. On Debian and Ubuntu: apt-get install g++. Or name one in CXX."
        )
    if not _compiles(compiler, standard):
        raise RuntimeError(
            f"{compiler} does not compile C++{standard}, which TensorFlow {tensorflow.__version__} needs. Install g++ 8 or "
            "later, and name it in CXX if it is not the first."
        )
    if shutil.which("make") is None:
        raise RuntimeError("there is no make. On Debian and Ubuntu: apt-get install make")
    cmake = _cmake_version()
    if cmake is None or cmake < _OLDEST_CMAKE:
        found = "there is no CMake" if cmake is None else f"CMake is {cmake[0]}.{cmake[1]}"
        raise RuntimeError(
            f"{found}, wanted {_OLDEST_CMAKE[0]}.{_OLDEST_CMAKE[1]} or later. Run: pip install cmake"
        )
    _say(f"Found TensorFlow {tensorflow.__version__}, {compiler}, make, CMake {cmake[0]}.{cmake[1]}.")


def _compiler() -> str | None:
    names = [os.environ["CXX"]] if os.environ.get("CXX") else ["c++", "g++", "clang++"]
    return next((name for name in names if shutil.which(name)), None)


def _compiles(compiler: str, standard: str) -> bool:
    done = subprocess.run(
        [compiler, f"-std=c++{standard}", "-x", "c++", "-fsyntax-only", "-"],
        input=b"#include <string>\nint main() { return 0; }\n",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return done.returncode == 0


def _cmake_version() -> tuple[int, ...] | None:
    if shutil.which("cmake") is None:
        return None
    told = subprocess.run(["cmake", "--version"], stdout=subprocess.PIPE).stdout.decode("utf-8", "replace")
    found = re.search(r"(\d+)\.(\d+)", told)
    return tuple(map(int, found.groups())) if found else None


def _build_environment(given: Mapping[str, str]) -> dict[str, str]:
    """What the build reads where the user has set nothing else."""
    return {**_BUILD_DEFAULTS, **({} if given.get("HOROVOD_WITH_MPI") else {"HOROVOD_WITHOUT_MPI": "1"})}


# The sources ----------------------------------------------------------------------------------------------------------
def _unpack(archive: Path, into: Path) -> Path:
    with tarfile.open(str(archive)) as tar:
        options = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        tar.extractall(str(into), **options)  # type: ignore[arg-type]
    return into / f"horovod-{_VERSION}"


def _leave_out_xla(source: Path) -> None:
    path = source / "horovod" / "tensorflow" / "CMakeLists.txt"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if _XLA_SOURCE not in line]
    if len(kept) != len(lines) - 1:
        raise RuntimeError(
            f"{path} does not name {_XLA_SOURCE} once, so these are not the sources of Horovod {_VERSION}."
        )
    path.write_text("".join(kept), encoding="utf-8")
    _say(f"Leaving out {_XLA_SOURCE}: for XLA on GPUs only, and it does not compile for this TensorFlow.")


# Running and telling --------------------------------------------------------------------------------------------------
def _pip(about: str, *arguments: str, env: Mapping[str, str] | None = None) -> None:
    """Run pip; when it fails, show the last that it wrote."""
    _say(about)
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        last = done.stdout.decode("utf-8", "replace").splitlines()[-_LAST_LINES:]
        sys.stderr.write("".join(f"    {line}\n" for line in last))
        raise RuntimeError(f"{' '.join(command)} failed with exit code {done.returncode}; see above.")


def _say(text: str) -> None:
    sys.stdout.write(f"install_horovod: {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
