"""utils/training_files.py, and what `logger.set_logger_dir(..., "d")` deletes, keeps and refuses."""

from __future__ import annotations

import os
import sys

import pytest

from tensorpack_lite.utils import logger

LOG_LINE = "[1126 22:30:36] Argv: train.py\n"
WRITTEN = {
    "log.log": LOG_LINE,
    "manifest.json": '{\n "format": 1\n}\n',
    "manifest.json.1126-223036": '{\n "format": 1\n}\n',
    "checkpoint": 'model_checkpoint_path: "model-2"\n',
    "model-2.index": "",
    "model-2.data-00000-of-00001": "",
    "model-2.state": "",
    "graph-1126-223036.meta": "",
    "graph-1126-223036.meta.tmp0123abc": "",
    "events.out.tfevents.1795732239.vm": "",
    "stats.json": '[{"cost": 1.0, "epoch_num": 1, "global_step": 2}]',
    "stats.json.before-resume": '[{"cost": 1.0, "epoch_num": 1, "global_step": 2}]',
    "stats.json.1126-223036": "[]",
    "stats.csv": "epoch_num,global_step,cost\n",
    "model.json": '{\n "format": 1,\n "head": [\n  "layer"',
    "find-lr.png": "",
    "notes.jsonl": '{"kind": "speed", "time": "", "text": ""}\n',
    "report.html": "<!DOCTYPE html>\n<html><head><title>log - training report</title></head></html>",
    "training.lock": "",
    "hang-1126-223036.txt": "",
    "DumpTensor-2.npz": "",
    "runmetadata-2.pb": "",
    "chrome-trace-2.json": "",
    "min-cost.json": '{"stat": "cost", "step": 2, "value": 1.0}',
    "min-cost.index": "",
    "min-cost.data-00000-of-00001": "",
    "best.json": '{"stat": "cost", "kept": [], "unlisted": []}',
    "best-2.index": "",
    "best-2.data-00000-of-00001": "",
    "log-rank1.log": LOG_LINE,
    "nan-3/batch.npz": "",
    "nan-3/step.json": "{}",
    "nan-3/report.txt": "Text\n\nFiles: batch.npz, image-0.png\n",
    "nan-3/image-0.png": "",
    "nan-3/model-2.index": "",
    "spike-3/batch.npz": "",
    "spike-3/report.txt": "",
    "samples/worst.npz": "",
    "samples/first-batch.npz": "",
    ".saving/model-4.index": "",
    ".checkpoint.tmp": "",
}
OF_THE_USER = {
    "thesis.tex": "precious",
    "sub/photos.txt": "precious",
    "sub/log.log": LOG_LINE,
    "train.py": "import tensorpack_lite",
    "hyper.txt": "learning_rate: 0.1",
    "notes.txt": "",
    "model-2.npz": "",
    "model.index": "",
    "min-width.index": "",
    "settings.json": '{"status": 1}',
    "stats.json.1126-223037": '[{"mean": 1.0}]',
    "report.html.bak": "",
    "image-ep001.png": "",
    "samples/mine.npz": "",
    "nan-3/explanation.txt": "",
    "nan-3/photo-1.png": "",
    "nan-3/deeper/batch.npz": "",
    ".git/config": "",
    "fold1/log.log": LOG_LINE,
    "fold1/model-2.index": "",
}


OF_OTHER_PROGRAMS = {
    "report.html": "<!DOCTYPE html><html><title>pytest</title></html>",
    "manifest.json": '{"name": "web app"}',
    "stats.json": '{"requests": 1}',
    "notes.jsonl": '{"note": "mine"}',
}

OTHER_RECORDS = {
    "acc.json": '{"stat": [0.5]}',
    "acc.index": "",
    "iou.json": '{"stat": "iou", "step": 2, "value": 1.0, "seed": 3}',
    "iou.index": "",
    "top.json": '{"stat": "iou", "kept": true}',
    "top-2.index": "",
    "best.index": "",
    "min-cost-2.index": "",
}


def write(directory, files):
    for name, text in files.items():
        path = os.path.join(str(directory), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)


def files_in(directory):
    """Return `{path: content}` of all files below a directory."""
    paths = [os.path.join(parent, name) for parent, _, names in os.walk(str(directory)) for name in names]
    found = {}
    for path in paths:
        with open(path) as file:
            found[os.path.relpath(path, str(directory))] = file.read()
    return found


@pytest.fixture
def directory(tmp_path):
    """A directory with everything that a training writes."""
    write(tmp_path / "log", WRITTEN)
    return tmp_path / "log"


