"""Public names are documented, pages and examples use no others, and pages are short."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path

import pytest

pytest.importorskip("tensorflow")

ROOT = Path(__file__).resolve().parents[2]
EXPECTED = ("class", "function")
BLOCK = re.compile(r"^```(?:python|\{code-block\} python)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def public() -> dict:
    """The public names as `{(module, name): object}`, with the functions that read them as `tool`."""
    spec = importlib.util.spec_from_file_location("public_api", str(ROOT / "tests" / "api" / "public_api.py"))
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return {"tool": tool, "names": tool.definitions()}


def undocumented(name: str, thing: object) -> list:
    """Return the name of a class or function, and of its public methods, that lack a docstring. Methods of subclasses may inherit theirs."""
    missing = [] if thing.__doc__ else [name]
    if isinstance(thing, type) and thing.__mro__[1:] == (object,):
        missing += [f"{name}.{word}" for word, part in vars(thing).items() if needs_docstring(word, part)]
    return missing


def needs_docstring(name: str, part: object) -> bool:
    """Return whether an attribute of a class is a public method or property without a docstring."""
    is_method = callable(part) or isinstance(part, (property, classmethod, staticmethod))
    return is_method and not name.startswith("_") and not getattr(part, "__doc__", None)


def library_imports(code: str) -> set:
    """Return (module, name) of each import of a name of the library in Python code."""
    return {
        (node.module, alias.name)
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tensorpack_lite")
        for alias in node.names
        if alias.name != "*"
    }


def is_public(module: str, name: str, public: dict) -> bool:
    """Return whether an imported name is public, a module, or an attribute of a public module."""
    thing = getattr(importlib.import_module(module), name, None)
    if thing is None or public["tool"].kind(thing) == "module":  # a submodule
        return True
    return any(word == name and known is thing for (_, word), known in public["names"].items())


@pytest.mark.slow
def test_every_public_name_is_documented(public):
    """Each public name has a docstring; Sphinx silently omits names without one."""
    missing = [
        found
        for (module, name), thing in public["names"].items()
        if public["tool"].kind(thing) in EXPECTED
        for found in undocumented(f"{module}.{name}", thing)
    ]
    assert [] == missing


def test_pages_are_short():
    """The pages have at most 50,000 words."""
    words = sum(len(page.read_text(encoding="utf-8").split()) for page in (ROOT / "docs").glob("*.md"))
    assert words <= 50_000, f"docs/*.md have {words} words: remove {words - 50_000} elsewhere, without losing facts."


@pytest.mark.slow
def test_pages_and_examples_use_public_names(public):
    """Pages, README and examples import no private name."""
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "examples" / "README.md"]
    sources = [(page, block) for page in pages for block in BLOCK.findall(page.read_text(encoding="utf-8"))]
    sources += [(file, file.read_text(encoding="utf-8")) for file in (ROOT / "examples").rglob("*.py")]
    private = [
        f"{file.relative_to(ROOT)}: {module}.{name}"
        for file, code in sources
        for module, name in sorted(library_imports(code))
        if not is_public(module, name, public)
    ]
    assert [] == private, "Use a public name, or list these names in the `__all__` of their modules."
