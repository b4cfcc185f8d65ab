"""Random streams, times in words, the environment, progress bars."""

from __future__ import annotations

import io
import multiprocessing
import os
import pickle
import threading

import numpy as np
import pytest

from tensorpack_lite.utils import utils
from tensorpack_lite.utils.utils import (
    change_env,
    enter_worker_stream,
    execute_only_once,
    fix_rng_seed,
    get_rng,
    get_tqdm,
    get_tqdm_kwargs,
    humanize_time_delta,
    make_worker_streams,
    reset_rng_seed,
)


def draw(rng) -> tuple:
    """Some numbers of a stream; equal streams give equal ones."""
    return tuple(rng.randint(0, 2**31 - 1, size=4))


def in_fork(function):
    """The result of a function in a forked process."""
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    process = context.Process(target=lambda: queue.put(function()))
    process.start()
    result = queue.get()
    process.join()
    return result


class TestGetRng:
    def test_is_a_random_state(self):
        """Users call rand, randint and choice on it."""
        assert isinstance(get_rng(), np.random.RandomState)
        assert isinstance(get_rng(self), np.random.RandomState)

    def test_without_a_seed_all_differ(self):
        """Each object has a stream of its own."""
        assert 20 == len({draw(get_rng(self)) for _ in range(20)})

    def test_with_a_seed_the_sequence_repeats(self):
        """The n-th stream after fix_rng_seed is the same every time."""
        fix_rng_seed(3)
        first = [draw(get_rng(self)) for _ in range(5)]
        fix_rng_seed(3)

        assert first == [draw(get_rng(object())) for _ in range(5)]

    def test_with_a_seed_streams_differ_from_each_other(self):
        """Two objects never share a stream."""
        fix_rng_seed(3)

        assert 20 == len({draw(get_rng(self)) for _ in range(20)})

    def test_seeds_differ(self):
        """Another seed, other streams."""
        found = set()
        for seed in (0, 1, -1, 2**40):
            fix_rng_seed(seed)
            found.add(draw(get_rng()))

        assert 4 == len(found)

    def test_numbers_do_not_depend_on_numpy(self):
        """The stream of a seed is written down here, and holds for every NumPy."""
        fix_rng_seed(1)

        assert [479, 137] == [get_rng().randint(1000), get_rng().randint(1000)]

    def test_numpy_integers_are_seeds(self):
        """A seed read from an array is that number."""
        fix_rng_seed(np.int64(3))
        first = draw(get_rng())
        fix_rng_seed(3)

        assert first == draw(get_rng())

    def test_reset_takes_the_seed_back(self):
        """After reset_rng_seed streams are random again."""
        fix_rng_seed(3)
        first = draw(get_rng())
        fix_rng_seed(3)
        reset_rng_seed()

        assert first != draw(get_rng())

    def test_threads_never_share_a_stream(self):
        """Eight threads that draw at once get different streams."""
        fix_rng_seed(3)
        found = []
        threads = [
            threading.Thread(target=lambda: found.extend(draw(get_rng()) for _ in range(50)))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert 400 == len(set(found))


class TestWorkerStreams:
    def streams(self, key):
        """The first streams of a process that entered a worker stream."""
        enter_worker_stream(key)
        return [draw(get_rng()) for _ in range(3)]

    def test_workers_differ(self):
        """Workers of a group, of two groups, and the main process share no stream."""
        fix_rng_seed(3)
        groups = make_worker_streams(2) + make_worker_streams(2)
        main = [draw(get_rng()) for _ in range(3)]
        found = main + [rng for key in groups for rng in self.streams(key)]

        assert 15 == len(set(found))

    def test_workers_repeat(self):
        """The same seed gives every worker the same streams again."""
        runs = []
        for _ in range(2):
            fix_rng_seed(3)
            runs.append([self.streams(key) for key in make_worker_streams(2)])

        assert runs[0] == runs[1]

    def test_workers_of_workers_differ(self):
        """A worker may start workers of its own."""
        fix_rng_seed(3)
        outer = make_worker_streams(2)
        found = []
        for stream in outer:
            enter_worker_stream(stream)
            found += [rng for inner in make_worker_streams(2) for rng in self.streams(inner)]

        assert 12 == len(set(found))

    def test_streams_can_be_sent_to_spawned_workers(self):
        """A stream carries the seed with it through pickle."""
        fix_rng_seed(3)
        (stream,) = make_worker_streams(1)
        expected = self.streams(stream)
        sent = pickle.dumps(stream)
        reset_rng_seed()  # as in a spawned process

        assert expected == self.streams(pickle.loads(sent))

    def test_without_a_seed_workers_are_random(self):
        """No seed: entering a worker stream keeps fresh entropy."""
        first, second = make_worker_streams(2)

        assert self.streams(first) != self.streams(first)
        assert self.streams(first) != self.streams(second)

    @pytest.mark.slow
    def test_forks_differ(self):
        """Forked processes that enter nothing differ from the parent, and from each other."""

        fix_rng_seed(3)
        children = [in_fork(lambda: draw(get_rng())) for _ in range(2)]

        assert 3 == len(set(children + [draw(get_rng())]))

    @pytest.mark.slow
    def test_a_fork_without_a_seed_differs(self):
        """Fresh entropy in each process."""
        assert 3 == len({draw(get_rng())} | {in_fork(lambda: draw(get_rng())) for _ in range(2)})

    @pytest.mark.slow
    @pytest.mark.parametrize("method", ["fork", "spawn"])
    def test_a_script_repeats(self, method, run_script):
        """Two runs of a script with workers give the same numbers; the workers give different ones."""
        script = """
            import multiprocessing
            from tensorpack_lite.utils.utils import *

            def work(stream, queue):
                enter_worker_stream(stream)
                queue.put(get_rng().randint(0, 2**31 - 1))

            if __name__ == "__main__":
                fix_rng_seed(3)
                context = multiprocessing.get_context("METHOD")
                for stream in make_worker_streams(2):
                    queue = context.SimpleQueue()
                    process = context.Process(target=work, args=(stream, queue))
                    process.start()
                    print(queue.get())
                    process.join()
        """
        runs = [run_script(script.replace("METHOD", method)).stdout.split() for _ in range(2)]

        assert runs[0] == runs[1]
        assert 2 == len(set(runs[0]))


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
        """Three digits below a minute, whole parts above, no zero parts, plural above one."""
        assert words == humanize_time_delta(seconds)

    def test_negative(self, capsys):
        """A negative time is said as it is, with a warning."""
        assert "-3 seconds" == humanize_time_delta(-3)
        assert "WRN humanize_time_delta: takes seconds >= 0, got -3" in capsys.readouterr().out


class TestChangeEnv:
    @pytest.mark.parametrize("before", [None, "old"])
    @pytest.mark.parametrize("inside", [None, "new"])
    def test_sets_and_restores(self, monkeypatch, before, inside):
        """None is 'not set', inside and outside."""
        utils._set_env("TL_TEST", before)
        monkeypatch.delenv("TL_TEST", raising=False)  # undone by monkeypatch at the end
        utils._set_env("TL_TEST", before)
        with change_env("TL_TEST", inside):
            assert inside == os.environ.get("TL_TEST")
        assert before == os.environ.get("TL_TEST")

    def test_restores_after_an_exception(self, monkeypatch):
        """The old value comes back when the body raises."""
        monkeypatch.setenv("TL_TEST", "old")
        with pytest.raises(ZeroDivisionError), change_env("TL_TEST", "new"):
            raise ZeroDivisionError

        assert "old" == os.environ["TL_TEST"]


class TestExecuteOnlyOnce:
    def test_true_the_first_time(self):
        """True once for each line that asks."""
        assert [True, False, False] == [execute_only_once() for _ in range(3)]

    def test_each_line_counts_for_itself(self):
        """Another line asks anew."""
        first = execute_only_once()
        second = execute_only_once()

        assert [True, True] == [first, second]


class FakeFile(io.StringIO):
    """A file that says whether it is a terminal."""

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

    def test_defaults(self):
        """The look of the library's bars."""
        kwargs = get_tqdm_kwargs(file=FakeFile(True))

        assert 0.5 == kwargs["smoothing"]
        assert kwargs["dynamic_ncols"] is True
        assert kwargs["ascii"] is True
        assert "rate_noinv_fmt" in kwargs["bar_format"]

    def test_what_is_given_wins(self):
        """Arguments override the defaults, and others are added."""
        kwargs = get_tqdm_kwargs(smoothing=0.1, mininterval=7, total=3, file=FakeFile(False))

        assert (0.1, 7, 3) == (kwargs["smoothing"], kwargs["mininterval"], kwargs["total"])

    @pytest.mark.parametrize(
        ("terminal", "variables", "seconds"),
        [
            (True, {}, 0.5),
            (False, {}, 180),
            (False, {"SLURM_JOB_ID": "1"}, 15),
            (False, {"SLURM_JOB_ID": "1", "SLURM_JOB_NUM_NODES": "1"}, 15),
            (False, {"SLURM_JOB_ID": "1", "SLURM_JOB_NUM_NODES": "2"}, 60),
            (False, {"OMPI_COMM_WORLD_SIZE": "4"}, 60),
            (True, {"OMPI_COMM_WORLD_SIZE": "4"}, 0.5),
            (True, {"TENSORPACK_PROGRESS_REFRESH": "2.5"}, 2.5),
            (False, {"TENSORPACK_PROGRESS_REFRESH": "2.5", "SLURM_JOB_ID": "1"}, 2.5),
        ],
    )
    def test_refresh(self, monkeypatch, terminal, variables, seconds):
        """Often on a terminal, seldom in a log file; the environment variable wins."""
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

        assert seconds == get_tqdm_kwargs(file=FakeFile(terminal))["mininterval"]

    def test_notebook_refreshes_often(self, monkeypatch):
        """A notebook counts as a terminal."""
        monkeypatch.setitem(utils.sys.modules, "ipykernel", object())

        assert 0.5 == get_tqdm_kwargs(file=FakeFile(False))["mininterval"]

    def test_bad_refresh(self, monkeypatch):
        """A variable that is no number is named in the error."""
        monkeypatch.setenv("TENSORPACK_PROGRESS_REFRESH", "often")

        with pytest.raises(
            ValueError, match="TENSORPACK_PROGRESS_REFRESH: takes a number of seconds, got 'often'"
        ):
            get_tqdm_kwargs()

    def test_get_tqdm_counts(self):
        """The bar iterates over what it is given and draws into the file."""
        file = FakeFile(True)

        assert [1, 2, 3] == list(get_tqdm([1, 2, 3], file=file))
        assert "|3/3[" in file.getvalue()
