"""Tests of initializing variables from checkpoints, files and dictionaries."""

from __future__ import annotations

import os
import re

import numpy as np
import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.checkpoint_reader import CheckpointReader
from tensorpack_lite.tfutils.sessinit import (
    ChainInit,
    CheckpointReaderAdapter,
    DictRestore,
    JustCurrentSession,
    SaverRestore,
    SaverRestoreRelaxed,
    SessionInit,
    SmartInit,
    get_model_loader,
)
from tensorpack_lite.tfutils.varmanip import save_checkpoint_vars
from tensorpack_lite.utils.errors import DamagedFileError

KINDS = [True, False]  # resource variables and ref variables


def make(use_resource=True, **variables) -> list:
    """Create variables with the given initial values. `__` in a name means a slash."""
    return [
        tf.get_variable(name.replace("__", "/"), initializer=value, use_resource=use_resource)
        for name, value in variables.items()
    ]


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a checkpoint with TensorFlow's Saver."""

    def write(name="model-3", **variables):
        with tf.Graph().as_default(), tf.Session() as session:
            make(**variables)
            session.run(tf.global_variables_initializer())
            return tf.train.Saver().save(session, str(tmp_path / name))

    return write


def load(init, sess) -> None:
    """Initialize as a trainer does: set up the graph, create the session, finalize the graph, set the values."""
    init._setup_graph()
    sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    tf.get_default_graph().finalize()
    init._run_init(sess)


