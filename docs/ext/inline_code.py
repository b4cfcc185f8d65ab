"""Sphinx extension for inline code: names link to the reference, and long names in tables can be broken.

`ModelSaver` or `ModelSaver(...)` on any page outside of the reference becomes a link to the class.
"""

from __future__ import annotations

import re

__all__ = ["parts", "setup", "targets"]

NAME = re.compile(r"([A-Za-z_]\w*(?:\.\w+)*)(\(.*\))?$", re.DOTALL)
LINKED = ("class", "exception", "function")
ELSEWHERE = ("tf.", "np.", "hvd.", "keras.", "tensorpack.")  # names of other libraries
BREAK = re.compile(r"(?<=[/_.:,=])(?![/_.:,=\s])|(?<=[a-z])(?=[A-Z])")
SHORT = 16  # code of so many characters stays on one line


def targets(names: list) -> dict:
    """Map the last part of each dotted name to the whole, if it is unique outside of `trainv1`."""
    found: dict = {}
    for name in names:
        if ".trainv1." in name:
            continue
        found.setdefault(name.rsplit(".", 1)[1], []).append(name)
    return {short: full[0] for short, full in found.items() if len(full) == 1}


def parts(code: str) -> list:
    """Split code where a line may break: after punctuation and between words of a CamelCase name."""
    ends = [match.start() for match in BREAK.finditer(code)]
    return [code[begin:end] for begin, end in zip([0, *ends], [*ends, len(code)])]


def transform(app, doctree, page: str) -> None:
    """Add links and line breaks to the inline code of a page."""
    from docutils import nodes

    objects = app.env.get_domain("py").objects
    known = targets([name for name, entry in objects.items() if entry.objtype in LINKED and "." in name])
    for literal in list(doctree.findall(nodes.literal)):
        if not page.startswith("reference/"):
            link(app, page, literal, objects, known)
    for entry in doctree.findall(nodes.entry):
        for literal in entry.findall(nodes.literal):
            allow_breaks(literal)


def link(app, page: str, literal, objects: dict, known: dict) -> None:
    """Turn `Name` and `Name(...)` into a link, if the reference contains the name."""
    from docutils import nodes
    from sphinx.util.nodes import make_refnode

    text = literal.astext()
    match = None if text.startswith(ELSEWHERE) else NAME.match(text)
    short = match.group(1).rsplit(".", 1)[-1] if match else ""
    is_name = short in known and (short[0].isupper() or match.group(2) or "_" in short)
    if is_name and not isinstance(literal.parent, nodes.reference):
        entry = objects[known[short]]
        target = make_refnode(
            app.builder,
            page,
            entry.docname,
            entry.node_id,
            literal.deepcopy(),
            known[short],
        )
        literal.replace_self(target)


def allow_breaks(literal) -> None:
    """Insert `<wbr>` into a long name, which copying does not include."""
    from docutils import nodes

    if len(literal.children) != 1 or not isinstance(literal.children[0], nodes.Text):
        return
    pieces = parts(literal.astext()) if len(literal.astext()) > SHORT else [literal.astext()]
    children = [nodes.Text(pieces[0])]
    for piece in pieces[1:]:
        children += [nodes.raw("", "<wbr>", format="html"), nodes.Text(piece)]
    literal.children = []
    literal.extend(children)


def setup(app) -> dict:
    """Register the extension with Sphinx."""
    app.connect("doctree-resolved", transform)
    return {"parallel_read_safe": True}
