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
    def test_reads_a_checkpoint(self, checkpoint):
        """All variables of a checkpoint are read."""
        check(load_checkpoint_vars(checkpoint))

    @pytest.mark.parametrize("name", ["m.npz", "m"])
    def test_round_trip(self, tmp_path, name):
        """Names with `:0` are read back without it."""
        path = str(tmp_path / name)
        save_checkpoint_vars({"fc/W:0": VALUES["fc/W"], "global_step:0": VALUES["global_step"]}, path)
        check(load_checkpoint_vars(path))

    def test_saver_reads_what_was_written(self, tmp_path, sess):
        """TensorFlow's Saver can restore the written checkpoint."""
        path = str(tmp_path / "m")
        save_checkpoint_vars(VALUES, path)
        var = tf.get_variable("fc/W", shape=[2, 3])
        tf.train.Saver().restore(sess, path)
        np.testing.assert_array_equal(VALUES["fc/W"], sess.run(var))

    def test_adds_nothing_to_the_graph(self, tmp_path):
        """The default graph does not change."""
        save_checkpoint_vars(VALUES, str(tmp_path / "m"))
        assert [] == tf.get_default_graph().get_operations()

    def test_keeps_an_existing_list_of_checkpoints(self, tmp_path, checkpoint):
        """An existing `checkpoint` file is not replaced."""
        save_checkpoint_vars(VALUES, str(tmp_path / "converted"))
        assert checkpoint == get_checkpoint_path(str(tmp_path / "checkpoint"))
        (tmp_path / "new").mkdir()
        save_checkpoint_vars(VALUES, str(tmp_path / "new" / "m"))
        assert str(tmp_path / "new" / "m") == get_checkpoint_path(str(tmp_path / "new" / "checkpoint"))

    def test_bare_name(self, tmp_path, monkeypatch):
        """A path without a directory means the current directory."""
        monkeypatch.chdir(tmp_path)
        save_checkpoint_vars(VALUES, "m")
        check(load_checkpoint_vars("m"))

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

    def test_refuses_npy(self, tmp_path):
        """The suffix `.npy` raises a ValueError, because that format has one array."""
        with pytest.raises(ValueError, match=r"cannot write .*\.npy. Use the suffix .npz"):
            save_checkpoint_vars(VALUES, str(tmp_path / "m.npy"))

    def test_refuses_one_variable_twice(self, tmp_path):
        """The names `w` and `w:0` together raise a ValueError."""
        with pytest.raises(ValueError, match="two names mean the same variable"):
            save_checkpoint_vars({"w": 1.0, "w:0": 2.0}, str(tmp_path / "m"))

    def test_refuses_nothing(self, tmp_path):
        """An empty dictionary raises a ValueError, because an empty checkpoint could not be read."""
        with pytest.raises(ValueError, match="nothing to save"):
            save_checkpoint_vars({}, str(tmp_path / "m"))

    def test_missing_npz(self, tmp_path):
        """A missing npz file raises a FileNotFoundError that names it."""
        with pytest.raises(FileNotFoundError, match=r"no parameter file .*m\.npz"):
            load_checkpoint_vars(str(tmp_path / "m.npz"))

    def test_parameter_file_keeps_names(self, tmp_path):
        """load_parameter_file returns the names as in the file."""
        np.savez(str(tmp_path / "m.npz"), **{"fc/W:0": VALUES["fc/W"]})
        assert ["fc/W:0"] == list(load_parameter_file(str(tmp_path / "m.npz")))

    def test_short_names(self):
        """The older names from tensorpack are the same functions."""
        assert (load_chkpt_vars, save_chkpt_vars) == (load_checkpoint_vars, save_checkpoint_vars)


