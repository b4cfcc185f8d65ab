"""The page: what it says, that it is well-formed and loads nothing, that values are escaped, and its size."""

from __future__ import annotations

import re

import numpy as np
import pytest
from fakes.reports import check_safe, gray, page_of, write_training

from tensorpack_lite.diagnostics.speed.pipeline_load import Part, StageWork
from tensorpack_lite.diagnostics.speed.stage_rows import format_rows, make_rows
from tensorpack_lite.report import page as module
from tensorpack_lite.report.page import make_page, write_report
from tensorpack_lite.report.reading import read_training
from tensorpack_lite.report.samples import FIRST_BATCH, WORST, write_samples
from tensorpack_lite.report.sections import Comparison

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>'\"&amp;\x00\x1b[31m\u2028"


class TestEscaping:
    @pytest.fixture
    def page(self, tmp_path):
        """The report of two training runs in which every text that a person or a file may choose is hostile."""
        images = [(EVIL.replace("\x00", ""), 10, gray(1))]
        notes = [{"kind": kind, "text": EVIL, "rule": EVIL, "name": EVIL, "place": EVIL, "step": 10, "directory": "../" + EVIL,
                  "stages": [{EVIL: EVIL}]} for kind in ("lint", "speed", "spike", "nan", EVIL)]  # fmt: skip
        manifest = {
            "started": EVIL, "machine": {"host": EVIL, "GPUs": [EVIL]}, "seeds": {EVIL: EVIL}, "packages": {EVIL: EVIL},
            "settings": {"trainer": EVIL, "model": {"type": EVIL}}, "data": [{"type": EVIL, "arguments": {EVIL: EVIL}}],
            "code": {"script": EVIL, "arguments": [EVIL], "files": {EVIL: EVIL}, "git": {"commit": EVIL, "patch": EVIL}},
            "graph": {"variables": {EVIL: [EVIL, [1], True]}}, "callbacks": [{"type": EVIL}], "left out": {EVIL: EVIL},
            "resumptions": [{"when": EVIL, "global_step": 15, "changed": {EVIL: 1}}],
            "exit": {"outcome": "failed", "error": EVIL, "epoch": 1, "global_step": 10, "when": EVIL},
        }  # fmt: skip
        directories = []
        for name in ("a", "<b>'&\""):
            directory = write_training(
                tmp_path / name,
                {EVIL: [1.0, 2.0], "cost" + EVIL: [1.0, 2.0], "val_cost" + EVIL: [1.0, 2.0]},
                manifest,
                notes,
                EVIL,
                images,
            )
            write_samples(directory, FIRST_BATCH, {EVIL: np.zeros([2, 8, 8]), "label" + EVIL: np.array([EVIL] * 2)}, 1)
            write_samples(
                directory,
                "table" + EVIL.replace("/", "").replace("\x00", ""),
                {EVIL: np.array([EVIL, "x"])},
                1,
            )
            directories.append(directory)
        return page_of(*directories, comparison=Comparison(EVIL, [(EVIL, EVIL, [EVIL])]))

    def test_no_markup(self, page):
        """HTML in names, labels, notes, the manifest and the log is text, and the page stays well-formed."""
        check_safe(page)
        assert "alert(1)" in page.text
        assert not page.all("img", src="x")
        assert "\x00" not in page.source
        assert "\x1b" not in page.source

    def test_policy(self, page):
        """The browser may run only the library's script, even if something were not escaped."""
        (policy,) = [one["content"] for one in page.all("meta") if "http-equiv" in one]
        assert policy.startswith("default-src 'none'; img-src data:; style-src 'sha256-")
        assert "unsafe" not in policy

    def test_directory_of_a_note(self, tmp_path):
        """A note cannot make the report show files outside of the training's directory."""
        write_training(tmp_path / "secret")
        write_samples(str(tmp_path / "secret"), "x", {"image": np.zeros([1, 8, 8])}, 1)
        note = {"kind": "nan", "text": "NaN", "directory": str(tmp_path / "secret" / "samples")}
        page = page_of(write_training(tmp_path / "run", notes=[note, {**note, "directory": "../secret/samples"}]))
        assert [] == page.all("img")


