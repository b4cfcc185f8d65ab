"""The check of an exported model."""

from __future__ import annotations

import pytest
from fakes.exported import changed, scale

from tensorpack_lite.compat import private
from tensorpack_lite.compat import tfv1 as tf


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
    was_v2 = tf.control_flow_v2_enabled()
    tf.disable_control_flow_v2()
    yield
    if was_v2:
        tf.enable_control_flow_v2()


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

        def scaled(graph_def, *args):
            for node in graph_def.node:
                if node.name == "w":
                    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(4.0))
            return graph_def

        monkeypatch.setattr(private, "optimize_for_inference", scaled)
        with pytest.raises(
            RuntimeError,
            match=r"the output 'y:0' .* differs .*expected float32 \[1\], .*, got .*optimize=False",
        ):
            scale().export_compact(str(tmp_path / "m.pb"))
        assert [] == list(tmp_path.iterdir())

    @pytest.mark.parametrize("kind", ["compact", "serving"])
    def test_an_input_that_does_not_fit(self, tmp_path, log_lines, kind):
        """A model that does not run on the input of the check is exported, and the log says so."""
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
