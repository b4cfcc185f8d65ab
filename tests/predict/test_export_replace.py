"""export_serving replaces a SavedModel only if asked to, and loses neither the old one nor the new one."""

from __future__ import annotations

import os

import pytest
from fakes.exported import scale

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.predict import export
from tensorpack_lite.tfutils.sessinit import DictRestore


def predict(path):
    """Return y for x = 2, from a SavedModel."""
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.saved_model.loader.load(sess, ["serve"], str(path))
        return sess.run("y:0", {"x:0": [2.0]}).tolist()


class TestDestination:
    def test_existing_directory(self, tmp_path):
        """A directory that is not a SavedModel is never overwritten."""
        (tmp_path / "m").mkdir()
        (tmp_path / "m" / "notes").write_text("mine")
        message = rf"export_serving: {tmp_path}/m exists and is not a SavedModel. Export to {tmp_path}/m/1\.$"
        for overwrite in (False, True):
            with pytest.raises(FileExistsError, match=message):
                scale().export_serving(str(tmp_path / "m"), overwrite=overwrite)
        assert "mine" == (tmp_path / "m" / "notes").read_text()

    def test_existing_file(self, tmp_path):
        """A file is never overwritten."""
        (tmp_path / "m").write_text("mine")
        with pytest.raises(FileExistsError, match=rf"is not a SavedModel. Export to {tmp_path}/1\.$"):
            scale().export_serving(str(tmp_path / "m"), overwrite=True)

    @pytest.mark.parametrize(("name", "advice"), [("2", "7"), ("m", "m/1")])
    def test_existing_saved_model(self, tmp_path, name, advice):
        """The error names the next free version: one more than the largest number."""
        for other in ("1", "6", "notes"):
            (tmp_path / other).mkdir()
        scale().export_serving(str(tmp_path / name))
        message = rf"/{name} exists. Export to {tmp_path}/{advice}, or pass overwrite=True"
        with pytest.raises(FileExistsError, match=message):
            scale().export_serving(f"{tmp_path}/{name}/")

    def test_overwrite(self, tmp_path):
        """overwrite=True replaces a SavedModel, or creates one. Nothing else is left."""
        for w in (3.0, 4.0):
            scale(DictRestore({"w": w})).export_serving(str(tmp_path / "m"), overwrite=True)
        assert [9.0] == predict(tmp_path / "m")
        assert ["m"] == [path.name for path in tmp_path.iterdir()]

    def test_other_directories(self, tmp_path):
        """A directory whose name ends with .tmp, with or without the pid, stays."""
        others = [f"m.tmp{end}" for end in ("", os.getpid())]
        for name in others:
            (tmp_path / name).mkdir()
            (tmp_path / name / "notes").write_text("mine")
        scale().export_serving(str(tmp_path / "m"))
        assert sorted(["m", *others]) == sorted(path.name for path in tmp_path.iterdir())
        assert ["mine", "mine"] == [(tmp_path / name / "notes").read_text() for name in others]

    @pytest.mark.slow
    def test_killed_between_the_renames(self, tmp_path, monkeypatch):
        """A SavedModel that is being replaced exists at every moment, also if the process is killed."""
        complete = []

        def observed(function):
            def call(*args, **kwargs):
                function(*args, **kwargs)
                complete.append(sorted(predict(path)[0] for path in tmp_path.iterdir()))

            return call

        for name in ("Rename", "DeleteRecursively"):
            monkeypatch.setattr(tf.gfile, name, observed(getattr(tf.gfile, name)))
        scale().export_serving(str(tmp_path / "m"))
        scale(DictRestore({"w": 4.0})).export_serving(str(tmp_path / "m"), overwrite=True)
        assert [[7.0], [7.0, 9.0], [7.0, 9.0], [9.0]] == complete

    def test_failed_rename(self, tmp_path, monkeypatch):
        """If the new SavedModel cannot be moved to its place, the old one returns to it."""
        scale().export_serving(str(tmp_path / "m"))

        def rename(source, destination, **kwargs):
            if ".tmp" in source:
                raise tf.errors.PermissionDeniedError(None, None, "read-only")
            os.rename(source, destination)

        monkeypatch.setattr(tf.gfile, "Rename", rename)
        with pytest.raises(tf.errors.PermissionDeniedError):
            scale(DictRestore({"w": 4.0})).export_serving(str(tmp_path / "m"), overwrite=True)
        assert ["m"] == [path.name for path in tmp_path.iterdir()]
        assert [7.0] == predict(tmp_path / "m")

    def test_another_export_was_faster(self, tmp_path, monkeypatch):
        """A SavedModel that appeared during the export is not replaced without overwrite=True."""
        check = export._check_serving

        def slow(*args):
            check(*args)
            monkeypatch.setattr(export, "_check_serving", check)
            scale(DictRestore({"w": 4.0})).export_serving(str(tmp_path / "m"))

        monkeypatch.setattr(export, "_check_serving", slow)
        with pytest.raises(FileExistsError, match="m exists. Export to"):
            scale().export_serving(str(tmp_path / "m"))
        assert ["m"] == [path.name for path in tmp_path.iterdir()]
        assert [9.0] == predict(tmp_path / "m")

    @pytest.mark.parametrize("kind", ["compact", "serving"])
    def test_an_error_leaves_nothing(self, tmp_path, monkeypatch, kind):
        """Any error, also Ctrl-C, removes the unfinished files of this export."""

        def interrupt(*args, **kwargs):
            raise KeyboardInterrupt

        monkeypatch.setattr(tf.gfile, "Rename", interrupt)
        with pytest.raises(KeyboardInterrupt):
            getattr(scale(), f"export_{kind}")(str(tmp_path / "m"))
        assert [] == list(tmp_path.iterdir())

    def test_failed_overwrite(self, tmp_path):
        """An export that fails does not change the old SavedModel."""
        scale().export_serving(str(tmp_path / "m"))
        before = (tmp_path / "m" / "saved_model.pb").read_bytes()
        with pytest.raises(KeyError, match="nearest names"):
            scale(outputs=["prediction"]).export_serving(str(tmp_path / "m"), overwrite=True)
        assert before == (tmp_path / "m" / "saved_model.pb").read_bytes()
