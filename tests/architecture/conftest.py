"""The library's source as data: one `Module` per file. Files are parsed, not imported."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "tensorpack_lite"


@dataclass(frozen=True)
class Import:
    """An import of one module, anywhere in a file."""

    line: int
    target: str  # dotted name of the module: "tensorpack_lite.utils.logger", "numpy"
    names: tuple  # the imported names; () for the module itself
    where: str  # "module", "function" or "type_checking"

    @property
    def internal(self) -> bool:
        return self.target.split(".")[0] == PACKAGE


@dataclass
class Module:
    """One source file of the library."""

    path: str  # below tensorpack_lite: "tfutils/summary.py"
    name: str  # "tensorpack_lite.tfutils.summary"; a package has the name of its directory
    source: str
    is_package: bool
    syntax: ast.Module = field(repr=False, default=None)
    imports: list = field(default_factory=list)

    @property
    def room(self) -> str:
        """The top-level package of the file; "" for the facade and the other files at the top level."""
        return self.path.split("/")[0] if "/" in self.path else ""

    @property
    def is_address(self) -> bool:
        """Whether the file has no code: only a docstring, imports by name and `__all__`. Packages do not count."""
        if self.name == "tensorpack_lite._with_tensorflow":
            return False
        plain = (ast.Import, ast.ImportFrom)
        statements = self.syntax.body[1:] if ast.get_docstring(self.syntax) else self.syntax.body
        code = [
            s
            for s in statements
            if not isinstance(s, plain) and not _assigns(s, "__all__") and not _is_hook_of_old_names(s)
        ]
        return not self.is_package and not code and bool(self.public()) and any(i.internal for i in self.imports)

    def bindings(self) -> dict:
        """Return how each top-level name of the file is bound: "def", "class", "assign" or "import"."""
        found = {}
        for statement in _top_level(self.syntax.body):
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found[statement.name] = "def"
            elif isinstance(statement, ast.ClassDef):
                found[statement.name] = "class"
            elif isinstance(statement, (ast.Import, ast.ImportFrom)):
                for alias in statement.names:
                    found.setdefault((alias.asname or alias.name).split(".")[0], "import")
            elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
                for name in _assigned_names(statement):
                    found[name] = "assign"
        return found

    def public(self) -> list:
        """Return the literal `__all__`, or None."""
        for statement in self.syntax.body:
            if _assigns(statement, "__all__") and isinstance(statement, ast.Assign):
                try:
                    return ast.literal_eval(statement.value)
                except ValueError:
                    return None
        return None


@dataclass
class Source:
    """All files of the library, by dotted name."""

    root: Path
    modules: dict

    def __iter__(self):
        return iter(self.modules.values())

    def get(self, name: str):
        return self.modules.get(name)


def _assigned_names(statement) -> list:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]


def _assigns(statement, name: str) -> bool:
    if isinstance(statement, ast.AugAssign):
        return isinstance(statement.target, ast.Name) and statement.target.id == name
    return isinstance(statement, (ast.Assign, ast.AnnAssign)) and name in _assigned_names(statement)


def _is_hook_of_old_names(statement) -> bool:
    """Return whether a statement is `if not TYPE_CHECKING:` around assignments of `__getattr__` and `__all__`."""
    return isinstance(statement, ast.If) and all(
        _assigns(one, "__all__") or _assigns(one, "__getattr__") for one in statement.body
    )


def _top_level(body):
    """Yield the statements of a module, including those inside `if`, `try` and `with`."""
    for statement in body:
        yield statement
        for attribute in ("body", "orelse", "finalbody", "handlers"):
            if isinstance(statement, (ast.If, ast.Try, ast.With, ast.ExceptHandler)):
                yield from _top_level(getattr(statement, attribute, []))


class _ImportFinder(ast.NodeVisitor):
    def __init__(self, module: Module, names: set) -> None:
        self.module, self.names, self.where, self.found = module, names, "module", []

    def _inside(self, where: str, nodes) -> None:
        before, self.where = self.where, where
        for node in nodes:
            self.visit(node)
        self.where = before

    def visit_FunctionDef(self, node) -> None:
        self._inside("function", node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_If(self, node) -> None:
        guard = ast.dump(node.test)
        self._inside("type_checking" if "TYPE_CHECKING" in guard else self.where, node.body)
        self._inside(self.where, node.orelse)

    def visit_Call(self, node) -> None:
        """Treat `load_optional("cv2", ...)` as an import."""
        if getattr(node.func, "id", "") == "load_optional":
            self.found.append(Import(node.lineno, ast.literal_eval(node.args[0]), (), self.where))
        self.generic_visit(node)

    def visit_Import(self, node) -> None:
        for alias in node.names:
            self.found.append(Import(node.lineno, alias.name, (), self.where))

    def visit_ImportFrom(self, node) -> None:
        base = node.module or ""
        if node.level:
            parts = self.module.name.split(".")
            if self.module.is_package:
                parts = [*parts, ""]
            base = ".".join([*parts[: len(parts) - node.level], *([node.module] if node.module else [])])
        taken = []
        for alias in node.names:
            if f"{base}.{alias.name}" in self.names:
                self.found.append(Import(node.lineno, f"{base}.{alias.name}", (), self.where))
            else:
                taken.append(alias.name)
        if taken:
            self.found.append(Import(node.lineno, base, tuple(taken), self.where))


def read_source(root: Path = ROOT) -> Source:
    """Read every file of the library below `root`."""
    modules = {}
    for file in sorted((root / PACKAGE).rglob("*.py")):
        path = file.relative_to(root / PACKAGE).as_posix()
        is_package = file.name == "__init__.py"
        dotted = ".".join([PACKAGE, *path[: -len(".py")].split("/")])
        name = dotted[: -len(".__init__")] if is_package else dotted
        text = file.read_text(encoding="utf-8")
        modules[name] = Module(path, name, text, is_package, ast.parse(text, str(file)))
    for module in modules.values():
        finder = _ImportFinder(module, set(modules))
        finder.visit(module.syntax)
        module.imports = finder.found
    return Source(root, modules)


@pytest.fixture(autouse=True)
def fresh_graph():
    """Replace the fixture that needs TensorFlow: these tests only read files."""


@pytest.fixture(autouse=True)
def no_ambient_state():
    """Replace the fixture that resets state: these tests change none."""


@pytest.fixture(scope="session")
def source() -> Source:
    """The files of the library."""
    return read_source()


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the repository."""
    return ROOT


@pytest.fixture
def read(tmp_path):
    """Return a function that makes a small library from `{path: text}`, to test the rules."""

    def build(files: dict) -> Source:
        for path, text in files.items():
            file = tmp_path / PACKAGE / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        return read_source(tmp_path)

    return build
