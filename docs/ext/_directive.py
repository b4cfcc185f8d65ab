"""A Sphinx directive whose content is the Markdown that a function returns."""

from __future__ import annotations

from typing import Callable

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective


def from_markdown(make: Callable[..., str]) -> type:
    """
    Return a directive class.

    Its arguments are passed to `make`. The page that uses it must itself be Markdown.
    """

    class FromMarkdown(SphinxDirective):
        optional_arguments = 1

        def run(self) -> list:
            content = StringList(make(*self.arguments).splitlines(), source=make.__module__)
            section = nodes.container()
            self.state.nested_parse(content, self.content_offset, section)
            return section.children

    return FromMarkdown
