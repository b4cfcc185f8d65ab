"""The check of an exported model: what it refuses, what it accepts, and what it says when it cannot compare."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.control_flow import control_flow
from fakes.exported import changed, scale

from tensorpack_lite.compat import private
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.predict import export_check


def assign_in_a_branch(x):
    """Update a variable if all of x is positive."""
    w = tf.get_variable("w", [], trainable=False)

    def update():
        with tf.control_dependencies([w.assign_add(1.0)]):
            return x * 2.0

    return tf.cond(tf.reduce_all(x >= 0), update, lambda: x * w)


@pytest.fixture
def control_flow_v1():
    """Branches belong to the graph itself, as in TensorFlow 1."""
    with control_flow(is_v2=False):
        yield


class TestIsChecked:
    """An export counts only if TensorFlow reads it, and it computes the same."""

    def test_a_graph_that_cannot_be_imported(self, tmp_path, control_flow_v1):
        """A frozen graph that TensorFlow cannot import raises an error, and an existing file stays."""
        (tmp_path / "m.pb").write_text("old")
        with pytest.raises(
            RuntimeError,
            match="cannot import the frozen graph: .* variable in a branch of tf.cond.*Use export_serving",
        ):
            changed(assign_in_a_branch).export_compact(str(tmp_path / "m.pb"))
        assert ["old"] == [path.read_text() for path in tmp_path.iterdir()]
        changed(assign_in_a_branch).export_serving(str(tmp_path / "m"))

    def test_other_values(self, tmp_path, monkeypatch):
        """A frozen graph that computes something else raises an error with both values, and no file is left."""
        replace_constants(monkeypatch, {"w": 4.0})
        message = r"the output 'y:0' .* differs .*at \[0\]: expected 2\.\d+, got 3\.\d+\).*optimize=False"
        with pytest.raises(RuntimeError, match=message):
            scale().export_compact(str(tmp_path / "m.pb"))
        assert [] == list(tmp_path.iterdir())

    @pytest.mark.parametrize("kind", ["compact", "serving"])
    def test_an_input_that_does_not_fit(self, tmp_path, log_lines, kind):
        """A model that does not run on the input of the check is exported, and the log mentions it."""
        exporter = changed(lambda x: tf.reshape(x, [-1, 2]))
        getattr(exporter, f"export_{kind}")(str(tmp_path / "m"))
        (line,) = [line for line in log_lines if "not compared" in line]
        assert "because the model does not run on x:0 [1]: " in line
        assert ["m"] == [path.name for path in tmp_path.iterdir()]

    def test_random_outputs(self, tmp_path, log_lines):
        """A model whose outputs are random is exported, and the log says that it was not compared."""
        changed(lambda x: x + tf.random_uniform([])).export_compact(str(tmp_path / "m.pb"))
        assert 1 == len([line for line in log_lines if "the outputs of the model are random" in line])

    def test_variables_are_saved_before_the_check(self, tmp_path):
        """The check, which runs the model, does not change the variables in a SavedModel."""

        def count(x):
            w = tf.get_variable("w", [], trainable=False)
            return x * w.assign_add(1.0)

        changed(count).export_serving(str(tmp_path / "m"))
        with tf.Graph().as_default(), tf.Session() as sess:
            tf.saved_model.loader.load(sess, ["serve"], str(tmp_path / "m"))
            assert [8.0] == sess.run("y:0", {"x:0": [2.0]}).tolist()


def not_compared(log_lines):
    """Return the one line that says why an export was not compared."""
    (line,) = [line for line in log_lines if "not compared" in line]
    return line


class TestDevices:
    def test_a_device_that_is_missing(self, tmp_path):
        """A model with operations on a GPU is exported and compared on a machine without a GPU."""

        def on_a_gpu(x):
            with tf.device("/gpu:0"):
                return x * tf.get_variable("w", [])

        changed(on_a_gpu).export_compact(str(tmp_path / "m.pb"))
        assert (tmp_path / "m.pb").exists()


def replace_constants(monkeypatch, constants):
    """Let the optimization of a frozen graph replace constants, by name."""

    def replaced(graph_def, *args):
        for node in graph_def.node:
            if node.name in constants:
                node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(constants[node.name]))
        return graph_def

    monkeypatch.setattr(private, "optimize_for_inference", replaced)


def pixels(x):
    """Return 1000 zeros of dtype uint8."""
    return tf.cast(tf.constant(np.zeros(1000, "float32"), name="zeros") + 0.0 * x, tf.uint8)


class TestWholeNumbers:
    """Rounding can change a few of many integers."""

    def test_few_differ(self, tmp_path, monkeypatch):
        """Integer outputs of which 1 % differ are accepted."""
        replace_constants(monkeypatch, {"zeros": np.float32([1] * 10 + [0] * 990)})
        changed(pixels).export_compact(str(tmp_path / "m.pb"))
        assert (tmp_path / "m.pb").exists()

    @pytest.mark.parametrize(
        ("function", "constants", "message"),
        [
            (
                pixels,
                {"zeros": np.float32([0] * 5 + [7] * 11 + [0] * 984)},
                r"'y:0' .* differs .* in 11 of 1000 elements \(at \[5\]: expected 0, got 7\)",
            ),
            (
                lambda x: tf.constant(0, name="zero") + 0,
                {"zero": np.int32(7)},
                r"in 1 of 1 elements \(at \[\]: expected 0, got 7\)",
            ),
            (
                pixels,
                {"zeros": np.zeros(2, "float32")},
                r"differs .* \(expected uint8 \[1000\], got uint8 \[2\]\)",
            ),
        ],
        ids=["more than 1 %", "a single number", "another shape"],
    )
    def test_too_many_differ(self, tmp_path, monkeypatch, function, constants, message):
        """If more than 1 % differ, the error has their number, and the place and values of the first; or else both shapes."""
        replace_constants(monkeypatch, constants)
        with pytest.raises(RuntimeError, match=message):
            changed(function).export_compact(str(tmp_path / "m.pb"))


class TestRandomOperations:
    """Random outputs may differ by chance only in the exported model."""

    @pytest.mark.parametrize(
        "function",
        [
            lambda x: x + tf.random_uniform([]),
            lambda x: x + tf.truncated_normal([]),
            lambda x: tf.cond(tf.reduce_all(x > -1), lambda: x + tf.random_normal([]), lambda: x),
        ],
    )
    def test_a_difference_by_chance(self, tmp_path, monkeypatch, log_lines, function):
        """If the outputs need random operations, a difference is not an error. The log mentions it."""
        results = iter([None, "different"])
        monkeypatch.setattr(export_check, "find_different", lambda *args: next(results))
        changed(function).export_compact(str(tmp_path / "m.pb"))
        assert "random" in not_compared(log_lines)

    def test_unneeded_random_operations(self, tmp_path, monkeypatch):
        """Random operations that the outputs do not need do not excuse a difference."""

        def function(x):
            tf.random_uniform([], name="unneeded")
            return x

        results = iter([None, "differs in this test"])
        monkeypatch.setattr(export_check, "find_different", lambda *args: next(results))
        with pytest.raises(RuntimeError, match="differs in this test"):
            changed(function).export_serving(str(tmp_path / "m"))


class TestTables:
    def test_serving(self, tmp_path, log_lines):
        """A SavedModel with a table is compared with the model."""
        scale(outputs=["looked_up"], inputs=["label"]).export_serving(str(tmp_path / "m"))
        assert [] == [line for line in log_lines if "not compared" in line]

    def test_compact(self, tmp_path, log_lines):
        """A frozen graph with a table is written. The log says that it has no table initializer."""
        scale(outputs=["looked_up"], inputs=["label"]).export_compact(str(tmp_path / "m.pb"))
        assert "frozen graphs have no table initializer" in not_compared(log_lines)
        assert (tmp_path / "m.pb").exists()

    def test_the_reason(self, tmp_path, log_lines):
        """The warning gives the cause of the error, not TensorFlow's headline."""
        changed(lambda x: tf.reshape(x, [-1, 2])).export_serving(str(tmp_path / "m"))
        assert "[1]: Input to reshape is a tensor with 1 values" in not_compared(log_lines)


