"""Training under SLURM: `srun`, batch scripts, requeued jobs, and MPI inside an allocation."""

from __future__ import annotations

import re

import pytest
from fakes.engines import assert_equal_trainings, batches, python_command, rank_environment

REQUEUED = """\
#!/bin/bash
#SBATCH --nodes={nodes} --ntasks-per-node=1 --requeue --open-mode=append
export TENSORPACK_LITE_SECRET_FILE={secret}
fault=""
case ${{SLURM_RESTART_COUNT:-0}} in {faults}
esac
srun --kill-on-bad-exit=1 {command} $fault
code=$?
echo "attempt ${{SLURM_RESTART_COUNT:-0}} ended with $code"
if [ $code = 143 ] || [ $code = 137 ]; then scontrol requeue $SLURM_JOB_ID; sleep 60; fi
exit $code
"""


@pytest.mark.parametrize("size", [2, 3])
def test_srun_equals_the_launcher(slurm, launched, tmp_path, size):
    """Ranks that `srun` starts on several machines end with the checkpoint of the local launcher, without a change of the script."""
    ended = slurm.run("srun", f"-N{size}", f"-n{size}", "sh", "-c", python_command(tmp_path), **rank_environment())
    assert 0 == ended.returncode, ended.stdout
    assert f"Rank 0 of {size}" in ended.stdout
    assert "started by srun" in ended.stdout
    assert_equal_trainings(launched(size), tmp_path, size)


def test_several_tasks_on_a_machine(slurm, tmp_path):
    """Four tasks on two machines have the local ranks 0, 1, 0, 1."""
    command = python_command(tmp_path, "shard")
    ended = slurm.run("srun", "-N2", "--ntasks-per-node=2", "sh", "-c", command, **rank_environment())
    assert 0 == ended.returncode, ended.stdout
    places = sorted(re.findall(r"Rank (\d) of 4 \(local (\d) of 2\) on (\w+)", ended.stdout))
    assert [("0", "0"), ("1", "1"), ("2", "0"), ("3", "1")] == [place[:2] for place in places]


def test_five_restarts_equal_an_undisturbed_run(slurm, launched, tmp_path):
    """A job that is preempted or killed five times, and requeued each time, ends with the checkpoint of an undisturbed one."""
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef0123456789abcdef")
    secret.chmod(0o600)
    faults = [(10, 4, "1"), (15, 9, "0"), (9, 14, "1"), (10, 19, "01"), (15, 25, "1")]
    lines = "\n".join(f"{n}) fault='{' '.join(map(str, fault))}' ;;" for n, fault in enumerate(faults))
    script = REQUEUED.format(nodes=2, secret=secret, faults=lines, command=python_command(tmp_path))
    job = slurm.submit(script, "requeued", **rank_environment())
    state = slurm.wait(job)
    output = (slurm.directory / "requeued.out").read_text()
    assert "COMPLETED" == state, output + slurm.log()
    assert "attempt 5 ended with 0" in output
    assert_equal_trainings(launched(2), tmp_path, 2)


def test_a_signal_before_the_end_of_the_time(slurm, tmp_path):
    """`--signal=USR1` saves all ranks at one step, and the step of the job ends with 143."""
    script = f"#!/bin/bash\n#SBATCH -N2 -n2\nsrun {python_command(tmp_path, 'own', 0, 1)} &\npid=$!\n"
    script += f"while [ ! -s {tmp_path}/rank-1.txt ]; do sleep 0.2; done\n"
    script += "scancel --signal=USR1 $SLURM_JOB_ID.0\nwait $pid\necho ended with $?\n"
    job = slurm.submit(script, "signal", **rank_environment())
    slurm.wait(job)
    output = (slurm.directory / "signal.out").read_text()
    assert "ended with 143" in output
    assert batches(tmp_path, 0)[-1][0] == batches(tmp_path, 1)[-1][0]


def test_a_python_without_srun_trains_alone_and_warns(slurm, tmp_path):
    """A plain `python` in a batch script for two tasks trains alone, and a warning has the command that uses both."""
    script = f"#!/bin/bash\n#SBATCH -N2 -n2\n{python_command(tmp_path)}\n"
    job = slurm.submit(script, "alone", **rank_environment())
    assert "COMPLETED" == slurm.wait(job)
    output = (slurm.directory / "alone.out").read_text()
    assert "SLURM allocated 2 tasks, but this process was not started by srun" in output
    assert "Rank 0 of" not in output


@pytest.mark.parametrize(
    "mpirun",
    [
        "mpirun.openmpi --allow-run-as-root --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0",
        "mpiexec.mpich -n 4 -ppn 2",
    ],
)
def test_mpi_inside_an_allocation(slurm, tmp_path, mpirun):
    """`mpirun` inside an allocation starts 4 ranks on 2 nodes. SLURM's variables, which are those of its daemons, are ignored."""
    name = mpirun.split()[0]
    script = "#!/bin/bash\n#SBATCH -N2 -n4 --ntasks-per-node=2\n"
    script += f"{mpirun} {python_command(tmp_path, 'shard')}\necho ended with $?\n"
    job = slurm.submit(script, name, **rank_environment())
    slurm.wait(job)
    output = (slurm.directory / f"{name}.out").read_text()
    assert "ended with 0" in output, output
    assert {"0", "1", "2", "3"} == set(re.findall(r"Rank (\d) of 4 \(local \d of 2\)", output))
    used = sorted(i for rank in range(4) for line in batches(tmp_path, rank)[:5] for i in line[2])
    assert list(range(60)) == used
