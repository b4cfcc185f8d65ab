"""The number of threads for each operation: the work of a run, the choice, and the sessions that get it."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from fakes.processes import run_python

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.diagnostics.speed import operation_threads as extension
from tensorpack_lite.diagnostics.speed.operation_threads import OperationThreads, advise_threads
from tensorpack_lite.tfutils import operation_threads
from tensorpack_lite.tfutils.exact.state import begin_exact
from tensorpack_lite.tfutils.operation_threads import (
    Division,
    Work,
    choose_threads,
    measure_work,
    predict_gain,
    set_threads,
)
from tensorpack_lite.tfutils.sesscreate import NewSessionCreator, ReuseSessionCreator

LARGE = Work(total=9e9, chain=6e9, divided=18)
SMALL = Work(total=3e7, chain=2e7, divided=18)


@pytest.fixture(autouse=True)
def _machine(monkeypatch):
    """Two cores, no GPU, and the same costs with each TensorFlow."""
    monkeypatch.setattr(extension, "usable_cores", lambda: 2.0)
    monkeypatch.setattr(operation_threads, "_division_of_tensorflow", lambda: Division(0.95, 5e6))
    for module in (operation_threads, extension):
        monkeypatch.setattr(module, "get_num_gpu", lambda: 0)


def build(rows):
    """Build two products that do not wait for each other, and one that waits for both."""
    x = tf.placeholder(tf.float32, [rows, 1000], name="x")
    left, right = tf.matmul(x, tf.ones([1000, 500])), tf.matmul(x, tf.ones([1000, 500]))
    return x, tf.matmul(left, right, transpose_a=True)


class TestMeasureWork:
    @pytest.mark.parametrize(("rows", "batch", "expected"), [(8, None, 8), (None, 8, 8), (None, None, 32)])
    def test_closed_form(self, rows, batch, expected):
        """The work is that of a batch, whether the graph or the data knows it; without either, a batch has 32 samples."""
        x, end = build(rows)
        branch, last, fill = 2 * expected * 1000 * 500, 2 * 500 * 500 * expected, 5 * 1000 * 500  # of tf.ones
        assert Work(2 * branch + last + 2 * fill, branch + last + fill, 5) == measure_work([end], [x], batch)

    def test_other_unknown_dimensions(self):
        """A length that is not known counts as 64, also where it was multiplied by the batch."""
        x = tf.placeholder(tf.float32, [None, None, 10])
        end = tf.matmul(tf.reshape(x, [-1, 10]), tf.zeros([10, 300]))
        assert 2 * 2 * 64 * 10 * 300 + 5 * 3000 == measure_work([end.op], [x], batch=2).total

    def test_a_model_for_one_size(self):
        """If the model does not fit the assumed size, only operations of known shape count."""
        x = tf.placeholder(tf.float32, [None])
        end = tf.matmul(tf.reshape(x, [2, 300]), tf.zeros([300, 400]))
        assert 2 * 2 * 300 * 400 + 5 * 300 * 400 == measure_work([end], [x]).total

    def test_a_graph_that_cannot_be_copied(self, monkeypatch):
        """Sparse inputs, large constants and tensors of another graph are no errors; operations of known shape count."""
        with tf.Graph().as_default():
            elsewhere = tf.ones([7], name="elsewhere")
        x, known = tf.placeholder(tf.float32, [None, 3]), tf.zeros([30, 40])
        unknown = tf.matmul(x, tf.constant([[1.0, 2.0]] * 3))
        targets = [unknown, tf.matmul(known, known, transpose_b=True), elsewhere]
        free = 2 * 30 * 30 * 40 + 5 * 30 * 40
        assert free + 2 * 8 * 3 * 2 == measure_work(targets, [x], 8).total
        sparse = tf.sparse_placeholder(tf.float32, [None, 3])
        assert free == measure_work([*targets, sparse.values], [x, sparse], 8).total
        monkeypatch.setattr(operation_threads, "_LARGEST_COPY", 23)
        assert free == measure_work(targets, [x], 8).total

    def test_gradients_of_convolutions(self):
        """The gradients of a convolution have as much work as the convolution itself."""
        x = tf.placeholder(tf.float32, [4, 16, 16, 8])
        kernel = tf.placeholder(tf.float32, [3, 3, 8, 12])
        y = tf.nn.conv2d(x, kernel, [1, 1, 1, 1], "SAME")
        forward, both = measure_work([y], [x, kernel]), measure_work(tf.gradients(y, [x, kernel]), [x, kernel])
        product = 2 * y.shape.num_elements() * 3 * 3 * 8
        assert product == forward.total == forward.chain
        assert 2 * product < both.total < 2.1 * product


class TestChoice:
    @pytest.mark.parametrize(
        ("work", "cores", "expected"),
        [
            (LARGE, 2, 2),
            (LARGE, 2.5, 2),
            (LARGE, 16, 16),
            (LARGE, 1.5, 1),
            (LARGE, 1, 1),
            (SMALL, 2, 1),
            (SMALL, 16, 1),
            (LARGE._replace(chain=4.5e9), 2, 1),  # half of the work can be done at the same time
            (Work(0, 0, 0), 2, 1),
            (Work(2e6, 2e6, 0), 64, 1),  # no operation is large enough to be divided
        ],
    )
    def test_choose(self, work, cores, expected):
        """A long chain of large operations gets all cores; small or independent operations get one thread each."""
        assert expected == choose_threads(work, cores)

    def test_gain(self):
        """The gain follows from the longest chain, the number of cores and the cost of dividing."""
        assert pytest.approx((9e9 / (2 * 0.95) + 18 * 5e6) / 6e9) == predict_gain(LARGE, 2)
        assert pytest.approx((9e9 / 2 + 18e6) / 6e9) == predict_gain(LARGE, 2, Division(1.0, 1e6))
        assert 1.0 == predict_gain(LARGE, 1.9)

    @pytest.mark.parametrize(
        ("threads", "cores", "expected"), [(None, 2, 2), (None, 1, 1), (0, 2, 2), (0, 0.5, 1), (3, 2, 3), (1, 2, 1)]
    )
    def test_set(self, threads, cores, expected):
        """A number that is given is used; 0 means all cores."""
        creator = NewSessionCreator()
        set_threads(creator, lambda: LARGE, cores, threads)
        assert expected == creator.config.intra_op_parallelism_threads

    def test_work_that_cannot_be_measured(self, log_lines):
        """An error while the work is measured is a warning, and each operation has one thread."""
        creator = NewSessionCreator()
        assert "" == set_threads(creator, lambda: 1 // 0, 2)
        assert 1 == creator.config.intra_op_parallelism_threads
        assert "The work of a run cannot be measured: ZeroDivisionError" in "".join(log_lines)

    def test_the_users_settings_win(self, monkeypatch):
        """A config or a session of the user, and a machine with a GPU, are left alone."""
        config = tf.ConfigProto(intra_op_parallelism_threads=7)
        for creator in (NewSessionCreator(config=config), ReuseSessionCreator(None)):
            set_threads(creator, lambda: LARGE, 2)
        assert 7 == config.intra_op_parallelism_threads
        creator = NewSessionCreator()
        creator.config.intra_op_parallelism_threads = 7
        set_threads(creator, lambda: LARGE, 2)
        assert 7 == creator.config.intra_op_parallelism_threads
        creator = NewSessionCreator()
        for work, expected in ((LARGE, 2), (SMALL, 1), (LARGE, 2)):  # a creator of several predictors
            set_threads(creator, lambda work=work: work, 2)
            assert expected == creator.config.intra_op_parallelism_threads
        monkeypatch.setattr(operation_threads, "get_num_gpu", lambda: 1)
        creator = NewSessionCreator()
        set_threads(creator, lambda: LARGE, 2)
        assert 1 == creator.config.intra_op_parallelism_threads


def trainer_of(rows, creator, local_size=1):
    """Return what the extension needs to know about a trainer."""
    x, end = build(rows)
    tower = SimpleNamespace(inputs=[x])
    return SimpleNamespace(
        arguments=SimpleNamespace(session_creator=creator),
        local_size=local_size,
        tower_func=SimpleNamespace(towers=SimpleNamespace(training=lambda: [tower])),
        find_callbacks=lambda kind: [],
        extensions=[],
        train_op=end.op,
        step_ops=[],
    )


class TestExtension:
    @pytest.mark.parametrize(("rows", "local_size", "expected"), [(20000, 1, 2), (20000, 2, 1), (2, 1, 1)])
    def test_the_session_gets_the_number(self, log_lines, rows, local_size, expected):
        """The number follows from the work of the graph and from the ranks that share the machine, and the log says why."""
        creator = NewSessionCreator()
        OperationThreads().after_setup(trainer_of(rows, creator, local_size))
        assert expected == creator.config.intra_op_parallelism_threads
        told = [line for line in log_lines if line.startswith(f"Threads of each operation: {expected}, on 2 cores")]
        assert (local_size == 1) == bool(told)

    @pytest.mark.parametrize(
        ("rows", "threads", "told"), [(20000, 1, "With 2 threads"), (20000, 2, ""), (2, 0, "With 1 thread ")]
    )
    def test_advice(self, rows, threads, told):
        """The verdict on the speed says so if another number than the user's is predicted to be faster."""
        creator = NewSessionCreator(config=tf.ConfigProto(intra_op_parallelism_threads=threads))
        advice = advise_threads(trainer_of(rows, creator))
        assert told in advice
        assert bool(told) == bool(advice)

    def test_no_advice_about_a_predicted_number(self):
        """The work is not measured again if the number in use was predicted."""
        trainer = trainer_of(20000, NewSessionCreator())
        trainer.extensions.append(OperationThreads())
        trainer.extensions[0].after_setup(trainer)
        trainer.find_callbacks = None  # the work could not be measured
        assert trainer.extensions[0].is_predicted
        assert "" == advise_threads(trainer)

    def test_no_advice_without_the_work(self, log_lines):
        """The verdict on the speed gives no advice, and no error, if the work cannot be measured."""
        trainer = trainer_of(20000, NewSessionCreator(config=tf.ConfigProto(intra_op_parallelism_threads=1)))
        trainer.find_callbacks = None
        assert "" == advise_threads(trainer)
        assert "The work of a run cannot be measured" in "".join(log_lines)

    @pytest.mark.parametrize("number", [-1, 1.5, "all"])
    def test_wrong_numbers(self, number):
        """A number that is negative or not whole is an error."""
        with pytest.raises((TypeError, ValueError), match="TrainConfig: intra_op_threads"):
            OperationThreads(number)

    def test_exact_resume_with_another_number(self, log_lines):
        """A resumed training with another number of threads is not exact: a warning, and an error with "require"."""
        creator = NewSessionCreator()
        with tf.Graph().as_default():
            trainer = trainer_of(2, creator)
            assert OperationThreads().state_dict(trainer) is None
            exact = begin_exact(True, None)
            assert 1 == OperationThreads().state_dict(trainer)
            OperationThreads().load_state_dict(trainer, 1)
            assert not log_lines
            OperationThreads().load_state_dict(trainer, 2)
            assert "TrainConfig(intra_op_threads=2)" in "".join(log_lines)
            exact._setup.__exit__(None, None, None)
        with tf.Graph().as_default():
            exact = begin_exact("require", None)
            with pytest.raises(RuntimeError, match="had 2 threads and has 1"):
                OperationThreads().load_state_dict(trainer, 2)
            exact._setup.__exit__(None, None, None)


_COUNT_THREADS = """
import os
from tensorpack_lite.compat import ensure_graph_mode
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.sesscreate import NewSessionCreator
ensure_graph_mode()
sessions = [tf.Session(config=tf.ConfigProto(intra_op_parallelism_threads=1))]
numbers = []
for threads in (1, 9):
    with tf.Graph().as_default():
        tf.get_variable("w", [2])
        creator = NewSessionCreator()
        creator.config.intra_op_parallelism_threads = threads
        sessions.append(creator.create_session())
    numbers.append(len(os.listdir("/proc/self/task")))
print(numbers[1] - numbers[0])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_each_session_has_its_own_threads():
    """A session has the threads of its config, not those of the first session of the process, which the script has opened."""
    assert 8 <= int(run_python("-c", _COUNT_THREADS).stdout.split()[-1])
