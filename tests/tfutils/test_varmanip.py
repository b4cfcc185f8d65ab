"""Tests of checkpoints as dictionaries, of names, and of converting values."""

from __future__ import annotations

import os
from unittest import mock

import numpy as np
import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.sessinit import SmartInit
from tensorpack_lite.tfutils.varmanip import (
    SessionUpdate,
    dump_session_params,
    get_all_checkpoints,
    get_checkpoint_path,
    get_savename_from_varname,
    is_training_name,
    kept_variables,
    load_checkpoint_vars,
    load_chkpt_vars,
    load_parameter_file,
    save_checkpoint_vars,
    save_chkpt_vars,
)

VALUES = {"fc/W": np.arange(6, dtype="float32").reshape(2, 3), "global_step": np.int64(7)}


@pytest.fixture
def checkpoint(tmp_path):
    """A checkpoint with VALUES, written by TensorFlow's Saver."""
    with tf.Graph().as_default(), tf.Session() as sess:
        for name, value in VALUES.items():
            tf.get_variable(name, initializer=value)
        sess.run(tf.global_variables_initializer())
        return tf.train.Saver().save(sess, str(tmp_path / "model"), global_step=7)


def check(got: dict) -> None:
    """Check that the dictionary equals VALUES."""
    assert sorted(VALUES) == sorted(got)
    for name, value in VALUES.items():
        np.testing.assert_array_equal(value, got[name])
        assert value.dtype == got[name].dtype


