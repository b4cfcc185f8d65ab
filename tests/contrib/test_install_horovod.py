"""contrib/install_horovod.py: what it checks, runs and says; nothing is built here."""

from __future__ import annotations

import importlib.util
import io
import os
import shutil
import subprocess
import sys
import tarfile
from types import SimpleNamespace

import pytest

from tensorpack_lite.compat import TF_VERSION, tensorflow
from tensorpack_lite.contrib import install_horovod

CMAKE_LISTS = "one\nlist(APPEND TF_SOURCES mpi_ops.cc)\nlist(APPEND TF_SOURCES xla_mpi_ops.cc)\nlast\n"
SDIST = "horovod-0.28.1"


class Machine:
    """A machine of which every command is known: what was run, and what each gives."""

    def __init__(self):
        self.programs = {"c++", "make", "cmake"}
        self.standards = {"11", "17"}
        self.cmake = b"cmake version 3.25.1\n"
        self.fails = ""
        self.ran, self.environments, self.cmake_lists = [], [], None

    def which(self, name):
        return f"/usr/bin/{name}" if name in self.programs else None

    def run(self, command, **options):
        """Stand for subprocess.run."""
        self.ran.append(command)
        self.environments.append(options.get("env") or {})
        if command[0] == "cmake":
            return SimpleNamespace(returncode=0, stdout=self.cmake)
        if "-fsyntax-only" in command:
            return SimpleNamespace(returncode=int(command[1][-2:] not in self.standards), stdout=b"")
        if self.fails and self.fails in command:
            return SimpleNamespace(returncode=1, stdout=b"first\nlast words\n")
        if "download" in command:
            self.write_sources(self.value_of("--dest", command))
        if "--no-build-isolation" in command and "wheel" in command:
            self.build_wheel(command)
        return SimpleNamespace(returncode=0, stdout=b"")

    @staticmethod
    def value_of(option, command):
        return next(part.split("=", 1)[1] for part in command if part.startswith(option + "="))

    @staticmethod
    def write_sources(directory):
        """What pip downloads."""
        with tarfile.open(os.path.join(directory, f"{SDIST}.tar.gz"), "w:gz") as tar:
            info = tarfile.TarInfo(f"{SDIST}/horovod/tensorflow/CMakeLists.txt")
            info.size = len(CMAKE_LISTS)
            tar.addfile(info, io.BytesIO(CMAKE_LISTS.encode()))

    def build_wheel(self, command):
        """What pip builds."""
        with open(
            os.path.join(command[-1], "horovod", "tensorflow", "CMakeLists.txt"), encoding="utf-8"
        ) as file:
            self.cmake_lists = file.read()
        directory = self.value_of("--wheel-dir", command)
        os.makedirs(directory)
        open(os.path.join(directory, f"{SDIST}-cp1-cp1-linux_x86_64.whl"), "w").close()

    def pip(self):
        """What pip was asked for, and how often."""
        return [command[4] for command in self.ran if command[1:3] == ["-m", "pip"]]


@pytest.fixture
def machine(monkeypatch):
    """Complete, unless a test takes something away."""
    one = Machine()
    find_spec = importlib.util.find_spec
    build_tools = ("pip", "setuptools", "wheel", "packaging")
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: object() if name in build_tools else find_spec(name)
    )
    monkeypatch.setattr(subprocess, "run", one.run)
    monkeypatch.setattr(shutil, "which", one.which)
    for name in ("CXX", "MAKEFLAGS", "HOROVOD_WITH_MPI"):
        monkeypatch.delenv(name, raising=False)
    return one


class TestWholeRun:
    def test_order(self, machine, capsys):
        """Fetch, build, install what it needs, install it, try it; each is told."""
        assert 0 == install_horovod.main([])
        assert ["download", "wheel", "install", "install"] == machine.pip()
        assert [sys.executable, "-m", "tensorpack_lite.launch", "-n", "2"] == machine.ran[-1][:5]
        told = capsys.readouterr().out
        assert f"Found TensorFlow {tensorflow.__version__}, c++, make, CMake 3.25." in told
        assert "Horovod 0.28.1 is installed." in told

    def test_the_environment_of_the_build(self, machine, monkeypatch):
        """TensorFlow over Gloo, unless the user has set something else."""
        monkeypatch.setenv("HOROVOD_WITH_MPI", "1")
        monkeypatch.setenv("HOROVOD_WITHOUT_PYTORCH", "0")
        install_horovod.main([])
        environment = next(env for env in machine.environments if env)
        assert ("1", "1", "0") == tuple(
            environment[f"HOROVOD_{name}"] for name in ("WITH_TENSORFLOW", "WITH_GLOO", "WITHOUT_PYTORCH")
        )
        assert "HOROVOD_WITHOUT_MPI" not in environment
        assert {"HOROVOD_WITHOUT_MPI": "1"}.items() <= install_horovod._build_environment({}).items()

    def test_no_test(self, machine):
        """Leaves the two processes out."""
        assert 0 == install_horovod.main(["--no-test"])
        assert "tensorpack_lite.launch" not in machine.ran[-1]

    def test_a_test_that_fails(self, machine, capsys):
        """Is an error; which interface Gloo takes is what most often goes wrong."""
        machine.fails = "tensorpack_lite.launch"
        assert 2 == install_horovod.main([])
        assert "two processes failed with exit code 1" in capsys.readouterr().err
        assert machine.pip()