class TestSaverRestore:
    @pytest.mark.parametrize("saved", KINDS)
    @pytest.mark.parametrize("use_resource", KINDS)
    def test_restores(self, write, sess, use_resource, saved):
        """Variables in both are restored, also into another kind; those only in the graph keep their initial values."""
        path = write(use_resource=saved, a=[1.0, 2.0], b=3.0)
        a, c = make(use_resource, a=[0.0, 0.0], c=5.0)
        load(SaverRestore(path), sess)
        assert ([1.0, 2.0], 5.0) == (sess.run(a).tolist(), sess.run(c))

    @pytest.mark.parametrize("restore", [SaverRestore, SaverRestoreRelaxed])
    @pytest.mark.parametrize("suffix", [".index", ".data-00000-of-00001", None])
    def test_a_damaged_checkpoint(self, write, sess, suffix, restore):
        """A flipped bit, or a missing file of data, raises a DamagedFileError that names the checkpoint."""
        path = write(a=[1.0, 2.0])
        if suffix is None:
            os.remove(path + ".data-00000-of-00001")
        else:
            with open(path + suffix, "r+b") as file:
                content = bytearray(file.read())
                content[5] ^= 1
                file.seek(0)
                file.write(bytes(content))
        make(a=[0.0, 0.0])
        with pytest.raises(DamagedFileError, match=f"^{path} cannot be read as a checkpoint: [^\\n]*Use an earlier"):
            load(restore(path), sess)

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
    def test_a_checkpoint_that_may_not_be_read(self, write):
        """An index without read permission raises a PermissionError."""
        path = write(a=1.0)
        os.chmod(path + ".index", 0)
        with pytest.raises(PermissionError, match="model-3.index"):
            CheckpointReader(path)

    def test_local_variables_are_left_alone(self, write, sess):
        """Only global variables are restored, not local ones."""
        path = write(a=1.0, b=1.0)
        (b,) = make(b=0.0)
        a = tf.get_variable("a", initializer=0.0, collections=[tf.GraphKeys.LOCAL_VARIABLES])
        load(SaverRestore(path), sess)
        assert [0.0, 1.0] == sess.run([a, b])

    def test_prefix(self, write, sess):
        """The prefix is removed from the variables that have it, and other variables match by their own name."""
        path = write(W=1.0, ab__W=2.0, b=3.0)
        variables = make(a__W=0.0, ab__W=0.0, b=0.0)
        load(SaverRestore(path, prefix="a"), sess)
        assert [1.0, 2.0, 3.0] == sess.run(variables)

    @pytest.mark.parametrize("ignored", ["a", "a:0"])
    def test_ignore(self, write, sess, ignored, capsys):
        """Names in `ignore` are those of the checkpoint, and no warning is logged about them."""
        path = write(a=1.0, b=2.0)
        variables = make(x__a=0.0, b=0.0)
        load(SaverRestore(path, prefix="x", ignore=[ignored]), sess)
        assert [0.0, 2.0] == sess.run(variables)
        assert "not found" not in capsys.readouterr().out

    def test_keys_with_colon(self, tmp_path, sess):
        """Keys of a checkpoint may end in `:0`."""
        path = str(tmp_path / "m")
        with tf.Graph().as_default(), tf.Session() as session:
            (var,) = make(a=1.0)
            session.run(var.initializer)
            tf.train.Saver({"a:0": var}).save(session, path)
        (a,) = make(a=0.0)
        load(SaverRestore(path), sess)
        assert 1.0 == sess.run(a)

    @pytest.mark.parametrize("kind", ["checkpoint", "dictionary"])
    def test_what_only_a_training_has(self, write, sess, capsys, kind):
        """A graph without step, learning rate and optimizer, such as that of a predictor, is not a reason for a warning."""
        values = {"a": 1.0, "global_step": 5.0, "learning_rate": 0.1, "beta1_power": 0.9, "beta2_power": 0.99}
        init = SaverRestore(write(**values)) if kind == "checkpoint" else DictRestore(values)
        make(a=0.0)
        load(init, sess)
        assert "not found in the graph" not in capsys.readouterr().out

    def test_reports_unmatched_variables(self, write, sess, capsys):
        """One warning for each side lists the unmatched variables, except those that matter only for training."""
        path = write(a=1.0, old=1.0, a__Momentum=0.0)
        make(a=0.0, new=0.0, a__Adam=0.0)
        load(SaverRestore(path), sess)
        text = capsys.readouterr().out
        assert "in the graph, but not found in the checkpoint: new\n" in text
        assert "in the checkpoint, but not found in the graph: old\n" in text

    def test_nothing_in_common(self, write):
        """If no variable matches, a ValueError is raised, instead of training from scratch."""
        path = write(a=1.0)
        make(b=0.0)
        with pytest.raises(ValueError, match="the graph have no variable in common"):
            SaverRestore(path)._setup_graph()

    def test_layers_with_other_numbers(self, write):
        """If the names differ only by the number of a layer, the error mentions it, and explains what to do."""
        path = write(dense__kernel=1.0)
        make(dense_2__kernel=0.0)
        with pytest.raises(ValueError, match=r"has 'dense/kernel', the graph 'dense_2/kernel'.*Name the layers\."):
            SaverRestore(path)._setup_graph()

    def test_another_shape(self, write):
        """Another shape raises a ValueError with advice before the session is created."""
        path = write(a=[1.0, 2.0])
        make(a=[0.0, 0.0, 0.0])
        with pytest.raises(
            ValueError,
            match=r"variables have another shape in .*: a \(3,\) \(in the checkpoint \(2,\)\).*ignore_mismatch=True",
        ):
            SaverRestore(path)._setup_graph()

    def test_two_variables_for_one(self, write):
        """Two variables whose names are equal without the prefix raise a ValueError."""
        path = write(a=1.0)
        make(a=0.0, x__a=0.0)
        with pytest.raises(ValueError, match="'a' and 'x/a' both match 'a'"):
            SaverRestore(path, prefix="x")._setup_graph()

    def test_warns_of_npz(self, tmp_path, capsys):
        """An npz file logs a warning that recommends SmartInit."""
        with pytest.raises(FileNotFoundError):
            SaverRestore(str(tmp_path / "m.npz"))
        assert "Use SmartInit(path)" in capsys.readouterr().out

    def test_two_in_one_graph(self, write, sess):
        """Two checkpoints with different prefixes can be restored into one graph, as for GANs and teachers."""
        first, second = write("m1", w=1.0), write("m2", w=2.0)
        variables = make(a__w=0.0, b__w=0.0)
        load(ChainInit([SaverRestore(first, prefix="a"), SaverRestore(second, prefix="b")]), sess)
        assert [1.0, 2.0] == sess.run(variables)

    @pytest.mark.parametrize("saved", ["", "apply_gradients/", "async_apply_gradients/"])
    @pytest.mark.parametrize("wanted", ["", "apply_gradients/", "async_apply_gradients/"])
    @pytest.mark.parametrize(
        "kind", ["dict", *(pytest.param(kind, marks=pytest.mark.slow) for kind in (SaverRestore, SaverRestoreRelaxed))]
    )
    def test_powers_of_another_trainer(self, tmp_path, sess, kind, saved, wanted, capsys):
        """Powers of Adam are restored from the names that other trainers use, without a warning."""
        values = {"w": 1.0, f"{saved}beta1_power": 2.0, f"{saved}beta1_power_1": 3.0, f"{saved}mine": 4.0}
        path = str(tmp_path / "m")
        save_checkpoint_vars({name: np.float32(value) for name, value in values.items()}, path)
        names = ["w", f"{wanted}beta1_power", f"{wanted}beta1_power_1", f"{wanted}mine"]
        variables = make(**dict.fromkeys(names, 0.0))
        load(DictRestore(values) if kind == "dict" else kind(path), sess)
        assert [1.0, 2.0, 3.0, 4.0 if saved == wanted else 0.0] == sess.run(variables)
        assert not re.search("not found.*power", capsys.readouterr().out)

    @pytest.mark.parametrize("kind", [SaverRestore, "dict"])
    def test_powers_are_taken_once(self, tmp_path, sess, kind):
        """A variable's own name has priority, and names that are ignored or belong to another variable are not used."""
        first, second = "beta1_power", "apply_gradients/beta1_power"
        path = str(tmp_path / "m")
        save_checkpoint_vars({"w": np.float32(1), second: np.float32(2)}, path)
        variables = make(**{"w": 0.0, first: 0.0, second: 0.0})
        load(DictRestore({"w": 1.0, second: 2.0}) if kind == "dict" else kind(path), sess)
        assert [1.0, 0.0, 2.0] == sess.run(variables)
        with tf.Graph().as_default():
            make(**{"w": 0.0, first: 0.0})
            matched = SaverRestore(path, ignore=[second])._match(CheckpointReader(path))
            assert ["w"] == [match.key for match in matched]