class TestLoadAndSave:
    @pytest.mark.parametrize("name", ["m.npz", "m"])
    def test_round_trip(self, tmp_path, monkeypatch, name):
        """Names with `:0` are read back without it, also names of arguments of `np.savez`; a bare path is in this directory."""
        monkeypatch.chdir(tmp_path)
        values = {"fc/W:0": VALUES["fc/W"], "global_step:0": VALUES["global_step"]}
        save_checkpoint_vars({**values, "file": 1.0, "allow_pickle": 2.0}, name)
        found = load_chkpt_vars(name)
        assert (1.0, 2.0) == (found.pop("file"), found.pop("allow_pickle"))
        check(found)
        save_chkpt_vars(values, name)
        check(load_checkpoint_vars(name))

    def test_saver_reads_what_was_written(self, tmp_path, checkpoint, sess):
        """TensorFlow's Saver can restore the written checkpoint, of which no operation is in the graph; and the other way round."""
        path = str(tmp_path / "m")
        check(load_checkpoint_vars(checkpoint))
        save_checkpoint_vars(VALUES, path)
        assert [] == tf.get_default_graph().get_operations()
        var = tf.get_variable("fc/W", shape=[2, 3])
        tf.train.Saver().restore(sess, path)
        np.testing.assert_array_equal(VALUES["fc/W"], sess.run(var))

    def test_keeps_an_existing_list_of_checkpoints(self, tmp_path, checkpoint):
        """An existing `checkpoint` file is not replaced."""
        save_checkpoint_vars(VALUES, str(tmp_path / "converted"))
        assert checkpoint == get_checkpoint_path(str(tmp_path / "checkpoint"))
        (tmp_path / "new").mkdir()
        save_checkpoint_vars(VALUES, str(tmp_path / "new" / "m"))
        assert str(tmp_path / "new" / "m") == get_checkpoint_path(str(tmp_path / "new" / "checkpoint"))

    @pytest.mark.parametrize("name", ["m", "m.npz"])
    def test_a_failure_keeps_the_old_file(self, tmp_path, monkeypatch, name):
        """If the disk is full, the old file does not change, and no other files remain."""

        def no_space(file, array):
            file.write(b"half of it")
            raise OSError("No space left on device")

        path = str(tmp_path / name)
        save_checkpoint_vars(VALUES, path)
        before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
        monkeypatch.setattr(np.lib.format, "write_array", no_space)
        monkeypatch.setattr(tf.train, "NewCheckpointReader", mock.Mock(side_effect=OSError("No space left")))

        with pytest.raises(OSError, match="No space left"):
            save_checkpoint_vars({"w": np.zeros(3)}, path)
        assert before == {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    def test_leaves_no_temporary_files(self, tmp_path):
        """Replacing a file leaves no temporary files, and the directory is created if needed."""
        path = tmp_path / "a" / "b" / "m"
        for _ in range(2):
            save_checkpoint_vars(VALUES, str(path))
        assert ["checkpoint", "m.data-00000-of-00001", "m.index"] == sorted(os.listdir(str(path.parent)))


class TestDumpSessionParams:
    def test_saves_the_model_only(self, tmp_path, sess):
        """The file has trainable and model variables of the session's graph that are global, under names of tensors."""
        var = tf.get_variable("w", initializer=2.0)
        tf.get_variable("ema", initializer=3.0, trainable=False, collections=["variables", "model_variables"])
        tf.get_variable("replica", initializer=4.0, collections=[tf.GraphKeys.LOCAL_VARIABLES])
        tf.train.MomentumOptimizer(0.1, 0.9).minimize(var * 1.0, var_list=[var])
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        path = str(tmp_path / "m.npz")
        with tf.Graph().as_default():
            dump_session_params(path)
        assert {"w:0": 2.0, "ema:0": 3.0} == load_parameter_file(path)
        assert {"w": 2.0, "ema": 3.0} == load_checkpoint_vars(path)

    def test_refuses_a_variable_in_both(self, tmp_path, sess):
        """A variable that is both trainable and a model variable raises a ValueError."""
        tf.add_to_collection(tf.GraphKeys.MODEL_VARIABLES, tf.get_variable("w", initializer=2.0))
        with pytest.raises(ValueError, match="both trainable and model variables: w:0"):
            dump_session_params(str(tmp_path / "m.npz"))


class TestGetCheckpointPath:
    @pytest.mark.parametrize(
        "name", ["model-7", "model-7.index", "model-7.state", "model-7.end", "model-7.data-00000-of-00001",
        "checkpoint", "", "/"],
    )  # fmt: skip
    def test_files_of_a_checkpoint(self, checkpoint, name):
        """The path of any of its files means the checkpoint; that of the directory or its list, the latest one."""
        directory = os.path.dirname(checkpoint)
        assert checkpoint == get_checkpoint_path(os.path.join(directory, name) if name != "/" else directory + "/")

    def test_bare_names(self, checkpoint, monkeypatch, tmp_path):
        """Paths without a directory work. An empty directory is an error."""
        monkeypatch.chdir(os.path.dirname(checkpoint))
        assert "./model-7" == get_checkpoint_path("model-7")
        assert "model-7" == os.path.basename(get_checkpoint_path("checkpoint"))
        (tmp_path / "empty").mkdir()
        with pytest.raises(FileNotFoundError, match="There is no file .*/checkpoint, which names"):
            get_checkpoint_path(str(tmp_path / "empty"))

    def test_checkpoint_file_without_checkpoints(self, checkpoint):
        """A `checkpoint` file whose checkpoints were moved away raises a FileNotFoundError."""
        for suffix in (".index", ".data-00000-of-00001"):
            os.remove(checkpoint + suffix)
        with pytest.raises(FileNotFoundError, match="does not name an existing checkpoint"):
            get_checkpoint_path(os.path.join(os.path.dirname(checkpoint), "checkpoint"))


def test_get_all_checkpoints(tmp_path):
    """The list is sorted by number, has only checkpoints with the prefix, and paths without `.index`."""
    for name in ("model-10", "model-9", "max-error-3", "model-x", "my-model-4"):
        (tmp_path / (name + ".index")).touch()
        (tmp_path / (name + ".data-00000-of-00001")).touch()
    assert [(str(tmp_path / "model-9"), 9), (str(tmp_path / "model-10"), 10)] == get_all_checkpoints(str(tmp_path))
    assert [(str(tmp_path / "max-error-3"), 3)] == get_all_checkpoints(str(tmp_path), prefix="max-error")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("a/W:0",), "a/W:0"),
        (("a/W:0", "a"), "W:0"),
        (("a/W:0", "a/"), "W:0"),
        (("ab/W:0", "a"), "ab/W:0"),
        (("b/W:0", "a"), "b/W:0"),
        (("a/W", "a", "s"), "s/W"),
    ],
)
def test_get_savename_from_varname(arguments, expected):
    """The prefix must be a whole scope: "a" is not a prefix of "ab"."""
    assert expected == get_savename_from_varname(*arguments)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fc/W/Adam", True),
        ("fc/W/Adam_1:0", True),
        ("fc/W/Momentum", True),
        ("fc/W/RMSProp_1", True),
        ("EMA/cost/biased", True),
        ("tower0/EMA/cost", True),
        ("AccumGrad/counter", True),
        ("fc/W/AccumGrad", True),
        ("apply_gradients/beta1_power", True),
        ("bn/mean/EMA", False),
        ("global_step", False),
        ("beta1_power", False),
        ("learning_rate:0", False),
        ("MyAdam", False),
        ("fc/W", False),
    ],
)
def test_is_training_name(name, expected):
    """Slots and averages of summaries are used only in training; batch statistics are needed in inference."""
    assert expected == is_training_name(name)


