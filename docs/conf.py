"""Sphinx configuration. The pages are Markdown, and the reference is generated from docstrings.

`tox -e docs` builds the documentation and treats warnings as errors.
"""

import os
import re
import sys
from importlib import import_module
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

ROOT = Path(__file__).resolve().parents[1]

project = "tensorpack_lite"
author = "the tensorpack_lite developers"
version_file = ROOT / "tensorpack_lite" / "_version.py"
release = re.search(r'= "(.+)"', version_file.read_text(encoding="utf-8")).group(1)

sys.path.insert(0, str(ROOT / "docs" / "ext"))
PUBLIC = frozenset(import_module("summary_table").listed_names())
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_reredirects",
    "names_table",
    "differences_table",
    "summary_table",
    "tf1_table",
    "inline_code",
]
exclude_patterns = ["_build", "decisions"]
highlight_language = "none"  # of blocks without a language: output, not Python
# Pages that were merged into others: old page, new address.
redirects = {
    "callback_stock": "callbacks.html#callbacks-by-task",
    "choose": "index.html#what-do-you-want-to-do",
    "clusters": "several_machines.html#start-the-ranks",
    "compatibility": "names.html#what-differs-from-tensorpack",
    "data_formats": "datasets.html#store-data-in-files",
    "data_from_elsewhere": "datasets.html#data-of-other-libraries",
    "deployment": "inference_export.html",
    "extensions": "callbacks.html#write-an-extension",
    "find_batch": "before_training.html#choose-a-batch-size",
    "first_five_minutes": "first_training.html#the-log",
    "hanging_ranks": "hangs.html#several-ranks",
    "horovod": "several_machines.html#horovod",
    "image_folder": "own_data.html#images",
    "inferencers": "summaries.html#write-an-inferencer",
    "manifest": "report.html#compare-training-runs",
    "many_devices": "distributed.html",
    "memory": "gpu.html#recompute-activations",
    "model_summary": "before_training.html#summarize-the-model",
    "moving": "run_old_script.html#port-a-script",
    "notebooks": "several_trainings.html#notebooks",
    "old_interfaces": "run_old_script.html#first-generation-scripts-trainv1",
    "parallel_dataflow": "efficient_dataflow.html",
    "performance_tuning": "speed.html",
    "preemptible": "save_resume.html#interruptions",
    "recipes": "index.html#what-do-you-want-to-do",
    "rehearsal": "before_training.html#rehearse-the-training",
    "schedules": "optimizers.html#set-a-schedule",
    "sessions": "trainers.html#the-two-sessions",
    "tabular": "own_data.html#tables-with-cross-validation",
    "ten_minutes": "from_keras_and_lightning.html",
    "text": "own_data.html#text",
    "tf1_names": "names.html#names-of-tensorflow-1",
    "tower_functions": "trainers.html#tower-functions",
    "when_it_does_not_improve": "nan.html",
}
smartquotes = False  # keep straight quotes in code inside tables
html_theme = "furo"
html_title = f"tensorpack_lite {release}"
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["custom.css"]
copybutton_prompt_text = ">>> |\\.\\.\\. |\\$ "
copybutton_prompt_is_regexp = True
pygments_style = "friendly"
pygments_dark_style = "monokai"
viewcode_line_numbers = True

# Docstrings use `name` for code, and Google-style sections.
default_role = "code"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
napoleon_custom_sections = ["Variables"]

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # keep signatures short; the types are in the source
# "members" here would show all members of a module
autodoc_default_options = {"show-inheritance": True}
autoclass_content = "class"

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]

# Base classes from TensorFlow and Python, which have no page in this reference.
nitpick_ignore_regex = [
    ("py:class", r"(tensorflow|keras|abc|collections|enum|logging|typing)\..*"),
    (
        "py:class",
        r"(_frozen_importlib_external|http|multiprocessing|socketserver|threading|types)\..*",
    ),
    ("py:.*", r"tensorpack_lite\..*\.(_.*|T)"),  # private names and type variables
    (
        "py:class",
        r"tensorpack_lite\.(ranks\.alone\.Alone|train\.rank_connection\.RankConnection)",
    ),  # private classes
    ("py:exc", r"tf\.errors\..*"),
    ("py:.*", r"re\.error|tqdm\..*|numpy\..*|pickle\..*|zmq\..*"),
]

