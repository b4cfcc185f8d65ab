"""Sphinx: pages in Markdown, the reference from docstrings; built with `tox -e docs`, where every warning is an error."""

import os
import re
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

ROOT = Path(__file__).resolve().parents[1]

project = "tensorpack_lite"
author = "the tensorpack_lite developers"
release = re.search(r'"(.+)"', (ROOT / "tensorpack_lite" / "_version.py").read_text(encoding="utf-8").split("=")[1]).group(1)

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
html_theme = "alabaster"
html_theme_options = {"description": "Training of TensorFlow graphs", "fixed_sidebar": True}

# Docstrings use `name` for code, and the sections of ARCHITECTURE.md's house.
default_role = "code"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
napoleon_custom_sections = ["Runs at", "Shapes", "Variables", "Length", "Order", "Process", "Source", "tensorpack"]

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # signatures stay short; the types are in the source
autodoc_default_options = {"members": True, "show-inheritance": True}
autoclass_content = "class"

myst_heading_anchors = 3

# Base classes that belong to TensorFlow and Python: they have no pages here.
nitpick_ignore_regex = [
    ("py:class", r"(tensorflow|abc|threading|multiprocessing|logging|collections|keras|typing)\..*"),
    ("py:.*", r"tensorpack_lite\..*\._.*"),
]