class TestDelete:
    def test_all_files_of_a_training(self, directory):
        """All files that a training has written are deleted, and so are its directories."""
        logger.set_logger_dir(str(directory), "d")
        assert ["log.log"] == os.listdir(str(directory))
        assert "1126 22:30:36" not in files_in(directory)["log.log"]

    @pytest.mark.parametrize("files", [OF_THE_USER, OF_OTHER_PROGRAMS, OTHER_RECORDS])
    def test_other_files_stay(self, directory, files):
        """
        Other files stay, also in the directories of a training, if they have a common name but do not begin like ours, or if a
        JSON file lacks a key of a saver's record; and so do other directories, whatever is in them.
        """
        write(directory, files)
        logger.set_logger_dir(str(directory), "d")
        found = files_in(directory)
        del found["log.log"]
        assert files == found

    def test_kept_names_are_logged(self, directory, log_lines):
        """One log line names what stays; at most ten names."""
        write(directory, {"thesis.tex": "", "sub/photos.txt": ""})
        logger.set_logger_dir(str(directory), "d")
        assert [f"Deleted the training in '{directory}'. Other files stay: sub/, thesis.tex."] == [
            line for line in log_lines if "Deleted" in line
        ]

        write(directory, {f"{number}.txt": "" for number in range(10, 30)})
        logger.set_logger_dir(str(directory), "d")
        assert log_lines[-2].endswith("17.txt, 18.txt, 19.txt and 12 more.")

    @pytest.mark.parametrize("name", ["log.log", "manifest.json", "checkpoint", "model-2.index"])
    def test_what_a_directory_is_recognized_by(self, tmp_path, name):
        """The log, the manifest or a checkpoint shows that a directory is that of a training."""
        write(tmp_path / "log", {name: WRITTEN[name], "stats.json": WRITTEN["stats.json"]})
        logger.set_logger_dir(str(tmp_path / "log"), "d")
        assert ["log.log"] == os.listdir(str(tmp_path / "log"))

    def test_records(self, tmp_path):
        """All records that savers write are recognized, also one that was being written."""
        step = '{"step": 2, "value": -1.5e-05}'
        records = {
            "log.log": LOG_LINE,
            "best-\u00e9.json": '{"stat": "a\\"b", "step": 2, "value": Infinity}',
            "best-\u00e9.index": "",
            "top.json": f'{{"stat": "cost", "kept": [{step}, {step}], "unlisted": [3, 4]}}',
            "top-3.index": "",
            ".new.json.tmp": f'{{"stat": "cost", "kept": [{step}], "unlisted": []}}',
        }
        write(tmp_path / "log", records)
        logger.set_logger_dir(str(tmp_path / "log"), "d")
        assert ["log.log"] == os.listdir(str(tmp_path / "log"))

    def test_unfinished_checkpoints(self, directory):
        """Of the directory with unfinished checkpoints, only these are deleted."""
        ours = ("model-4.data-00000-of-00001.tempstate123", "moving", "new.index", "new.state")
        write(directory, {f".saving/{name}": "" for name in ours})
        write(directory, {".saving/mine.txt": "precious"})
        logger.set_logger_dir(str(directory), "d")
        assert ["mine.txt"] == os.listdir(str(directory / ".saving"))

    @pytest.mark.parametrize("path", ["model-2", "/data/train_log/model-2"])
    def test_common_files_beside_a_checkpoint_list(self, tmp_path, path):
        """Event files, traces and stacks of a hang stay if the only sign of a training is the list of checkpoints."""
        other = dict.fromkeys(("events.out.tfevents.1.vm", "chrome-trace-2.json", "hang-1126-223036.txt"), "")
        write(tmp_path / "log", {**other, "checkpoint": f'model_checkpoint_path: "{path}"\n'})
        logger.set_logger_dir(str(tmp_path / "log"), "d")
        assert sorted(["log.log", *other]) == sorted(os.listdir(str(tmp_path / "log")))

    @pytest.mark.slow
    def test_an_interrupted_deletion(self, tmp_path, monkeypatch):
        """After an interrupted deletion, the next one deletes the rest."""
        remove = os.remove
        for number in range(len(WRITTEN)):
            path = str(tmp_path / str(number))
            write(path, WRITTEN)
            left = iter(range(number))

            def remove_some(file, left=left):
                if next(left, None) is None:
                    raise KeyboardInterrupt
                remove(file)

            monkeypatch.setattr(os, "remove", remove_some)
            with pytest.raises(KeyboardInterrupt):
                logger.set_logger_dir(path, "d")
            monkeypatch.setattr(os, "remove", remove)
            logger.set_logger_dir(path, "d")
            assert ["log.log"] == os.listdir(path), f"after {number} files"

    def test_links(self, directory, tmp_path):
        """Symbolic links stay, and so does what they point to."""
        write(tmp_path, {"elsewhere/worst.npz": "precious", "model-9.index": "precious"})
        os.symlink(str(tmp_path / "elsewhere"), str(directory / "nan-9"))
        os.symlink(str(tmp_path / "model-9.index"), str(directory / "model-9.index"))
        logger.set_logger_dir(str(directory), "d")
        assert ["log.log", "model-9.index", "nan-9"] == sorted(os.listdir(str(directory)))
        assert "precious" == (tmp_path / "elsewhere" / "worst.npz").read_text()
        assert "precious" == (tmp_path / "model-9.index").read_text()

    def test_a_link_to_the_directory(self, directory, tmp_path):
        """If the directory itself is a link, the training that it points to is deleted, and the link stays."""
        write(directory, {"thesis.tex": ""})
        link = tmp_path / "link"
        os.symlink(str(directory), str(link))
        logger.set_logger_dir(f"{link}/", "D ")
        assert ["log.log", "thesis.tex"] == sorted(os.listdir(str(directory)))
        assert link.is_symlink()

    def test_logs_of_ranks(self, directory, monkeypatch):
        """A chief keeps the logs of the other ranks, which they may have opened before it."""
        monkeypatch.setenv("HOROVOD_RANK", "0")
        monkeypatch.setenv("HOROVOD_SIZE", "2")
        logger.set_logger_dir(str(directory), "d")
        assert ["log-rank1.log", "log.log"] == sorted(os.listdir(str(directory)))


