"""Each package states its input, its output and the next package in its docstring, and exports what it offers."""

from __future__ import annotations

import ast
import re

LINES = ("**In:**", "**Out:**", "**Next:**")
ARTICLES = {"A", "An", "The", "All", "Context"}
QUESTIONS = {"How", "What", "Where", "Whether", "Who"}
AFTER_NOUNS = {"for", "from", "in", "of", "on", "over", "that", "which", "with"}


def packages(source) -> list:
    """Return the top-level packages."""
    return [m for m in source if m.is_package and m.name.count(".") == 1]


def paragraph(docstring: str, label: str) -> str:
    """Return the text after a label, up to the next label or blank line."""
    text = docstring.split(label, 1)[1]
    return re.split(r"\n\s*\n|\*\*\w+:\*\*", text, maxsplit=1)[0]


def test_packages_say_in_out_next(source):
    """The docstring of each package has **In:**, **Out:** and **Next:**, in this order."""
    wrong = []
    for module in packages(source):
        docstring = ast.get_docstring(module.syntax) or ""
        places = [docstring.find(line) for line in LINES]
        if -1 in places or places != sorted(places):
            wrong.append(f"{module.path}: its docstring needs the lines {', '.join(LINES)}, in this order.")
    assert [] == wrong, "\n" + "\n".join(wrong)


def test_next_names_a_package_that_exists(source):
    """**Next:** names a package of the library, or the user."""
    rooms = {m.name.split(".")[1] for m in packages(source)}
    wrong = []
    for module in packages(source):
        docstring = ast.get_docstring(module.syntax) or ""
        if LINES[2] not in docstring:
            continue
        words = set(re.findall(r"[a-z_]+", paragraph(docstring, LINES[2])))
        if not words & (rooms | {"user", "script"}):
            wrong.append(f"{module.path}: **Next:** names none of {', '.join(sorted(rooms))}.")
    assert [] == wrong, "\n" + "\n".join(wrong)


def test_every_module_has_a_docstring(source):
    """Each file has a docstring."""
    without = [m.path for m in source if not ast.get_docstring(m.syntax)]
    assert [] == without, f"Add a docstring to: {', '.join(without)}"


def test_summaries_of_modules_and_classes(source):
    """A module or a class is described by a noun phrase. A verb in the imperative is for functions."""
    documented = [
        (node, docstring.split())
        for module in source
        for node in ast.walk(module.syntax)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        for docstring in [ast.get_docstring(node) or ""]
        if len(docstring.split()) > 1
    ]
    firsts = {words[0] for node, words in documented if isinstance(node, ast.FunctionDef)}
    verbs = {word for word in firsts if word.isalpha() and not word.isupper()} - ARTICLES
    wrong = [
        " ".join(words[:9])
        for node, words in documented
        if not isinstance(node, ast.FunctionDef)
        if words[0] in QUESTIONS or (words[0] in verbs and words[1] not in AFTER_NOUNS)
    ]
    assert [] == wrong, "\n" + "\n".join(wrong)


def test_packages_export_what_they_offer(source):
    """`__all__` of a public package has each public name that the package imports from its own files."""
    missing = [
        f"{package.path}: {name}"
        for package in source
        if package.is_package and package.room != "compat" and package.public() is not None
        for imported in package.imports
        if imported.target.startswith(f"{package.name}.") and source.get(imported.target) is not None
        for name in imported.names
        if name in (source.get(imported.target).public() or [])
        if name not in package.public() and not name.startswith("old_")  # the finder of old names
    ]
    assert [] == missing, f"Add to `__all__`: {', '.join(missing)}"
