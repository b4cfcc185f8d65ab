"""The format of log lines, and the logger's directory."""

from __future__ import annotations

import logging
import os
import pathlib
import re
import sys
from unittest import mock

import pytest

from tensorpack_lite.utils import logger


def fill(directory, name="old.txt"):
    """Create a directory with a file."""
    directory.mkdir(parents=True)
    (directory / name).write_text("precious")
    return str(directory)


def log_file(directory) -> str:
    with open(os.path.join(str(directory), "log.log"), encoding="utf-8") as file:
        return file.read()


def num_open_files() -> int:
    """Return the number of the logger's log files. (Pytest adds handlers of other types.)"""
    return sum(type(handler) is logging.FileHandler for handler in logger._logger.handlers)


class Terminal:
    """A stdin with a user."""

    def isatty(self):
        return True


class TestLines:
    def test_line(self, capsys):
        """The format is `[mmdd HH:MM:SS] message`, on stdout only."""
        with mock.patch.object(logging.getLogger(), "handlers", [logging.StreamHandler(sys.stderr)]):
            logger.info("%d of %s", 3, "four")

        captured = capsys.readouterr()
        assert re.fullmatch(r"\[\d{4} \d\d:\d\d:\d\d\] 3 of four\n", captured.out)
        assert "" == captured.err

    @pytest.mark.parametrize(
        ("function", "tag"), [("warning", "WRN "), ("warn", "WRN "), ("error", "ERR "), ("critical", "ERR ")]
    )
    def test_levels_have_tags(self, capsys, function, tag):
        """Warnings, errors and debug messages have tags, and the file and line of the caller."""
        getattr(logger, function)("trouble")

        assert re.fullmatch(rf"\[\d{{4}} \S+ @test_logger\.py:\d+\] {tag}trouble\n", capsys.readouterr().out)

    def test_debug_is_shown_on_request(self, capsys):
        """The level is INFO unless setLevel changes it."""
        logger.debug("one")
        logger.setLevel("DEBUG")
        try:
            logger.debug("two")
        finally:
            logger.setLevel("INFO")

        assert [True] == [line.endswith("] DBG two") for line in capsys.readouterr().out.splitlines()]

    def test_exception_adds_the_traceback(self, capsys):
        """`exception` logs the traceback."""
        try:
            raise ValueError("inner")
        except ValueError:
            logger.exception("outer")

        output = capsys.readouterr().out
        assert "ERR outer\nTraceback" in output
        assert output.endswith("ValueError: inner\n")

    def test_terminal_gets_colors(self, capsys, monkeypatch):
        """On a terminal, the prefix is green and the tag yellow, without blinking."""
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.setenv("FORCE_COLOR", "1")  # termcolor asks file descriptor 1, which pytest captures
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
        logger.warning("trouble")

        output = capsys.readouterr().out
        assert output.startswith("\x1b[32m[")
        assert "\x1b[1m\x1b[33mWRN" in output

    def test_underlying_logger_is_there(self):
        """unittest's `assertLogs` accepts `_logger`."""
        import unittest

        with unittest.TestCase().assertLogs(logger=logger._logger, level="INFO") as captured:
            logger.info("seen")

        assert ["INFO:tensorpack_lite:seen"] == captured.output

    def test_filters_can_be_added(self, capsys):
        """`addFilter` adds a filter to the logger."""

        def only_numbers(record):
            return record.getMessage().isdigit()

        logger.addFilter(only_numbers)
        try:
            logger.info("words")
            logger.info("123")
        finally:
            logger._logger.removeFilter(only_numbers)

        assert capsys.readouterr().out.endswith("] 123\n")