class TestSections:
    def test_curves(self, tmp_path):
        """Training and validation share a plot, and the learning rate is below the first loss."""
        scalars = {
            "error": [0.5, 0.4],
            "val_error": [0.6, 0.5],
            "loss": [2.0, 1.0],
            "learning_rate": [0.1, 0.01],
        }
        page = page_of(write_training(tmp_path, scalars))
        labels = [[curve["label"] for curve in chart["curves"]] for chart in page.data["charts"]]
        assert [["loss"], ["learning_rate"], ["error", "val_error"]] == labels
        (dashed,) = [group for group in page.all("g") if "dashed" in (group.get("class") or "")]
        assert "curve c1 dashed" == dashed["class"]

    def test_description(self, tmp_path):
        """A plot has a text for people who cannot see it."""
        page = page_of(write_training(tmp_path, {"cost": [4.0, 0.5, 1.0]}))
        assert "cost: cost from 4 to 1, between 0.5 and 4." == page.all("svg")[0]["aria-label"]

    def test_marks(self, tmp_path):
        """Epochs, resumptions and notes with a step are marks in the plots."""
        manifest = {"resumptions": [{"when": "now", "global_step": 15}]}
        notes = [{"kind": "spike", "text": "loss 8 at step 25", "step": 25}]
        source = page_of(write_training(tmp_path, {"cost": [4.0, 2.0, 1.0]}, manifest, notes)).source
        assert "<title>resumed at step 15 (now)</title>" in source
        assert "<title>loss 8 at step 25</title>" in source
        assert 3 == source.count('class="mark epoch"')

    def test_thinned(self, tmp_path):
        """A long curve has at most 2000 points in the page; its spike is one of them."""
        values = [1.0] * 30000
        values[12345] = 99.0
        page = page_of(write_training(tmp_path, {"cost": values}))
        (curve,) = page.data["charts"][0]["curves"]
        assert 2000 >= len(curve["y"])
        assert (99.0, 123460) == (max(curve["y"]), sum(curve["x"][: curve["y"].index(99.0) + 1]))

    def test_images(self, tmp_path):
        """Images are shown in the order of their steps, the newest of each tenth of the training."""
        images = [("digit/image", step, gray(step)) for step in range(1, 41)]
        page = page_of(write_training(tmp_path, images=images))
        shown = [one["alt"] for one in page.all("img")]
        assert [f"digit/image at step {step}" for step in range(4, 41, 4)] == shown

    @pytest.mark.parametrize(
        ("shape", "width"),
        [
            ((32, 80), 240),
            ((8, 8), 160),
            ((64, 64), 128),
            ((20, 4), 60),
            ((150, 150), None),
            ((8, 280), None),
        ],
    )
    def test_small_images(self, tmp_path, shape, width):
        """Small logged images are enlarged by a whole number without smoothing, to at most 300 pixels."""
        image = np.zeros([*shape, 1], np.uint8)
        page = page_of(write_training(tmp_path, images=[("grid", 10, image)]))
        (shown,) = page.all("img")
        expected = {"width": str(width), "class": "small"} if width else {}
        assert expected == {key: shown[key] for key in ("width", "class") if key in shown}

    def test_samples(self, tmp_path):
        """The first batch and the worst samples are shown with their labels; text in the batch is shown in a table."""
        directory = write_training(tmp_path)
        images, labels = np.random.RandomState(1).rand(3, 8, 8), np.array([7, 8, 9])
        prob = np.eye(10)[[1, 2, 3]] * 0.5 + 0.05
        write_samples(directory, FIRST_BATCH, {"image": images, "label": labels}, 1)
        write_samples(directory, WORST, {"image": images, "label": labels, "prob": prob, "loss": np.ones(3)}, 40)
        write_samples(directory, "words", {"word": np.array([b"ham", "egg"], dtype=object), "n": np.array([1, 2])}, 1)
        page = page_of(directory)
        assert "The first batch, as the graph got it, at step 1" in page.text
        assert "label 7" in page.text
        assert "label 9, prob 3 (55%), loss 1" in page.text
        assert 6 == len(page.all("img", width="96"))
        assert "ham" in page.text

    def test_samples_of_a_note(self, tmp_path):
        """The batch in the directory that a note names is shown."""
        notes = [{"kind": "nan", "text": "cost is NaN", "step": 25, "directory": "/elsewhere/run/nan-25"}]
        directory = write_training(tmp_path / "run", notes=notes)
        (tmp_path / "run" / "nan-25").mkdir()
        np.savez(
            str(tmp_path / "run" / "nan-25" / "batch.npz"),
            image=np.zeros([2, 8, 8, 3], np.uint8),
            label=[3, 4],
        )
        (tmp_path / "run" / "nan-25" / "report.txt").write_text("the label is <-1>")
        page = page_of(directory)
        assert "nan: nan-25  (values from 0 to 0, three channels shown as RGB)" in page.text
        assert "the label is <-1>" in page.text
        assert "label 3" in page.text

    def test_notes(self, tmp_path):
        """Notes are shown, the most serious first, with the times in the newest verdict on speed."""
        speed = {
            "kind": "speed",
            "text": "Speed: the graph limits",
            "stages": [{"stage": "BatchData", "own_ms": 1.23456, "cpu_ms": None}],
            "step": {"run": 2.5, "waiting": None},
            "between_epochs": [{"callback": "InferenceRunner", "seconds": 41.5}],
        }
        notes = [
            {"kind": "speed", "text": "Speed: old", "stages": [{"stage": "Old"}]},
            speed,
            {"kind": "lint", "text": "no gradient", "rule": "G01", "place": "train.py:5"},
            {"kind": "hang", "text": "Nothing has moved for 65 s.\nstack"},
        ]
        text = page_of(write_training(tmp_path, notes=notes)).text
        places = [text.index(part) for part in ("Nothing has moved", "no gradient", "Speed: old", "1.235")]
        assert sorted(places) == places
        assert all(part in text for part in ("G01 train.py:5", "own ms", "InferenceRunner", "41.5"))
        assert "Old" not in text

    def test_stages(self, tmp_path):
        """The table of stages has the columns and the percentages of the table in the log."""
        stage = StageWork("MapData(f)", 1, 4, 0.5e-3, 0.25e-3, 0.0, 1.88, 0.0)
        rows = make_rows([Part("MapData(f)", "threads", 2, [stage])], num_steps=2, seconds=1.0)
        note = {"kind": "speed", "text": "the graph limits", "stages": rows}
        page = page_of(write_training(tmp_path, notes=[note]))
        words = re.split(r"  +|\n", format_rows(rows).replace("-", ""))
        assert ["no input", "94%"] == [word for word in words if word in ("no input", "94%")]
        assert all(f"<td>{word}</td>" in page.source or f">{word}</th>" in page.source for word in words if word)
        assert "waiting in" not in page.text

    def test_settings_and_log(self, tmp_path):
        """Settings are shown as code, files without their content, and of the log the last 100 lines, warnings marked."""
        log = "".join(f"[1123 01:00:00 @base.py:1] {'WRN ' if n == 150 else ''}line {n}\n" for n in range(1, 201))
        page = page_of(write_training(tmp_path, log=log))
        assert "FeedInput(Digits(size=8))" in page.text
        assert "Variables (2, 12 trainable values)" in page.text
        assert "train.py (1 lines)" in page.text
        assert "line 101\n" in page.text.replace(" \n", "\n")
        assert "line 100 " not in page.text
        assert 1 == len(page.all("span", class_="wrn") or page.all("span", **{"class": "wrn"}))