class TestOtherFormats:
    @pytest.mark.parametrize("load", [SmartInit, load_checkpoint_vars, get_checkpoint_path])
    @pytest.mark.parametrize(
        ("name", "content", "match"),
        [
            ("frozen.pb", b"x", "a graph of TensorFlow.*the checkpoint from which it was made"),
            ("model.tflite", b"x", "a model of TensorFlow Lite"),
            ("model.onnx", b"x", "an ONNX model"),
            ("model.weights.h5", b"x", "a file of Keras.*model.load_weights"),
            ("model.keras", b"x", "a file of Keras"),
            ("resnet50.pth", b"x", r"a file of PyTorch.*torch.load.*SmartInit\(\{"),
            ("epoch=3.ckpt", b"PK\x03\x04", "a file of PyTorch"),
            ("served/saved_model.pb", b"x", "a graph of TensorFlow"),
        ],
    )
    def test_files(self, tmp_path, load, name, content, match):
        """A file of another format given as a checkpoint raises an error that names the format and the way to load it."""
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        with pytest.raises(ValueError, match=match):
            load(str(path))

    @pytest.mark.parametrize("load", [SmartInit, load_checkpoint_vars, get_checkpoint_path])
    def test_a_saved_model(self, tmp_path, load):
        """The directory of a SavedModel raises an error that names the checkpoint inside, which can be loaded."""
        (tmp_path / "saved_model.pb").write_bytes(b"x")
        save_checkpoint_vars({"w": np.float32(1)}, str(tmp_path / "variables" / "variables"))
        with pytest.raises(ValueError, match="is a SavedModel.*variables are the checkpoint .*variables/variables;"):
            load(str(tmp_path))
        assert 1.0 == load_checkpoint_vars(str(tmp_path / "variables" / "variables"))["w"]

    def test_a_checkpoint_with_such_a_name(self, tmp_path):
        """A checkpoint may have a name that ends like another format."""
        save_checkpoint_vars({"w": np.float32(1)}, str(tmp_path / "model.pb"))
        assert 1.0 == load_checkpoint_vars(str(tmp_path / "model.pb"))["w"]