class TestSetLoggerDir:
    def test_new_directory_is_made_and_logged_into(self, tmp_path):
        """Missing parents are created. log.log begins with the command line."""
        path = tmp_path / "a" / "b"
        logger.set_logger_dir(str(path))
        logger.info("hello")

        lines = log_file(path).splitlines()
        assert lines[0].endswith("] Argv: " + " ".join(sys.argv))
        assert lines[1].endswith("] hello")

    def test_directory_is_known(self, tmp_path):
        """get_logger_dir() and LOG_DIR are the normalized path."""
        logger.set_logger_dir(str(tmp_path / "a") + "//./")

        assert str(tmp_path / "a") == logger.get_logger_dir()
        assert str(tmp_path / "a") == logger.LOG_DIR

    def test_no_directory_is_none(self):
        """Before the first call, the directory is None."""
        assert logger.get_logger_dir() is None
        assert logger.LOG_DIR is None

    def test_file_has_no_colors(self, tmp_path):
        """Colors of the logger and of messages are removed from the file."""
        logger.set_logger_dir(str(tmp_path / "a"))
        logger.warning("\x1b[31mred\x1b[0m and \x1b[1;4mbold\x1b[0m")

        assert "\x1b" not in log_file(tmp_path / "a")
        assert log_file(tmp_path / "a").endswith("] WRN red and bold\n")

    def test_file_is_utf8(self, tmp_path):
        """Text in any language can be logged."""
        logger.set_logger_dir(str(tmp_path / "a"))
        logger.info("größer 日本")

        assert "größer 日本" in log_file(tmp_path / "a")

    def test_empty_and_hidden_do_not_count(self, tmp_path):
        """A directory with only hidden files is used without asking, and the files are kept."""
        path = fill(tmp_path / "a", ".hidden")
        logger.set_logger_dir(path)

        assert [".hidden", "log.log"] == sorted(os.listdir(path))

    def test_keep_continues_the_log(self, tmp_path):
        """'k' appends to log.log, which then has the lines of all runs in order."""
        path = str(tmp_path / "a")
        for number in range(3):
            logger.set_logger_dir(path, action="k")
            logger.info(f"run {number}")

        assert ["log.log"] == os.listdir(path)
        runs = [line.split("] ")[1] for line in log_file(path).splitlines() if "] run " in line]
        assert ["run 0", "run 1", "run 2"] == runs

    def test_back_up(self, tmp_path):
        """'b' renames the old directory and creates a new one with its name."""
        path = fill(tmp_path / "a")
        logger.set_logger_dir(path, action="b")

        (other,) = [name for name in os.listdir(str(tmp_path)) if name != "a"]
        assert ["log.log"] == os.listdir(path)
        assert other.startswith("a")
        assert "precious" == (tmp_path / other / "old.txt").read_text()

    def test_back_up_twice_in_a_second(self, tmp_path):
        """Two backups in the same second are two directories."""
        for _ in range(3):
            logger.set_logger_dir(str(tmp_path / "a"), action="b")

        assert 3 == len(os.listdir(str(tmp_path)))

    def test_new(self, tmp_path):
        """'n' keeps the old directory and uses another name."""
        path = fill(tmp_path / "a")
        logger.set_logger_dir(path, action="n")

        assert ["old.txt"] == os.listdir(path)
        assert logger.get_logger_dir() != path
        assert logger.get_logger_dir().startswith(path)

    def test_new_at_the_same_time(self, tmp_path, monkeypatch):
        """If another process creates the new directory at the same moment, 'n' uses the next name."""
        path = fill(tmp_path / "a")
        make, others = os.makedirs, []

        def make_later(name, *args, **kwargs):
            if not others:
                others.append(fill(pathlib.Path(name)))
            make(name, *args, **kwargs)

        monkeypatch.setattr(os, "makedirs", make_later)
        logger.set_logger_dir(path, action="n")

        assert ["old.txt"] == os.listdir(others[0])
        assert ["log.log"] == os.listdir(logger.get_logger_dir())

    @pytest.mark.parametrize("action", ["q", "x", "delete"])
    def test_anything_else_raises(self, tmp_path, action):
        """'q' and unknown answers raise an OSError, the directory is not changed, and the next call works."""
        path = fill(tmp_path / "a")
        with pytest.raises(OSError, match="contains files. Pass action="):
            logger.set_logger_dir(path, action=action)
        assert ["old.txt"] == os.listdir(path)
        logger.set_logger_dir(path, action="k")
        assert path == logger.get_logger_dir()

    def test_an_error_keeps_the_directory_in_use(self, tmp_path):
        """After an OSError, the log continues in the former directory."""
        logger.set_logger_dir(str(tmp_path / "in_use"))
        with pytest.raises(OSError, match="contains files"):
            logger.set_logger_dir(fill(tmp_path / "a"), action="q")
        logger.info("still here")

        assert str(tmp_path / "in_use") == logger.get_logger_dir()
        assert "still here" in log_file(tmp_path / "in_use")

    def test_second_directory_ends_the_first(self, tmp_path):
        """A second directory closes the log file of the first."""
        logger.set_logger_dir(str(tmp_path / "a"))
        first = logger._directory._handler
        logger.set_logger_dir(str(tmp_path / "b"))
        logger.info("hello")

        assert "hello" not in log_file(tmp_path / "a")
        assert "hello" in log_file(tmp_path / "b")
        assert first.stream is None or first.stream.closed
        assert 1 == num_open_files()

    def test_without_a_terminal_it_uses_another_name(self, tmp_path, monkeypatch, log_lines):
        """Without an action and a terminal, the training goes to a new directory, and a warning explains how to continue one."""
        monkeypatch.setattr("builtins.input", mock.Mock(side_effect=AssertionError("asked")))
        path = fill(tmp_path / "a")
        logger.set_logger_dir(path)

        assert ["old.txt"] == os.listdir(path)
        assert re.fullmatch(re.escape(path) + r"\d{4}-\d{6}", logger.get_logger_dir())
        assert [f"Use a new log directory {logger.get_logger_dir()}"] == log_lines[1:2]
        assert "To continue a training, pass action='k'" in log_lines[0]

    def test_on_a_terminal_it_asks(self, tmp_path, monkeypatch, capsys):
        """On a terminal, it asks until the user answers, and follows the answer."""
        monkeypatch.setattr(sys, "stdin", Terminal())
        ask = mock.Mock(side_effect=["", " ", "K"])
        monkeypatch.setattr("builtins.input", ask)
        path = fill(tmp_path / "a")
        logger.set_logger_dir(path)

        assert 3 == ask.call_count
        assert ["log.log", "old.txt"] == sorted(os.listdir(path))
        assert 2 == capsys.readouterr().out.count(" WRN ")

    def test_delete_the_directory_in_use(self, tmp_path):
        """'d' on the directory in use starts a new log file."""
        path = str(tmp_path / "a")
        logger.set_logger_dir(path)
        logger.info("first")
        logger.set_logger_dir(path, action="d")
        logger.info("second")

        assert ["log.log"] == os.listdir(path)
        assert "first" not in log_file(path)
        assert "second" in log_file(path)