class TestRefuse:
    @pytest.fixture(autouse=True)
    def places(self, tmp_path, monkeypatch):
        """Home and current directory, both with a training, in the temporary directory."""
        for name in ("home/me", "project/src"):
            write(tmp_path / name, {"log.log": LOG_LINE, "thesis.tex": "precious"})
        monkeypatch.setenv("HOME", str(tmp_path / "home" / "me"))
        monkeypatch.chdir(str(tmp_path / "project" / "src"))

    @pytest.mark.parametrize("action", ["d", "b"])
    @pytest.mark.parametrize(
        ("path", "text"),
        [
            (".", "is the current directory"),
            ("", "is the current directory"),
            ("./", "is the current directory"),
            ("../src/../../project/src//", "is the current directory"),
            ("..", "contains the current directory"),
            ("{tmp}/link", "is the current directory"),
            ("{tmp}/home/me", "is the home directory"),
            ("{tmp}/home/", "contains the home directory"),
            ("{tmp}", "contains the current directory"),
            ("/", "contains the current directory"),
        ],
    )
    def test_protected_directories(self, tmp_path, action, path, text):
        """The current directory, the home directory and their parents are neither deleted nor renamed."""
        os.symlink(str(tmp_path / "project" / "src"), str(tmp_path / "link"))
        before = files_in(tmp_path)
        with pytest.raises(OSError, match=f"set_logger_dir: '.*' {text}, so it is not .* Choose a directory"):
            logger.set_logger_dir(path.format(tmp=tmp_path), action)
        assert before == files_in(tmp_path)
        assert logger.get_logger_dir() is None

    def test_a_directory_without_a_training(self, tmp_path):
        """A directory without files of a training is not touched; the message names its files."""
        write(tmp_path / "photos", {"thesis.tex": "precious", "sub/log.log": LOG_LINE, "log.txt": LOG_LINE})
        before = files_in(tmp_path)
        with pytest.raises(OSError, match=r"has no log, manifest or checkpoint .* log.txt, sub/, thesis.tex\. Choose"):
            logger.set_logger_dir(str(tmp_path / "photos"), "d")
        assert before == files_in(tmp_path)

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("log.log", "service started\n"),
            ("manifest.json", '{"name": "web app"}'),
            ("checkpoint", "weights"),
            ("checkpoint", 'model_checkpoint_path: "model.ckpt-100"\n'),
        ],
    )
    def test_files_of_other_programs(self, tmp_path, name, text):
        """A log, manifest or checkpoint of another program does not make a directory that of a training."""
        write(tmp_path / "other", {name: text})
        with pytest.raises(OSError, match="has no log, manifest or checkpoint"):
            logger.set_logger_dir(str(tmp_path / "other"), "d")
        assert {name: text} == files_in(tmp_path / "other")

    def test_the_answer_on_a_terminal(self, tmp_path, monkeypatch):
        """The answer "d" to the question is refused like the argument."""
        monkeypatch.setattr(sys, "stdin", type("Terminal", (), {"isatty": lambda self: True})())
        monkeypatch.setattr("builtins.input", lambda prompt: "d")
        with pytest.raises(OSError, match="is the current directory"):
            logger.set_logger_dir(".")

    def test_keeping_is_allowed_everywhere(self):
        """With "k", the current directory may be the logger's."""
        logger.set_logger_dir(".", "k")
        assert "precious" == files_in(".")["thesis.tex"]
