"""The command `find-batch`: its search, the rules in its output, its exit codes, and what it leaves unchanged."""

from __future__ import annotations

import itertools

import pytest
from fakes.commands import python_runner

from tensorpack_lite.cli.main import main
from tensorpack_lite.diagnostics.probe.find_batch import Measured, Search, double, show_batches

SCRIPT = """
import time

LIMIT = 1 << 62  # above this batch, memory runs out
for argument in sys.argv:
    if argument.startswith("limit="):
        LIMIT = int(argument[6:])

def wait_or_fail(x):
    note(len(x))
    if len(x) > LIMIT:
        raise MemoryError("no memory")
    time.sleep(0.02)  # whatever the batch is
    return x

class Waiting(Model):
    def inputs(self):
        num = 4 if "fixed" in sys.argv else None
        return [tf.TensorSpec([num, 8], tf.float32, "x"), tf.TensorSpec([num], tf.int32, "label")]
    def build_graph(self, x, label):
        shape = x.shape
        x = tf.py_func(wait_or_fail, [x], tf.float32)
        x.set_shape(shape)
        return super().build_graph(x, label)

source = DataFromList([[np.ones(8, "float32"), np.int32(k % 3)] for k in range(24)], shuffle=False)
if "none" in sys.argv:
    data = DataFromList([[np.ones((4, 8), "float32"), np.zeros(4, "int32")]])
else:
    data = BatchData(source, 4, remainder=True)
    if "workers" in sys.argv:
        data = MultiProcessRunnerZMQ(data, 1)
logger.set_logger_dir("log", action="k")
config = TrainConfig(
    model=Waiting(), data=QueueInput(data) if "queue" in sys.argv else FeedInput(data), callbacks=[ModelSaver()],
    steps_per_epoch=2, max_epoch=3,
)
launch_train_with_config(config, SimpleTrainer())
"""


@pytest.fixture
def find_batch(tmp_path):
    """Return a function that runs the command; it returns the exit code, the output and the batches of all steps."""
    python = python_runner(tmp_path, SCRIPT)

    def run(options, *arguments):
        code, output, notes = python("-m", "tensorpack_lite", "find-batch", *options, "train.py", *arguments)
        return code, output, list(map(int, notes))

    return run


def _rows(output):
    """Return the cells of the table."""
    below = output.split("peak memory, MB\n")[1].splitlines()[1:]
    return [line.split() for line in itertools.takewhile(lambda line: line.strip()[:1].isdigit(), below)]


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [(), ("queue", "workers")])
def test_until_the_data_ends(find_batch, tmp_path, arguments):
    """
    The batch is doubled, also in worker processes, as long as the data has enough samples. A step of each process comes first,
    and a smaller last batch is skipped.
    """
    # --gain is tiny, because a busy machine may be slower with a larger batch
    code, output, batches = find_batch(["--steps", "2", "--gain", "1e-9", "--memory", "1e6"], *arguments)
    assert 0 == code, output
    if "does not give" not in output:
        assert ["4", "8", "16", "32"] == [row[0] for row in _rows(output)]
        assert "The data has fewer than 32 samples." in output
        assert [4] * 6 + [8] * 6 + [16] * 6 == batches
        assert "Proposed batch: 16, with" in output
        assert "multiply it by 4, and warm up" in output
        assert "multiply it by sqrt(4) = 2." in output
    assert [] == list((tmp_path / "log").iterdir())


@pytest.mark.slow
def test_until_memory_ends(find_batch):
    """A batch whose memory cannot be allocated ends the search, and the one before it counts."""
    code, output, _ = find_batch(["--steps", "1", "--memory", "1e6"], "limit=4")
    assert 0 == code, output
    assert ["8", "out", "of", "memory", "-", "-"] == _rows(output)[1]
    assert "A batch of 8 does not fit into memory." in output
    assert "Keep the batch of 4, and the learning rate." in output


@pytest.mark.slow
def test_the_own_batch_does_not_fit(find_batch):
    """If the script's own batch does not fit, the exit code is 1."""
    code, output, _ = find_batch(["--steps", "1"], "limit=3")
    assert 1 == code, output
    assert "A batch of 4 does not fit into memory." in output


@pytest.mark.slow
def test_the_measured_peak_counts(find_batch):
    """No process is started that would need more than the limit; the peak of the process is in the table."""
    code, output, batches = find_batch(["--steps", "1", "--memory", "1"])
    assert 0 == code, output
    (row,) = _rows(output)
    assert 20 < int(row[3].replace(",", "")) < 100_000
    assert "A batch of 8 would need about" in output
    assert "(limit 1 MB)." in output
    assert {4} == set(batches)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("argument", "text"),
    [("none", "the input has no BatchData"), ("fixed", "the input 'x' of the model has a fixed batch")],
)
def test_what_cannot_be_changed(find_batch, argument, text):
    """Data without BatchData gives exit code 2; so does a model with a fixed batch, after its own batch was measured."""
    code, output, _ = find_batch(["--steps", "1", "--memory", "1e6"], argument)
    assert (2 if argument == "none" else 0) == code, output
    assert f"ValueError: find-batch: {text}" in output