class TestDumpSessionParams:
    def test_saves_the_model_only(self, tmp_path, sess):
        """Trainable and model variables that are global are saved, but no slots or local variables."""
        var = tf.get_variable("w", initializer=2.0)
        tf.get_variable("ema", initializer=3.0, trainable=False, collections=["variables", "model_variables"])
        tf.get_variable("replica", initializer=4.0, collections=[tf.GraphKeys.LOCAL_VARIABLES])
        tf.train.MomentumOptimizer(0.1, 0.9).minimize(var * 1.0, var_list=[var])
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        dump_session_params(str(tmp_path / "m.npz"))
        assert {"w": 2.0, "ema": 3.0} == {
            k: float(v) for k, v in load_checkpoint_vars(str(tmp_path / "m.npz")).items()
        }

    def test_keys_of_the_file(self, tmp_path, sess):
        """The keys of the file are tensor names, as in tensorpack."""
        tf.get_variable("w", initializer=2.0)
        sess.run(tf.global_variables_initializer())
        dump_session_params(str(tmp_path / "m.npz"))
        assert ["w:0"] == list(load_parameter_file(str(tmp_path / "m.npz")))

    def test_needs_a_session(self, tmp_path):
        """Without a default session, a RuntimeError gives advice."""
        with pytest.raises(RuntimeError, match="no default session"):
            dump_session_params(str(tmp_path / "m.npz"))

    def test_refuses_a_variable_in_both(self, tmp_path, sess):
        """A variable that is both trainable and a model variable raises a ValueError."""
        tf.add_to_collection(tf.GraphKeys.MODEL_VARIABLES, tf.get_variable("w", initializer=2.0))
        with pytest.raises(ValueError, match="both trainable and model variables: w:0"):
            dump_session_params(str(tmp_path / "m.npz"))


class TestGetCheckpointPath:
    @pytest.mark.parametrize("suffix", ["", ".index", ".state", ".end", ".data-00000-of-00001"])
    def test_files_of_a_checkpoint(self, checkpoint, suffix):
        """The path of any of its files means the checkpoint."""
        assert checkpoint == get_checkpoint_path(checkpoint + suffix)

    def test_the_latest(self, checkpoint):
        """The path of the file `checkpoint` means the latest checkpoint."""
        assert checkpoint == get_checkpoint_path(os.path.join(os.path.dirname(checkpoint), "checkpoint"))

    def test_bare_names(self, checkpoint, monkeypatch):
        """Paths without a directory work."""
        monkeypatch.chdir(os.path.dirname(checkpoint))
        assert "./model-7" == get_checkpoint_path("model-7")
        assert "model-7" == os.path.basename(get_checkpoint_path("checkpoint"))

    def test_missing(self, tmp_path):
        """A missing checkpoint raises a FileNotFoundError with the path and the current directory."""
        with pytest.raises(
            FileNotFoundError,
            match="There is no checkpoint .*nothing. Check the path; the current directory is",
        ):
            get_checkpoint_path(str(tmp_path / "nothing"))

    def test_missing_checkpoint_file(self, tmp_path):
        """A missing `checkpoint` file raises a FileNotFoundError."""
        with pytest.raises(
            FileNotFoundError, match="There is no file .*checkpoint, which names the latest checkpoint"
        ):
            get_checkpoint_path(str(tmp_path / "checkpoint"))

    def test_checkpoint_file_without_checkpoints(self, checkpoint):
        """A `checkpoint` file whose checkpoints were moved away raises a FileNotFoundError."""
        for suffix in (".index", ".data-00000-of-00001"):
            os.remove(checkpoint + suffix)
        with pytest.raises(FileNotFoundError, match="does not name an existing checkpoint"):
            get_checkpoint_path(os.path.join(os.path.dirname(checkpoint), "checkpoint"))

    def test_directory(self, checkpoint):
        """The path of a directory means its latest checkpoint."""
        assert checkpoint == get_checkpoint_path(os.path.dirname(checkpoint))
        assert checkpoint == get_checkpoint_path(os.path.dirname(checkpoint) + "/")

    def test_empty_directory(self, tmp_path):
        """A directory without checkpoints raises a FileNotFoundError that names the missing file."""
        with pytest.raises(FileNotFoundError, match="There is no file .*/checkpoint, which names"):
            get_checkpoint_path(str(tmp_path))


