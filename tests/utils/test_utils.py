"""Durations in words, environment variables, code that runs once, and progress bars."""

from __future__ import annotations

import io
import os

import pytest

from tensorpack_lite.utils import utils
from tensorpack_lite.utils.utils import (
    change_env,
    execute_only_once,
    get_tqdm,
    get_tqdm_kwargs,
    humanize_time_delta,
)


class TestHumanizeTimeDelta:
    @pytest.mark.parametrize(
        ("seconds", "words"),
        [
            (0, "0 second"),
            (0.134, "0.134 second"),
            (1, "1 second"),
            (1.5, "1.5 seconds"),
            (12.345, "12.3 seconds"),
            (59.99, "60 seconds"),
            (60, "1 minute"),
            (87.6, "1 minute 27 seconds"),
            (3600, "1 hour"),
            (7384, "2 hours 3 minutes 4 seconds"),
            (86400, "1 day"),
            (2 * 86400 + 3601, "2 days 1 hour 1 second"),
        ],
    )
    def test_words(self, seconds, words):
        """Durations below a minute have three digits; longer ones have whole units, without those that are zero."""
        assert words == humanize_time_delta(seconds)

    def test_negative(self, capsys):
        """A negative duration is returned in seconds, with a warning."""
        assert "-3 seconds" == humanize_time_delta(-3)
        assert "the duration is negative (expected seconds >= 0, got -3)" in capsys.readouterr().out


class TestChangeEnv:
    @pytest.mark.parametrize("before", [None, "old"])
    @pytest.mark.parametrize("inside", [None, "new"])
    def test_sets_and_restores(self, monkeypatch, before, inside):
        """The variable is set or unset inside the context, and restored afterwards."""
        utils._set_env("TL_TEST", before)
        monkeypatch.delenv("TL_TEST", raising=False)  # undone by monkeypatch at the end
        utils._set_env("TL_TEST", before)
        with change_env("TL_TEST", inside):
            assert inside == os.environ.get("TL_TEST")
        assert before == os.environ.get("TL_TEST")

    def test_restores_after_an_exception(self, monkeypatch):
        """The old value is restored if the body raises."""
        monkeypatch.setenv("TL_TEST", "old")
        with pytest.raises(ZeroDivisionError), change_env("TL_TEST", "new"):
            raise ZeroDivisionError

        assert "old" == os.environ["TL_TEST"]


class TestExecuteOnlyOnce:
    def test_true_the_first_time(self):
        """A line gets True once, and then False."""
        assert [True, False, False] == [execute_only_once() for _ in range(3)]

    def test_each_line_counts_for_itself(self):
        """Each line gets True once."""
        first = execute_only_once()
        second = execute_only_once()

        assert [True, True] == [first, second]


class FakeFile(io.StringIO):
    """A file that may be a terminal."""

    def __init__(self, terminal):
        super().__init__()
        self._terminal = terminal

    def isatty(self):
        return self._terminal


class TestTqdm:
    VARIABLES = ("TENSORPACK_PROGRESS_REFRESH", "SLURM_JOB_ID", "SLURM_JOB_NUM_NODES", "OMPI_COMM_WORLD_SIZE")

    @pytest.fixture(autouse=True)
    def no_cluster(self, monkeypatch):
        for variable in self.VARIABLES:
            monkeypatch.delenv(variable, raising=False)
        monkeypatch.delitem(utils.sys.modules, "ipykernel", raising=False)

    def test_arguments_override_defaults(self):
        """Given arguments override the defaults, and others are added."""
        kwargs = get_tqdm_kwargs(smoothing=0.1, mininterval=7, total=3, file=FakeFile(False))

        assert (0.1, 7, 3) == (kwargs["smoothing"], kwargs["mininterval"], kwargs["total"])

    @pytest.mark.parametrize(
        ("terminal", "variables", "seconds"),
        [
            (True, {}, 0.5),
            (False, {}, 30),
            (False, {"SLURM_JOB_ID": "1", "SLURM_JOB_NUM_NODES": "1"}, 30),
            (False, {"SLURM_JOB_ID": "1", "SLURM_JOB_NUM_NODES": "2"}, 60),
            (False, {"OMPI_COMM_WORLD_SIZE": "4"}, 60),
            (True, {"OMPI_COMM_WORLD_SIZE": "4"}, 0.5),
            (True, {"TENSORPACK_PROGRESS_REFRESH": "2.5"}, 2.5),
            (False, {"TENSORPACK_PROGRESS_REFRESH": "2.5", "SLURM_JOB_ID": "1"}, 2.5),
        ],
    )
    def test_refresh(self, monkeypatch, terminal, variables, seconds):
        """The interval depends on the terminal and the cluster; the environment variable overrides it."""
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

        assert seconds == get_tqdm_kwargs(file=FakeFile(terminal))["mininterval"]

    @pytest.mark.parametrize(("has_widgets", "seconds"), [(True, 0.5), (False, 30)])
    def test_notebook_refreshes_often(self, monkeypatch, has_widgets, seconds):
        """A notebook counts as a terminal, unless ipywidgets is missing: then the progress is logged."""
        monkeypatch.setitem(utils.sys.modules, "ipykernel", object())
        monkeypatch.setattr(utils, "find_spec", lambda name: object() if has_widgets else None)

        assert seconds == get_tqdm_kwargs(file=FakeFile(False))["mininterval"]

    def test_bad_refresh(self, monkeypatch):
        """A value that is not a number raises a ValueError that names the variable."""
        monkeypatch.setenv("TENSORPACK_PROGRESS_REFRESH", "often")

        with pytest.raises(
            ValueError, match=r"TENSORPACK_PROGRESS_REFRESH is not a number \(expected seconds, got 'often'\)"
        ):
            get_tqdm_kwargs()

    def test_the_bar_shows_its_postfix(self):
        """Values that a callback attaches to the bar, such as the cost, are drawn."""
        file = FakeFile(True)
        with get_tqdm(total=1, file=file) as bar:
            bar.set_postfix(cost=0.5)
        assert "cost=0.5" in file.getvalue()

    def test_get_tqdm_counts(self):
        """The bar yields the given items and draws into the file."""
        file = FakeFile(True)

        assert [1, 2, 3] == list(get_tqdm([1, 2, 3], file=file))
        assert "|3/3[" in file.getvalue()