PLAN = {
    "end": 100,
    "known": {"learning_rate": {"steps": [0, 30], "values": [0.1, 0.01]}},
    "unknown": ["m (Human)"],
}


def test_a_remark_at_each_start(tmp_path):
    """A remark of lint that each start of a training has repeated is shown once."""
    remark = {"kind": "lint", "text": "the variable is unused"}
    notes = [remark, {"kind": "speed", "text": "slow"}, remark, {"kind": "speed", "text": "slow"}, remark]
    found = read_training(str(write_training(tmp_path, notes=notes))).notes
    assert ["lint", "speed", "speed"] == [note["kind"] for note in found]


def test_losses_of_a_gan(tmp_path):
    """If a training has several losses without a total, no value in their legends is marked as the best; one loss has one."""
    scalars = {"g_loss": [4.0, 2.0], "d_loss": [1.0, 3.0]}
    assert "<b>" not in page_of(write_training(tmp_path / "gan", scalars)).source
    assert "<td><b>2</b></td>" in page_of(write_training(tmp_path / "one", {"loss": [4.0, 2.0]})).source


class TestSchedules:
    def test_one(self, tmp_path):
        """The planned values are drawn as steps until the end, with those that were used; unknown ones are named."""
        page = page_of(write_training(tmp_path, manifest={"planned values": PLAN}))
        used, planned = page.data["charts"][-1]["curves"]
        assert ("used", "planned") == (used["label"], planned["label"])
        assert {0} == {dx * dy for dx, dy in zip(used["x"][1:], np.diff(used["y"]))}  # no ramp
        assert ([0, 30, 0, 70], [0.1, 0.1, 0.01, 0.01]) == (planned["x"], planned["y"])
        assert [0, 100] == page.data["charts"][-1]["x"]
        assert "Not known before training: m (Human)." in page.text
        check_safe(page)

    def test_several(self, tmp_path):
        """Of several training runs, those with a plan are drawn in one plot."""
        plans = [{"planned values": PLAN}, {"planned values": PLAN}, {}]
        parts = [{**plan, "hyperparameters": {"n": number}} for number, plan in enumerate(plans)]
        page = page_of(*(write_training(tmp_path / str(n), manifest=one) for n, one in enumerate(parts)))
        labels = [curve["label"] for curve in page.data["charts"][-1]["curves"]]
        assert ["0: used", "0: planned", "1: used", "1: planned", "2: used"] == labels
        check_safe(page)

    def test_without(self, tmp_path):
        """Without planned values, there is no section."""
        assert "Schedules" not in page_of(write_training(tmp_path)).text

    @pytest.mark.parametrize(
        "damage",
        [
            {"known": {"learning_rate": {"steps": [0, 1], "values": [1.0]}}, "end": 5},
            {"known": {"learning_rate": {"steps": [float("nan")], "values": [1.0]}}, "end": 5},
            {"known": {"learning_rate": {"steps": [0], "values": [1.0]}}},
            {"known": {"learning_rate": 3}, "end": 5, "unknown": 3},
            {"known": 3},
        ],
    )
    def test_damaged(self, tmp_path, damage):
        """Damaged planned values are skipped; those of a hyper-parameter are a remark."""
        page = page_of(write_training(tmp_path, manifest={"planned values": damage}))
        assert ("manifest.json: planned learning_rate: " in page.text) == (damage != {"known": 3})
        check_safe(page)


