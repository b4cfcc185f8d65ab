"""launch.py starts local ranks as processes. The ranks of these tests do not use TensorFlow."""

from __future__ import annotations

import ast
import json
import signal
import time

import pytest
from fakes.launching import launch, running_with, start, wait

from tensorpack_lite.launch import main

pytestmark = [pytest.mark.slow, pytest.mark.any_tensorflow]  # each starts processes that import the library


@pytest.fixture
def script(tmp_path):
    """Return a function that writes a script, which finds its number in `rank`, and returns its path."""

    def write(body):
        path = tmp_path / "script.py"
        head = "import json, os, signal, subprocess, sys, time\nrank = json.loads(os.environ['TF_CONFIG'])['task']['index']\n"
        path.write_text(head + body, encoding="utf-8")
        return str(path)

    return write


def wait_for(path, count):
    """Wait until `count` ranks are ready."""
    deadline = time.monotonic() + 30
    while len(list(path.glob("ready-*"))) < count:
        assert time.monotonic() < deadline
        time.sleep(0.02)


READY = "open(os.path.join(os.path.dirname(__file__), f'ready-{rank}'), 'w').close()\n"


class TestRunning:
    def test_tf_config_and_arguments(self, script):
        """TF_CONFIG has K workers with distinct ports, and all arguments after the script are passed to it."""
        ended = launch(3, script("print(os.environ['TF_CONFIG'], sys.argv[1:])"), "a", "-n", "5")
        lines = sorted(line for line in ended.out.splitlines() if line.startswith("["))
        assert 0 == ended.code
        assert ["[0]", "[1]", "[2]"] == [line.split()[0] for line in lines]
        assert all(line.endswith("['a', '-n', '5']") for line in lines)
        workers = json.loads(lines[0].partition(" ")[2].rpartition(" [")[0])["cluster"]["worker"]
        assert 3 == len(set(workers))

    def test_variables_of_horovod(self, script):
        """The variables of Horovod have the rank's place, the rendezvous server, and an interface that the user may set."""
        names = "RANK SIZE LOCAL_RANK LOCAL_SIZE CROSS_RANK CROSS_SIZE CONTROLLER GLOO_IFACE GLOO_RENDEZVOUS_PORT"
        body = f"print([os.environ['HOROVOD_' + name] for name in '{names}'.split()])"
        process = start("-m", "tensorpack_lite.launch", "-n", 2, script(body), HOROVOD_GLOO_IFACE="mine0")
        first, second = [ast.literal_eval(line[4:]) for line in sorted(wait(process).out.splitlines())]
        assert ["0", "2", "0", "2", "0", "1", "gloo", "mine0"] == first[:8]
        assert ["1", "2", "1", "2", "0", "1", "gloo", "mine0"] == second[:8]
        assert first[8] == second[8]

    def test_the_rendezvous_server(self, script):
        """Ranks exchange values through the launcher's rendezvous server."""
        body = (
            "from tensorpack_lite.ranks.rendezvous import RendezvousStore\n"
            "port = int(os.environ['HOROVOD_GLOO_RENDEZVOUS_PORT'])\n"
            "store = RendezvousStore(os.environ['HOROVOD_GLOO_RENDEZVOUS_ADDR'], port, 'test')\n"
            "store.put(str(rank), f'from {rank}')\n"
            "print(store.wait(str(1 - rank), 20.0))"
        )
        assert ["[0] from 1", "[1] from 0"] == sorted(launch(2, script(body)).out.splitlines())

    def test_output(self, script, tmp_path):
        """Each line has the number of its rank; a carriage return and the end of the output also end a line."""
        body = "sys.stdout.write('one\\rtwo\\nrest'); sys.stdout.flush(); sys.stderr.write('hurt\\n')"
        ended = launch(1, script(body), options=["--log-dir", str(tmp_path / "logs")])
        assert ["[0] one", "[0] two", "[0] rest"] == ended.out.splitlines()
        assert "[0] hurt" in ended.err
        written = (tmp_path / "logs" / "rank-0.log").read_text().split()
        assert ["hurt", "one", "rest", "two"] == sorted(written)


