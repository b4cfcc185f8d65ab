"""The page itself: all sections, its style and its script in one text."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Callable, List

from .._version import __version__
from ..utils.replacing import replacing
from .confusion import draw_confusion
from .galleries import draw_tables, logged_galleries, sample_galleries
from .groups import group_trainings
from .html import Html, element, join, script_data
from .pictures import draw_gallery, fit
from .plots import draw_curves
from .reading import NUM_LOG_LINES, Training, read_training
from .schedules import draw_schedules
from .sections import (
    Comparison,
    draw_comparison,
    draw_head,
    draw_log,
    draw_model,
    draw_notes,
    draw_scalars,
    draw_texts,
    draw_times,
)
from .settings import draw_facts, draw_settings

FILENAME = "report.html"
MAX_BYTES = 5_000_000


def write_report(
    directories: List[str], path: str, comparison: Comparison | None = None, has_ended: bool = False
) -> None:
    """
    Write the report of one or several training runs, or replace it atomically.

    Args:
        directories: the directories of the training runs.
        path: the file.
        comparison: what differs between the training runs, if there are two.
        has_ended: True if the caller is the training's own process, at its end.

    Raises:
        NotADirectoryError: a directory does not exist.
        OSError: the file cannot be written.
    """
    save_page(make_page([read_training(directory, has_ended) for directory in directories], comparison), path)


def save_page(page: str, path: str) -> None:
    """
    Write a page, or replace it atomically.

    Raises:
        OSError: the file cannot be written.
    """
    with replacing(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.write(page)


def make_page(trainings: List[Training], comparison: Comparison | None = None) -> str:
    """
    Return the page, at most 5 MB, in which pictures have the room that the rest leaves.

    Args:
        trainings: at least one. Problems with pictures are added to theirs.
        comparison: what differs between them, if there are two.
    """
    groups = group_trainings(trainings)
    curves, data = draw_curves(trainings, groups)
    schedules = draw_schedules(groups, data["charts"])
    labeled = [(training, f"{training.name}: " if len(trainings) > 1 else "") for training in trainings]
    samples = [gallery for label in labeled for gallery in sample_galleries(*label)]
    logged = [gallery for label in labeled for gallery in logged_galleries(*label)]
    tables = [drawn for label in labeled for drawn in draw_tables(*label)]
    confusions = [drawn for label in labeled for drawn in draw_confusion(*label)]
    above = [
        ("comparison", "Differences", draw_comparison(comparison) if comparison else None),
        ("curves", "Curves", curves),
        ("schedules", "Schedules", schedules),
    ]
    log = _for_each(trainings, draw_log, "log") if any(training.log for training in trainings) else None
    has_curves = any(training.curves for training in trainings)
    has_model = any(training.model for training in trainings)
    model = _for_each(trainings, draw_model, "model") if has_model else None
    below = [
        ("texts", "Texts", draw_texts(trainings)),
        ("model", "Model", model),
        ("times", "Times", draw_times(trainings)),
        ("scalars", "All scalars", draw_scalars(trainings) if has_curves else None),
        ("settings", "Settings", _for_each(trainings, draw_settings, "settings")),
        ("log", f"The last {NUM_LOG_LINES} lines of the log", log),
    ]
    data_element = script_data(data, "data")
    texts = [data_element, *confusions, *tables, *(content for _, _, content in above + below)]
    used = sum(len(text.encode()) for text in texts if text)
    galleries = fit([*samples, *logged], max(0, MAX_BYTES - used - 200_000))
    images = [draw_gallery(gallery) for gallery in galleries[len(samples) :]]
    drawn_samples = [*map(draw_gallery, galleries[: len(samples)]), *tables]
    pictures = [
        ("images", "Images", join(*images)),
        ("confusion", "Confusion matrix", join(*confusions)),
        ("samples", "Samples", join(*drawn_samples)),
    ]
    shown = [section for section in [*above, *pictures, *below] if section[2]]
    links = [element("a", title, href=f"#{name}") for name, title, _ in shown]
    body = element(
        "main",
        draw_head(trainings, groups),
        draw_notes(trainings),
        draw_facts(trainings[0]) if len(trainings) == 1 else None,
        element("nav", *links, aria_label="Sections"),
        *(element("section", element("h2", title), content, id=name) for name, title, content in shown),
        element("footer", f"Written by tensorpack_lite {__version__}. This file needs no network."),
    )
    title = ", ".join(training.name for training in trainings)
    return _document(title, body, element("div", id="tip", hidden=True), data_element)


def _document(title: str, *body: Html) -> str:
    style, script = (Path(__file__).with_name(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    # The browser loads nothing, and runs no other script, whatever the values in the page are.
    policy = f"default-src 'none'; img-src data:; style-src {_hash_of(style)}; script-src {_hash_of(script)}"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=Html(policy)),
        element("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name_="color-scheme", content="light dark"),
        element("title", f"{title} - training report"),
        element("style", Html(style)),
    )
    content = element("body", *body, element("script", Html(script)))
    return f"<!DOCTYPE html>\n{element('html', head, content, lang='en')}\n"


def _for_each(trainings: List[Training], draw: Callable[[Training], Html], name: str) -> Html:
    parts = []
    for number, training in enumerate(trainings):
        title = element("h3", training.name) if len(trainings) > 1 else None
        parts.append(element("div", title, draw(training), id=f"{name}-{number}"))
    return join(*parts)


def _hash_of(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
