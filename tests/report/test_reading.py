"""Directories that are incomplete or damaged, and of a training that was killed while it wrote."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from fakes.reports import gray, page_of, write_events, write_training

from tensorpack_lite.dataflow.files.tfrecord import write_record
from tensorpack_lite.report.events import read_logged
from tensorpack_lite.report.reading import read_training
from tensorpack_lite.report.samples import FIRST_BATCH, write_samples
from tensorpack_lite.utils.errors import DamagedFileError
from tensorpack_lite.utils.protobuf import write_field

FILES = [
    "stats.json",
    "manifest.json",
    "notes.jsonl",
    "log.log",
    "events.out.tfevents.1.box",
    "samples/first-batch.npz",
]


@pytest.fixture
def directory(tmp_path):
    """The directory of a training with all files."""
    notes = [{"kind": "lint", "text": "no gradient"}]
    images = [("digit", 10, gray(1)), ("digit", 40, gray(2))]
    path = write_training(tmp_path / "run", notes=notes, images=images)
    write_samples(path, FIRST_BATCH, {"image": np.zeros([1, 8, 8]), "label": np.array([3])}, 1)
    return path


class TestMissing:
    @pytest.mark.parametrize("name", FILES)
    def test_one_file(self, directory, name):
        """Without one of the files, the page has all other parts; a missing main file is mentioned."""
        os.remove(os.path.join(directory, name))
        training = read_training(directory)
        expected = [f"{name} is missing."] if name in ("stats.json", "manifest.json", "log.log") else []
        assert expected == training.problems
        assert all(problem in page_of(directory).text for problem in expected)

    def test_all_files(self, tmp_path):
        """An empty directory has a page, which lists the missing files."""
        page = page_of(tmp_path)
        assert "has an unknown end." in page.text
        assert "manifest.json is missing." in page.text
        assert "No scalars were written." in page.text

    def test_no_directory(self, tmp_path):
        """A path that is not a directory is an error."""
        with pytest.raises(NotADirectoryError, match="Expected the logger's directory of a training"):
            read_training(str(tmp_path / "nothing"))


class TestDamage:
    @pytest.mark.parametrize("name", FILES)
    @pytest.mark.parametrize("cut", [0, 1, 10, 0.5, -1])
    def test_cut(self, directory, name, cut):
        """A file that ends anywhere, as after a kill in the middle of a write, makes no error."""
        path = os.path.join(directory, name)
        with open(path, "rb") as file:
            content = file.read()
        end = int(len(content) * cut) if isinstance(cut, float) else cut
        with open(path, "wb") as file:
            file.write(content[:end])
        training = read_training(directory)
        page_of(directory)
        is_text = name in ("notes.jsonl", "log.log")  # any beginning of them is valid
        is_empty_event_file = name.startswith("events") and end == 0
        assert is_text or is_empty_event_file or any(os.path.basename(name) in one for one in training.problems)

    @pytest.mark.parametrize("name", FILES)
    def test_other_content(self, directory, name):
        """Files with other content, valid or not, make no error."""
        for content in (
            b"\xff\xfe\x00",
            b"[]",
            b"{}",
            b"[1, 2]",
            b"null",
            b'[{"a": {}}]',
            b'[{"global_step": [1], "epoch_num": {}, "cost": 1.0}]',
            b'{"format": 1}',
            b"[" * 5000,
        ):
            with open(os.path.join(directory, name), "wb") as file:
                file.write(content)
            page_of(directory)

    @pytest.mark.slow
    @pytest.mark.parametrize("value", [None, 3, "x", [], {}, [1], {"a": 1}, [[]], [None], float("nan")])
    def test_manifest(self, directory, value):
        """Parts of the manifest that have another type make no error."""
        path = os.path.join(directory, "manifest.json")
        with open(path) as file:
            manifest = json.load(file)
        for name in [*manifest, "files", "schedules", "environment"]:
            with open(path, "w") as file:
                json.dump({**manifest, name: value, "format": 1}, file)
            page_of(directory)
        for outer in ("code", "settings", "graph", "machine", "exit"):
            inner = dict.fromkeys([*manifest[outer], "git", "fingerprint", "ranks"], value)
            with open(path, "w") as file:
                json.dump({**manifest, outer: inner}, file)
            page_of(directory)

    @pytest.mark.parametrize("value", [None, 3, "x", [], {}, True])
    def test_notes(self, directory, value):
        """Values of notes that have another type make no error."""
        note = {"kind": "speed", "time": "x", "text": "y", "stages": [{"a": 1}], "step": 1, "directory": "d"}
        with open(os.path.join(directory, "notes.jsonl"), "w") as file:
            for name in note:
                file.write(
                    json.dumps({**note, name: value}) + "\n" + json.dumps({**note, "kind": "nan", name: value}) + "\n"
                )
        page_of(directory)

    def test_rows_before_the_damage(self, directory):
        """The complete rows of a damaged stats.json are shown."""
        path = os.path.join(directory, "stats.json")
        with open(path) as file:
            text = file.read()
        with open(path, "w") as file:
            file.write(text[: text.rindex("{") + 20])
        training = read_training(directory)
        assert [4.0, 2.0, 1.0] == training.curves["cost"].tolist()
        assert training.problems[0].endswith("The 3 rows before the damage are shown.")

    def test_not_numbers(self, directory):
        """Values that are not numbers are skipped, and named."""
        rows = [
            {"cost": 1.0, "note": "a", "global_step": 1},
            {"cost": "high", "global_step": 2},
            {"cost": 10**400, "global_step": 3},
        ]
        with open(os.path.join(directory, "stats.json"), "w") as file:
            json.dump(rows, file)
        training = read_training(directory)
        assert [1.0, float("inf")] == training.curves["cost"].tolist()
        assert "stats.json: 'cost' is not a number at step 2, but 'high'." in training.problems


class TestEvents:
    def test_newest_of_each_tenth(self, tmp_path):
        """Each tag keeps its newest image in each tenth of the training."""
        path = str(tmp_path / "events.out.tfevents.1")
        write_events(path, [(tag, step, gray(step)) for step in range(1, 101) for tag in "ab"])
        images = {}
        read_logged(path, 100, images, {})
        assert {"a", "b"} == set(images)
        assert list(range(10, 101, 10)) == [image.step for image in images["a"]]
        assert {(8, 8)} == {(image.width, image.height) for image in images["a"]}

    def test_texts(self, tmp_path):
        """Texts are read although TensorFlow names the plugin only for the first of each tag, and shown escaped."""
        directory = write_training(tmp_path)
        with open(str(tmp_path / "events.out.tfevents.1"), "wb") as file:
            for step in range(1, 41):
                texts = b"".join(write_field(8, f"<{step}> {k}".encode()) for k in "ab")
                metadata = write_field(9, write_field(1, write_field(1, b"text"))) if step == 1 else b""
                value = write_field(1, b"said") + write_field(8, texts) + metadata
                write_record(file, bytes([2 << 3, step]) + write_field(5, write_field(1, value)))
        logged = read_training(directory).texts["said"]
        assert (list(range(4, 41, 4)), ["<40> a", "<40> b"]) == ([one.step for one in logged], logged[-1].texts)
        page = page_of(directory)
        assert "<pre>&lt;40&gt; b</pre>" in page.source
        assert page.text.index("step 40") < page.text.index("step 36")

    def test_unknown_length(self, tmp_path):
        """If the number of steps is unknown, the newest image is kept."""
        path = str(tmp_path / "events")
        write_events(path, [("a", step, gray(step)) for step in (5, 9, 7)])
        images = {}
        read_logged(path, None, images, {})
        assert [9] == [image.step for image in images["a"]]

    def test_resumed(self, tmp_path):
        """After a resumption, a later file replaces images of the same steps."""
        images = {}
        for number, pixels in enumerate((gray(1), gray(2))):
            path = str(tmp_path / f"events{number}")
            write_events(path, [("a", 5, pixels)])
            read_logged(path, 10, images, {})
        (image,) = images["a"]
        assert gray(2).tobytes() == _pixels_of(image.content)

    def test_before_the_damage(self, tmp_path):
        """Images before a damage are kept, and the damage is an error."""
        path = str(tmp_path / "events")
        write_events(path, [("a", step, gray(step)) for step in range(1, 11)])
        with open(path, "r+b") as file:
            file.truncate(os.path.getsize(path) - 300)
        images = {}
        with pytest.raises(DamagedFileError, match="truncated"):
            read_logged(path, 10, images, {})
        assert 5 < len(images["a"]) < 10

    def test_damaged_image(self, tmp_path):
        """An image whose checksum is wrong is skipped, and named."""
        directory = write_training(tmp_path, images=[("good", 10, gray(1)), ("bad", 20, gray(99))])
        path = os.path.join(directory, "events.out.tfevents.1.box")
        with open(path, "rb") as file:
            content = file.read()
        place = content.rindex(b"IDAT") + 8
        with open(path, "wb") as file:
            file.write(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        page = page_of(directory)
        assert ["good at step 10"] == [one["alt"] for one in page.all("img")]
        assert "the image 'bad' of step 20: a checksum is wrong" in page.text

    def test_open_file(self, directory):
        """At the end of the training itself, the last record of the event file may be incomplete."""
        path = os.path.join(directory, "events.out.tfevents.1.box")
        with open(path, "r+b") as file:
            file.truncate(os.path.getsize(path) - 5)
        assert [] == read_training(directory, has_ended=True).problems
        assert 1 == len(read_training(directory).problems)


@pytest.mark.parametrize("scalars", [{}, {"cost": [1.0]}, {"cost": [float("nan")]}, {"cost": [float("inf"), float("-inf")]},
                                     {"cost": [1.0] * 3, "x": [0.0, -1e300, 1e300]}, {"cost": [5e-324, 1e-310]}])  # fmt: skip
def test_few_values(tmp_path, scalars):
    """No scalars, one value, values that are not finite, and extreme ones have a page."""
    page = page_of(write_training(tmp_path, scalars))
    assert len(scalars) == len(page.data["charts"])
    assert "NaN" not in json.dumps(page.data)


def test_one_point(tmp_path):
    """A curve of one point is a dot."""
    page = page_of(write_training(tmp_path, {"cost": [1.0]}))
    assert 1 == len(page.all("circle"))


@pytest.mark.slow
def test_a_million_points(tmp_path):
    """A curve of 1,000,000 points has a page of a normal size, which shows its spike."""
    values = np.zeros(1_000_000)
    values[777_777] = 3.0
    page = page_of(write_training(tmp_path, {"cost": values.tolist()}))
    assert 300_000 > len(page.source)
    assert 3.0 == max(page.data["charts"][0]["curves"][0]["y"])


WRITER = """
import sys
from tensorpack_lite.utils import logger
from tensorpack_lite.utils.notes import write_note
sys.path.insert(0, sys.argv[2])
from fakes.reports import gray, write_events, write_training
logger.set_logger_dir(sys.argv[1], action="k")
number = 0
while True:
    number += 1
    write_training(sys.argv[1], {"cost": [1.0] * (number % 50 + 1)}, images=[("a", 10, gray(number % 255))])
    write_note("lint", "x" * 10000)
    logger.info("y" * 1000)
"""


@pytest.mark.slow
def test_killed_in_the_middle_of_a_write(tmp_path):
    """A process that writes all files without pause is killed; the report of what it left makes no error."""
    tests = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for number in range(5):
        directory = str(tmp_path / str(number))
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, directory, tests],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.path.dirname(tests)},
        ) as process:
            for _ in range(20 + 7 * number):  # it logs each round
                process.stdout.readline()
            process.send_signal(signal.SIGKILL)
        assert -signal.SIGKILL == process.returncode
        assert os.path.exists(os.path.join(directory, "log.log"))
        page_of(directory)


def _pixels_of(png):
    """Return the pixels of a PNG file that this library wrote: unfiltered rows."""
    import zlib

    start = png.index(b"IDAT")
    length = int.from_bytes(png[start - 4 : start], "big")
    rows = np.frombuffer(zlib.decompress(png[start + 4 : start + 4 + length]), np.uint8).reshape(8, 9)
    return rows[:, 1:].tobytes()
