"""An error that ends a script is printed with the user's lines, and with at most 15 others."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from fakes.processes import RUN, run_program
from fakes.programs import program_runner

pytestmark = [pytest.mark.slow]

SCRIPT = Path(__file__).parents[1] / "fakes" / "error_script.py"
SERVER = SCRIPT.with_name("program_server.py")
MAX_LINES = 15
MAPPED = "cannot reshape array of size 4 into shape (3,5)"
# the mistake -> the places in the script that the output shows, and a part of the last message
CASES = {
    "MapData": (["training", "mapper"], MAPPED),
    "MapData, iterated": (["iterated", "mapper"], MAPPED),
    "MultiProcessMapData": (["training", "mapper"], MAPPED),
    "MultiProcessMapData, iterated": (["iterated", "mapper"], MAPPED),
    "MultiProcessRunnerZMQ": (["training", "mapper"], MAPPED),
    "no return": (["training"], "double returned None"),
    "tower function": (["training", "tower function"], "3,7"),
    "name clash": (["training", "name clash"], "there are two layers named 'fc'"),
    "condition": (["training", "condition"], "a tensor is used as a condition"),
    "argument": (["training", "argument"], "Did you mean 'activation'?"),
    "operation": (["training", "operation"], "indices[0] = 101 is not in"),
    "callback": (["training", "callback"], "no report"),
    "TrainConfig": ([], "misspelt"),
}


@pytest.fixture(scope="module")
def runner():
    with program_runner() as runner:
        yield runner


def prepare(directory, kind):
    shutil.copy(str(SCRIPT), str(directory / "train.py"))
    (directory / "kind.txt").write_text(kind)


def is_of_script(path):
    # the server of these tests runs the script with runpy, whose frames show lines of source in Python 3.7
    return path.endswith(("train.py", "runpy.py")) or path == str(SERVER)


def lines_of_libraries(output):
    """Return the lines of an error that belong to no frame of the script."""
    lines = output.rstrip("\n").splitlines()
    start = next(number for number, line in enumerate(lines) if re.match(r"Traceback|\d+ frames|\S+: ?$", line))
    others, is_shown = [], False
    for line in lines[start:]:
        frame = re.match(r' *File "([^"]+)", line', line)
        if frame:
            is_shown = is_of_script(frame.group(1))
        elif not line.startswith("    "):
            is_shown = False
        if not is_shown:
            others.append(line)
    return others


def check(output, kind):
    places, message = CASES[kind]
    others = lines_of_libraries(output)
    assert len(others) <= MAX_LINES, output
    assert message in output, output
    source = SCRIPT.read_text().splitlines()
    for place in places:
        number = 1 + next(n for n, line in enumerate(source) if line.endswith(f"# PLACE {place}"))
        assert re.search(rf'train\.py", line {number}, in', output), output


@pytest.mark.matrix
@pytest.mark.parametrize("kind", CASES)
def test_python(tmp_path, runner, kind):
    """The traceback shows each line of the user, one of the libraries, and no error twice."""
    prepare(tmp_path, kind)
    status, output = runner.run_to_any_end(tmp_path, str(tmp_path / "train.py"))
    assert 0 != status
    check(output, kind)


@pytest.mark.any_tensorflow
@pytest.mark.parametrize(
    "kind",
    ["MapData", "MultiProcessMapData", "no return", "tower function", "name clash", "condition", "argument"],
)
def test_run(tmp_path, kind):
    """The same holds under `tensorpack-lite run`."""
    prepare(tmp_path, kind)
    code, output = run_program(tmp_path, "train.py", *RUN)
    assert 1 == code, output
    check(output, kind)


def test_all_frames(tmp_path):
    """With TENSORPACK_LITE_FULL_TRACEBACK, the frames of the library are shown as well, and each error."""
    prepare(tmp_path, "MapData")
    _, output = run_program(tmp_path, "train.py", TENSORPACK_LITE_FULL_TRACEBACK="1")
    assert "in main_loop" in output
    assert "The above exception was the direct cause" in output
    assert "frames of tensorpack_lite" not in output