class TestWheels:
    def test_one_that_is_kept(self, machine, tmp_path, capsys):
        """Lies in a folder for this Python and TensorFlow, and is taken from there the next time, without any tool."""
        assert 0 == install_horovod.main(["--wheel-dir", str(tmp_path), "--no-test"])
        (folder,) = os.listdir(str(tmp_path))
        assert folder.startswith(f"cp{sys.version_info[0]}{sys.version_info[1]}-tf{tensorflow.__version__}-")
        machine.ran, machine.programs = [], set()
        assert 0 == install_horovod.main(["--wheel-dir", str(tmp_path), "--no-test"])
        assert ["install", "install"] == machine.pip()
        assert str(tmp_path / folder) in machine.ran[-1][-1]
        assert "which was built before" in capsys.readouterr().out

    def test_one_of_another_tensorflow(self, machine, tmp_path, monkeypatch):
        """Is not taken."""
        install_horovod.main(["--wheel-dir", str(tmp_path), "--no-test"])
        machine.ran = []
        monkeypatch.setattr(tensorflow, "__version__", "2.99.0")
        install_horovod.main(["--wheel-dir", str(tmp_path), "--no-test"])
        assert "wheel" in machine.pip()


class TestSources:
    @pytest.mark.parametrize(("version", "kept"), [((2, 18), True), ((2, 19), False)])
    def test_xla(self, machine, monkeypatch, version, kept):
        """Its source is left out where it does not compile."""
        monkeypatch.setattr(install_horovod, "TF_VERSION", version)
        install_horovod.main(["--no-test"])
        assert kept == ("xla_mpi_ops.cc" in machine.cmake_lists)
        assert machine.cmake_lists.startswith("one\nlist(APPEND TF_SOURCES mpi_ops.cc)\n")

    def test_sources_that_look_different(self, tmp_path):
        """Are refused."""
        path = tmp_path / "horovod" / "tensorflow"
        path.mkdir(parents=True)
        (path / "CMakeLists.txt").write_text("nothing of it\n")
        with pytest.raises(RuntimeError, match="does not name xla_mpi_ops.cc once"):
            install_horovod._leave_out_xla(tmp_path)


class TestWhatIsMissing:
    @pytest.mark.parametrize(
        ("program", "told"),
        [
            ("c++", "there is no C++ compiler. On Debian and Ubuntu: apt-get install g++"),
            ("make", "there is no make. On Debian and Ubuntu: apt-get install make"),
            ("cmake", "there is no CMake, wanted 3.13 or later. Run: pip install cmake"),
        ],
    )
    def test_a_program(self, machine, capsys, program, told):
        """Is named before anything is fetched, with how to get it."""
        machine.programs.remove(program)
        assert 2 == install_horovod.main([])
        assert told in capsys.readouterr().err
        assert [] == machine.pip()

    def test_an_old_cmake(self, machine, capsys):
        """Is as good as none."""
        machine.cmake = b"cmake version 3.9.0\n"
        assert 2 == install_horovod.main([])
        assert "CMake is 3.9, wanted 3.13 or later" in capsys.readouterr().err

    def test_an_old_compiler(self, machine, capsys):
        """Does not know the C++ that TensorFlow's headers are written in."""
        machine.standards = set()
        assert 2 == install_horovod.main([])
        standard = "17" if TF_VERSION >= (2, 10) else "11"
        assert f"c++ does not compile C++{standard}, which TensorFlow" in capsys.readouterr().err

    def test_a_compiler_that_is_named(self, machine, monkeypatch):
        """CXX says which; it must be there."""
        monkeypatch.setenv("CXX", "my-c++")
        assert install_horovod._compiler() is None
        machine.programs.add("my-c++")
        assert "my-c++" == install_horovod._compiler()

    def test_pip(self, machine, monkeypatch, capsys):
        """Comes with Python."""
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        assert 2 == install_horovod.main([])
        assert "Run: python -m ensurepip" in capsys.readouterr().err

    def test_what_builds_wheels(self, machine, monkeypatch):
        """Is installed by itself."""
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "wheel" else object())
        assert 0 == install_horovod.main(["--no-test"])
        assert ["install", "wheel"] == machine.ran[2][4:]

    def test_a_build_that_fails(self, machine, capsys):
        """Shows the last that pip wrote."""
        machine.fails = "wheel"
        assert 2 == install_horovod.main([])
        told = capsys.readouterr().err
        assert "    last words\n" in told
        assert "failed with exit code 1; see above." in told


@pytest.mark.parametrize("option", ["--help", "--no-such-option"])
def test_arguments(option, capsys):
    """The options are told on request, and others refused."""
    with pytest.raises(SystemExit) as caught:
        install_horovod.main([option])
    assert (0 if option == "--help" else 2) == caught.value.code
    assert "--wheel-dir" in "".join(capsys.readouterr())