class TestSaverRestoreRelaxed:
    @pytest.mark.parametrize("use_resource", KINDS)
    def test_makes_fit_or_skips(self, tmp_path, sess, use_resource, capsys):
        """Values are reshaped, cast or skipped, in Python, without new operations."""
        path = str(tmp_path / "m")
        values = {"a": np.arange(4.0), "b": np.float16(2), "c": np.ones(3, dtype="float32")}
        save_checkpoint_vars(values, path)
        a, b, c = make(use_resource, a=np.zeros([2, 2], dtype="float32"), b=0.0, c=[0.0, 0.0])
        before = len(tf.get_default_graph().get_operations())
        init = SaverRestoreRelaxed(path)
        init._setup_graph()
        assert before == len(tf.get_default_graph().get_operations())
        load(init, sess)
        assert [[0.0, 1.0], [2.0, 3.0]] == sess.run(a).tolist()
        assert (2.0, [0.0, 0.0]) == (sess.run(b), sess.run(c).tolist())
        assert "Variable c has shape" in capsys.readouterr().out


class TestDictRestore:
    @pytest.mark.parametrize("use_resource", KINDS)
    def test_sets_variables_in_both(self, sess, use_resource, capsys):
        """Variables are set by name with or without `:0`, also from plain numbers. Unused values, also slots, are listed."""
        a, b, c = make(use_resource, a=0.0, b=[0.0, 0.0], c=5.0)
        load(DictRestore({"a": 1.0, "b:0": np.array([1.0, 2.0]), "d": 3, "d/Adam": 4}), sess)
        assert (1.0, [1.0, 2.0], 5.0) == (sess.run(a), sess.run(b).tolist(), sess.run(c))
        text = capsys.readouterr().out
        assert "restore from dict: a, b\n" in text
        assert "in the graph, but not found in the dict: c\n" in text
        assert "in the dict, but not found in the graph: d, d/Adam\n" in text

    def test_mismatch(self, sess):
        """A value that cannot be converted raises an error, or is skipped with ignore_mismatch."""
        (a,) = make(a=[0.0, 0.0])
        sess.run(tf.global_variables_initializer())
        with pytest.raises(ValueError, match=r"Variable a has shape \(2,\)"):
            DictRestore({"a": [1.0, 2.0, 3.0]}).init(sess)
        DictRestore({"a": [1.0, 2.0, 3.0]}, ignore_mismatch=True).init(sess)
        assert [0.0, 0.0] == sess.run(a).tolist()