LABEL = re.compile(
    r"(Runs at|Shapes|Length|Order|Process|Source|Note|(?:Difference from )?tensorpack): "
)
SECTION = re.compile(r"\s*(Args|Returns|Yields|Raises|Attributes|Example|Variables):$")
SEVERAL = re.compile(r"\s+\w+(, \w+)+:")


def indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def begins_drawing(lines: list, number: int) -> bool:
    """Return whether a line with a colon, an empty line and an indented block follow."""
    line, below = lines[number], [line for line in lines[number + 1 :] if line.strip()]
    if not line.endswith(":") or SECTION.match(line):
        return False
    if not below or lines[number + 1].strip():
        return False
    return indentation(below[0]) >= indentation(line) + 4


def begins_unannounced_drawing(lines: list, number: int) -> bool:
    """Return whether an indented block follows a paragraph of a module that has no colon."""
    line, below = lines[number], [line for line in lines[number + 1 :] if line.strip()]
    if not line.strip() or line.startswith((" ", "- ", "* ")) or line.endswith(":"):
        return False
    return bool(below) and not lines[number + 1].strip() and indentation(below[0]) >= 4


def part_from_letters(line: str) -> str:
    """Separate code from a letter that follows it, as reStructuredText requires."""
    if line.count("`") % 2:
        return line  # code that continues on the next line
    parts = line.split("`")
    for k in range(2, len(parts), 2):
        if parts[k][:1].isalpha():
            parts[k] = "\\ " + parts[k]
    return "`".join(parts)


def adapt(app, what, name, obj, options, lines) -> None:
    """Convert a docstring to reStructuredText, before napoleon reads it."""
    found, section, margin = [], "", None
    for number, line in enumerate(lines):
        if margin is not None and (not line.strip() or indentation(line) > margin):
            found.append(line)  # a line of a drawing
            continue
        margin = None
        section = line.strip() if SECTION.match(line) else section
        if LABEL.match(line):  # a separate paragraph
            label, text = line.split(":", 1)
            found += ["", f"**{label}:**{text}"]
        elif begins_drawing(lines, number):
            found.append(line.rstrip(":") + "::")
            margin = indentation(line)
        elif section == "Attributes:" and SEVERAL.match(line):
            names, text = line.split(":", 1)
            found.append(f"{names.replace(', ', '/')}:{text}")
        else:
            plain = line.replace("|", r"\|").replace("[*", r"[\*")
            found.append(part_from_letters(line) if "`" in line else plain)
            if what == "module" and begins_unannounced_drawing(lines, number):
                found += ["", "::"]
                margin = indentation(line)
    if what in ("property", "attribute", "data"):
        found.insert(0, "\\ ")  # or napoleon takes "text: more text" for a type
    lines[:] = found


def skip(app, what, name, obj, would_skip, options) -> bool:
    """Skip aliases of types."""
    return True if type(obj).__module__ == "typing" else None


def public_bases(app, name, obj, options, bases) -> None:
    """Show the nearest public base classes: a private class is not in the reference."""
    shown = [
        base
        for base in obj.__mro__[1:]
        if not base.__module__.startswith("tensorpack_lite")
        or (base.__module__, base.__name__) in PUBLIC
    ]
    bases[:] = [
        base for base in shown if not any(base in other.__mro__[1:] for other in shown)
    ]


def read_gallery(app, name, source) -> None:
    """Show the README of the examples as the page `gallery`, with links from this directory."""
    if name == "gallery":
        readme = ROOT / "examples" / "README.md"
        app.env.note_dependency(str(readme))
        text = readme.read_text(encoding="utf-8")
        text = re.sub(r"\]\((?!https?:|#)", "](../examples/", text)
        # the examples' own README files are not pages
        text = re.sub(r"\[([^]]*)\]\(\.\./examples/[^)]*\.md\)", r"\1", text)
        source[0] = text.replace("(../examples/../docs/", "(")


def setup(app) -> None:
    """Connect the functions above to Sphinx."""
    app.connect("autodoc-process-docstring", adapt, priority=100)
    app.connect("autodoc-skip-member", skip)
    app.connect("autodoc-process-bases", public_bases)
    app.connect("source-read", read_gallery)