class TestQuiet:
    def lines(self, capsys):
        """Log at all levels and return the lines."""
        logger.info("information")
        logger.info("marked", extra=logger.FOR_QUIET)
        logger.warning("warning")
        logger.error("error")
        return [line.split("] ")[1] for line in capsys.readouterr().out.splitlines()]

    SHOWN = ["marked", "WRN warning", "ERR error"]

    def test_a_function(self, capsys):
        """`set_quiet` hides information, except for lines that are marked; `set_quiet(False)` shows it again."""
        logger.set_quiet()
        assert logger.is_quiet()
        assert self.SHOWN == self.lines(capsys)
        logger.set_quiet(False)
        assert not logger.is_quiet()
        assert ["information", *self.SHOWN] == self.lines(capsys)

    def test_a_variable(self, capsys, monkeypatch):
        """TENSORPACK_LITE_LOG=quiet does the same; the function wins."""
        monkeypatch.setenv("TENSORPACK_LITE_LOG", "quiet")
        assert logger.is_quiet()
        assert self.SHOWN == self.lines(capsys)
        logger.set_quiet(False)
        assert not logger.is_quiet()
        assert "information" in self.lines(capsys)

    @pytest.mark.parametrize("quiet", [None, True, False])
    def test_only_warnings(self, capsys, monkeypatch, quiet):
        """In processes of commands, only warnings and errors are shown, whatever the script calls."""
        monkeypatch.setenv("TENSORPACK_LITE_LOG", "warnings")
        if quiet is not None:
            logger.set_quiet(quiet)
        assert logger.is_quiet()
        assert self.SHOWN[1:] == self.lines(capsys)

    def test_an_unknown_value(self, capsys, monkeypatch):
        """Another value of the variable is an error for a training, and the log is not quiet."""
        monkeypatch.setenv("TENSORPACK_LITE_LOG", "loud")
        assert "information" in self.lines(capsys)
        with pytest.raises(ValueError, match="TENSORPACK_LITE_LOG has an unknown value .*got 'loud'"):
            logger.is_quiet()

    def test_a_handler_of_the_program(self, run_script):
        """If the program has given the logger a handler, lines go only there, and `set_quiet` still quiets progress bars."""
        code = """
        import logging
        logging.getLogger("tensorpack_lite").addHandler(logging.NullHandler())
        from tensorpack_lite.utils import logger
        logger.info("information")
        print(logger.is_quiet())
        logger.set_quiet()
        print(logger.is_quiet())
        logger.reset()
        print(logger.is_quiet())
        """
        result = run_script(code)
        assert "False\nTrue\nFalse\n" == result.stdout, result.stderr

    def test_the_file_has_all_lines(self, tmp_path):
        """The log file has all lines."""
        logger.set_quiet()
        logger.set_logger_dir(str(tmp_path / "a"))
        logger.info("information")
        assert "] Argv: " in log_file(tmp_path / "a")
        assert "] information" in log_file(tmp_path / "a")

    def test_bars_are_removed(self):
        """Progress bars of a quiet log disappear when they are complete."""
        from tensorpack_lite.utils.utils import get_tqdm_kwargs

        assert get_tqdm_kwargs()["leave"]
        logger.set_quiet()
        assert not get_tqdm_kwargs()["leave"]


