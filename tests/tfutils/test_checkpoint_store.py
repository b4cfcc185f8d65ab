"""Tests of tfutils/checkpoint_store.py: files are on the disk before their names are visible, and are replaced as a whole."""

from __future__ import annotations

import json
import os
import subprocess

import numpy as np
import pytest
from fakes.checkpoints import train, value_in
from fakes.recording import PutValues

from tensorpack_lite.callbacks.saver import MinSaver, ModelSaver
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.tfutils.checkpoint_reader import reason_of
from tensorpack_lite.tfutils.checkpoint_store import CheckpointStore
from tensorpack_lite.tfutils.varmanip import save_checkpoint_vars


@pytest.fixture
def synced(tmp_path, monkeypatch):
    """A list of the names of synced files, with the visible files of the directory at that time."""
    calls = []
    fsync = os.fsync

    def record(descriptor):
        path = os.path.realpath(f"/proc/self/fd/{descriptor}")
        visible = sorted(name for name in os.listdir(str(tmp_path)) if not name.startswith("."))
        calls.append((os.path.relpath(path, str(tmp_path)), visible))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    return calls


def test_a_checkpoint_is_synced_before_it_is_visible(tmp_path, synced):
    """
    All files of a checkpoint are synced in the hidden subdirectory, the directory after they are moved, and then the list of
    checkpoints.
    """
    save_checkpoint_vars({"w": np.zeros(3)}, str(tmp_path / "model-1"))
    files = ["model-1.data-00000-of-00001", "model-1.index"]
    listed = [(".checkpoint.tmp", files), (".", ["checkpoint", *files])]
    assert [(f".saving/{file}", []) for file in files] + [(".", files), *listed] == synced


def test_a_replaced_text_file_is_synced(tmp_path, synced):
    """A small file is synced under its temporary name, while the old one is still in place."""
    (tmp_path / "max.json").write_text("old")
    CheckpointStore(str(tmp_path), "test").write_text("max.json", "new")
    assert [(".max.json.tmp", ["max.json"]), (".", ["max.json"])] == synced
    assert "new" == (tmp_path / "max.json").read_text()


def test_a_replaced_checkpoint_is_synced(tmp_path, synced):
    """The new files and the journal are synced while the old files are still in place."""
    store = CheckpointStore(str(tmp_path), "test")
    save_checkpoint_vars({"w": np.zeros(3)}, str(tmp_path / "model-1"))
    store.copy("model-1", "best")
    del synced[:]
    store.copy("model-1", "best", {"best.json": "{}"})

    files = ["best.data-00000-of-00001", "best.index", "best.json"]
    before = sorted(["checkpoint", "model-1.data-00000-of-00001", "model-1.index", *files[:2]])
    steps = [*(f".saving/{file}" for file in files), ".saving/moving.tmp", ".saving"]
    assert [*((step, before) for step in steps), (".", sorted([*before, "best.json"]))] == synced


def test_without_fsync(tmp_path, synced):
    """With fsync=False, ModelSaver and the MinSaver behind it do not sync, and save the same files."""
    directory = str(tmp_path)
    saver = ModelSaver(checkpoint_dir=directory, fsync=False)
    train([PutValues("error", [2, 1]), saver, MinSaver("error", checkpoint_dir=directory)])
    assert [] == synced
    assert 4.0 == value_in(tmp_path, "min-error")


def test_a_damaged_journal(tmp_path):
    """A journal that cannot be read is an error that names it."""
    (tmp_path / ".saving").mkdir()
    (tmp_path / ".saving" / "moving").write_text("{")
    with pytest.raises(ValueError, match=r"\.saving/moving cannot be read as a list of files to move: .* Remove it\."):
        CheckpointStore(str(tmp_path), "test").remove_leftovers("model", "tmp")


def test_an_error_while_files_are_moved(tmp_path, monkeypatch):
    """If a file cannot be moved, the new checkpoint is completed by the next operation of the store."""
    for step in (1, 2):
        save_checkpoint_vars({"w": np.float32(step)}, str(tmp_path / f"model-{step}"))
    store = CheckpointStore(str(tmp_path), "test")
    store.copy("model-1", "best")
    rename = tf.io.gfile.rename

    def fail(source, target, **options):
        if source.endswith("best.index"):
            raise tf.errors.UnknownError(None, None, "mine")
        rename(source, target, **options)

    with monkeypatch.context() as patch:
        patch.setattr(tf.io.gfile, "rename", fail)
        with pytest.raises(OSError, match="test: cannot write '.*best': mine"):
            store.copy("model-2", "best")
    assert [] == store.files("best")
    store.remove_leftovers("best", "tmp")
    assert 2.0 == value_in(tmp_path, "best", "w")
    assert not (tmp_path / ".saving").exists()


def test_other_programs_read_it(tmp_path):
    """`tf.train.latest_checkpoint` and a plain `tf.train.Saver` read a checkpoint with a state that has arrays."""

    class Keep(Callback):
        def state_dict(self):
            return {"array": np.arange(5)}

    train([Keep(), ModelSaver(checkpoint_dir=str(tmp_path))], epochs=1)
    assert "model-2.state" in os.listdir(str(tmp_path))

    path = tf.train.latest_checkpoint(str(tmp_path))
    assert str(tmp_path / "model-2") == path
    x = tf.get_variable("x", [])
    with tf.Session() as session:
        tf.train.Saver([x]).restore(session, path)
        assert 2.0 == session.run(x)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.any_tensorflow
def test_killed_while_a_copy_is_replaced(start_python, tmp_path):
    """
    Wherever the process is killed while it replaces a copy and its record, the next start has both of the old copy or both of
    the new one, with the right state.
    """
    script = os.path.join(os.path.dirname(os.path.dirname(__file__)), "fakes", "killed_copy_script.py")
    output = start_python(script, tmp_path, stderr=subprocess.STDOUT).communicate()[0]
    lines = [line for line in output.splitlines() if line.startswith("RESULT ")]
    results = [json.loads(line[len("RESULT ") :]) for line in lines]

    assert [True] * (len(results) - 1) + [False] == [result["killed"] for result in results], output
    assert {True, False} == {result["begun"] for result in results if result["killed"]}
    for result in results:
        assert ([2.0, 2, False, []] if result["begun"] else [1.0, 1, True, []]) == result["found"], result


@pytest.mark.parametrize("place", ["", "From /job:worker/replica:0/task:0:\n"])
def test_the_reason_of_an_error(place):
    """The reason why a file cannot be written is not hidden behind the place in the graph or in the cluster."""
    message = f"Graph execution error:\n\nDetected at node 'save/SaveV2'\n  File x\nNode: 'save/SaveV2'\n{place}x; No space left on device\n\t [[save]]"
    assert "x; No space left on device" == reason_of(tf.errors.ResourceExhaustedError(None, None, message))
