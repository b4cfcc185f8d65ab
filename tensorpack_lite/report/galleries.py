"""The pictures of a training: logged images, the first batch, the worst samples, and those of spikes and NaNs."""

from __future__ import annotations

import glob
import os
from functools import partial
from itertools import islice
from typing import Any, Dict, Iterator, List, Tuple

import numpy as np

from ..utils.npz import read_npz
from .events import LoggedImage
from .html import Html, element, table
from .pictures import Gallery, Picture, as_images, shrunk
from .reading import Training
from .samples import CONFUSION, FIRST_BATCH, PREDICTION, PREDICTIONS, PROBABILITY, STEP, WORST

_TITLES = {
    FIRST_BATCH: "The first batch, as the graph got it",
    PREDICTIONS: "Predictions for random validation samples",
    WORST: "The validation samples with the largest loss",
}
_MAX_TAGS = 40
_MAX_TEXT = 20_000
_MAX_IMAGES_OF_SEVERAL = 3
_MAX_SAMPLES = 16
_MAX_FILES_OF_A_NOTE = 4
_MAX_ROWS, _MAX_VALUES = 8, 6
_NOTES_WITH_FILES = ("nan", "spike")


def logged_galleries(training: Training, prefix: str) -> List[Gallery]:
    """Return the images in the event files, a gallery for each tag."""
    galleries = []
    newest = -_MAX_IMAGES_OF_SEVERAL if prefix else 0
    for tag, images in list(training.images.items())[:_MAX_TAGS]:
        pictures: List[Picture] = []
        for image in images[newest:]:
            what, alt = f"the image '{tag}' of step {image.step}", f"{tag} at step {image.step}"
            small = training.attempt(what, partial(shrunk, image), None)  # type: ignore[misc]
            if small is not None:
                size = (small.width, small.height)
                pictures.append(Picture(small.content, size, f"step {image.step:,}", alt))
        if pictures:
            galleries.append(Gallery(prefix + tag, pictures, is_logged=True))
    return galleries


def sample_galleries(training: Training, prefix: str) -> List[Gallery]:
    """Return the samples that are images, and the pictures that notes refer to."""
    galleries = []
    for name, arrays in _samples(training):
        pictures, remark = _pictures(name, arrays)
        galleries.append(Gallery(prefix + _title(name, arrays), pictures, remark=remark))
    for title, directory in _directories(training):
        pictures, remark = [], ""
        for path in sorted(glob.glob(os.path.join(glob.escape(directory), "*.png")))[:_MAX_FILES_OF_A_NOTE]:
            picture = training.attempt(os.path.basename(path), partial(_read_png, path), None)
            pictures += [] if picture is None else [picture]
        if not pictures:
            for path in sorted(glob.glob(os.path.join(glob.escape(directory), "*.npz")))[:1]:
                arrays = training.attempt(os.path.basename(path), partial(read_npz, path), {})
                pictures, remark = _pictures(os.path.basename(path), arrays)
        galleries.append(Gallery(prefix + title, pictures, remark=remark))
    return [gallery for gallery in galleries if gallery.pictures]


def draw_tables(training: Training, prefix: str) -> List[Html]:
    """Return tables of the samples that are not images, and the texts that notes refer to."""
    drawn = []
    for name, arrays in _samples(training):
        columns = {key: array for key, array in arrays.items() if key != STEP and array.ndim and len(array)}
        if columns and not any(as_images(array[:1])[0] for array in columns.values()):
            samples = islice(zip(*columns.values()), _MAX_ROWS)
            rows = [[_words(value) for value in sample] for sample in samples]
            heading = element("h3", prefix + _title(name, arrays))
            drawn.append(element("section", heading, table(list(columns), rows)))
    for title, directory in _directories(training):
        path = os.path.join(directory, "report.txt")
        if os.path.isfile(path):
            text = training.attempt(path, partial(_read_text, path), "")
            summary = element("summary", f"{prefix}{title}, report.txt")
            drawn.append(element("details", summary, element("pre", text)))
    return drawn


def _samples(training: Training) -> Iterator[Tuple[str, Dict[str, np.ndarray]]]:
    """Yield the names and arrays of all files of samples."""
    return ((name, arrays) for name, arrays in training.samples.items() if name != CONFUSION)


def _read_text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read(_MAX_TEXT)


def _title(name: str, arrays: Dict[str, np.ndarray]) -> str:
    step = arrays.get(STEP)
    at = f", at step {int(step):,}" if step is not None and step.shape == () else ""
    return _TITLES.get(name, name) + at


def _pictures(name: str, arrays: Dict[str, np.ndarray]) -> Tuple[List[Picture], str]:
    """Return the samples of the first array that holds images, and a remark. The captions have the values of the others."""
    for key, array in arrays.items():
        files, values = as_images(array[:_MAX_SAMPLES]) if array.ndim >= 1 else ([], "")
        if files:
            columns = {
                name: column
                for name, column in arrays.items()
                if name not in (key, STEP) and column.ndim in (1, 2) and len(column) >= len(files)
            }
            pictures = []
            for number, (content, size) in enumerate(files):
                caption = ", ".join(_captions(columns, number))
                alt = f"{name}, {key} {number}: {caption or 'no label'}; {values}"
                pictures.append(Picture(content, size, caption or f"{number}", alt))
            return pictures, values
    return [], ""


def _captions(arrays: Dict[str, np.ndarray], number: int) -> Iterator[str]:
    """Return the values of one sample: numbers as they are, of a distribution over classes the most probable one."""
    for name, array in arrays.items():
        value = array[number]
        if name == PROBABILITY:
            continue
        if name == PREDICTION and PROBABILITY in arrays:
            yield f"{name} {_words(value)} ({float(arrays[PROBABILITY][number]):.0%})"
        elif array.ndim == 1:
            yield f"{name} {_words(value)}"
        elif array.dtype.kind == "f" and array.shape[1] > 1 and abs(float(value.sum()) - 1) < 1e-2:
            yield f"{name} {int(value.argmax())} ({float(value.max()):.0%})"


def _words(value: Any) -> str:
    flat = np.asarray(value).reshape(-1)
    words = [f"{x:.4g}" if isinstance(x, float) else str(x)[:40] for x in flat[:_MAX_VALUES].tolist()]
    return " ".join(words) + (f" ... ({flat.size} values)" if flat.size > _MAX_VALUES else "")


def _directories(training: Training) -> Iterator[Tuple[str, str]]:
    """Yield a title and the directory for each note whose files are in a directory inside that of the training."""
    for note in training.notes:
        named = note.get("directory")
        if note["kind"] in _NOTES_WITH_FILES and isinstance(named, str):
            directory = os.path.join(training.directory, os.path.basename(os.path.normpath(named)))
            if "\0" not in named and os.path.isdir(directory):
                yield f"{note['kind']}: {os.path.basename(directory)}", directory


def _read_png(path: str) -> Picture:
    with open(path, "rb") as file:
        content = file.read()
    width, height = (int.from_bytes(content[place : place + 4], "big") for place in (16, 20))
    image = shrunk(LoggedImage(0, 0.0, width, height, content))
    name = os.path.basename(path)
    return Picture(image.content, (image.width, image.height), name, name)
