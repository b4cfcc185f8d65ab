"""train/horovod.py over a fake Horovod, and with real ranks where Horovod is built."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import socket
import sys
from unittest import mock

import numpy as np
import pytest
from fakes.fake_horovod import FakeHorovod, installed
from fakes.launching import SCRIPT, launch, running_with, start, start_command, wait
from fakes.models import FinalW, Mean, threes
from fakes.rank_cases import RanksThatFail, RanksThatTrain, train, weights

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.input_source.queueing import QueueInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.ranks.cluster import free_ports
from tensorpack_lite.ranks.connecting import RankError
from tensorpack_lite.ranks.rendezvous import RendezvousServer, RendezvousStore
from tensorpack_lite.tfutils.sesscreate import NewSessionCreator, ReuseSessionCreator
from tensorpack_lite.tfutils.sessinit import DictRestore
from tensorpack_lite.train import horovod
from tensorpack_lite.train.config import TrainConfig
from tensorpack_lite.train.horovod import HorovodTrainer
from tensorpack_lite.train.interface import apply_default_prefetch, launch_train_with_config


@pytest.fixture
def use():
    """Function: install a fake Horovod for the test."""
    with mock.patch.dict(sys.modules), mock.patch.dict("os.environ"):
        contexts = []

        def use(*args, **kwargs):
            context = installed(FakeHorovod(*args, **kwargs))
            contexts.append(context)
            return context.__enter__()

        yield use
        for context in contexts:
            context.__exit__(None, None, None)


def run(trainer, *callbacks, **kwargs):
    """Train Mean for two epochs of two steps, and return its weight."""
    final = FinalW()
    kwargs = {"steps_per_epoch": 2, "max_epoch": 2, "extra_callbacks": [], "monitors": [], **kwargs}
    config = TrainConfig(model=Mean(), dataflow=threes(), callbacks=[*callbacks, final], **kwargs)
    final._chief_only = False
    launch_train_with_config(config, trainer)
    return final.w


class SeesW(Callback):
    """Records the weight before training and at the end of each epoch."""

    _chief_only = False

    def __init__(self):
        self.seen = []

    def _look(self):
        self.seen.append(float(self.trainer.sess.run(self.trainer.find_tensor("w"))))

    _before_train = _look
    _trigger_epoch = _look


class TestConstructing:
    @pytest.mark.slow
    def test_alone(self, use):
        """Without a launcher it is rank 0 of one, and trains as SimpleTrainer does."""
        hvd = use()
        trainer = HorovodTrainer()
        assert (0, 1, 0, 1, True, 1) == (
            trainer.rank, trainer.size, trainer.local_rank, trainer.local_size, trainer.is_chief, trainer.ranks.size,
        )  # fmt: skip
        assert (hvd, 0, 0, True) == (
            trainer.hvd,
            trainer._rank,
            trainer._local_rank,
            trainer.BROADCAST_EVERY_EPOCH,
        )
        assert trainer.mpi_enabled() is False
        assert 3 - 3 / 16 == run(trainer)
        assert [("init",)] == hvd.calls

    def test_who_it_is(self, use):
        """Rank and size are those of Horovod."""
        use(4, 3, local_size=2, local_rank=1)
        trainer = HorovodTrainer(time_limit=7)
        assert (3, 4, 1, 2, False) == (
            trainer.rank, trainer.size, trainer._local_rank, trainer.local_size, trainer.is_chief,
        )  # fmt: skip
        assert ((3, 4), 7) == (trainer.ranks.place, trainer.ranks.time_limit)

    def test_it_is_not_installed(self):
        """Without Horovod the error names the command that builds it."""
        with mock.patch.dict(sys.modules, {"horovod": None, "horovod.tensorflow": None}):
            with pytest.raises(ImportError, match="Run: python -m tensorpack_lite.contrib.install_horovod"):
                HorovodTrainer()

    @pytest.mark.slow
    @pytest.mark.parametrize(("given", "used"), [("fp16", "fp16 of Horovod"), (bytes, bytes)])
    def test_compression(self, use, given, used):
        """The compression is a name, or a member of `hvd.Compression`."""
        hvd = use(2)
        run(HorovodTrainer(compression=given))
        assert {"op": "Average", "compression": used} == hvd.calls[2][2]

    def test_another_compression(self, use):
        """Another compression is a ValueError."""
        use()
        with pytest.raises(ValueError, match="expected None, 'fp16' or a member of hvd.Compression, got 'fp8'"):
            HorovodTrainer(compression="fp8")

    def test_pyarrow(self, use, log_lines):
        """An imported pyarrow is a warning."""
        use()
        with mock.patch.dict(sys.modules, {"pyarrow": mock.Mock()}):
            HorovodTrainer()
        assert any("pyarrow is already imported" in line for line in log_lines)

    def test_how_long_horovod_waits(self, use):
        """Horovod's own timeouts are longer than `time_limit`, unless the user sets them."""
        use()
        os.environ["HOROVOD_GLOO_TIMEOUT_SECONDS"] = "5"
        HorovodTrainer(time_limit=100)
        assert "100" == os.environ["HOROVOD_STALL_CHECK_TIME_SECONDS"]
        assert "5" == os.environ["HOROVOD_GLOO_TIMEOUT_SECONDS"]
        assert "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS" not in os.environ