class TestSize:
    @pytest.mark.slow
    def test_many_curves(self, tmp_path):
        """The curves of 300 scalars fit into the page."""
        random = np.random.RandomState(1)
        scalars = {f"scalar{n}": random.rand(600).tolist() for n in range(300)}
        assert 5_000_000 > len(make_page([read_training(write_training(tmp_path, scalars))]).encode())

    def test_large_images(self, tmp_path, monkeypatch):
        """Images that do not fit are omitted, with their number; the newest of each tag stays."""
        monkeypatch.setattr(module, "MAX_BYTES", 1_000_000)
        noise = np.random.RandomState(1).randint(0, 255, [100, 100, 3]).astype(np.uint8)
        images = [(f"noise{n}", step, noise) for n in range(3) for step in range(4, 41, 4)]
        page = page_of(write_training(tmp_path, images=images))
        assert 1_000_000 > len(page.source.encode())
        assert 3 == sum("at step 40" in one["alt"] for one in page.all("img"))
        assert "more omitted to keep the file small" in page.text

    def test_no_room(self, tmp_path, monkeypatch):
        """If there is no room for any image, all are omitted."""
        monkeypatch.setattr(module, "MAX_BYTES", 100)
        page = page_of(write_training(tmp_path, images=[("digit", 10, gray(1))]))
        assert [] == page.all("img")
        assert "1 more omitted" in page.text


def test_write(tmp_path):
    """The file replaces an existing one, and no temporary file is left."""
    directory = write_training(tmp_path / "run")
    path = tmp_path / "report.html"
    path.write_text("old")
    write_report([directory], str(path))
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>\n<html")
    assert ["report.html", "run"] == sorted(one.name for one in tmp_path.iterdir())
