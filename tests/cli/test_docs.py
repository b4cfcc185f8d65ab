"""The command `docs`: what it builds, and its messages where it cannot."""

from __future__ import annotations

import argparse

import pytest

from tensorpack_lite.cli import docs
from tensorpack_lite.cli.main import main


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A clone with all packages; nothing is built and no browser starts. Returns its directory."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "conf.py").write_text("", encoding="utf-8")
    monkeypatch.setattr(docs, "_LIBRARY", tmp_path / "tensorpack_lite")
    monkeypatch.setattr(docs, "find_spec", lambda name: name)
    monkeypatch.setattr(docs, "_build", lambda source, target, is_whole: True)
    monkeypatch.setattr(docs.webbrowser, "open", lambda url: False)
    return tmp_path


def test_it_builds_and_opens_the_pages(clone, monkeypatch, capsys):
    """The pages are built in `docs/_build/html`, and the browser opens the first one."""
    built, opened = [], []
    monkeypatch.setattr(docs, "_build", lambda *arguments: built.append(arguments) or True)
    monkeypatch.setattr(docs.webbrowser, "open", lambda url: opened.append(url) or True)

    html = clone / "docs" / "_build" / "html"
    assert 0 == main(["docs"])
    assert [(clone / "docs", html, False)] == built
    assert [(html / "index.html").as_uri()] == opened
    assert f"Opened {html / 'index.html'}" in capsys.readouterr().out


@pytest.mark.parametrize("options", [["--no-browser"], []])
def test_without_a_browser_it_names_the_file(clone, options, capsys):
    """With `--no-browser`, and where no browser can be opened, the path is printed."""
    assert 0 == main(["docs", *options])
    assert f"Open this file in a browser: {clone / 'docs'}" in capsys.readouterr().out


def test_missing_packages_are_named(clone, monkeypatch, capsys):
    """Without Sphinx, the error names the packages and the command that installs them."""
    monkeypatch.setattr(docs, "find_spec", lambda name: None if name in ("sphinx", "furo") else name)

    assert 2 == main(["docs"])
    error = capsys.readouterr().err
    assert "tensorpack-lite docs: sphinx, furo must be installed to build the pages." in error
    assert "pip install '.[tf,docs]'" in error


def test_an_installed_package_says_what_to_do(clone, monkeypatch, capsys):
    """The wheel has no sources of pages: the error names the command in a clone, and pydoc."""
    monkeypatch.setattr(docs, "_LIBRARY", clone / "site-packages" / "tensorpack_lite")

    assert 2 == main(["docs"])
    error = capsys.readouterr().err
    assert "does not contain the sources of the pages" in error
    assert "python -m pydoc tensorpack_lite.callbacks.saver" in error


def test_a_failed_build_fails(clone, monkeypatch):
    """If Sphinx fails, which prints the reason, the exit code is 1 and nothing is opened."""
    monkeypatch.setattr(docs, "_build", lambda source, target, is_whole: False)
    monkeypatch.setattr(docs.webbrowser, "open", lambda url: pytest.fail("opened"))

    assert 1 == main(["docs"])


def test_after_an_interruption_everything_is_built_again(clone, monkeypatch):
    """Only a build that has finished is continued: what an interrupted one leaves makes Sphinx fail in all later builds."""
    found = []

    def build(source, target, is_whole):
        target.mkdir(parents=True, exist_ok=True)
        found.append(is_whole)
        if len(found) in (1, 4):
            raise KeyboardInterrupt
        return len(found) != 6

    monkeypatch.setattr(docs, "_build", build)
    for number in range(8):
        if number in (0, 3):
            with pytest.raises(KeyboardInterrupt):
                main(["docs"])
        else:
            assert (number == 5) == main(["docs"])
    assert [False, False, True, True, False, True, False, True] == found


@pytest.mark.parametrize("is_whole", [True, False])
def test_sphinx_reads_everything_again(monkeypatch, tmp_path, is_whole):
    """Sphinx is told to ignore what an interrupted build has left."""
    commands = []
    monkeypatch.setattr(
        docs.subprocess,
        "run",
        lambda command, **options: commands.append(command) or argparse.Namespace(returncode=0),
    )
    assert docs._build(tmp_path, tmp_path / "html", is_whole)
    assert is_whole == ({"-E", "-a"}.isdisjoint(commands[0]))
