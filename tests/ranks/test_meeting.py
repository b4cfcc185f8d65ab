"""ranks/meeting.py and connecting.py: ranks that meet, as threads of one process over real sockets."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from fakes.strangers import SECRET, Attack

from tensorpack_lite.ranks import connecting
from tensorpack_lite.ranks.authentication import Credentials
from tensorpack_lite.ranks.channel import RankChannel
from tensorpack_lite.ranks.cluster import free_ports, parse_address
from tensorpack_lite.ranks.connecting import RankError, hold_port, listen, reach
from tensorpack_lite.ranks.meeting import Machines, gather_machines, plan_meeting
from tensorpack_lite.ranks.rank_info import find_rank_info

TORCHRUN = {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "a", "MASTER_PORT": "29500"}
LOCAL_TORCHRUN = {**TORCHRUN, "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}


@pytest.fixture(autouse=True)
def no_secret(monkeypatch):
    """Remove the secret from the environment."""
    for name in ("TENSORPACK_LITE_SECRET", "TENSORPACK_LITE_SECRET_FILE", "TENSORPACK_RANKS_SECRET"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def meet():
    """Function: let ranks of a job meet, and close them after the test."""
    opened = []

    def make(host, ports, job="", size=2, secret="", time_limit=60.0):
        with ThreadPoolExecutor(size) as pool:
            pending = [
                pool.submit(
                    RankChannel,
                    rank,
                    size,
                    (host, ports[0]),
                    time_limit,
                    credentials=Credentials(secret, job=job),
                    other_ports=ports[1:],
                )
                for rank in range(size)
            ]
            channels = [each.result() for each in pending]
        opened.extend(channels)
        return channels

    yield make
    for channel in opened[::-1]:
        channel.close()


def names_of(monkeypatch, found):
    """Let names of machines be looked up by a function; addresses stay as they are."""
    real = socket.getaddrinfo

    def look_up(host, *args, **kwargs):
        is_name = isinstance(host, str) and host.startswith("node")
        return real(found() if is_name else host, *args, **kwargs)

    monkeypatch.setattr(connecting.socket, "getaddrinfo", look_up)


class TestWhere:
    def test_on_one_machine(self):
        """Ranks on one machine meet at its loopback interface and need no secret."""
        planned = plan_meeting(find_rank_info({**LOCAL_TORCHRUN, "TORCHELASTIC_USE_AGENT_STORE": "True"}))
        assert "127.0.0.1" == planned.address[0]
        assert 7 == len(planned.other_ports)
        told = f"Rank 0: 127.0.0.1, ports {planned.address[1]} and 7 more. Secret: none; only this machine may connect."
        assert told == planned.describe()

    def test_nodes_without_a_secret(self):
        """Without a secret, the nodes of the list may connect, and the log line names them."""
        environ = {
            "SLURM_PROCID": "1", "SLURM_STEP_ID": "0", "SLURM_JOB_ID": "7", "SLURM_STEP_NUM_TASKS": "2",
            "SLURM_STEP_NODELIST": "node[6-7]", "SLURM_STEP_TASKS_PER_NODE": "1(x2)", "SLURM_NODEID": "1",
        }  # fmt: skip
        assert "only this machine, node6, node7 may connect." in plan_meeting(find_rank_info(environ)).describe()

    def test_no_address(self):
        """Ranks that know their number from RANK, but not the address of rank 0, need one, also if all are on this machine."""
        local = {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
        place = find_rank_info({"RANK": "1", "WORLD_SIZE": "2", **local})
        with pytest.raises(ValueError, match="do not tell where they meet. Set TENSORPACK_RANKS_ADDRESS"):
            plan_meeting(place)

    @pytest.mark.parametrize(
        "environ",
        [
            TORCHRUN,
            {"TENSORPACK_RANK": "1", "TENSORPACK_RANKS_SIZE": "2", "TENSORPACK_RANKS_ADDRESS": "a:2222"},
            {
                "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
                "TENSORPACK_RANKS_ADDRESS": "a:2222",
            },
            {"JOB_COMPLETION_INDEX": "1", "TENSORPACK_RANKS_SIZE": "2", "TENSORPACK_RANKS_ADDRESS": "a:2222"},
        ],
        ids=["torchrun", "explicit", "mpirun", "Kubernetes"],
    )  # fmt: skip
    def test_unknown_machines(self, environ, monkeypatch):
        """Ranks on machines whose names are not known need a secret; the error has the command that makes one."""
        place = find_rank_info(environ)
        with pytest.raises(ValueError, match=r"export TENSORPACK_LITE_SECRET=\$\(openssl rand -hex 32\)"):
            plan_meeting(place)
        monkeypatch.setenv("TENSORPACK_LITE_SECRET", SECRET)
        planned = plan_meeting(place)
        assert ("a", "Secret: set.") == (planned.address[0], planned.credentials.describe())
        assert SECRET not in planned.describe() + repr(planned)

    def test_mpi_without_an_address(self):
        """MPI over several machines does not tell where ranks meet; the error has the complete line."""
        mpirun = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}
        told = "mpirun -x TENSORPACK_RANKS_ADDRESS=<host of rank 0>:2222 -x TENSORPACK_LITE_SECRET -np 8 ... python train.py"
        with pytest.raises(ValueError, match="mpirun started 8 ranks, and its variables do not tell") as caught:
            plan_meeting(find_rank_info(mpirun))
        assert str(caught.value).endswith(told)
        mpich = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
        with pytest.raises(ValueError, match="mpiexec -genv TENSORPACK_RANKS_ADDRESS 127.0.0.1:2222 "):
            plan_meeting(find_rank_info(mpich))


class TestMeeting:
    @pytest.mark.slow
    def test_a_port_that_is_taken(self, meet):
        """Rank 0 takes the first port that is free; the other program at the first one is not disturbed."""
        taken, free = free_ports(2)
        with socket.socket() as other:
            other.bind(("127.0.0.1", taken))
            other.listen(5)
            first, second = meet("127.0.0.1", [taken, free])
            assert free == second.ends[1][1]
            assert first.failure is None

    def test_all_ports_are_taken(self):
        """If all ports are taken, the error names the first one and the number of the others."""
        with contextlib.ExitStack() as stack:
            taken = [stack.enter_context(socket.socket()) for _ in range(3)]
            for each in taken:
                each.bind(("127.0.0.1", 0))
                each.listen(1)
            ports = [each.getsockname()[1] for each in taken]
            told = f"cannot listen on 127.0.0.1:{ports[0]} or 2 other ports.*already in use"
            with pytest.raises(RankError, match=told):
                listen("127.0.0.1", ports, 2)

    @pytest.mark.slow
    @pytest.mark.parametrize("secret", ["", SECRET])
    def test_two_jobs_with_the_same_ports(self, meet, secret):
        """Ranks of two jobs with the same ports and the same secret, or none, find their own hub."""
        ports = free_ports(3)
        with ThreadPoolExecutor(2) as pool:
            jobs = [pool.submit(meet, "127.0.0.1", ports, job, 3, secret) for job in ("job 1", "job 2")]
            first, second = [job.result() for job in jobs]
        for job, channels in (("job 1", first), ("job 2", second)):
            with ThreadPoolExecutor(3) as pool:
                assert [[job] * 3] * 3 == list(pool.map(lambda c, job=job: c.all_gather("job", job), channels))

    @pytest.mark.slow
    @pytest.mark.parametrize("secret", ["", SECRET])
    def test_another_attempt(self, meet, secret):
        """A rank of an earlier attempt does not join, and changes nothing for the ranks of this attempt."""
        address, now = ("127.0.0.1", free_ports(1)[0]), Credentials(secret, job="attempt 1")
        with ThreadPoolExecutor(1) as pool:
            pending = pool.submit(RankChannel, 0, 2, address, 60.0, credentials=now)
            with pytest.raises(RankError, match="or to another attempt of this job"):
                RankChannel(1, 2, address, 2.0, credentials=Credentials(secret, job="attempt 0"))
            second = RankChannel(1, 2, address, 60.0, credentials=now)
            first = pending.result()
        assert [None, None] == [first.failure, second.failure]
        second.close()
        first.close()

    def test_a_name_that_is_not_known_yet(self, meet, monkeypatch):
        """A rank looks up the name of rank 0 at each attempt; rank 0 does not need to know its own name."""
        asked = []

        def look_up():
            asked.append(threading.current_thread())
            if len(asked) < 4:
                raise socket.gaierror(-2, "Name or service not known")
            return "127.0.0.1"

        names_of(monkeypatch, look_up)
        first, second = meet("node0", free_ports(2), "job")
        assert 4 == len(asked)
        assert 1 == len(set(asked))
        assert "127.0.0.1" == connecting.plain_host(first.ends[1])
        assert second.failure is None

    def test_a_name_that_is_never_known(self, monkeypatch):
        """A name that stays unknown is an error after the time limit, which says so."""

        def look_up():
            raise socket.gaierror(-2, "Name or service not known")

        names_of(monkeypatch, look_up)
        with pytest.raises(RankError, match="could not reach rank 0 at node0:1.* within 0.3 s.*not known"):
            RankChannel(1, 2, ("node0", 1), 0.3)

    def test_ipv6(self, meet):
        """Ranks meet at an IPv6 address, on the loopback interface only."""
        first, second = meet("::1", free_ports(1))
        assert ["::1"] * 4 == [end[0] for channel in (first, second) for end in channel.ends]

    def test_where_rank_0_listens(self):
        """Rank 0 listens on the loopback interface if its address is there, else on all interfaces, IPv4 and IPv6."""
        port = free_ports(1)[0]
        with listen("127.0.0.1", [port], 2) as local:
            assert "127.0.0.1" == local.getsockname()[0]
        with listen("node0", [port], 2) as wide:
            assert "::" == wide.getsockname()[0]
            for host in ("127.0.0.1", "127.0.1.1", "::1"):
                reach((host, port), 60.0)

    def test_a_hub_at_127_0_1_1(self, meet, monkeypatch):
        """If the name of rank 0 is 127.0.1.1 on its machine, as on Debian, the ranks meet."""
        names_of(monkeypatch, lambda: "127.0.1.1")
        first, second = meet("node0", free_ports(1))
        assert first.failure is None
        assert "127.0.1.1" == connecting.plain_host(second.ends[1])

    def test_random_numbers_stay(self, meet):
        """Waiting for the hub does not change Python's generator, whose numbers belong to the script."""
        random.seed(3)
        with pytest.raises(RankError):
            RankChannel(1, 2, ("127.0.0.1", free_ports(1)[0]), 0.2)
        after = random.random()
        random.seed(3)
        assert random.random() == after

    @pytest.mark.slow
    def test_a_silent_program_at_the_first_port(self, meet):
        """A program that accepts connections and says nothing at the first port delays a rank only briefly."""
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen(50)
            ports = [silent.getsockname()[1], *free_ports(1)]
            first, second = meet("127.0.0.1", ports, time_limit=60.0)
            assert ports[1] == second.ends[1][1]
            assert first.failure is None

    @pytest.mark.parametrize("number", [500, pytest.param(10_000, marks=pytest.mark.slow)])
    def test_strangers(self, meet, number):
        """Hostile connections at all ports, before and during the meeting, do not keep the ranks from meeting."""
        ports = free_ports(3)
        attacks, is_half_over = [Attack(("127.0.0.1", port)) for port in ports], threading.Event()

        def attack():
            for part in range(number // 30):
                for each in attacks:
                    each.run(10)
                if part == number // 60:
                    is_half_over.set()

        attacker = threading.Thread(target=attack)
        with ThreadPoolExecutor(3) as pool:

            def start(rank):
                return pool.submit(
                    RankChannel, rank, 3, ("127.0.0.1", ports[0]), 120.0,
                    credentials=Credentials(SECRET, job="job"), other_ports=ports[1:],
                )  # fmt: skip

            pending = [start(0), start(1)]
            attacker.start()
            is_half_over.wait()
            pending.append(start(2))
            channels = [each.result() for each in pending]
        attacker.join()
        for each in attacks:
            each.close()
        assert [None] * 3 == [channel.failure for channel in channels]
        for channel in channels[::-1]:
            channel.close()


class TestMachines:
    @pytest.mark.slow
    def test_one_machine(self, meet):
        """The addresses of ranks on one machine are those of the loopback interface."""
        channels = meet("127.0.0.1", free_ports(1), size=3)
        with ThreadPoolExecutor(3) as pool:
            found = list(pool.map(gather_machines, channels, [11, 12, 13]))
        assert ["127.0.0.1:11", "127.0.0.1:12", "127.0.0.1:13"] == found[0].addresses
        assert found[0] == found[1] == found[2]
        assert [(0, 3), (1, 3), (2, 3)] == [found[0].local(rank) for rank in range(3)]
        cluster = found[0].cluster(2)
        assert (2, 3, "/job:worker/replica:0/task:0") == (cluster.rank, cluster.size, cluster.leader)

    @pytest.mark.parametrize(
        ("ends", "hosts"),
        [
            # rank 0 and 1 on one machine, whose name is 127.0.1.1 there; rank 2 elsewhere
            ([("127.0.0.1", "127.0.0.1"), ("127.0.0.1", "127.0.1.1"), ("10.0.0.2", "10.0.0.1")], ["10.0.0.1", "10.0.0.1", "10.0.0.2"]),
            # rank 1 reaches the hub by an address of rank 1's machine
            ([("127.0.0.1", "127.0.0.1"), ("10.0.0.1", "10.0.0.1"), ("10.0.0.2", "10.0.0.1")], ["10.0.0.1", "10.0.0.1", "10.0.0.2"]),
            ([("::1", "::1"), ("fd00::2", "fd00::1"), ("fd00::3", "fd00::1")], ["fd00::1", "fd00::2", "fd00::3"]),
            ([("127.0.0.1", "127.0.0.1"), ("::ffff:10.0.0.2", "::ffff:10.0.0.1")], ["10.0.0.1", "10.0.0.2"]),
        ],
    )  # fmt: skip
    def test_several_machines(self, ends, hosts):
        """Rank 0, and ranks that reach it over the loopback interface, have the address at which others reach it."""

        class Channel:
            """A channel of the first rank, whose other ranks have these ends."""

            ends = [(host, 0) for host in ("127.0.0.1", "127.0.0.1")]

            def all_gather(self, name, value):
                plain = [[connecting.plain_host([host]) for host in pair] for pair in given]
                return [[*pair, "name", 5] for pair in plain]

        given = ends
        found = gather_machines(Channel(), 5)
        assert hosts == [parse_address(address)[0] for address in found.addresses]

    def test_local_ranks(self):
        """Ranks are local by the names of their machines, in the order of ranks."""
        machines = Machines(["a:1"] * 5, ["x", "y", "x", "y", "x"])
        assert [(0, 3), (0, 2), (1, 3), (1, 2), (2, 3)] == [machines.local(rank) for rank in range(5)]


class TestHeldPorts:
    def test_a_server_may_listen(self):
        """While a socket holds a port, no other program gets it, and a server of this process may listen there."""
        with hold_port([0]) as held:
            port = held.getsockname()[1]
            with socket.socket() as other, pytest.raises(OSError, match="in use"):
                other.bind(("127.0.0.1", port))
            with listen("node0", [port], 1):
                reach(("127.0.0.1", port), 60.0)

    def test_a_range(self):
        """The first port of a range that is free is held."""
        first, second = sorted(free_ports(2))
        with hold_port([first, second]) as one, hold_port([first, second]) as other:
            assert [first, second] == [each.getsockname()[1] for each in (one, other)]
            with pytest.raises(OSError, match="in use"):
                hold_port([first, second])

    def test_a_server_that_cannot_be_reached(self):
        """A server that was not started is an OSError after the time limit."""
        with pytest.raises(ConnectionRefusedError):
            reach(("127.0.0.1", free_ports(1)[0]), 0.1)
