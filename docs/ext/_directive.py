"""A Sphinx directive whose content is Markdown that a function makes."""

from __future__ import annotations

from typing import Callable

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective


def from_markdown(make: Callable[[], str]) -> type:
    """A directive without arguments; the page that uses it must itself be Markdown."""

    class FromMarkdown(SphinxDirective):
        def run(self) -> list:
            content = StringList(make().splitlines(), source=make.__module__)
            section = nodes.container()
            self.state.nested_parse(content, self.content_offset, section)
            return section.children

    return FromMarkdown
