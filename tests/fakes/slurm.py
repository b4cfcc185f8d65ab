"""A SLURM cluster on the machines of a test: munged, slurmctld and one slurmd for each machine, without systemd."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, Sequence

from fakes.patience import PATIENCE

from .machines import Machine, make_machines

__all__ = ["Slurm", "make_slurm"]

_START_SECONDS = 300.0

_CONFIGURATION = """\
ClusterName=tests
SlurmctldHost={control}({address})
SlurmctldPort=17000
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={directory}/munge.socket
CryptoType=crypto/munge
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool-%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd-%n.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait={kill_wait}
JobRequeue=1
InactiveLimit=0
MinJobAge=300
{nodes}
PartitionName=all Nodes={names} Default=YES MaxTime=60 State=UP
"""


class Slurm:
    """
    A running SLURM cluster.

    Attributes:
        machines: the machines; jobs are submitted on the first one.
        directory: files of SLURM, and where jobs write their output.
    """

    def __init__(self, machines: Sequence[Machine], directory: Path, kill_wait: int) -> None:
        self.machines, self.directory = machines, directory
        self._configuration = directory / "slurm.conf"
        nodes = "\n".join(
            f"NodeName={m.name} NodeHostname={m.name} NodeAddr={m.address} Port={17000 + m.number} CPUs=4 "
            "RealMemory=4000 State=UNKNOWN"
            for m in machines
        )
        text = _CONFIGURATION.format(
            control=machines[0].name,
            address=machines[0].address,
            directory=directory,
            kill_wait=kill_wait,
            nodes=nodes,
            names=",".join(m.name for m in machines),
        )
        self._configuration.write_text(text)

    def environment(self, **more: str) -> dict[str, str]:
        """Return the environment of SLURM's commands and jobs."""
        return {**os.environ, "SLURM_CONF": str(self._configuration), **more}

    def start(self) -> None:
        """Start the daemons, and wait until all nodes are idle."""
        directory, first = self.directory, self.machines[0]
        (directory / "state").mkdir()
        key = directory / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        options = {"env": self.environment(), "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        files = {"key-file": key, "socket": directory / "munge.socket", "pid-file": directory / "munge.pid"}
        files.update({"log-file": directory / "munge.log", "seed-file": directory / "munge.seed"})
        arguments = [f"--{name}={path}" for name, path in files.items()]
        first.start("munged", "--foreground", "--force", "--num-threads=2", *arguments, **options)
        _wait_for((directory / "munge.socket").exists, "munged's socket")
        first.start("slurmctld", "-D", "-i", **options)
        for machine in self.machines:
            (directory / f"spool-{machine.name}").mkdir()
            machine.start("slurmd", "-D", "-N", machine.name, **options)
        _wait_for(self._is_idle, "SLURM's nodes to be idle")

    def run(self, *command: object, timeout: float = PATIENCE, **more: str) -> subprocess.CompletedProcess:
        """Run one of SLURM's commands on the first machine."""
        return self.machines[0].run(*command, timeout=timeout, env=self.environment(**more))

    def submit(self, script: str, name: str = "job", **more: str) -> int:
        """Submit a batch script, whose output is `<name>.out` in the directory, and return the number of its job."""
        path = self.directory / f"{name}.sh"
        path.write_text(script)
        output = self.directory / f"{name}.out"
        result = self.run("sbatch", "--parsable", "--open-mode=append", f"--output={output}", path, **more)
        if result.returncode:
            raise OSError(f"sbatch failed: {result.stdout}")
        return int(result.stdout.split()[-1])

    def wait(self, job: int, timeout: float = PATIENCE) -> str:
        """Wait until a job has ended, and return its state, for example COMPLETED."""
        ends = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")

        def has_ended() -> bool:
            if self._show(job, "Reason") == "BeginTime":  # a job that was requeued would wait for two minutes
                time.sleep(5)  # for what still runs of the attempt before
                self.run("scontrol", "update", f"JobId={job}", "StartTime=now")
            if self._show(job, "JobState") not in ends:
                return False
            time.sleep(5)  # a job that is being requeued can look as if it had failed
            return self._show(job, "JobState") in ends

        _wait_for(has_ended, f"job {job} to end", timeout)
        return self._show(job, "JobState")

    def log(self) -> str:
        """Return what SLURM's controller has logged."""
        return (self.directory / "slurmctld.log").read_text()

    def _show(self, job: int, field: str) -> str:
        words = self.run("scontrol", "--oneliner", "show", "job", job).stdout.split()
        return next((word[len(field) + 1 :] for word in words if word.startswith(f"{field}=")), "UNKNOWN")

    def _is_idle(self) -> bool:
        states = self.run("sinfo", "--noheader", "--Node", "--format=%T").stdout.split()
        return states == ["idle"] * len(self.machines)


@contextmanager
def make_slurm(names: Sequence[str], directory: Path, kill_wait: int = 30) -> Iterator[Slurm]:
    """
    Yield a SLURM cluster of machines with these names.

    Args:
        names: host names.
        directory: an empty directory for SLURM's files.
        kill_wait: seconds between SIGTERM and SIGKILL when a job ends.
    """
    with make_machines(names, directory) as machines:
        slurm = Slurm(machines, directory, kill_wait)
        slurm.start()
        yield slurm


def _wait_for(condition, what: str, timeout: float = _START_SECONDS) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout:g} s for {what}")
        time.sleep(0.1)