class TestSessionUpdate:
    @pytest.mark.parametrize("use_resource", [True, False])
    def test_sets_variables_of_a_final_graph(self, sess, use_resource):
        """Both kinds of variables can be set in a finalized graph."""
        a = tf.get_variable("a", shape=[2], use_resource=use_resource)
        b = tf.get_variable(
            "b", shape=[], dtype=tf.int64, use_resource=use_resource, initializer=tf.zeros_initializer()
        )
        sess.run(tf.global_variables_initializer())
        tf.get_default_graph().finalize()
        SessionUpdate(sess, [a, b]).update({"a:0": [1.0, 2.0], "b:0": 3})
        assert ([1.0, 2.0], 3) == (sess.run(a).tolist(), sess.run(b))

    def test_variables_with_one_initial_value(self, sess):
        """Two variables that share the tensor of their initial value get different values."""
        initial = tf.constant(0.0)
        a, b = tf.Variable(initial, name="a"), tf.Variable(initial, name="b")
        SessionUpdate(sess, [a, b]).update({"a:0": np.float32(1), "b:0": np.float32(2)})
        assert [1.0, 2.0] == sess.run([a, b])

    @pytest.mark.parametrize("use_resource", [True, False])
    def test_a_variable_without_a_fixed_shape(self, sess, use_resource):
        """Such a variable takes a value that has another shape than its initial one, also in a final graph."""
        if use_resource:
            a = tf.Variable(np.zeros([0], "float32"), shape=[None], validate_shape=False, use_resource=True)
        else:
            a = tf.get_variable("a", initializer=np.zeros([0], "float32"), validate_shape=False, use_resource=False)
        b = tf.get_variable("b", initializer=0.0)
        sess.run(tf.global_variables_initializer())
        tf.get_default_graph().finalize()
        with kept_variables(sess):
            SessionUpdate(sess, [a, b]).update({a.name: np.float32([1, 2]), "b:0": 3.0})
            assert ([1.0, 2.0], 3.0) == (sess.run(a).tolist(), sess.run(b))
        assert ([], 0.0) == (sess.run(a).tolist(), sess.run(b))

    def test_skips_what_does_not_fit(self, sess):
        """With ignore_mismatch, values that cannot be converted are skipped, and the others are set."""
        a, b = tf.get_variable("a", initializer=[0.0, 0.0]), tf.get_variable("b", initializer=0.0)
        sess.run(tf.global_variables_initializer())
        SessionUpdate(sess, [a, b], ignore_mismatch=True).update({"a:0": np.ones(3), "b:0": np.ones([])})
        assert ([0.0, 0.0], 1.0) == (sess.run(a).tolist(), sess.run(b))

    @pytest.mark.slow
    def test_one_run_for_all(self, sess):
        """Two hundred variables are set in one run of the session."""
        variables = [tf.get_variable(f"v{i}", initializer=0.0) for i in range(200)]
        runs = []

        class Counting:
            graph = sess.graph

            def run(self, *args, **kwargs):
                runs.append(args)
                return sess.run(*args, **kwargs)

        SessionUpdate(Counting(), variables).update({var.name: np.float32(1) for var in variables})
        assert [1.0] * 200 == sess.run(variables)
        assert 1 == len(runs)


class TestRelaxedValue:
    fit = staticmethod(SessionUpdate.relaxed_value_for_var)

    def test_reshapes(self, capsys):
        """A value with the same number of elements is reshaped; one of the same shape and dtype is returned unchanged."""
        var = tf.get_variable("w", shape=[2, 3])
        fitting = self.fit(np.arange(6, dtype="float32"), var)
        np.testing.assert_array_equal(np.arange(6).reshape(2, 3), fitting)
        assert "Variable w: its new value is reshaped from (6,) to (2, 3)" in capsys.readouterr().out
        assert fitting is self.fit(fitting, var)

    def test_another_size(self, capsys):
        """Another number of elements raises a ValueError, or returns None with a warning."""
        var = tf.get_variable("w", shape=[2, 3])
        with pytest.raises(ValueError, match=r"Variable w has shape \(2, 3\), but its new value has shape \(5,\)"):
            self.fit(np.zeros(5, dtype="float32"), var)
        assert self.fit(np.zeros(5, dtype="float32"), var, ignore_mismatch=True) is None
        assert "It is skipped" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("value", "dtype", "is_fine"),
        [
            (np.float64(0.5), tf.float32, True),
            (np.float16(0.5), tf.float32, True),
            (np.float32(0.5), tf.float16, True),
            (np.int32(5), tf.int64, True),
            (np.int64(5), tf.int32, True),
            (np.uint8(5), tf.int32, True),
            (np.bool_(1), tf.bool, True),
            (np.float32(0.5), tf.int32, False),
            (np.int32(5), tf.float32, False),
            (np.int64(2**40), tf.int32, False),
            (np.bool_(1), tf.float32, False),
        ],
    )
    def test_casts(self, value, dtype, is_fine, capsys):
        """Floats are cast to floats, and integers to integers if every value fits. Other casts raise a TypeError."""
        var = tf.get_variable("w", shape=[], dtype=dtype, initializer=tf.zeros_initializer())
        if is_fine:
            fitting = self.fit(value, var)
            assert (value, dtype.as_numpy_dtype) == (fitting, fitting.dtype)
            assert (dtype != tf.bool) == ("is cast" in capsys.readouterr().out)
            return
        with pytest.raises(TypeError, match=f"Variable w has dtype {dtype.name}, but its new value has dtype"):
            self.fit(value, var)
        assert self.fit(value, var, ignore_mismatch=True) is None
