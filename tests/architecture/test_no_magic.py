"""
What a reader should not have to guess is not written: no patching, no hidden state, no swallowed errors.

A rule that must be broken is broken by a line of ALLOWED, with the reason beside it.
"""

from __future__ import annotations

import ast
import re

import pytest

# (file, rule, what) -> why. `what` is the name that the message shows.
ALLOWED = {
    (
        "callbacks/param/hyperparam.py",
        "setattr",
        "setattr",
    ): "ObjAttrParam sets the attribute whose name the user gives",
    (
        "tfutils/argscope.py",
        "setattr",
        "setattr",
    ): "enable_argscope_for_module replaces the functions of the module that the user gives: that is what it is for",
    (
        "utils/logger.py",
        "input",
        "input",
    ): "set_logger_dir asks what becomes of a directory that exists, on a terminal only",
}

FACADE = ("tensorpack_lite", "tensorpack_lite._with_tensorflow")
MUTABLE_CALLS = {
    "list",
    "dict",
    "set",
    "defaultdict",
    "OrderedDict",
    "deque",
    "Counter",
    "local",
    "WeakKeyDictionary",
}
MUTATORS = {
    "append",
    "add",
    "update",
    "pop",
    "setdefault",
    "clear",
    "extend",
    "remove",
    "insert",
    "discard",
    "popitem",
}
ADVICE = {
    "globals": "write the names out",
    "setattr": "assign the attribute by its name",
    "type()": "write a class statement",
    "__new__": "write a function that returns what is wanted",
    "metaclass": "only ABCMeta",
    "patch": "nothing of TensorFlow is changed",
    "environ": "importing changes nothing; set it where it is needed",
    "exec": "write the code",
    "star import": "only the facade",
    "class state": "make it in __init__",
    "module state": "the ambient states are listed in ARCHITECTURE.md, and there is no other",
    "print": "use utils.logger",
    "input": "ask in a script, not in the library",
    "assert": "raise for what a user can cause; an assert says 'bug' in its message",
    "swallow": "catch what is expected, and say what becomes of it",
    "broad except": "catch what is expected, or write beside it why it must be everything",
}


class _Magic(ast.NodeVisitor):
    """Finds (rule, what, line) in one file."""

    def __init__(self, module) -> None:
        self.module, self.found, self.depth, self.shared = module, [], 0, set()

    def add(self, rule: str, what: str, node) -> None:
        self.found.append((rule, what, node.lineno))

    # state ------------------------------------------------------------------------------------------------

    def visit_Module(self, node) -> None:
        for statement in node.body:
            if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
                self._module_value(statement)
        self.generic_visit(node)

    def _module_value(self, statement) -> None:
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        names = [t.id for t in targets if isinstance(t, ast.Name)]
        if not names or names[0] == "__all__" or not _is_mutable(statement.value):
            return
        if names[0].isupper():
            self.shared.add(names[0])  # a constant, as long as nobody changes it
        else:
            self.add("module state", names[0], statement)

    def visit_Global(self, node) -> None:
        for name in node.names:
            self.add("module state", name, node)

    def visit_ClassDef(self, node) -> None:
        for keyword in node.keywords:
            if keyword.arg == "metaclass" and _name(keyword.value) != "ABCMeta":
                self.add("metaclass", _name(keyword.value), node)
        for statement in node.body:
            if isinstance(statement, ast.Assign) and _is_mutable(statement.value):
                self.add("class state", f"{node.name}.{_name(statement.targets[0])}", statement)
        self._deeper(node)

    def _deeper(self, node) -> None:
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1

    def visit_FunctionDef(self, node) -> None:
        if node.name == "__new__":
            self.add("__new__", node.name, node)
        self._deeper(node)

    # statements -------------------------------------------------------------------------------------------

    def visit_Assign(self, node) -> None:
        for target in node.targets:
            root = _root(target)
            if isinstance(target, ast.Attribute) and root in ("tf", "tfv1", "tensorflow"):
                self.add("patch", root, node)
            if isinstance(target, ast.Subscript) and root in self.shared:
                self.add("module state", root, node)
            if (
                isinstance(target, ast.Subscript)
                and _dotted(target.value) == "os.environ"
                and self.depth == 0
            ):
                self.add("environ", "os.environ", node)
        self.generic_visit(node)

    def visit_ImportFrom(self, node) -> None:
        if any(alias.name == "*" for alias in node.names) and self.module.name not in FACADE:
            self.add("star import", node.module or ".", node)

    def visit_Assert(self, node) -> None:
        if node.msg is None or "bug" not in ast.dump(node.msg):
            self.add("assert", "assert", node)
        self.generic_visit(node)

    def visit_ExceptHandler(self, node) -> None:
        if node.type is None or _is_broad(node.type):
            if all(isinstance(s, (ast.Pass, ast.Continue)) for s in node.body):
                self.add("swallow", "except", node)
            if not _reason(self.module.source.splitlines()[node.lineno - 1]):
                self.add("broad except", "except", node)
        self.generic_visit(node)

    # calls ------------------------------------------------------------------------------------------------

    def visit_Call(self, node) -> None:
        name = _dotted(node.func)
        if _name(node.func) == "suppress" and any(_is_broad(kind) for kind in node.args):
            self.add("swallow", name, node)
        if name in ("globals", "locals") or (name == "vars" and not node.args):
            self.add("globals", name, node)
        elif name == "setattr":
            self.add("setattr", "setattr", node)
        elif name == "type" and len(node.args) == 3:
            self.add("type()", "type", node)
        elif name in ("exec", "eval"):
            self.add("exec", name, node)
        elif name in ("print", "input"):
            self.add(name, name, node)
        elif name in ("os.environ.setdefault", "os.environ.update", "os.putenv") and self.depth == 0:
            self.add("environ", "os.environ", node)
        elif (
            isinstance(node.func, ast.Attribute)
            and node.func.attr in MUTATORS
            and _name(node.func.value) in self.shared
        ):
            self.add("module state", _name(node.func.value), node)
        self.generic_visit(node)


