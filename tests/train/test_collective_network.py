"""Reaching the servers of a training from outside: real processes, and network namespaces as machines."""

from __future__ import annotations

import json
import socket
import sys
import threading

import pytest
from fakes import machine
from fakes.launching import CASES, SCRIPT, launch, start, start_command, wait
from fakes.rank_cases import weights
from fakes.strangers import SECRET, Attack

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.ranks.cluster import Cluster, free_ports
from tensorpack_lite.train import collective


@pytest.fixture(scope="module")
def namespaces():
    """Skip the test if the kernel or the container does not allow network namespaces."""
    reason = machine.why_not()
    if reason:
        pytest.skip(reason)


@pytest.mark.slow
class TestOtherMachines:
    def reached(self, *options):
        """Connect from another machine to the servers of two ranks, and return the results."""
        command = machine.command(4, "-m", "tensorpack_lite.launch", "-n", 2, *options, CASES, "serving")
        ended = wait(start_command(command))
        found = dict(line.split() for line in ended.out.splitlines())
        assert 4 == len(found), ended.out + ended.err
        return found

    @pytest.mark.any_tensorflow
    def test_ranks_of_one_machine(self, namespaces):
        """Other machines cannot reach TensorFlow's servers of local ranks, but can reach a server on every interface."""
        found = self.reached()
        assert ["refused", "refused"] == [found[f"tensorflow-{rank}"] for rank in range(2)]
        assert ["reached", "reached"] == [found[f"plain-{rank}"] for rank in range(2)]

    def test_isolated_ranks(self, namespaces):
        """Other machines cannot reach any server of isolated ranks."""
        assert {"refused"} == set(self.reached("--isolate").values())


@pytest.mark.slow
class TestIsolate:
    @pytest.mark.proof
    def test_a_training(self, namespaces, tmp_path):
        """Isolated ranks finish their training, and the launcher says that they are isolated."""
        ended = launch(2, SCRIPT, "collective", tmp_path, options=["--isolate"])
        assert 0 == ended.code, ended.out + ended.err
        assert "launch: the ranks run in a private network." in ended.err
        first, second = weights(tmp_path, 0, 2), weights(tmp_path, 1, 2)
        assert 20 == first["global_step"]
        assert [] == [name for name in first if (first[name] != second[name]).any()]

    def test_other_processes_of_this_machine(self, namespaces, tmp_path):
        """Other processes of this machine cannot reach a server of an isolated rank."""
        script = tmp_path / "script.py"
        script.write_text(
            "import signal, socket\nserver = socket.socket()\nserver.bind(('127.0.0.1', 0))\nserver.listen(5)\n"
            "socket.create_connection(server.getsockname()).close()\n"
            "print(server.getsockname()[1], flush=True)\nsignal.pause()\n"
        )
        process = start("-m", "tensorpack_lite.launch", "-n", 1, "--isolate", script)
        port = int(process.stdout.readline().split()[1])
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        process.terminate()
        assert 143 == wait(process).code

    def test_where_it_is_forbidden(self, namespaces, tmp_path):
        """Where namespaces are forbidden, the launcher ends with code 2 and an error before it starts a rank."""
        forbid = "echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set -sys_admin --inh-caps -sys_admin "
        run = f"'{sys.executable}' -W ignore -m tensorpack_lite.launch -n 2 --isolate '{CASES}' serving"
        ended = wait(start_command(["unshare", "--map-root-user", "sh", "-c", forbid + run]))
        assert 2 == ended.code
        assert "--isolate: this kernel or container does not allow a private network" in ended.err
        assert "" == ended.out


class TestWithoutPermission:
    def test_warning(self, monkeypatch, log_lines):
        """If the server cannot be bound to the loopback interface, training continues with a warning that names the port."""

        def refuse(port):
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr(collective, "restrict_to_loopback", refuse)
        port = free_ports(1)[0]
        cluster = Cluster({"worker": [f"127.0.0.1:{port}"]}, "worker", 0)
        assert str(port) in collective._serve(cluster, tf.ConfigProto()).target
        told = [line for line in log_lines if "listens" in line]
        assert 1 == len(told)
        assert f"at port {port} of every network interface" in told[0]
        assert "Operation not permitted" in told[0]
        assert "--isolate" in told[0]


@pytest.mark.proof
class TestUnderAttack:
    def test_a_training(self, tmp_path):
        """An attack on the ranks' channel during the whole training does not change the weights."""
        ports = free_ports(3)
        cluster = {"worker": [f"127.0.0.1:{port}" for port in ports[:2]]}
        places = [
            {
                "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": rank}}),
                "TENSORPACK_RANKS_ADDRESS": f"127.0.0.1:{ports[2]}",
                "TENSORPACK_LITE_SECRET": SECRET,
            }
            for rank in range(2)
        ]
        attack, is_over = Attack(("127.0.0.1", ports[2])), threading.Event()

        def attack_repeatedly():
            while not is_over.is_set():
                attack.run(100)

        attacker = threading.Thread(target=attack_repeatedly)
        attacker.start()
        try:
            ranks = [start(SCRIPT, "collective", tmp_path / "attacked", "", "60", **place) for place in places]
            ended = [wait(rank) for rank in ranks]
        finally:
            is_over.set()
            attacker.join()
            attack.close()
        assert [0, 0] == [each.code for each in ended], ended[0].err + ended[1].err
        assert 0 == launch(2, SCRIPT, "collective", tmp_path / "quiet").code
        attacked, quiet = [weights(tmp_path / name, 1, 2) for name in ("attacked", "quiet")]
        assert [] == [name for name in quiet if (attacked[name] != quiet[name]).any()]
