"""ARCHITECTURE.md agrees with the code."""

from __future__ import annotations

import ast
import re

import pytest

# This file belongs to a worker process.
WITHOUT_STATE = {"dataflow/process/worker.py"}
# calls that change a process
CALLS = {
    *("signal.signal", "atexit.register", "os.environ.update", "os.environ.setdefault"),
    *("tf.RegisterGradient", "tfv1.disable_eager_execution", "tf.disable_v2_behavior", "cv2.setNumThreads"),
}


@pytest.fixture(scope="module")
def text(root) -> str:
    """The text of ARCHITECTURE.md."""
    return (root / "ARCHITECTURE.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def decisions(root) -> dict:
    """The texts of docs/decisions/, by the names of the files."""
    return {file.name: file.read_text(encoding="utf-8") for file in (root / "docs" / "decisions").glob("*.md")}


def defined(syntax, dotted: str) -> bool:
    """Return whether a file defines `Class.method`, a function or a name."""
    body = syntax.body
    for part in dotted.split("."):
        for node in body:
            names = [node.name] if hasattr(node, "name") else []
            if isinstance(node, ast.Assign):
                names = [t.id for t in node.targets if isinstance(t, ast.Name)]
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                names = [node.target.id]
            if part in names:
                body = getattr(node, "body", [])
                break
        else:
            return False
    return True


def test_it_is_short(text):
    """The page has at most 1,900 words: five to eight minutes."""
    assert len(text.split()) <= 1900


def test_each_decision_answers_a_question(text, decisions):
    """Each decision has a question, an answer, a reason and what was rejected, and the page links it."""
    short = {name: decision for name, decision in decisions.items() if name not in ("ambient-state.md", "addresses.md")}
    parts = ("**Question.**", "**Answer.**", "**Reason.**", "**Rejected.**")
    assert [] == [name for name, decision in short.items() if not all(part in decision for part in parts)]
    assert [] == [name for name in decisions if f"docs/decisions/{name}" not in text]


def test_its_symbols_exist(text, decisions, source, root):
    """Each `path.py::Symbol` of the page and of the decisions exists."""
    named = re.findall(r"`([\w/]+\.py)::([\w.]+)`", " ".join([text, *decisions.values()]))
    missing = []
    for path, symbol in named:
        file = root / "tensorpack_lite" / path
        file = file if file.exists() else root / path
        if not file.exists() or not defined(ast.parse(file.read_text(encoding="utf-8")), symbol):
            missing.append(f"{path}::{symbol}")
    assert len(named) > 10
    assert [] == missing, f"ARCHITECTURE.md names symbols that do not exist: {', '.join(missing)}"


def test_every_package_has_its_line(text, source):
    """The page has a line for each package."""
    packages = {m.name.split(".")[1] for m in source if m.is_package and m.name.count(".") == 1}
    assert [] == sorted(p for p in packages if f"`{p}/`" not in text)


def test_the_floors_are_those_of_the_gate(text, source):
    """The floors in the page and in test_floors.py agree."""
    gate = ast.parse((source.root / "tests" / "architecture" / "test_floors.py").read_text(encoding="utf-8"))
    table = next(n.value for n in gate.body if isinstance(n, ast.Assign) and n.targets[0].id == "FLOORS")
    expected = {
        k: v
        for k, v in ast.literal_eval(table).items()
        if k and (source.root / "tensorpack_lite" / k / "__init__.py").exists()
    }
    shown = {}
    for number, packages in re.findall(r"^\| (\d) \| ([^|]+) \|", text, re.MULTILINE):
        shown.update({name: int(number) for name in re.findall(r"`(\w+)/`", packages)})
    assert expected == shown


def ambient_state(module) -> list:
    """Return the module-level objects and weak tables of a file, which outlive a call."""
    found = []
    for node in ast.walk(module.syntax):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Call):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            function = node.value.func
            called = getattr(function, "id", getattr(function, "attr", ""))
            is_object = node in module.syntax.body and getattr(target, "id", "A").islower()
            if called in ("WeakKeyDictionary", "WeakValueDictionary") or is_object:
                found.append(getattr(target, "id", "?"))
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            found += [name for name in ("sys.excepthook", "os.environ") if name in ast_text(node)]
        elif isinstance(node, ast.Call) and ast_text(node.func) in CALLS:
            found.append(ast_text(node.func))
    return found


def ast_text(node) -> str:
    """Return the dotted name of an expression, or those of the targets of an assignment."""
    if isinstance(node, ast.Attribute):
        return f"{ast_text(node.value)}.{node.attr}"
    if isinstance(node, ast.Subscript):
        return ast_text(node.value)
    if isinstance(node, ast.Assign):
        return " ".join(map(ast_text, node.targets))
    return getattr(node, "id", "")


def test_ambient_state_is_listed(decisions, source):
    """The table of ambient state names each file with state beyond a call: objects, weak tables, handlers, the environment."""
    table = decisions["ambient-state.md"]
    missing = [
        f"{module.path}: {', '.join(sorted(set(found)))}"
        for module in source
        for found in [ambient_state(module)]
        if found and module.path not in table and module.path not in WITHOUT_STATE
    ]
    assert [] == missing


def test_addresses_are_listed(decisions, source):
    """docs/decisions/addresses.md lists each address, a file that only imports names from other files."""
    missing = [m.path for m in source if m.is_address and f"`{m.path}`" not in decisions["addresses.md"]]
    assert [] == missing, f"Addresses that docs/decisions/addresses.md does not list: {', '.join(missing)}"


def test_addresses_hold_nothing(source):
    """An address has a docstring, imports by name and `__all__`, in at most ten statements."""
    wrong = [m.path for m in source if m.is_address and (len(m.syntax.body) > 10 or "import *" in m.source)]
    assert [] == wrong
