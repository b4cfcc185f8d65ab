"""README's commands: they install what tox.ini requires, and tox says what it does before it is silent."""

from __future__ import annotations

import configparser
import importlib.util
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def plugin(monkeypatch):
    """The plugin of this repository, loaded without tox."""
    monkeypatch.setitem(sys.modules, "tox", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "tox.plugin", SimpleNamespace(impl=lambda function: function))
    spec = importlib.util.spec_from_file_location("toxfile", str(ROOT / "toxfile.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def environment(**conf):
    """Return a fake of tox's environment, whose configuration raises KeyError like tox's."""
    return SimpleNamespace(conf=conf)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_the_commands_install_what_tox_requires(page):
    """Each command that installs tox installs all that `requires` lists, or tox would install itself a second time."""
    config = configparser.ConfigParser()
    config.read(str(ROOT / "tox.ini"))
    lines = config["tox"]["requires"].splitlines()
    required = {line.replace("tox>=4", "tox") for line in lines if line and not line.startswith("#")}

    commands = re.findall(r"pip install -q (tox[^&\n]*)", (ROOT / page).read_text(encoding="utf-8"))
    assert commands
    for command in commands:
        assert required == {word.strip("'") for word in command.split()}


def test_ci_uses_that_tox():
    """`.ci/run` starts the tox that README's command has installed."""
    assert "    .venv/bin/tox run" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_tox_says_what_it_installs(plugin, capsys):
    """Before the first installation, tox prints what the environment does and how long it will be silent."""
    plugin.tox_on_install(environment(env_name="demo", description="train"), [], "PythonRun", "deps")

    said, silence = capsys.readouterr().out.splitlines()
    assert "demo: train" == said
    assert silence.startswith("demo: installing packages, which prints nothing and takes 1 to 3 minutes")


def test_other_installations_say_nothing(plugin, capsys):
    """Nothing is printed for the environment that builds the wheel, which has no description."""
    plugin.tox_on_install(environment(env_name=".pkg"), [], "PythonPackageToxEnv", "deps")
    plugin.tox_on_install(environment(env_name="demo", description="train"), [], "RunToxEnv", "package")

    assert "" == capsys.readouterr().out


def test_the_readme_says_how_long_it_takes_and_what_to_open():
    """README says how long both commands take, and that the demo and the script end with the path of the report."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    demo, rest = text.split("tox -e demo", 1)[1].split("tox -e test", 1)
    assert re.search(r"takes 1 to 3 minutes .* about one minute", demo)
    assert re.search(r"takes about \d minutes", demo)
    assert "`report.html`" in demo
    assert "report.html`: open it" in rest
