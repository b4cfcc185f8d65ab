"""Description of the code of a training."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from types import ModuleType

import pytest

from tensorpack_lite.diagnostics.manifest import code
from tensorpack_lite.diagnostics.manifest.code import describe_code, own_files


@pytest.fixture
def script(tmp_path, monkeypatch):
    """The path of a script that seems to run, with the arguments --fast 1."""
    path = tmp_path / "project" / "train.py"
    path.parent.mkdir()
    path.write_text("import helper\n")
    main = ModuleType("__main__")
    main.__file__ = str(path)
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.setattr("sys.argv", [str(path), "--fast", "1"])
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    return path


def add_module(monkeypatch, path, text="x = 1\n"):
    """Let a module seem to be imported from a path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    monkeypatch.setitem(sys.modules, f"made_up_{path.stem}", module)


def git(directory, *arguments):
    """Run git."""
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "-C", str(directory), *who, *arguments], check=True, stdout=subprocess.DEVNULL)


def test_script_and_modules(script, monkeypatch):
    """The script, first and once, and the modules below its directory are copied, without installed packages."""
    helper = script.parent / "models" / "helper.py"
    add_module(monkeypatch, helper)
    add_module(monkeypatch, script.parent / "venv" / "site-packages" / "installed.py")
    add_module(monkeypatch, script.parent.parent / "beside.py")
    found = describe_code()
    assert (str(script), ["--fast", "1"]) == (found["script"], found["arguments"])
    assert {"train.py": "import helper\n", "models/helper.py": "x = 1\n"} == found["files"]
    assert [str(script), str(helper)] == own_files()


def test_at_most_2_mb(script, monkeypatch):
    """A file beyond the limit is listed with its SHA-256."""
    text = "#" * (2 << 20)
    add_module(monkeypatch, script.parent / "large.py", text)
    found = describe_code()
    assert ["train.py"] == list(found["files"])
    assert {"large.py": hashlib.sha256(text.encode()).hexdigest()} == found["omitted"]


def test_no_import_is_triggered(script, monkeypatch):
    """Modules that are loaded on first use stay unloaded."""

    class Lazy(ModuleType):
        def __getattr__(self, name):
            raise AssertionError(name)

    monkeypatch.setitem(sys.modules, "made_up_lazy", Lazy("lazy"))
    assert ["train.py"] == list(describe_code()["files"])


def test_a_repository(script):
    """The commit, the branch and the uncommitted changes are recorded."""
    git(script.parent, "init", "-q")
    git(script.parent, "checkout", "-q", "-b", "mine")
    git(script.parent, "add", "train.py")
    git(script.parent, "commit", "-q", "-m", "first")
    found = describe_code()["git"]
    assert ("mine", False, "", 40) == (found["branch"], found["dirty"], found["patch"], len(found["commit"]))
    script.write_text("import helper  # changed\n")
    found = describe_code()["git"]
    assert found["dirty"]
    assert "+import helper  # changed" in found["patch"]


def test_a_large_patch(script, monkeypatch):
    """A large patch is replaced by its length and digest."""
    git(script.parent, "init", "-q")
    git(script.parent, "add", "train.py")
    git(script.parent, "commit", "-q", "-m", "first")
    script.write_text("import helper  # changed\n")
    monkeypatch.setattr(code, "_MAX_PATCH_CHARS", 10)
    assert describe_code()["git"]["patch"].startswith("omitted: ")


def test_no_repository(script, monkeypatch):
    """Outside of a repository, or without git, the reason is recorded; without a script, nothing is copied."""
    assert "not a git repository" in describe_code()["git"]["reason"]
    monkeypatch.setenv("PATH", "")
    assert "git: " in describe_code()["git"]["reason"]
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    found = describe_code()
    assert (None, {}) == (found["script"], found["files"])
