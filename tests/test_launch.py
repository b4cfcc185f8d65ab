"""launch.py: local ranks as processes, without TensorFlow in them."""

from __future__ import annotations

import ast
import json
import signal
import time

import pytest
from fakes.launching import launch, running_with, start, wait

from tensorpack_lite.launch import main

pytestmark = pytest.mark.slow  # each starts processes that import the library


@pytest.fixture
def script(tmp_path):
    """Writes a script that knows its rank, and gives its path."""

    def write(body):
        path = tmp_path / "script.py"
        head = "import json, os, signal, subprocess, sys, time\nrank = json.loads(os.environ['TF_CONFIG'])['task']['index']\n"
        path.write_text(head + body, encoding="utf-8")
        return str(path)

    return write


def wait_for(path, count):
    """Wait until so many files are there."""
    deadline = time.monotonic() + 30
    while len(list(path.glob("ready-*"))) < count:
        assert time.monotonic() < deadline
        time.sleep(0.02)


READY = "open(os.path.join(os.path.dirname(__file__), f'ready-{rank}'), 'w').close()\n"


class TestRunning:
    def test_ranks_know_who_they_are(self, script):
        """TF_CONFIG has K workers with distinct ports; arguments are passed on, also those that look like the launcher's."""
        ended = launch(3, script("print(os.environ['TF_CONFIG'], sys.argv[1:])"), "a", "-n", "5")
        lines = sorted(line for line in ended.out.splitlines() if line.startswith("["))
        assert 0 == ended.code
        assert ["[0]", "[1]", "[2]"] == [line.split()[0] for line in lines]
        assert all(line.endswith("['a', '-n', '5']") for line in lines)
        workers = json.loads(lines[0].partition(" ")[2].rpartition(" [")[0])["cluster"]["worker"]
        assert 3 == len(set(workers))

    def test_what_horovod_is_told(self, script):
        """Each rank's place, where all meet, and an interface that a user may set otherwise."""
        names = (
            "RANK SIZE LOCAL_RANK LOCAL_SIZE CROSS_RANK CROSS_SIZE CONTROLLER GLOO_IFACE GLOO_RENDEZVOUS_PORT"
        )
        body = f"print([os.environ['HOROVOD_' + name] for name in '{names}'.split()])"
        process = start("-m", "tensorpack_lite.launch", "-n", 2, script(body), HOROVOD_GLOO_IFACE="mine0")
        first, second = [ast.literal_eval(line[4:]) for line in sorted(wait(process).out.splitlines())]
        assert ["0", "2", "0", "2", "0", "1", "gloo", "mine0"] == first[:8]
        assert ["1", "2", "1", "2", "0", "1", "gloo", "mine0"] == second[:8]
        assert first[8] == second[8]

    def test_where_horovod_s_ranks_meet(self, script):
        """There is a store, on this machine."""
        body = (
            "from tensorpack_lite.utils.rendezvous import RendezvousStore\n"
            "port = int(os.environ['HOROVOD_GLOO_RENDEZVOUS_PORT'])\n"
            "store = RendezvousStore(os.environ['HOROVOD_GLOO_RENDEZVOUS_ADDR'], port, 'test')\n"
            "store.put(str(rank), f'from {rank}')\n"
            "print(store.wait(str(1 - rank), 20.0))"
        )
        assert ["[0] from 1", "[1] from 0"] == sorted(launch(2, script(body)).out.splitlines())

    def test_what_is_written(self, script, tmp_path):
        """Lines stay whole behind their rank's number; a last line without end and a carriage return count as lines."""
        body = "sys.stdout.write('one\\rtwo\\nrest'); sys.stdout.flush(); sys.stderr.write('hurt\\n')"
        ended = launch(1, script(body), options=["--log-dir", str(tmp_path / "logs")])
        assert ["[0] one", "[0] two", "[0] rest"] == ended.out.splitlines()
        assert "[0] hurt" in ended.err
        written = (tmp_path / "logs" / "rank-0.log").read_text().split()
        assert ["hurt", "one", "rest", "two"] == sorted(written)


class TestFailures:
    def test_the_first_one_is_shown_last(self, script, tmp_path):
        """One rank's failure ends all; its error comes last, its exit code is the launcher's."""
        body = "if rank == 1:\n    sys.stderr.write('planted\\n'); sys.exit(7)\ntime.sleep(60)"
        ended = launch(2, script(body))
        assert 7 == ended.code
        assert "launch: rank 1 failed first, with exit code 7." in ended.err
        assert "planted" == ended.err.splitlines()[-1]
        assert [] == running_with(str(tmp_path))

    def test_one_that_ends_because_of_another(self, script):
        """Is not the one to be shown, even if it ends sooner."""
        body = (
            "if rank == 1:\n    time.sleep(0.5); sys.stderr.write('cause\\n'); sys.exit(3)\n"
            "sys.stderr.write('x.RankError: rank 1 ...\\n'); sys.exit(1)"
        )
        ended = launch(2, script(body))
        assert 3 == ended.code
        assert "cause" == ended.err.splitlines()[-1]

    def test_a_rank_that_is_killed(self, script):
        """Has 128 + the signal for a code, as in a shell."""
        ended = launch(2, script("if rank == 0:\n    os.kill(os.getpid(), 9)\ntime.sleep(60)"))
        assert 137 == ended.code
        assert "rank 0 failed first, killed by SIGKILL" in ended.err

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [(["-n", "0", __file__], "wanted at least 1 rank"), (["-n", "2", "/no/such.py"], "there is no file")],
    )
    def test_wrong_arguments(self, arguments, told, capsys):
        """Are refused before anything starts."""
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert 2 == caught.value.code
        assert told in capsys.readouterr().err


class TestSignals:
    @pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
    def test_they_reach_every_rank(self, script, tmp_path, number, code):
        """Each rank sees Ctrl-C and SIGTERM and may put its things in order."""
        body = (
            "def note(number, frame):\n    print('saw', number); sys.exit(0)\n"
            "signal.signal(signal.SIGINT, note); signal.signal(signal.SIGTERM, note)\n"
            + READY
            + "time.sleep(60)"
        )
        process = start("-m", "tensorpack_lite.launch", "-n", 2, script(body))
        wait_for(tmp_path, 2)
        process.send_signal(number)
        ended = wait(process)
        assert code == ended.code
        assert [f"[0] saw {int(number)}", f"[1] saw {int(number)}"] == sorted(ended.out.splitlines())

    def test_ranks_that_do_not_listen(self, script, tmp_path):
        """And what they started are killed after a while."""
        body = (
            "signal.signal(signal.SIGINT, signal.SIG_IGN); signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
            "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)', __file__])\n"
            + READY
            + "time.sleep(60)"
        )
        process = start("-m", "tensorpack_lite.launch", "-n", 2, script(body))
        wait_for(tmp_path, 2)
        process.send_signal(signal.SIGTERM)
        assert 143 == wait(process).code
        assert [] == running_with(str(tmp_path))

    def test_a_launcher_that_is_killed(self, script, tmp_path):
        """Takes its ranks with it."""
        process = start("-m", "tensorpack_lite.launch", "-n", 2, script(READY + "time.sleep(60)"))
        wait_for(tmp_path, 2)
        process.kill()
        wait(process)
        deadline = time.monotonic() + 5
        while running_with(str(tmp_path)) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert [] == running_with(str(tmp_path))