class TestReset:
    def test_closes_and_forgets(self, tmp_path):
        """After `reset`, there is no directory and nothing is written to its file."""
        logger.set_logger_dir(str(tmp_path / "a"))
        logger.reset()
        logger.info("hello")

        assert logger.get_logger_dir() is None
        assert "hello" not in log_file(tmp_path / "a")
        assert 0 == num_open_files()


class TestAutoSetDir:
    @pytest.fixture(autouse=True)
    def working_directory(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys.modules["__main__"], "__file__", "/somewhere/train_it.py", raising=False)

    def test_is_named_after_the_script(self):
        """The directory is train_log/<script> in the working directory."""
        logger.auto_set_dir()

        assert os.path.abspath(os.path.join("train_log", "train_it")) == logger.get_logger_dir()
        assert os.path.isfile("train_log/train_it/log.log")

    def test_name_is_added(self):
        """A name is appended after a colon."""
        logger.auto_set_dir(name="lr0.1")

        assert os.path.abspath(os.path.join("train_log", "train_it:lr0.1")) == logger.get_logger_dir()

    def test_notebook_has_no_script(self, monkeypatch):
        """Without a main script, the name is notebook."""
        monkeypatch.delattr(sys.modules["__main__"], "__file__")
        logger.auto_set_dir()

        assert os.path.abspath(os.path.join("train_log", "notebook")) == logger.get_logger_dir()

    def test_action(self):
        """The action is passed to set_logger_dir."""
        logger.auto_set_dir()
        with pytest.raises(OSError, match="contains files"):
            logger.auto_set_dir(action="q")

    def test_windows_has_no_colons(self, monkeypatch):
        """On Windows, the name is appended after an underscore."""
        monkeypatch.setattr(logger.os, "name", "nt")
        with mock.patch.object(logger, "set_logger_dir") as set_logger_dir:
            logger.auto_set_dir(name="lr0.1")

        set_logger_dir.assert_called_once_with(os.path.join("train_log", "train_it_lr0.1"), action=None)
