"""benchmarks/gpu_proof.py with small sizes: what is tried on a GPU has run here before."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest
from fakes.processes import python_starter

from tensorpack_lite.compat import tfv1 as tf

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def proof(monkeypatch):
    """The script as a module."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    before = set(sys.modules)
    import gpu_proof

    yield gpu_proof
    for name in set(sys.modules) - before:
        if os.path.dirname(getattr(sys.modules[name], "__file__", None) or "") == str(BENCHMARKS):
            del sys.modules[name]


@pytest.mark.nightly
@pytest.mark.slow
def test_checks(tmp_path):
    """Towers have the CPU's weights, memory that runs out is one sentence, and both files have the rows."""
    with python_starter() as start:
        script = start(
            BENCHMARKS / "gpu_proof.py",
            *("--small", "--out", tmp_path, "--sections", "equality", "out_of_memory"),
        )
        table, _ = script.communicate()
    assert 0 == script.returncode
    assert table.strip() == (tmp_path / "gpu_proof.md").read_text("utf-8").strip()
    sections = json.loads((tmp_path / "gpu_proof.json").read_text("utf-8"))["sections"]
    passed = {name: [row["passed"] for row in rows if row["passed"] is not None] for name, rows in sections.items()}
    assert {"equality": [True, True], "out_of_memory": [True]} == passed
    assert "ran out of memory on" in table


@pytest.mark.slow
def test_a_section_fails(proof, tmp_path, monkeypatch):
    """A section that fails has its error as a row, and the next section runs."""
    (tmp_path / "numpy.py").write_text("raise ImportError('NumPy is broken')", "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    proof.run(["equality", "step", "inputs"], str(tmp_path), minutes=10, small=True)
    sections = json.loads((tmp_path / "gpu_proof.json").read_text("utf-8"))["sections"]
    assert ["equality", "step", "inputs"] == list(sections)
    for rows in sections.values():
        assert ["the section failed", "duration"] == [row["what"] for row in rows]
        assert "exit code 1: ImportError: NumPy is broken" == rows[0]["result"]


@pytest.mark.slow
def test_a_section_is_late(proof):
    """A section whose time is over is ended."""
    late = proof.Running("step", 0, small=True)
    assert late.is_over()
    rows = late.end()
    assert "ended after 0 s" == rows[0]["result"]
    assert not rows[0]["passed"]
    assert -signal.SIGKILL == late.process.returncode


@pytest.mark.slow
def test_terminated(tmp_path):
    """SIGTERM ends the processes of all sections, and leaves a table."""
    with python_starter() as start:
        script = start(BENCHMARKS / "gpu_proof.py", "--small", "--out", tmp_path, "--sections", "equality", "memory")
        while not (tmp_path / "gpu_proof.json").exists():
            assert script.poll() is None
            time.sleep(0.05)
        sections = psutil.Process(script.pid).children(recursive=True)
        script.terminate()
        assert 143 == script.wait()
    assert len(sections) >= 2
    assert [] == psutil.wait_procs(sections, timeout=60)[1]
    assert (tmp_path / "gpu_proof.md").read_text("utf-8").startswith("# Proof on a GPU")


def test_table(proof, tmp_path):
    """The table has a line for each row, and says what is not as it must be."""
    rows = [
        {"what": "a | b", "result": "1", "passed": True},
        {"what": "c", "result": "2", "passed": False},
        {"what": "d", "result": "3", "passed": None},
    ]
    table = proof.write(str(tmp_path), {"date": "today"}, {"machine": rows})
    lines = ["| machine | a / b | 1 | yes |", "| machine | c | 2 | **no** |", "| machine | d | 3 |  |"]
    assert lines == table.splitlines()[-3:]
    assert {"date": "today", "sections": {"machine": rows}} == json.loads(
        (tmp_path / "gpu_proof.json").read_text("utf-8")
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "dtype"),
    [({}, tf.float32), ({"precision": "mixed_float16"}, tf.float16), ({"xla": True}, tf.float32)],
)
def test_the_raw_loop_has_the_same_precision(proof, arguments, dtype):
    """The inputs of the raw loop's products have the case's precision, and XLA compiles it if it does ours."""
    import _peer_models
    import peers

    case = peers.Case("mnist", 4, "synthetic", **arguments)
    train_op, fed = peers.raw_graph(case, *_peer_models.make_data("mnist"))
    convolutions = [op for op in train_op.graph.get_operations() if op.type.startswith("Conv2D")]
    assert [] == fed
    assert {"Conv2D", "Conv2DBackpropFilter", "Conv2DBackpropInput"} == {op.type for op in convolutions}
    casts = {op.outputs[0].dtype for op in train_op.graph.get_operations() if op.type == "Cast"}
    assert (dtype == tf.float16) == (tf.float16 in casts)  # a CPU multiplies the rounded inputs in float32
    assert {case.xla} == {"_XlaCompile" in op.node_def.attr for op in convolutions}


@pytest.mark.parametrize(("threads", "expected"), [(0, 0), (1, 1), (2, 2), (None, 1)])
def test_the_raw_loop_has_the_same_threads(proof, threads, expected):
    """The raw loop gives an operation as many threads as ours: a given number, or the one that the library chooses."""
    import peers

    from tensorpack_lite.tfutils.sesscreate import NewSessionCreator

    case = peers.Case("linear", 4, "synthetic", threads=threads)
    config = case.options()["session_config"]
    assert (threads is None) == (config is None)
    assert expected == NewSessionCreator(config=config).config.intra_op_parallelism_threads
    with case.raw_session(tf.no_op(), []) as session:
        assert expected == session._config.intra_op_parallelism_threads