def test_get_all_checkpoints(tmp_path):
    """The list is sorted by number, has only checkpoints with the prefix, and paths without `.index`."""
    for name in ("model-10", "model-9", "max-error-3", "model-x", "my-model-4"):
        (tmp_path / (name + ".index")).touch()
        (tmp_path / (name + ".data-00000-of-00001")).touch()
    assert [(str(tmp_path / "model-9"), 9), (str(tmp_path / "model-10"), 10)] == get_all_checkpoints(
        str(tmp_path)
    )
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
            ("model.safetensors", b"x", "safetensors.numpy.load_file"),
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
        with pytest.raises(
            ValueError, match="is a SavedModel.*variables are the checkpoint .*variables/variables;"
        ):
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
            a = tf.get_variable(
                "a", initializer=np.zeros([0], "float32"), validate_shape=False, use_resource=False
            )
        b = tf.get_variable("b", initializer=0.0)
        sess.run(tf.global_variables_initializer())
        tf.get_default_graph().finalize()
        with kept_variables(sess):
            SessionUpdate(sess, [a, b]).update({a.name: np.float32([1, 2]), "b:0": 3.0})
            assert ([1.0, 2.0], 3.0) == (sess.run(a).tolist(), sess.run(b))
        assert ([], 0.0) == (sess.run(a).tolist(), sess.run(b))

    def test_unknown_name(self, sess):
        """A name that is not among the variables raises a KeyError."""
        with pytest.raises(KeyError, match="no variable to update is named x:0"):
            SessionUpdate(sess, []).update({"x:0": 1.0})

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

    def test_same(self):
        """A value with the same shape and dtype is returned unchanged."""
        value = np.ones([2, 3], dtype="float32")
        assert self.fit(value, tf.get_variable("w", shape=[2, 3])) is value

    def test_reshapes(self, capsys):
        """A value with the same number of elements is reshaped."""
        fitting = self.fit(np.arange(6, dtype="float32"), tf.get_variable("w", shape=[2, 3]))
        np.testing.assert_array_equal(np.arange(6).reshape(2, 3), fitting)
        assert "Variable w: its new value is reshaped from (6,) to (2, 3)" in capsys.readouterr().out

    def test_another_size(self, capsys):
        """Another number of elements raises a ValueError, or returns None with a warning."""
        var = tf.get_variable("w", shape=[2, 3])
        with pytest.raises(
            ValueError, match=r"Variable w has shape \(2, 3\), but its new value has shape \(5,\)"
        ):
            self.fit(np.zeros(5, dtype="float32"), var)
        assert self.fit(np.zeros(5, dtype="float32"), var, ignore_mismatch=True) is None
        assert "It is skipped" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("value", "dtype"),
        [
            (np.float64(0.5), tf.float32),
            (np.float16(0.5), tf.float32),
            (np.float32(0.5), tf.float16),
            (np.int32(5), tf.int64),
            (np.int64(5), tf.int32),
            (np.uint8(5), tf.int32),
        ],
    )
    def test_casts(self, value, dtype, capsys):
        """Floats are cast to floats, and integers to integers if every value fits."""
        fitting = self.fit(
            value, tf.get_variable("w", shape=[], dtype=dtype, initializer=tf.zeros_initializer())
        )
        assert (value, dtype.as_numpy_dtype) == (fitting, fitting.dtype)
        assert "is cast" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("value", "dtype"),
        [
            (np.float32(0.5), tf.int32),
            (np.int32(5), tf.float32),
            (np.int64(2**40), tf.int32),
            (np.bool_(1), tf.float32),
        ],
    )
    def test_refuses_other_kinds(self, value, dtype):
        """Casts that lose more than precision raise a TypeError."""
        var = tf.get_variable("w", shape=[], dtype=dtype, initializer=tf.zeros_initializer())
        with pytest.raises(
            TypeError, match=f"Variable w has dtype {dtype.name}, but its new value has dtype"
        ):
            self.fit(value, var)
        assert self.fit(value, var, ignore_mismatch=True) is None

    def test_text_and_bools(self):
        """Strings and bools are accepted if the dtypes are equal."""
        var = tf.get_variable("b", shape=[], dtype=tf.bool, initializer=tf.zeros_initializer())
        assert self.fit(np.bool_(1), var)


def test_dump_outside_the_graph(sess, tmp_path):
    """The variables are those of the session's graph, even if another graph is the default."""
    sess.run(tf.get_variable("w", initializer=3.0).initializer)
    path = str(tmp_path / "m.npz")
    with tf.Graph().as_default():
        dump_session_params(path)
    assert {"w": 3.0} == {name: float(value) for name, value in load_checkpoint_vars(path).items()}


@pytest.mark.parametrize("name", ["file", "allow_pickle"])
def test_a_variable_with_the_name_of_an_argument(tmp_path, name):
    """A variable can have the name of an argument of `np.savez`."""
    path = str(tmp_path / "m.npz")
    save_checkpoint_vars({name: np.float32(2.0)}, path)
    assert {name: 2.0} == {key: float(value) for key, value in load_checkpoint_vars(path).items()}
