"""Sphinx configuration: pages in Markdown, the reference from docstrings. `tox -e docs` builds them; a warning is an error."""

import os
import re
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

ROOT = Path(__file__).resolve().parents[1]

project = "tensorpack_lite"
author = "the tensorpack_lite developers"
release = re.search(
    r'"(.+)"', (ROOT / "tensorpack_lite" / "_version.py").read_text(encoding="utf-8").split("=")[1]
).group(1)

sys.path.insert(0, str(ROOT / "docs" / "ext"))
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "names_table",
    "differences_table",
    "summary_table",
]
exclude_patterns = ["_build"]
smartquotes = False  # quotes inside code in tables stay as they are
html_theme = "furo"
html_title = f"tensorpack_lite {release}"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
copybutton_prompt_text = ">>> |\\.\\.\\. |\\$ "
copybutton_prompt_is_regexp = True
pygments_style = "friendly"
pygments_dark_style = "monokai"
viewcode_line_numbers = True

# Docstrings use `name` for code, and the sections of ARCHITECTURE.md's house.
default_role = "code"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
napoleon_custom_sections = ["Variables"]

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # signatures stay short; the types are in the source
autodoc_default_options = {"members": True, "show-inheritance": True}
autoclass_content = "class"

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]

# Base classes that belong to TensorFlow and Python: they have no pages here.
nitpick_ignore_regex = [
    ("py:class", r"(tensorflow|abc|enum|threading|multiprocessing|logging|collections|keras|typing)\..*"),
    ("py:.*", r"tensorpack_lite\..*\.(_.*|T)"),  # private names, and type variables
    ("py:exc", r"tf\.errors\..*"),
    ("py:.*", r"re\.error|numpy\..*|pickle\..*|zmq\..*"),
]

LABEL = re.compile(r"(Runs at|Shapes|Length|Order|Process|Source|Note|tensorpack): ")
SECTION = re.compile(r"\s*(Args|Returns|Yields|Raises|Attributes|Example|Variables):$")
SEVERAL = re.compile(r"\s+\w+(, \w+)+:")


def indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def begins_drawing(lines: list, number: int) -> bool:
    """Whether a colon is followed by an empty line and by lines further to the right."""
    line, below = lines[number], [other for other in lines[number + 1 :] if other.strip()]
    if not line.endswith(":") or SECTION.match(line) or not below or lines[number + 1].strip():
        return False
    return indentation(below[0]) >= indentation(line) + 4


def part_from_letters(line: str) -> str:
    """`name`s is code and a letter: reStructuredText wants something between the two."""
    if line.count("`") % 2:
        return line  # code that goes on in the next line
    parts = line.split("`")
    for k in range(2, len(parts), 2):
        if parts[k][:1].isalpha():
            parts[k] = "\\ " + parts[k]
    return "`".join(parts)


def adapt(app, what, name, obj, options, lines) -> None:
    """Our docstrings are written to be read in the source; this makes them reStructuredText before napoleon sees them."""
    found, section = [], ""
    for number, line in enumerate(lines):
        section = line.strip() if SECTION.match(line) else section
        if LABEL.match(line):  # a paragraph of its own
            label, text = line.split(":", 1)
            found += ["", f"**{label}:**{text}"]
        elif begins_drawing(lines, number):
            found.append(line + ":")
        elif section == "Attributes:" and SEVERAL.match(line):
            names, text = line.split(":", 1)
            found.append(f"{names.replace(', ', '/')}:{text}")
        else:
            found.append(
                part_from_letters(line) if "`" in line else line.replace("|", r"\|").replace("[*", r"[\*")
            )
    if what in ("property", "attribute", "data"):
        found.insert(0, "\\ ")  # so that napoleon does not take "text: more text" for a type
    lines[:] = found


def skip(app, what, name, obj, would_skip, options) -> bool:
    """Aliases of types are no members to document."""
    return True if type(obj).__module__ == "typing" else None


def setup(app) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", adapt, priority=100)
    app.connect("autodoc-skip-member", skip)