class TestFailures:
    def test_the_first_error_is_printed_last(self, script, tmp_path):
        """When a rank fails, all ranks end. Its error is printed last, and the launcher has its exit code."""
        body = "if rank == 1:\n    sys.stderr.write('planted\\n'); sys.exit(7)\ntime.sleep(60)"
        ended = launch(2, script(body))
        assert 7 == ended.code
        assert "launch: rank 1 failed first, with exit code 7." in ended.err
        assert "planted" == ended.err.splitlines()[-1]
        assert [] == running_with(str(tmp_path))

    def test_a_rank_that_reports_the_failure_of_another(self, script):
        """A rank that ends with code 128, because of another one, is not reported as the first, even if it ends sooner."""
        body = (
            "if rank == 1:\n    time.sleep(0.5); sys.stderr.write('cause\\n'); sys.exit(3)\n"
            "sys.stderr.write('rank 1 ...\\n'); sys.exit(128)"
        )
        ended = launch(2, script(body))
        assert 3 == ended.code
        assert "cause" == ended.err.splitlines()[-1]

    def test_a_rank_that_is_killed(self, script):
        """The exit code of a killed rank is 128 + the signal, as in a shell."""
        ended = launch(2, script("if rank == 0:\n    os.kill(os.getpid(), 9)\ntime.sleep(60)"))
        assert 137 == ended.code
        assert "rank 0 failed first, killed by SIGKILL" in ended.err

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (["-n", "0", __file__], "expected at least 1 rank, got 0"),
            (["-n", "2", "/no/such.py"], "the file /no/such.py does not exist"),
            (
                ["-n", "2", "--restarts", "-1", __file__],
                "expected --grace and --restarts >= 0, got 30 and -1",
            ),
        ],
    )
    def test_wrong_arguments(self, arguments, told, capsys):
        """Wrong arguments are refused before a rank starts."""
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert 2 == caught.value.code
        assert told in capsys.readouterr().err


class TestSignals:
    @pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
    def test_they_reach_every_rank(self, script, tmp_path, number, code):
        """Ctrl-C and SIGTERM are forwarded to each rank, which can clean up."""
        body = (
            "def note(number, frame):\n    print('saw', number); sys.exit(0)\n"
            "signal.signal(signal.SIGINT, note); signal.signal(signal.SIGTERM, note)\n" + READY + "time.sleep(60)"
        )
        process = start("-m", "tensorpack_lite.launch", "-n", 2, script(body))
        wait_for(tmp_path, 2)
        process.send_signal(number)
        ended = wait(process)
        assert code == ended.code
        assert [f"[0] saw {int(number)}", f"[1] saw {int(number)}"] == sorted(ended.out.splitlines())

    def test_ranks_that_ignore_signals(self, script, tmp_path):
        """Ranks that ignore signals are killed, with the processes that they started."""
        body = (
            "signal.signal(signal.SIGINT, signal.SIG_IGN); signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
            "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)', __file__])\n"
            + READY
            + "time.sleep(60)"
        )
        process = start("-m", "tensorpack_lite.launch", "-n", 2, "--grace", 1, script(body))
        wait_for(tmp_path, 2)
        process.send_signal(signal.SIGTERM)
        assert 143 == wait(process).code
        assert [] == running_with(str(tmp_path))

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
    def test_ranks_that_save(self, script, tmp_path, number):
        """The ranks get SIGTERM and SIGUSR1 once, without their workers, and have the grace to save. The exit code is 143."""
        body = (
            "worker = subprocess.Popen(['sleep', '60'])\n"
            "def save(number, frame):\n"
            "    time.sleep(4); print('saved', worker.poll()); sys.exit(143)\n"
            "signal.signal(signal.SIGTERM, save); signal.signal(signal.SIGUSR1, save)\n"
            + READY
            + "while True: time.sleep(0.1)"
        )
        process = start("-m", "tensorpack_lite.launch", "-n", 2, "--restarts", 3, script(body))
        wait_for(tmp_path, 2)
        process.send_signal(number)
        ended = wait(process)
        assert 143 == ended.code
        assert ["[0] saved None", "[1] saved None"] == sorted(ended.out.splitlines())
        assert "restart" not in ended.err

    def test_one_rank_that_gets_the_signal(self, script):
        """If a rank ends with 143, the others get SIGTERM, and the launcher ends with 143 and starts none again."""
        body = "if rank == 1:\n    time.sleep(0.3); sys.exit(143)\ntime.sleep(60)"
        ended = launch(2, script(body), options=["--restarts", "3"])
        assert 143 == ended.code
        assert "launch: a rank has ended with exit code 143, after a signal" in ended.err

    def test_a_launcher_that_is_killed(self, script, tmp_path):
        """The ranks of a killed launcher end."""
        process = start("-m", "tensorpack_lite.launch", "-n", 2, script(READY + "time.sleep(60)"))
        wait_for(tmp_path, 2)
        process.kill()
        wait(process)
        deadline = time.monotonic() + 5
        while running_with(str(tmp_path)) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert [] == running_with(str(tmp_path))