class TestNames:
    def test_repeated_outputs(self, tmp_path):
        """An output may be named twice."""
        scale(outputs=["y", "y", "w"]).export_compact(str(tmp_path / "m.pb"))
        scale(outputs=["y", "y", "w"]).export_serving(str(tmp_path / "m"))
        assert ["m", "m.pb"] == sorted(path.name for path in tmp_path.iterdir())

    @pytest.mark.parametrize("optimize", [True, False])
    def test_the_second_output_of_a_split_as_input(self, tmp_path, optimize):
        """If an input cannot be fed in the frozen graph, the error does not blame a branch."""

        def function(x):
            first, second = tf.split(tf.reshape(x, [1, 1]) * tf.ones([1, 4]), 2, axis=1)
            return first + second

        exporter = changed(function, inputs=["split:1"])
        if not optimize:
            exporter.export_compact(str(tmp_path / "m.pb"), optimize=False)
            return
        with pytest.raises(RuntimeError, match=r"export_compact: .*Use export_serving") as caught:
            exporter.export_compact(str(tmp_path / "m.pb"))
        assert "tf.cond" not in str(caught.value)

    def test_an_input_that_is_missing(self, tmp_path, monkeypatch):
        """If TensorFlow does not know the name of an input, the error says that the model does not run."""

        def function(x):
            return tf.split(tf.reshape(x, [1, 1]) * tf.ones([1, 4]), 2, axis=1)[0] + 1.0

        with pytest.raises(RuntimeError, match="does not run on an input on which the model runs: .*split:1"):
            changed(function, inputs=["split", "split:1"]).export_compact(str(tmp_path / "m.pb"))


class TestTimeLimit:
    def test_a_model_that_waits(self, tmp_path, monkeypatch, log_lines):
        """A model that does not finish is exported. The log says that it was not compared."""
        monkeypatch.setattr(export_check, "_TIMEOUT_MS", 50, raising=False)
        changed(lambda x: x + tf.FIFOQueue(1, [tf.float32], [()]).dequeue()).export_compact(str(tmp_path / "m.pb"))
        assert "Timed out" in not_compared(log_lines)

    def test_an_exported_model_that_waits(self, tmp_path, monkeypatch, log_lines):
        """An exported model that does not finish in time is not an error."""
        monkeypatch.setattr(export_check, "_TIMEOUT_MS", 50, raising=False)
        function = lambda x: x + tf.FIFOQueue(1, [tf.float32], [()]).dequeue()  # noqa: E731
        with tf.Graph().as_default(), tf.Session() as session:
            y = function(tf.constant(1.0))
            expected = export_check.Expected({}, [np.float32(1.0)])
            export_check.check_outputs("export", session, [y.name], {}, expected, "")
        assert "does not finish within 0.05 s" in not_compared(log_lines)
