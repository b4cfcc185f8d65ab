"""contrib/install_horovod.py with a fake pip: nothing is downloaded or built."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile

import pytest

from tensorpack_lite.compat import tensorflow
from tensorpack_lite.contrib import install_horovod

CMAKE_LISTS = "one\nlist(APPEND TF_SOURCES mpi_ops.cc)\nlist(APPEND TF_SOURCES xla_mpi_ops.cc)\nlast\n"
SDIST = "horovod-0.28.1"


class FakePip:
    """Replacement for pip: writes the sources and the wheel that pip would, and records its commands."""

    def __init__(self):
        self.fails = None
        self.ran, self.environment, self.cmake_lists = [], None, None

    def check_call(self, command, env=None):
        """Run a pip command."""
        assert [sys.executable, "-m", "pip", "--disable-pip-version-check"] == command[:4]
        kind = command[4]
        self.ran.append(command[4:])
        if kind == self.fails:
            raise subprocess.CalledProcessError(1, command)
        if kind == "download":
            with tarfile.open(os.path.join(option("--dest", command), f"{SDIST}.tar.gz"), "w:gz") as tar:
                info = tarfile.TarInfo(f"{SDIST}/horovod/tensorflow/CMakeLists.txt")
                info.size = len(CMAKE_LISTS)
                tar.addfile(info, io.BytesIO(CMAKE_LISTS.encode()))
        elif kind == "wheel":
            self.environment = env
            path = os.path.join(command[-1], "horovod", "tensorflow", "CMakeLists.txt")
            with open(path, encoding="utf-8") as file:
                self.cmake_lists = file.read()
            directory = option("--wheel-dir", command)
            os.makedirs(directory)
            open(os.path.join(directory, f"{SDIST}-cp1-cp1-linux_x86_64.whl"), "w").close()

    def kinds(self):
        """Return the commands without their options."""
        return [command[0] for command in self.ran]


def option(name, command):
    """Return the value of an option `--name=value`."""
    return next(part.split("=", 1)[1] for part in command if part.startswith(name + "="))


@pytest.fixture
def pip(monkeypatch):
    """A fake pip, and an environment without settings of the build."""
    one = FakePip()
    monkeypatch.setattr(subprocess, "check_call", one.check_call)
    for name in ("MAKEFLAGS", "HOROVOD_WITH_MPI"):
        monkeypatch.delenv(name, raising=False)
    return one


def test_steps(pip):
    """The sources are downloaded, a wheel is built and installed, and then its dependencies."""
    assert 0 == install_horovod.main([])
    assert ["download", "wheel", "install", "install"] == pip.kinds()
    assert "--force-reinstall" in pip.ran[2]
    assert pip.ran[2][-1] == pip.ran[3][-1]


def test_environment_of_the_build(pip, monkeypatch):
    """Horovod is built for TensorFlow over Gloo, unless the user sets something else."""
    install_horovod.main([])
    assert {"HOROVOD_WITH_TENSORFLOW": "1", "HOROVOD_WITHOUT_MPI": "1"}.items() <= pip.environment.items()
    monkeypatch.setenv("HOROVOD_WITH_MPI", "1")
    monkeypatch.setenv("HOROVOD_WITHOUT_PYTORCH", "0")
    install_horovod.main([])
    assert "0" == pip.environment["HOROVOD_WITHOUT_PYTORCH"]
    assert "HOROVOD_WITHOUT_MPI" not in pip.environment


def test_wheel_dir(pip, tmp_path, monkeypatch):
    """A wheel that was built for this Python and TensorFlow is installed again without a build."""
    assert 0 == install_horovod.main(["--wheel-dir", str(tmp_path)])
    (folder,) = os.listdir(str(tmp_path))
    assert folder.startswith(f"cp{sys.version_info[0]}{sys.version_info[1]}-tf{tensorflow.__version__}-")
    pip.ran = []
    assert 0 == install_horovod.main(["--wheel-dir", str(tmp_path)])
    assert ["install", "install"] == pip.kinds()
    assert str(tmp_path / folder) in pip.ran[-1][-1]
    monkeypatch.setattr(tensorflow, "__version__", "2.99.0")
    assert 0 == install_horovod.main(["--wheel-dir", str(tmp_path)])
    assert "wheel" in pip.kinds()


@pytest.mark.parametrize(("version", "kept"), [((2, 18), True), ((2, 19), False)])
def test_xla(pip, monkeypatch, version, kept):
    """The source for XLA is omitted for TensorFlow 2.19 and later."""
    monkeypatch.setattr(install_horovod, "TF_VERSION", version)
    install_horovod.main([])
    assert kept == ("xla_mpi_ops.cc" in pip.cmake_lists)
    assert pip.cmake_lists.startswith("one\nlist(APPEND TF_SOURCES mpi_ops.cc)\n")


def test_unknown_sources(tmp_path):
    """Sources without the expected line are an error."""
    path = tmp_path / "horovod" / "tensorflow"
    path.mkdir(parents=True)
    (path / "CMakeLists.txt").write_text("another file\n")
    with pytest.raises(RuntimeError, match="does not name xla_mpi_ops.cc once"):
        install_horovod._leave_out_xla(tmp_path)


def test_a_build_that_fails(pip, capsys):
    """If pip fails, the exit code is 2, and nothing is installed."""
    pip.fails = "wheel"
    assert 2 == install_horovod.main([])
    assert "install_horovod: Command" in capsys.readouterr().err
    assert "install" not in pip.kinds()


@pytest.mark.parametrize("argument", ["--help", "--no-such-option"])
def test_arguments(argument, capsys):
    """`--help` prints the options, and an unknown option is refused."""
    with pytest.raises(SystemExit) as caught:
        install_horovod.main([argument])
    assert (0 if argument == "--help" else 2) == caught.value.code
    assert "--wheel-dir" in "".join(capsys.readouterr())