class TestTraining:
    @pytest.mark.parametrize(("average", "final"), [(True, 3 - 3 / 16), (False, 3.0)])
    def test_mean_and_sum(self, use, average, final):
        """If the gradients of two ranks are equal, their mean is that of one rank, and their sum is twice that."""
        hvd = use(2)
        assert final == run(HorovodTrainer(average=average))
        op = "Average" if average else "Sum"
        assert [("allreduce", False, {"op": op})] == [call for call in hvd.calls if call[0] == "allreduce"]
        assert any(op.name.startswith("AllReduce/") for op in tf.get_default_graph().get_operations()) or average

    def test_data_comes_through_a_queue(self, use):
        """The default input of a DataFlow is a QueueInput without staging."""
        use(2)
        assert type(apply_default_prefetch(threes(), HorovodTrainer())) is QueueInput

    def test_what_is_compared(self, use):
        """The ranks compare optimizer, versions, variables and steps."""
        use(2)
        trainer = HorovodTrainer()
        run(trainer)
        compared = trainer.ranks.compared
        assert "GradientDescentOptimizer" == compared["optimizer"]
        assert {"variable w", "version of TensorFlow", "steps_per_epoch", "max_epoch"} < set(compared)
        assert 4 == trainer.ranks.ended


class TestBroadcast:
    def test_when(self, use):
        """Variables are broadcast after initialization, before training and after each epoch, before the user's callbacks."""
        hvd = use(2, 1, of_rank_0={"variable.w": np.float32(7)})
        sees = SeesW()
        assert 7.0 == run(HorovodTrainer(), sees)
        assert [7.0, 7.0, 7.0] == sees.seen
        assert {"variable.w": 4, "variable.global_step": 4} == hvd.sent

    def test_not_every_epoch(self, use):
        """With BROADCAST_EVERY_EPOCH = False there is no broadcast after an epoch."""
        hvd = use(2, 1, of_rank_0={"variable.w": np.float32(7)})
        trainer = HorovodTrainer()
        trainer.BROADCAST_EVERY_EPOCH = False
        assert 3 + 4 / 16 == run(trainer)
        assert 2 == hvd.sent["variable.w"]

    def test_variables_that_only_one_rank_has(self, use):
        """Variables that only one rank has are not broadcast."""
        hvd = use(2)
        trainer = HorovodTrainer()
        trainer.ranks.others_lack = ["w"]
        run(trainer)
        assert ["variable.global_step"] == list(hvd.sent)