def _search(*speeds, gain=0.1, limit=10**12, **last):
    """Search with batches 8, 16, ... whose speeds are given. The last one has other attributes."""
    asked = []

    def measure(factor):
        asked.append(factor)
        if len(asked) > len(speeds):
            return Measured(8 * factor, **last) if last else None
        return Measured(8 * factor, 8 * factor / speeds[len(asked) - 1], 100 + 50 * factor, 100)

    search = double(measure, gain, limit)
    assert [2**number for number in range(len(asked))] == asked
    return search


class TestDouble:
    def test_the_gain_ends(self):
        """The last batch that was enough faster is proposed, not a later one that is a little faster."""
        search = _search(100, 180, 250, 270)
        assert 32 == search.best.batch
        assert [8, 16, 32, 64] == [one.batch for one in search.tried]
        assert "A batch of 64 does not give 10% more samples per second than 32." == search.end

    def test_the_edge_of_the_gain(self):
        """Exactly the gain is enough."""
        assert 16 == _search(100, 150, 200, gain=0.5).best.batch

    def test_memory_ends(self):
        """A batch that does not fit is not proposed."""
        search = _search(100, 200, is_too_large=True)
        assert 16 == search.best.batch
        assert "A batch of 32 does not fit into memory." == search.end

    def test_the_first_does_not_fit(self):
        """Without a batch that fits, there is no proposal."""
        search = _search(is_too_large=True)
        assert search.best is None
        assert "A batch of 8 does not fit into memory." == search.end

    @pytest.mark.parametrize(("limit", "num"), [(299, 2), (300, 3), (199, 1), (200, 2)])
    def test_the_estimated_peak(self, limit, num):
        """Memory that the steps added counts twice: 100 + 2 * 50 with the first batch, 100 + 2 * 100 with the second one."""
        search = _search(100, 200, 400, limit=limit)
        assert num == len(search.tried)
        assert 8 * 2 ** (num - 1) == search.best.batch

    def test_the_data_ends(self):
        """Data with too few samples ends the search."""
        assert "The data has fewer than 16 samples." == _search(100, has_too_few=True).end

    def test_a_script_that_fails(self):
        """A script that fails with a larger batch ends the search; one that fails at once gives no results."""
        assert "The script fails with 2 times its batch; its error is above." == _search(100).end
        assert [] == _search().tried


def test_on_a_gpu():
    """On a GPU, an estimate does not end the search, because TensorFlow's error does; a limit from the user does."""
    results = [Measured(8 * 2**n, 1.0, 900, 0, is_on_gpu=True) for n in range(2)]
    results.append(Measured(32, is_too_large=True, is_on_gpu=True))
    search = double(lambda factor: results[factor.bit_length() - 1], 0.1, 0)
    assert "A batch of 32 does not fit into memory." == search.end
    assert show_batches(search).splitlines()[0].endswith("peak memory of GPU 0, MB")
    search = double(lambda factor: results[factor.bit_length() - 1], 0.1, 1000)
    assert search.end.startswith("A batch of 16 would need about")


def test_the_output():
    """The table has a row for each batch; below it are the end, the proposal, and the rules for rate and steps."""
    tried = [
        Measured(32, 0.02, 400_000_000),
        Measured(64, 0.025, 500_000_000),
        Measured(128, is_too_large=True),
    ]
    lines = show_batches(Search(tried, tried[1], "End.")).splitlines()
    assert ["32", "1,600", "20", "400"] == lines[2].split()
    assert ["64", "2,560", "25", "500"] == lines[3].split()
    assert ["128", "out", "of", "memory", "-", "-"] == lines[4].split()
    assert "End." == lines[5]
    assert "Proposed batch: 64, with 1.6 times the samples per second of 32." == lines[6]
    assert lines[7].startswith("Learning rate: with SGD and momentum, multiply it by 2, and warm up")
    assert "sqrt(2) = 1.41" in lines[7]
    assert lines[8].startswith("Steps: an epoch has 1/2 of them.")


def test_wrong_arguments(tmp_path, capsys):
    """With impossible numbers, the exit code is 2."""
    (tmp_path / "train.py").write_text("")
    for option, value in (("--steps", "0"), ("--gain", "0"), ("--memory", "-1")):
        assert 2 == main(["find-batch", option, value, str(tmp_path / "train.py")])
        assert f"find-batch: {option}" in capsys.readouterr().err