class TestRestarts:
    COUNT = (
        "path = os.path.join(os.path.dirname(__file__), f'starts-{rank}')\n"
        "open(path, 'a').write('.'); starts = os.path.getsize(path)\n"
    )

    def test_all_ranks_start_again(self, script, tmp_path):
        """After a rank has failed, all ranks start again. The exit code is that of the last start, and the logs have all starts."""
        body = (
            self.COUNT
            + "assert os.environ['TENSORPACK_RANKS_RESTART'] == str(starts - 1)\n"
            + "print('start', starts)\nif starts < 3 and rank == 1: sys.exit(f'failed in {starts * \"x\"}')"
        )
        ended = launch(2, script(body), options=["--restarts", "2", "--log-dir", str(tmp_path / "logs")])
        assert 0 == ended.code, ended.err
        assert "launch: restart 2 of 2, from the last checkpoint" in ended.err
        assert ["...", "..."] == [(tmp_path / f"starts-{rank}").read_text() for rank in (0, 1)]
        assert "start 1" in (tmp_path / "logs" / "rank-0.log").read_text()

    def test_no_more_than_allowed(self, script, tmp_path):
        """After the last restart, the launcher ends with the exit code of the failure."""
        ended = launch(1, script(self.COUNT + "sys.exit(starts)"), options=["--restarts", "1"])
        assert 2 == ended.code
        assert ".." == (tmp_path / "starts-0").read_text()

    @pytest.mark.parametrize(
        ("step", "num_starts"), [("10", 2), ("10 * starts", 4)], ids=["the same step", "another step"]
    )
    def test_the_same_error_twice(self, script, tmp_path, step, num_starts):
        """The same error at the same step is not tried a third time. Numbers of processes in its text do not matter."""
        body = (
            self.COUNT + f"print(f'[1122 @shutdown.py:70] ERR Training failed at global_step={{{step}}}: "
            "ValueError: worker (pid {os.getpid()})')\nsys.exit(1)"
        )
        ended = launch(1, script(body), options=["--restarts", "3"])
        assert 1 == ended.code
        assert num_starts * "." == (tmp_path / "starts-0").read_text()
        assert ("the same error has occurred twice at the same step" in ended.err) == (num_starts == 2)

    def test_a_killed_rank_without_a_new_checkpoint(self, script, tmp_path):
        """For a rank that is killed, the step is that of the newest checkpoint."""
        body = (
            self.COUNT + "if starts < 3: print(f'[1122 @saver.py:113] Model saved to /x/model-{starts}.', flush=True)\n"
            "os.kill(os.getpid(), 9)"
        )
        assert 137 == launch(1, script(body), options=["--restarts", "9"]).code
        assert "..." == (tmp_path / "starts-0").read_text()
