"""ranks/rank_info.py and node_list.py: the place of a process, from the environments of launchers, which were recorded from real runs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fakes.processes import python_environment

from tensorpack_lite.ranks.node_list import expand_counts, expand_node_list
from tensorpack_lite.ranks.rank_info import find_rank_info, find_remark, port_range
from tensorpack_lite.utils.own_rank import find_given_rank

RECORDED = Path(__file__).parent / "environments"
TORCHRUN = {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "a", "MASTER_PORT": "29500"}
EXPLICIT = {
    "TENSORPACK_RANK": "1",
    "TENSORPACK_RANKS_SIZE": "2",
    "TENSORPACK_RANKS_ADDRESS": "a:2222",
}
PODS = {"JOB_COMPLETION_INDEX": "1", "TENSORPACK_RANKS_SIZE": "3"}


def recorded(name):
    """Return the environment of a process that a launcher has started."""
    return json.loads((RECORDED / f"{name}.json").read_text())


def tf_config(index, *addresses):
    return {
        "TF_CONFIG": json.dumps({"cluster": {"worker": list(addresses)}, "task": {"type": "worker", "index": index}})
    }


class TestLaunchers:
    @pytest.mark.parametrize(
        ("name", "launcher", "size", "local", "host"),
        [
            ("srun", "srun", 2, [(0, 1), (0, 1)], "node1"),
            ("srun_pmi2", "srun", 2, [(0, 1), (0, 1)], "node1"),
            ("openmpi", "mpirun", 2, [(0, 2), (1, 2)], "127.0.0.1"),
            ("openmpi_in_slurm", "mpirun", 4, [(0, 2), (1, 2), (0, 2), (1, 2)], "node1"),
            ("mpich_in_slurm", "mpiexec", 4, [(0, 2), (1, 2), (0, 2), (1, 2)], "node1"),
            ("torchrun", "torchrun", 2, [(0, 2), (1, 2)], "127.0.0.1"),
        ],
    )
    def test_all_ranks(self, name, launcher, size, local, host):
        """All ranks of a job have the same size, job, host and ports, and different ranks."""
        places = [find_rank_info(recorded(f"{name}-{rank}")) for rank in range(size)]
        assert list(range(size)) == [place.rank for place in places]
        assert local == [(place.local_rank, place.local_size) for place in places]
        assert {(launcher, size, host, 8)} == {(p.launcher, p.size, p.host, len(set(p.ports))) for p in places}
        assert 1 == len({(place.job, place.ports, place.hosts) for place in places})
        given = [find_given_rank(recorded(f"{name}-{rank}")) for rank in range(size)]
        assert [(rank, size) for rank in range(size)] == [(each.rank, each.size) for each in given]

    def test_hosts(self):
        """The names of the nodes are those of the step, or of the job for MPI, whose step has only the nodes of its daemons."""
        assert ("node1", "node2") == find_rank_info(recorded("srun-0")).hosts
        for rank in range(4):
            assert ("node1", "node2") == find_rank_info(recorded(f"openmpi_in_slurm-{rank}")).hosts

    def test_the_host_of_each_rank(self):
        """Which rank runs on which host is known from TF_CONFIG, and from SLURM if it fills one node after the other."""
        step = {"SLURM_STEP_NUM_TASKS": "3", "SLURM_STEP_TASKS_PER_NODE": "2,1"}
        assert ("node1", "node1", "node2") == find_rank_info({**recorded("srun-1"), **step}).rank_hosts
        cyclic = {**recorded("srun-1"), **step, "SLURM_DISTRIBUTION": "cyclic"}
        assert ((), ("node1", "node2")) == (find_rank_info(cyclic).rank_hosts, find_rank_info(cyclic).hosts)
        assert ("a", "b") == find_rank_info(tf_config(1, "a:2222", "b:2222")).rank_hosts
        assert () == find_rank_info(recorded("openmpi_in_slurm-0")).rank_hosts

    def test_mpich_on_one_machine(self):
        """MPICH does not name its jobs, so the place of its ranks has no host unless one is given."""
        place = find_rank_info(recorded("mpich-1"))
        assert (1, 2, 1, 2, "") == (place.rank, place.size, place.local_rank, place.local_size, place.host)
        given = find_rank_info({**recorded("mpich-1"), "TENSORPACK_RANKS_ADDRESS": "127.0.0.1:2222"})
        assert ("127.0.0.1", (2222,)) == (given.host, given.ports)

    def test_several_nodes(self):
        """The number of tasks on a node of a SLURM step is that of this node."""
        step = {"SLURM_STEP_NUM_TASKS": "5", "SLURM_STEP_TASKS_PER_NODE": "2(x2),1"}
        places = [
            find_rank_info({**recorded("srun-1"), **step, "SLURM_NODEID": str(node)}).local_size for node in range(3)
        ]
        assert [2, 2, 1] == places

    def test_restarts_of_slurm(self):
        """A requeued job has another name, so ranks of its attempts do not meet."""
        first = find_rank_info(recorded("srun-1"))
        again = find_rank_info({**recorded("srun-1"), "SLURM_RESTART_COUNT": "1"})
        assert 1 == again.restart
        assert (first.job, first.ports) != (again.job, again.ports)
        assert "started by srun (job 1, step 0, restart 1)." in again.describe("node2")

    def test_torchrun_on_several_machines(self):
        """Ranks meet at `MASTER_PORT` unless the agent listens there; the restart count, which may differ, is not in the name."""
        first = find_rank_info({**TORCHRUN, "TORCHELASTIC_RUN_ID": "run7", "TORCHELASTIC_RESTART_COUNT": "0"})
        assert ("a", (29500,), ("run run7",)) == (first.host, first.ports, first.details)
        agent = {**TORCHRUN, "TORCHELASTIC_USE_AGENT_STORE": "True"}
        assert 8 == len(find_rank_info(agent).ports)
        assert 29500 not in find_rank_info(agent).ports
        second = find_rank_info({**TORCHRUN, "TORCHELASTIC_RUN_ID": "run7", "TORCHELASTIC_RESTART_COUNT": "1"})
        assert first.job == second.job
        assert [0, 1] == [first.restart, second.restart]

    def test_tf_config(self):
        """The cluster of TF_CONFIG gives hosts and local ranks; its usual port comes before the others."""
        place = find_rank_info(tf_config(2, "a:2222", "b:2222", "b:2223"))
        assert (2, 3, 1, 2, "a") == (place.rank, place.size, place.local_rank, place.local_size, place.host)
        assert (2224, 8, ("a", "b", "b")) == (place.ports[0], len(place.ports), place.hosts)
        assert "Rank 2 of 3 (local 1 of 2) on b, according to TF_CONFIG." == place.describe("b")
        with pytest.raises(ValueError, match="TF_CONFIG: cannot be parsed"):
            find_rank_info({"TF_CONFIG": "{"})

    def test_kubernetes(self):
        """The index of a pod is a rank only if the size is set, because most Indexed Jobs are independent work."""
        assert find_rank_info({"JOB_COMPLETION_INDEX": "1"}) is None
        place = find_rank_info({**PODS, "TENSORPACK_RANKS_ADDRESS": "train-0.train:2222"})
        assert (1, 3, "Kubernetes", "train-0.train", (2222,)) == (
            place.rank, place.size, place.launcher, place.host, place.ports,
        )  # fmt: skip

    def test_horovodrun(self):
        """Ranks of horovodrun on one machine meet there."""
        names = {
            "HOROVOD_RANK": "1",
            "HOROVOD_SIZE": "2",
            "HOROVOD_LOCAL_RANK": "1",
            "HOROVOD_LOCAL_SIZE": "2",
        }
        place = find_rank_info(names)
        assert ("horovodrun", 1, "127.0.0.1", 8) == (place.launcher, place.rank, place.host, len(place.ports))


class TestSeveralSources:
    def test_the_nearest_counts(self):
        """`TENSORPACK_RANK` comes before TF_CONFIG, torchrun, Open MPI and SLURM, in this order; those that disagree are named."""
        everything = {
            **recorded("srun-0"),
            **recorded("openmpi-1"),
            **TORCHRUN,
            **tf_config(2, "a:1", "b:1", "c:1"),
            **EXPLICIT,
        }
        seen = []
        while True:
            place = find_rank_info(everything)
            seen.append((place.launcher, place.rank, place.size, place.ignored))
            if place.launcher == "srun":
                break
            drop = {
                "TENSORPACK_RANK": list(EXPLICIT),
                "TF_CONFIG": ["TF_CONFIG"],
                "torchrun": list(TORCHRUN),
                "mpirun": list(recorded("openmpi-1")),
            }[place.launcher]
            everything = {name: text for name, text in everything.items() if name not in drop}
        assert [
            ("TENSORPACK_RANK", 1, 2, ("TF_CONFIG", "RANK", "SLURM_PROCID")),
            ("TF_CONFIG", 2, 3, ("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")),
            ("torchrun", 1, 4, ("OMPI_COMM_WORLD_RANK", "SLURM_PROCID")),
            ("mpirun", 1, 2, ("SLURM_PROCID",)),
            ("srun", 0, 2, ()),
        ] == seen

    def test_a_given_address(self):
        """`TENSORPACK_RANKS_ADDRESS` overrides the address of each source."""
        given = {"TENSORPACK_RANKS_ADDRESS": "[fd00::1]:77"}
        for environ in (
            recorded("srun-1"),
            recorded("openmpi-1"),
            TORCHRUN,
            tf_config(1, "a:1", "b:1"),
            {**PODS},
        ):
            place = find_rank_info({**environ, **given})
            assert ("fd00::1", (77,)) == (place.host, place.ports)

    def test_one_process(self):
        """One process that torchrun has started inside a step of SLURM is alone, and its place names the variables of SLURM."""
        place = find_rank_info({**recorded("srun-1"), **TORCHRUN, "RANK": "0", "WORLD_SIZE": "1"})
        assert (1, "torchrun", ("SLURM_PROCID",)) == (place.size, place.launcher, place.ignored)

    @pytest.mark.parametrize("name", ["srun-1", "openmpi-1", "torchrun-1", "mpich-1"])
    def test_turned_off(self, name):
        """With `TENSORPACK_RANKS_SIZE=1`, processes that were started together train separately."""
        environ = {**recorded(name), "TENSORPACK_RANKS_SIZE": "1"}
        assert find_rank_info(environ) is None
        assert "" == find_remark(environ)

    def test_alone(self):
        """A process that nothing has started together with others has no place, and gets no remark."""
        assert find_rank_info({"PATH": "/bin"}) is None
        assert "" == find_remark({"PATH": "/bin"})


class TestMistakes:
    @pytest.mark.parametrize(
        ("environ", "told"),
        [
            ({**TORCHRUN, "RANK": "4"}, "RANK=4 is not below WORLD_SIZE=4 (torchrun)"),
            ({**EXPLICIT, "TENSORPACK_RANKS_ADDRESS": ""}, "Set TENSORPACK_RANKS_ADDRESS=host:port"),
            (PODS, "JOB_COMPLETION_INDEX=1 is set, but not where the ranks meet."),
            (
                {**EXPLICIT, "TENSORPACK_RANKS_ADDRESS": "a"},
                "TENSORPACK_RANKS_ADDRESS: expected an address host:port or [IPv6 address]:port, got 'a'",
            ),
            ({**TORCHRUN, "TENSORPACK_RANKS_PORTS": "9000"}, "TENSORPACK_RANKS_PORTS: expected two ports"),
            ({**TORCHRUN, "TENSORPACK_RANKS_PORTS": "9000-80"}, "TENSORPACK_RANKS_PORTS: expected two ports"),
            ({"TENSORPACK_RANKS_SIZE": "2"}, "no variable has the rank of this process"),
        ],
    )
    def test_errors(self, environ, told):
        """A mistake in the variables is a ValueError that names them."""
        with pytest.raises(ValueError, match=re.escape(told)):
            find_rank_info(environ)

    def test_heterogeneous_jobs(self):
        """A heterogeneous job of SLURM is a ValueError."""
        with pytest.raises(ValueError, match="heterogeneous jobs are not supported .*SLURM_HET_SIZE=1, got 2"):
            find_rank_info({**recorded("srun-1"), "SLURM_HET_SIZE": "2"})

    def test_a_batch_script(self):
        """A process of a batch script is alone, and a remark shows how to start the allocated tasks."""
        environ = recorded("batch-0")
        assert find_rank_info(environ) is None
        assert (
            "SLURM allocated 4 tasks, but this process was not started by srun, so it trains alone. To use them: srun python train.py"
            == find_remark(environ)
        )
        assert "" == find_remark({**environ, "SLURM_NTASKS": "1"})


class TestPorts:
    def test_candidates(self):
        """Eight different ports below those of the kernel depend on the name of the job."""
        first, second = [
            find_rank_info({**TORCHRUN, "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RUN_ID": run})
            for run in "ab"
        ]
        for ports in (first.ports, second.ports):
            assert 8 == len(set(ports))
            assert all(20000 <= port < 28000 for port in ports)
        assert first.ports != second.ports

    def test_a_range(self):
        """`TENSORPACK_RANKS_PORTS` contains the ports, all of them if there are fewer than eight."""
        ports = find_rank_info({**recorded("srun-1"), "TENSORPACK_RANKS_PORTS": "9000-9002"}).ports
        assert {9000, 9001, 9002} == set(ports)
        ports = find_rank_info({**tf_config(1, "a:1", "b:1"), "TENSORPACK_RANKS_PORTS": "9000-9999"}).ports
        assert 8 == len(set(ports))
        assert all(9000 <= port < 10000 for port in ports)
        assert range(9000, 10000) == port_range({"TENSORPACK_RANKS_PORTS": "9000-9999"})


class TestNodeLists:
    @pytest.mark.parametrize(
        ("text", "names"),
        [
            ("", []),
            ("a", ["a"]),
            ("a,b", ["a", "b"]),
            ("a[1-3,7],b-[01-03]x,c", ["a1", "a2", "a3", "a7", "b-01x", "b-02x", "b-03x", "c"]),
            ("n[098-101]", ["n098", "n099", "n100", "n101"]),
            ("r[1-2]n[0-1]", ["r1n0", "r1n1", "r2n0", "r2n1"]),
        ],
    )
    def test_names(self, text, names):
        """A list is expanded as by `scontrol show hostnames`."""
        assert names == expand_node_list(text)

    def test_counts(self):
        """Numbers of tasks may be repeated."""
        assert [2, 2, 2, 1] == expand_counts("2(x3),1")
        assert [4] == expand_counts("4")


@pytest.mark.slow
def test_what_it_needs():
    """Finding a place opens no file or socket, starts no process, and imports neither TensorFlow nor NumPy."""
    script = (
        "import sys\n"
        "from tensorpack_lite.ranks.rank_info import find_rank_info\n"
        "seen = []\n"
        "sys.addaudithook(lambda event, args: seen.append(event))\n"
        "place = find_rank_info({'RANK': '1', 'WORLD_SIZE': '2', 'MASTER_ADDR': 'a', 'MASTER_PORT': '1'})\n"
        "events = [e for e in seen if e.split('.')[0] in ('open', 'socket', 'subprocess', 'os', 'import')]\n"
        "print(place.rank, events, [name for name in ('numpy', 'tensorflow') if name in sys.modules])\n"
    )
    if sys.version_info < (3, 8):
        pytest.skip("needs audit hooks")
    out = subprocess.run(
        [sys.executable, "-c", script], env=python_environment(), stdout=subprocess.PIPE, check=True
    ).stdout
    assert "1 [] []\n" == out.decode()
