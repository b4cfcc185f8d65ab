"""
Training runs in a real Jupyter kernel: the code of docs/several_trainings.md, the demo, and what a reader sees below the cells.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .test_docs_code import BLOCK, ROOT

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
pytest.importorskip("ipywidgets")

pytestmark = pytest.mark.slow  # each kernel imports TensorFlow

WIDGET = "application/vnd.jupyter.widget-view+json"
GRAPH_MODE, TRAINING, RESULTS, PREDICTION, _ = (
    block.group("code")
    for block in BLOCK.finditer((ROOT / "docs" / "several_trainings.md").read_text(encoding="utf-8"))
)
INTERRUPT = """
import os, signal

class Interrupt(Callback):
    def _trigger_epoch(self):
        if self.epoch_num == 2:
            os.kill(os.getpid(), signal.SIGINT)
"""


@pytest.fixture
def run_cells(tmp_path: Path):
    """Return a function that runs cells in a new kernel, and returns their outputs. An error in a cell fails the test."""

    def run(*cells: str, allow_errors: bool = False):
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        client = nbclient.NotebookClient(
            notebook,
            timeout=300,
            kernel_name="python3",
            allow_errors=allow_errors,
            resources={"metadata": {"path": str(tmp_path)}},
        )
        client.execute()
        return [cell.outputs for cell in notebook.cells]

    return run


def check_no_bars_of_text(outputs) -> None:
    """Check that no bar was drawn with characters: each of its states would be a line of the output."""
    assert "\r" not in text_of(outputs)
    assert "%|" not in text_of(outputs)


def text_of(outputs) -> str:
    """Return what a cell has written."""
    return "".join(output.text for output in outputs if output.output_type == "stream")


def num_widgets(outputs) -> int:
    """Return the number of graphical bars below a cell."""
    return sum(WIDGET in output.get("data", {}) for output in outputs)


def num_tables(outputs):
    """Return the number of epochs whose statistics are logged below a cell."""
    return len(re.findall(r"\] Epoch \d+( \(\*: best so far\))?: ", text_of(outputs)))


def test_the_code_of_the_page(run_cells):
    """The cells of the page run, the training cell also twice, and log the same lines each time, with graphical bars."""
    *_, first, second, _, prediction = run_cells(GRAPH_MODE, TRAINING, TRAINING, RESULTS, PREDICTION)
    for outputs in (first, second):
        assert 6 == num_widgets(outputs)  # three epochs and three validations
        check_no_bars_of_text(outputs)
        assert 3 == num_tables(outputs)
        assert "Training has finished" in text_of(outputs)
    assert 2 == len(text_of(prediction).split("\n")[-2].split())


def test_without_ipywidgets(run_cells):
    """Without ipywidgets there are no bars, and no advice to install it in each epoch."""
    *_, outputs = run_cells("import sys\nsys.modules['ipywidgets'] = None", GRAPH_MODE, TRAINING)
    assert 0 == num_widgets(outputs)
    check_no_bars_of_text(outputs)
    assert "IProgress" not in text_of(outputs)
    assert 3 == num_tables(outputs)


def test_an_interrupted_cell(run_cells):
    """The Interrupt button, which sends SIGINT to the kernel, ends a training; the cell can run again."""
    interrupted = TRAINING.replace("callbacks=[", "callbacks=[Interrupt(), ")
    *_, interrupted, again = run_cells(GRAPH_MODE, INTERRUPT, interrupted, TRAINING, allow_errors=True)
    assert 1 == num_tables(interrupted)
    assert 3 == num_tables(again)
    assert not any(output.output_type == "error" for output in again)


def test_the_demo(run_cells):
    """`%run` of the README's example shows its messages and bars below the cell."""
    (outputs,) = run_cells(f"%run {ROOT / 'examples' / 'mnist_convnet.py'} --max-epoch 1 --verbose --log-dir train_log")
    assert 2 == num_widgets(outputs)
    check_no_bars_of_text(outputs)
    assert 1 == num_tables(outputs)
    assert "Training has finished" in text_of(outputs)
