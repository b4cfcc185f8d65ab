"""Elements of HTML, with all values escaped."""

from __future__ import annotations

import json
import re
from html import escape
from typing import Any, Iterable

_EMPTY_ELEMENTS = {"br", "img", "input", "meta"}
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")  # not allowed in HTML, or not in UTF-8


class Html(str):
    """Text that is HTML already. Any other text is escaped where it is used."""


def element(name: str, *children: object, **attributes: object) -> Html:
    """
    Return an element.

    Args:
        name: its name, e.g. "p".
        children: `Html`, or any other values, which are escaped. None is omitted.
        attributes: their values are escaped. None and False are omitted, True means an attribute without a value.
            `class_` means class, `name_` means name, and `data_x` means data-x.
    """
    opening = f"<{name}{''.join(_attribute(key, value) for key, value in attributes.items())}>"
    return Html(opening if name in _EMPTY_ELEMENTS else f"{opening}{join(*children)}</{name}>")


def join(*children: object) -> Html:
    """Return the children one after the other; see `element`."""
    return Html("".join(child if isinstance(child, Html) else _text(child) for child in children if child is not None))


def table(head: Iterable[object], rows: Iterable[Iterable[object]], **attributes: object) -> Html:
    """
    Return a table in a box that scrolls sideways, so that a wide one fits on a phone.

    Args:
        head: the titles of the columns; empty if the first column has the titles of the rows.
        rows: the cells of each row.
        attributes: those of the table.
    """
    titles = [element("th", title, scope="col") for title in head]
    body = [
        element(
            "tr",
            *(
                element("td", cell) if titles or number else element("th", cell, scope="row")
                for number, cell in enumerate(row)
            ),
        )
        for row in rows
    ]
    top = element("thead", element("tr", *titles)) if titles else None
    return element("div", element("table", top, element("tbody", *body), **attributes), class_="scroll")


def script_data(value: Any, name: str) -> Html:
    """Return a JSON value as an element that a script finds by its id. The value cannot end the element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return element("script", Html(text), type="application/json", id=name)


def _text(value: object) -> str:
    return escape(_CONTROL.sub("\ufffd", str(value)))


def _attribute(name: str, value: object) -> str:
    name = name.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{value if isinstance(value, Html) else _text(value)}"'