class TestChainInit:
    def test_phases_in_order(self, sess):
        """All graphs are set up before any values are set, and later values override earlier ones."""
        calls = []

        class Recorder(SessionInit):
            def __init__(self, name):
                self.name = name

            def _setup_graph(self):
                calls.append(("graph", self.name))

            def _run_init(self, sess):
                calls.append(("run", self.name))

        ChainInit([Recorder(1), SessionInit(), Recorder(2)]).init(sess)
        assert [("graph", 1), ("graph", 2), ("run", 1), ("run", 2)] == calls


class TestSmartInit:
    @pytest.mark.parametrize("nothing", [None, "", [], {}])
    def test_nothing(self, nothing):
        """An empty object loads nothing. A SessionInit is returned unchanged."""
        init = SmartInit(nothing)
        assert type(init) is JustCurrentSession
        assert SmartInit(init) is init is get_model_loader(init)

    @pytest.mark.parametrize("suffix", ["", "/", "/checkpoint", "/model-3", "/model-3.index"])
    def test_paths(self, write, sess, suffix):
        """A directory or its file `checkpoint` means its latest checkpoint, each other file its own."""
        write("model-2", a=2.0)
        path = write(a=1.0)
        init = SmartInit(os.path.dirname(path) + suffix)
        assert (SaverRestore, path) == (type(init), init.path)
        assert type(SmartInit(path, ignore_mismatch=True)) is SaverRestoreRelaxed
        (a,) = make(a=0.0)
        load(init, sess)
        assert 1.0 == sess.run(a)

    @pytest.mark.parametrize("name", ["m.npz", "m.npy"])
    def test_parameter_files(self, tmp_path, sess, name, monkeypatch):
        """Both kinds of NumPy files can be loaded. `~` means the home directory."""
        monkeypatch.setenv("HOME", str(tmp_path))
        path, values = str(tmp_path / name), {"a": np.float32(2)}
        if name.endswith("npz"):
            np.savez(path, **values)
        else:
            np.save(path, values)
        (a,) = make(a=0.0)
        load(SmartInit(f"~/{name}"), sess)
        assert 2.0 == sess.run(a)

    def test_dict(self, sess):
        """A dictionary gives DictRestore, with ignore_mismatch passed on. `init` works on the session's graph."""
        a, b = make(a=[0.0, 0.0], b=0.0)
        sess.run(tf.global_variables_initializer())
        init = SmartInit({"a": np.zeros(3), "b": 2.0}, ignore_mismatch=True)
        with tf.Graph().as_default():
            init.init(sess)
        assert ([0.0, 0.0], 2.0) == (sess.run(a).tolist(), sess.run(b))

    def test_list(self, write, sess):
        """The items of a list are loaded in order, and may be None."""
        variables = make(a=0.0, b=0.0)
        load(SmartInit([write(a=1.0, b=1.0), None, {"b": 2.0}]), sess)
        assert [1.0, 2.0] == sess.run(variables)


class TestCheckpointReaderAdapter:
    @pytest.mark.parametrize("suffix", ["", ":0"])
    def test_names(self, tmp_path, suffix):
        """Arrays are found under their names with and without `:0`, whichever the checkpoint has."""
        path = str(tmp_path / "model")
        with tf.Session() as session:
            variable = tf.get_variable("fc/W", initializer=[1.0, 2.0])
            session.run(variable.initializer)
            tf.train.Saver({"fc/W" + suffix: variable}).save(session, path)
        reader = CheckpointReaderAdapter(tf.train.NewCheckpointReader(path))
        assert {"fc/W:0": [2]} == reader.get_variable_to_shape_map()
        for name in ("fc/W", "fc/W:0"):
            assert [1.0, 2.0] == reader.get_tensor(name).tolist()
            assert reader.has_tensor(name)
            assert "fc/W" + suffix == reader.get_real_name(name)
        assert not reader.has_tensor("fc/b")
        with pytest.raises(KeyError, match="the checkpoint has no 'fc/b'. It has: fc/W:0"):
            reader.get_tensor("fc/b")
