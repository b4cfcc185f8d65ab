"""Tests of the report of the environment."""

from __future__ import annotations

import json

import numpy as np
import pytest
from fakes.processes import run_python

from tensorpack_lite._version import __version__
from tensorpack_lite.compat import TF_VERSION
from tensorpack_lite.tfutils import environment
from tensorpack_lite.tfutils.collect_env import collect_env_info


def rows(text: str) -> dict:
    """Return a dictionary from the first column to the rest of the row."""
    return {
        " ".join(line.split("  ")[0].split()): line.split("  ", 1)[-1].strip() for line in text.splitlines() if line
    }


@pytest.fixture
def no_capabilities(monkeypatch):
    """The report has no capabilities of TensorFlow: looking for `layers` imports Keras, which takes seconds."""
    monkeypatch.setattr(environment, "tensorflow_capabilities", dict)


@pytest.mark.usefixtures("no_capabilities")
class TestCollectEnvInfo:
    def test_versions(self):
        """The report contains the versions that a bug report needs."""
        found = rows(collect_env_info())
        assert (__version__, np.__version__) == (found["tensorpack_lite"], found["numpy"])
        assert found["tensorflow"].startswith("{}.{}".format(*TF_VERSION))

    def test_what_is_broken(self, monkeypatch):
        """A question, a package or a GPU driver that raises has its error in its row, and the other rows are complete."""

        def broken(*_):
            raise OSError("wrong ELF class")

        monkeypatch.setattr(environment.psutil, "virtual_memory", broken)
        monkeypatch.setattr(environment, "NVMLContext", broken)
        monkeypatch.setattr(environment.importlib.util, "find_spec", lambda name: object())
        monkeypatch.setattr(environment.importlib, "import_module", broken)
        found = rows(collect_env_info())
        assert {"unknown (OSError: wrong ELF class)"} == {found[name] for name in ("RAM", "horovod", "GPU 0")}
        assert np.__version__ == found["numpy"]


@pytest.mark.slow
class TestCapabilities:
    def test_essentials_are_there(self):
        """Every supported TensorFlow has the names that the library needs."""
        found = environment.tensorflow_capabilities()
        assert all(found[name] for name in ("Session", "train.Saver", "queue.FIFOQueue", "summary.FileWriter"))

    def test_names_removed_in_tf_2_16(self):
        """Names that TensorFlow removed in 2.16 are reported as missing, in a process where no other test has loaded Keras."""
        code = "import json; from tensorpack_lite.tfutils import environment as e; print(json.dumps(e.tensorflow_capabilities()))"
        found = json.loads(run_python("-c", code).stdout.splitlines()[-1])
        names = ["layers.dense", "estimator.Estimator", "nn.rnn_cell.LSTMCell"]
        assert [TF_VERSION < (2, 16)] * 3 == [found[name] for name in names]

    def test_determinism(self):
        """Determinism is reported as available since TF 2.9."""
        found = environment.tensorflow_capabilities()
        assert (TF_VERSION >= (2, 9)) == found["config.experimental.enable_op_determinism"]


@pytest.mark.slow
@pytest.mark.any_tensorflow
def test_runs_as_a_module():
    """`python -m tensorpack_lite.tfutils.collect_env` prints only the report on stdout, without a warning of runpy."""
    done = run_python("-m", "tensorpack_lite.tfutils.collect_env")
    assert done.stdout.startswith("system")
    assert "RuntimeWarning" not in done.stderr