def _name(node) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return getattr(node, "id", "")


def _dotted(node) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return getattr(node, "id", "")


def _root(node) -> str:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return getattr(node, "id", "")


def _is_mutable(value) -> bool:
    if isinstance(value, ast.Call):
        return _name(value.func) in MUTABLE_CALLS
    return isinstance(value, (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp))


def _is_broad(kind) -> bool:
    if isinstance(kind, ast.Tuple):
        return any(_is_broad(one) for one in kind.elts)
    return _name(kind) in ("Exception", "BaseException")


def _reason(line: str) -> str:
    """The comment at the end of a line, without what it tells to ruff."""
    comment = line.partition("#")[2]
    return re.sub(r"^\s*noqa: [A-Z0-9, ]*", "", comment).strip(" ()")


def magic(source, allowed=()) -> list:
    """Every breach that is not allowed, as a sentence."""
    found = []
    for module in source:
        finder = _Magic(module)
        finder.visit(module.syntax)
        found += [
            f"{module.path}:{line}: {rule} ({what}): {ADVICE[rule]}."
            for rule, what, line in finder.found
            if (module.path, rule, what) not in allowed
        ]
    return found


def test_there_is_no_magic(source):
    """No breach outside ALLOWED."""
    found = magic(source, ALLOWED)
    assert [] == found, "\n" + "\n".join(found)


def test_the_allowed_are_in_use(source):
    """What nobody breaks any more leaves the list."""
    used = set()
    for module in source:
        finder = _Magic(module)
        finder.visit(module.syntax)
        used |= {(module.path, rule, what) for rule, what, _ in finder.found}
    assert set() == set(ALLOWED) - used


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("globals", "globals()['x'] = 1\n"),
        ("setattr", "setattr(object(), 'x', 1)\n"),
        ("type()", "X = type('X', (), {})\n"),
        ("__new__", "class A:\n    def __new__(cls):\n        return 1\n"),
        ("metaclass", "class A(metaclass=Meta):\n    pass\n"),
        ("patch", "tf.test.is_gpu_available = None\n"),
        ("environ", "import os\nos.environ['X'] = '1'\n"),
        ("environ", "import os\nos.environ.setdefault('X', '1')\n"),
        ("exec", "eval('1')\n"),
        ("star import", "from os import *\n"),
        ("class state", "class A:\n    seen = []\n"),
        ("module state", "_seen = {}\n"),
        ("module state", "SEEN = []\ndef f():\n    SEEN.append(1)\n"),
        ("module state", "SEEN = {}\ndef f():\n    SEEN['a'] = 1\n"),
        ("module state", "def f():\n    global x\n    x = 1\n"),
        ("print", "print(1)\n"),
        ("input", "input()\n"),
        ("assert", "def f(x):\n    assert x > 0, x\n"),
        ("swallow", "try:\n    f()\nexcept Exception:  # f may fail\n    pass\n"),
        ("swallow", "try:\n    f()\nexcept (OSError, Exception):  # f may fail\n    pass\n"),
        ("swallow", "from contextlib import suppress\nwith suppress(Exception):\n    f()\n"),
        ("broad except", "try:\n    f()\nexcept:\n    raise\n"),
        ("broad except", "try:\n    f()\nexcept BaseException:\n    # f may fail\n    raise\n"),
        ("broad except", "try:\n    f()\nexcept Exception as e:  # noqa: BLE001\n    g(e)\n"),
        ("broad except", "try:\n    f()\nexcept (OSError, Exception) as e:  # noqa: BLE001 ()\n    g(e)\n"),
    ],
)
def test_each_rule_catches_what_it_forbids(read, rule, text):
    """One breach, one sentence that begins with the place and names the rule."""
    found = magic(read({"utils/a.py": text}))
    assert 1 == len(found)
    assert f": {rule} (" in found[0]


@pytest.mark.parametrize(
    "text",
    [
        "COLORS = {'a': 1}\nprint_all = COLORS.get\n",
        "import os\ndef f():\n    os.environ['X'] = '1'\n",
        "from abc import ABCMeta\nclass A(metaclass=ABCMeta):\n    pass\n",
        "def f(x):\n    assert x, 'bug: x is set by the caller'\n",
        "try:\n    f()\nexcept Exception as error:  # f is the user's\n    raise RuntimeError from error\n",
        "try:\n    f()\nexcept Exception as error:  # noqa: BLE001 (f is the user's)\n    g(error)\n",
        "from contextlib import suppress\nwith suppress(OSError):\n    f()\n",
    ],
)
def test_good_habits_pass(read, text):
    """What looks alike and is fine is let through."""
    assert [] == magic(read({"utils/a.py": text}))