@pytest.mark.slow
def test_what_other_ranks_leave_out(use, log_lines):
    """Other ranks ignore session_init and chief-only callbacks, and do not log that."""
    use(2, 1)
    chiefs = SeesW()
    chiefs._chief_only = True
    assert 3 - 3 / 16 == run(HorovodTrainer(), chiefs, session_init=DictRestore({"w": 100.0}))
    assert [] == chiefs.seen
    assert not [line for line in log_lines if "session_init" in line or "chief" in line]


class TestSession:
    @pytest.mark.parametrize(("local_size", "local_rank"), [(1, 0), (2, 1), (1000, 3)])
    def test_its_configuration(self, use, local_size, local_rank):
        """Each rank of a machine gets one GPU and its share of the threads."""
        use(local_size, local_rank, local_size, local_rank)
        creator = NewSessionCreator()
        run(HorovodTrainer(), session_creator=creator)
        assert str(local_rank) == creator.config.gpu_options.visible_device_list
        threads = max(1, multiprocessing.cpu_count() // local_size)
        assert threads == creator.config.inter_op_parallelism_threads

    def test_another_creator(self, use):
        """Another session creator is a ValueError."""
        use()
        sentence = r"expected NewSessionCreator, because its config is set per rank, got ReuseSessionCreator"
        with pytest.raises(ValueError, match=sentence), tf.Session() as session:
            run(HorovodTrainer(), session_creator=ReuseSessionCreator(session))


class TestMeetingPlace:
    def test_given(self, monkeypatch):
        """TENSORPACK_RANKS_ADDRESS is the address of the ranks' channel."""
        monkeypatch.setenv("TENSORPACK_RANKS_ADDRESS", "host:12")
        assert ("host", 12) == horovod._hear_meeting(FakeHorovod(2)).address

    @pytest.fixture
    def store(self, monkeypatch):
        """A rendezvous server like that of horovodrun."""
        server = RendezvousServer(2, "127.0.0.1")
        monkeypatch.delenv("TENSORPACK_RANKS_ADDRESS", raising=False)
        monkeypatch.setenv("HOROVOD_GLOO_RENDEZVOUS_ADDR", "127.0.0.1")
        monkeypatch.setenv("HOROVOD_GLOO_RENDEZVOUS_PORT", str(server.port))
        yield RendezvousStore("127.0.0.1", server.port, "tensorpack_lite")
        server.stop()

    def test_through_the_store(self, store):
        """Rank 0 stores the address and the others read it; a second training uses the same one."""
        first, second, again = [horovod._ask_store(rank, 1.0) for rank in (0, 1, 0)]
        assert "127.0.0.1" == first[0][0]
        assert first[0] == second[0] == again[0]

    def test_a_secret_through_the_store(self, store):
        """Without a secret in the environment, rank 0 makes one and stores it with the address."""
        first, second = [horovod._ask_store(rank, 1.0).credentials.secret for rank in (0, 1)]
        assert 64 == len(first)
        assert first == second

    def test_the_job_s_secret_stays_out_of_the_store(self, store, monkeypatch):
        """A secret of the environment is not written to the store, which any process can read."""
        monkeypatch.setenv("TENSORPACK_LITE_SECRET", "a secret of the job")
        first, second = [horovod._ask_store(rank, 1.0).credentials.secret for rank in (0, 1)]
        assert b"a secret of the job" == first == second
        assert "secret" not in store.get("ranks_address")
        assert [] == store.get("ranks_address").split()[1:]

    def test_rank_0_does_not_come(self, store):
        """The others say so."""
        with pytest.raises(RankError, match="Rank 1 waited for rank 0, which did not start within 0.1 s"):
            horovod._ask_store(1, 0.1)

    def test_an_unreachable_store(self, store, monkeypatch):
        """If the rendezvous server cannot be reached, the error names its address."""
        port = str(free_ports(1)[0])
        monkeypatch.setenv("HOROVOD_GLOO_RENDEZVOUS_PORT", port)
        with pytest.raises(RankError, match=f"Rank 1 cannot reach the rendezvous server .* 127.0.0.1:{port}"):
            horovod._ask_store(1, 1.0)

    def test_without_a_store(self, use):
        """Rank 0 tells it through Horovod."""
        told = b"10.0.0.1:77 the secret of rank 0".ljust(400)
        use(2, 1, of_rank_0={"ranks_address": np.frombuffer(told, "uint8")})
        assert horovod._ask_store(1, 1.0) is None
        ranks = HorovodTrainer().ranks
        assert (("10.0.0.1", 77), b"the secret of rank 0") == (ranks.address, ranks.credentials.secret)

    def test_the_launcher_s_variables(self, use):
        """Rank and size are known before Horovod starts, so that ranks meet first."""
        hvd = use(2, 1)
        names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")
        os.environ.update(dict(zip([f"HOROVOD_{name}" for name in names], "1212")))
        os.environ["TENSORPACK_RANKS_ADDRESS"] = "host:12"
        assert ("host", 12) == HorovodTrainer().ranks.address
        assert [("init",)] == hvd.calls


class TestLaunchersOfOthers:
    """Places that other launchers than Horovod's give."""

    @pytest.fixture
    def srun(self, use, monkeypatch):
        """Function: install a fake Horovod in a process of srun."""

        def start(*args):
            for name in ("TF_CONFIG", "TENSORPACK_LITE_SECRET"):
                monkeypatch.delenv(name, raising=False)
            step = {
                "PROCID": "1",
                "STEP_ID": "0",
                "STEP_NUM_TASKS": "2",
                "JOB_ID": "7",
                "STEP_NODELIST": "node[6-7]",
            }
            os.environ.update({f"SLURM_{name}": text for name, text in step.items()})
            return use(*args)

        return start

    def test_the_ranks_meet_first(self, srun):
        """Ranks of srun meet before Horovod starts, at the first node of the step."""
        hvd = srun(2, 1)
        hvd.has_mpi = True
        trainer = HorovodTrainer()
        assert ("node6", (1, 2)) == (trainer.ranks.address[0], trainer.ranks.place)
        assert [("init",)] == hvd.calls

    def test_without_mpi(self, srun):
        """Without MPI, rank 0 serves Gloo's rendezvous to the ranks that have met, and Horovod finds its place in the environment."""
        hvd = srun(2, 1)
        seen, init = [], hvd.init
        hvd.init = lambda: (seen.append(os.environ.get("HOROVOD_RANK")), init())
        served = {"HOROVOD_RANK": "1", "HOROVOD_SIZE": "2", "HOROVOD_CONTROLLER": "gloo"}
        with mock.patch.object(horovod, "serve_gloo", return_value=(served, None)) as serve:
            ranks = HorovodTrainer().ranks
        serve.assert_called_once_with(ranks.channel)
        assert ["1"] == seen

    def test_horovod_sees_another_size(self, srun):
        """If Horovod does not see the ranks that srun has started, the error explains what is wrong and names CollectiveTrainer."""
        srun(1, 0).has_mpi = True
        told = "srun started 2 ranks, and Horovod sees 1: it was built without MPI.*Use CollectiveTrainer"
        with pytest.raises(RankError, match=told):
            HorovodTrainer()

    def test_mpirun(self, use):
        """Under mpirun, Horovod with MPI tells the others where they meet; without MPI, they meet first."""
        hvd = use(2, 1, of_rank_0={"ranks_address": np.frombuffer(b"10.0.0.1:77 ".ljust(400), "uint8")})
        names = {"RANK": "1", "SIZE": "2", "LOCAL_RANK": "1", "LOCAL_SIZE": "2"}
        os.environ.update({f"OMPI_COMM_WORLD_{name}": text for name, text in names.items()})
        hvd.has_mpi = True
        assert ("10.0.0.1", 77) == HorovodTrainer().ranks.address
        hvd.has_mpi = False
        with mock.patch.object(horovod, "serve_gloo", return_value=({}, None)):
            trainer = HorovodTrainer()
        assert "127.0.0.1" == trainer.ranks.address[0]

    def test_tf_config_disagrees(self, use):
        """TF_CONFIG and Horovod's variables that disagree are a ValueError."""
        use(2, 1)
        cluster = '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}'
        os.environ.update({"TF_CONFIG": cluster, "HOROVOD_RANK": "1", "HOROVOD_SIZE": "2"})
        with pytest.raises(ValueError, match=r"TF_CONFIG and HOROVOD_RANK disagree \(rank 0 of 2, and 1 of 2\)"):
            HorovodTrainer()


class TestTheEnd:
    @pytest.mark.parametrize("failure", [None, "Rank 1 is gone."])
    def test_horovod_is_given_a_few_seconds(self, failure):
        """After a failure Horovod gets a few seconds to shut down; otherwise there is no limit."""
        with mock.patch.object(faulthandler, "dump_traceback_later") as watchdog:
            horovod._end_in_time(mock.Mock(failure=failure))
        assert bool(failure) == watchdog.called
        if failure:
            assert watchdog.call_args[1]["exit"]
            watchdog.call_args[1]["file"].close()


# Real ranks -----------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module", params=[2, 3])
def trained(request, tmp_path_factory):
    """Weights that several ranks, and one process, have trained."""
    return train("horovod", request.param, tmp_path_factory.mktemp("ranks"))


@pytest.mark.horovod
class TestRanks(RanksThatTrain):
    ENGINE = "horovod"


@pytest.mark.horovod
class TestFaults(RanksThatFail):
    ENGINE = "horovod"

    def test_a_rank_that_stops_while_nobody_waits(self, tmp_path):
        """When a rank stops, the others end, although Horovod waits for all ranks when it shuts down."""
        self.plant(tmp_path, "stop, seen", 6, "for 6 s, last seen after step")

    def test_a_busy_port(self, tmp_path):
        """A port that is taken is an error on the chief, and the other rank ends."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen(1)
            port = taken.getsockname()[1]
            address = {
                "TENSORPACK_RANKS_ADDRESS": f"127.0.0.1:{port}",
                "HOROVOD_SIZE": "2",
                "HOROVOD_LOCAL_SIZE": "2",
            }
            places = [{"HOROVOD_RANK": rank, "HOROVOD_LOCAL_RANK": rank, **address} for rank in "01"]
            ranks = [start(SCRIPT, "horovod", tmp_path, "", "6", **place) for place in places]
            first, second = [wait(rank) for rank in ranks]
        assert f"Rank 0 cannot listen on 127.0.0.1:{port}" in first.err
        assert "RankError" in second.err
        assert 0 not in (first.code, second.code)


@pytest.mark.horovod
class TestHorovodrun:
    def run(self, directory, *args):
        """Run the script in two ranks under horovodrun."""
        horovodrun = os.path.join(os.path.dirname(sys.executable), "horovodrun")
        command = [
            sys.executable,
            horovodrun,
            "--gloo",
            "-np",
            2,
            "-H",
            "localhost:2",
            sys.executable,
            "-W",
            "ignore",
        ]
        return wait(start_command([*command, SCRIPT, "horovod", directory, *args]))

    def test_it_trains(self, tmp_path):
        """Training under horovodrun gives exactly the weights of training under our launcher."""
        ended = self.run(tmp_path / "theirs")
        assert 0 == ended.code, ended.out + ended.err
        assert 0 == launch(2, SCRIPT, "horovod", tmp_path / "ours").code
        ours, theirs = weights(tmp_path / "ours", 0, 2), weights(tmp_path / "theirs", 1, 2)
        assert [] == [name for name in ours if (ours[name] != theirs[name]).any()]

    def test_a_rank_that_is_killed(self, tmp_path):
        """When a rank is killed, all end with an error that names it."""
        ended = self.run(tmp_path, "kill")
        assert 0 != ended.code
        assert "Rank 1 died without reporting an error, last seen after step" in ended.out + ended.err
        assert [] == running_with(str(tmp_path))
