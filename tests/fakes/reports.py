"""Directories of training runs, made without training, and the reader of a page."""

from __future__ import annotations

import json
import re
import struct
from html.parser import HTMLParser
from pathlib import Path

import numpy as np

from tensorpack_lite.dataflow.files.tfrecord import write_record
from tensorpack_lite.report.page import make_page
from tensorpack_lite.report.reading import read_training
from tensorpack_lite.utils.png import encode_png

EMPTY = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"}
LOADING = {
    "src",
    "href",
    "srcset",
    "data",
    "action",
    "formaction",
    "poster",
    "background",
    "xlink:href",
    "ping",
}
MANIFEST = {
    "format": 1,
    "started": "2026-11-23T01:00:00+0000",
    "code": {"script": "/home/me/train.py", "arguments": ["--fast"], "files": {"train.py": "x\n"}, "git": {}},
    "settings": {"trainer": "SimpleTrainer", "ranks": 1, "model": {"type": "__main__.Model"}},
    "length": {"steps_per_epoch": 10, "max_epoch": 4, "starting_epoch": 1},
    "data": [{"type": "FeedInput", "arguments": {"ds": {"type": "Digits", "arguments": {"size": 8}}}}],
    "callbacks": [{"type": "ModelSaver", "arguments": {"max_to_keep": 4}}],
    "graph": {"variables": {"W": ["float32", [3, 4], True], "step": ["int64", [], False]}},
    "packages": {"python": "3.11.7", "tensorflow": "2.21.0"},
    "machine": {"host": "box", "usable cores": 2, "memory": 8 << 30, "GPUs": ["A100", "A100"]},
    "seeds": {"fix_rng_seed": 7, "graph": None},
    "resumptions": [],
    "exit": {
        "outcome": "finished",
        "error": None,
        "epoch": 4,
        "global_step": 40,
        "when": "2026-11-23T01:02:05+0000",
    },
    "left out": {},
}


def rows_of(scalars, steps_per_epoch=10):
    """Return the rows of `stats.json` for scalars, given as `{name: values}`, one value for each epoch."""
    length = max(map(len, scalars.values()))
    return [
        {
            **{name: values[number] for name, values in scalars.items() if number < len(values)},
            "epoch_num": number + 1,
            "global_step": (number + 1) * steps_per_epoch,
        }
        for number in range(length)
    ]


def write_training(
    directory, scalars=None, manifest=None, notes=(), log="[1123 01:00:00 @base.py:1] Start\n", images=()
):
    """
    Write the files of a training.

    Args:
        directory: created if it is missing.
        scalars: `{name: values}`; None writes a cost, a validation error and a learning rate for 4 epochs.
        manifest: changes of `MANIFEST`; a part that is None is omitted.
        notes: dicts for `notes.jsonl`.
        log: the text of `log.log`.
        images: (tag, step, uint8 [H, W, C]) for an event file.
    """
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    if scalars is None:
        rates = [0.1, 0.1, 0.01, 0.01]
        scalars = {"cost": [4.0, 2.0, 1.0, 0.5], "val_error": [0.5, 0.25, 0.125, 0.2], "learning_rate": rates}
    (directory / "stats.json").write_text(json.dumps(rows_of(scalars) if scalars else []))
    content = {key: value for key, value in {**MANIFEST, **(manifest or {})}.items() if value is not None}
    (directory / "manifest.json").write_text(json.dumps(content))
    complete = [{"time": "2026-11-23T01:01:00+0000", **note} for note in notes]
    (directory / "notes.jsonl").write_text("".join(json.dumps(note) + "\n" for note in complete))
    (directory / "log.log").write_text(log)
    if images:
        write_events(directory / "events.out.tfevents.1.box", images)
    return str(directory)


def write_events(path, images):
    """Write an event file with images."""
    with open(str(path), "wb") as file:
        write_record(file, _double(1, 0.0) + _text(3, b"brain.Event:2"))
        for tag, step, pixels in images:
            height, width, _ = pixels.shape
            image = _number(1, height) + _number(2, width) + _number(3, 3) + _text(4, encode_png(pixels))
            value = _text(1, tag.encode()) + _text(4, image)
            write_record(file, _double(1, 1e9 + step) + _number(2, step) + _text(5, _text(1, value)))
            scalar = _text(1, b"cost") + bytes([2 << 3 | 5]) + struct.pack("<f", 1.0)
            write_record(file, _double(1, 1e9) + _number(2, step) + _text(5, _text(1, scalar)))


def gray(value, size=8):
    """Return a gray image."""
    return np.full([size, size, 1], value, np.uint8)


def page_of(*directories, comparison=None):
    """Return the parsed report of training runs."""
    return Page(make_page([read_training(str(one)) for one in directories], comparison))


class Page(HTMLParser):
    """
    The parsed page. It fails if an element is not closed, or closed twice.

    Attributes:
        source: the HTML.
        elements: (name, attributes) of all elements.
        text: what a person reads, without scripts and styles.
    """

    def __init__(self, source):
        super().__init__()
        self.source, self.elements, self.text, self._open = source, [], "", []
        self.feed(source)
        self.close()
        assert [] == self._open, f"elements that are not closed: {self._open}"

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice: {names}"
        self.elements.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open, f"</{tag}> closes nothing"
        assert tag == self._open.pop(), f"</{tag}> closes another element"

    def handle_data(self, data):
        if not {"script", "style"} & set(self._open):
            self.text += data + " "

    def all(self, tag, **attributes):
        """Return the attributes of all elements with a name and with these attributes."""
        return [
            found
            for name, found in self.elements
            if name == tag and all(found.get(key.rstrip("_")) == value for key, value in attributes.items())
        ]

    @property
    def data(self):
        """The data that the script reads."""
        start = self.source.index('id="data">') + len('id="data">')
        return json.loads(self.source[start : self.source.index("</script>", start)])


def check_safe(page):
    """Assert that the page loads nothing, has unique ids and labels, and runs only the library's script."""
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for name, attributes in page.elements:
        for key in LOADING & set(attributes):
            value = attributes[key]
            assert value.startswith(("data:image/png;base64,", "data:image/jpeg;base64,", "#")), value[:80]
            assert not value.startswith("#") or value[1:] in ids, f"a link to nothing: {value}"
        assert not [key for key in attributes if key.startswith("on") or key == "style"], attributes
        assert name not in {"link", "iframe", "object", "embed", "base", "form"}
        assert name != "img" or attributes["alt"]
        assert name != "svg" or attributes["aria-label"]
    assert [None, "application/json"] == sorted((one.get("type") for one in page.all("script")), key=str)
    style = re.search("<style>(.*?)</style>", page.source, re.DOTALL).group(1)
    assert not re.search(r"url\(|@import", style)
    script = page.source[page.source.rindex("<script>") :]
    assert not re.search(r"http|fetch|XMLHttp|import\(|eval|innerHTML|WebSocket", script)
    assert json.dumps(page.data)


def _number(field, value):
    return bytes([field << 3]) + _varint(value)


def _double(field, value):
    return bytes([field << 3 | 1]) + struct.pack("<d", value)


def _text(field, value):
    return bytes([field << 3 | 2]) + _varint(len(value)) + value


def _varint(value):
    groups = []
    while True:
        groups.append(value & 0x7F)
        value >>= 7
        if not value:
            return bytes([group | 0x80 for group in groups[:-1]] + groups[-1:])
