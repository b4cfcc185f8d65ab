"""
The library has no magic: no patching, no hidden state, no frame access, no swallowed errors.

ALLOWED lists each place that needs an exception, with the reason.
"""

from __future__ import annotations

import ast
import re

import pytest

# (file, rule, what) -> reason. `what` is the name that the message shows.
ALLOWED = {
    (
        "utils/script_end.py",
        "excepthook",
        "sys.excepthook",
    ): "only the end of the script knows that nothing has caught an error; everything that is done then is added here",
    (
        "utils/errors.py",
        "foreign attribute",
        "error.__cause__",
    ): "`raise ... from` for an error that is raised later; all that set a cause do it here",
    (
        "callbacks/param/hyperparam.py",
        "setattr",
        "setattr",
    ): "ObjAttrParam sets the attribute whose name the user gives",
    (
        "dataflow/exact/checkpointable.py",
        "setattr",
        "setattr",
    ): "`state_attributes` names the attributes to restore",
    (
        "models/registry.py",
        "foreign attribute",
        "layer.__signature__",
    ): "the decorator adds an argument, the name; `help` and editors show this signature of its own function",
    (
        "utils/logger.py",
        "input",
        "input",
    ): "set_logger_dir asks what to do with an existing directory, only on a terminal",
    (
        "input_source/remap.py",
        "__class__",
        "__class__",
    ): "a remapped input source passes isinstance checks for the source that it wraps",
    (
        "utils/frames.py",
        "frame",
        "sys._current_frames",
    ): "the watches of the training and of its ranks report where threads wait",
    (
        "tf1/startup/sitecustomize.py",
        "frame",
        "sys._getframe",
    ): "the file that imports, or uses a removed name, decides what it gets; `run` looks at frames only here",
    ("tf1/removed/python_2_names.py", "exec", "exec"): "execfile of Python 2 is this function",
    (
        "compat/replacement.py",
        "setattr",
        "setattr",
    ): "the purpose of `tensorpack-lite run`, cpu_layout and enable_argscope_for_module is to replace names; all do it here",
    (
        "tfutils/argscope.py",
        "foreign attribute",
        "layer.__argscope_enabled__",
    ): "layers carry the mark that tensorpack's carry",
}

FRAMES = {
    "sys._getframe",
    "sys._current_frames",
    "inspect.currentframe",
    "inspect.stack",
    "inspect.getouterframes",
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
    "__new__": "write a function that returns the object",
    "__class__": "do not pretend to be another class; give the object a method that callers can use",
    "metaclass": "only ABCMeta is allowed",
    "patch": "do not change TensorFlow",
    "environ": "importing must not change the environment; set the variable where it is needed",
    "excepthook": "handle the error where it is raised",
    "exec": "write the code",
    "foreign attribute": "return the value, or keep it in an object of the library",
    "frame": "pass what the function needs as an argument",
    "star import": "only the facade may do this",
    "class state": "create it in __init__",
    "module state": "docs/decisions/ambient-state.md lists the ambient state; do not add to it",
    "print": "use utils.logger",
    "input": "ask in a script, not in the library",
    "assert": "raise an error for a user's mistake; the message of an assert contains 'bug'",
    "swallow": "catch the expected errors only, and handle them",
    "broad except": "catch the expected errors only, or give the reason in a comment on this line",
}


class _Magic(ast.NodeVisitor):
    """Finds (rule, what, line) in one file."""

    def __init__(self, module, own=frozenset()) -> None:
        self.module, self.found, self.depth, self.shared = module, [], 0, set()
        self.own, self.local = (
            own,
            [],
        )  # attributes of the library's classes; local names of the open functions

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
            self.shared.add(names[0])  # a constant, unless a function changes it
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
        if node.name in ("__new__", "__class__"):
            self.add(node.name, node.name, node)
        self.local.append(_created_names(node))
        self._deeper(node)
        self.local.pop()

    # statements -------------------------------------------------------------------------------------------

    def visit_Assign(self, node) -> None:
        for target in node.targets:
            root = _root(target)
            for attribute in target.elts if isinstance(target, ast.Tuple) else [target]:
                self._attribute(attribute, node)
            if isinstance(target, ast.Attribute) and root in ("tf", "tfv1", "tensorflow"):
                self.add("patch", root, node)
            if isinstance(target, ast.Subscript) and root in self.shared:
                self.add("module state", root, node)
            if isinstance(target, ast.Subscript) and _dotted(target.value) == "os.environ" and self.depth == 0:
                self.add("environ", "os.environ", node)
        self.generic_visit(node)

    def _attribute(self, target, node) -> None:
        """An attribute set on an object that the function neither owns nor creates."""
        if not isinstance(target, ast.Attribute) or _dotted(target).split(".")[0] == "tf":
            return
        name, root = _dotted(target), _root(target)
        if name in ("sys.excepthook", "threading.excepthook", "sys.unraisablehook"):
            self.add("excepthook", name, node)
        elif target.attr == "__class__":
            self.add("__class__", "__class__", node)
        elif isinstance(target.value, ast.Name) and root in ("self", "cls"):
            return
        elif target.attr.startswith("_") or not (target.attr in self.own or any(root in names for names in self.local)):
            self.add("foreign attribute", name, node)

    def visit_Attribute(self, node) -> None:
        if _dotted(node) in FRAMES:
            self.add("frame", _dotted(node), node)
        self.generic_visit(node)

    def visit_ImportFrom(self, node) -> None:
        if node.module in ("sys", "inspect"):
            for alias in node.names:
                if f"{node.module}.{alias.name}" in FRAMES:
                    self.add("frame", f"{node.module}.{alias.name}", node)
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


def _created_names(function) -> set:
    """The names that a function binds to the result of a call, or in a loop: objects that it may change."""
    names = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            bound = node.targets
        elif isinstance(node, ast.For):
            bound = [node.target]
        else:
            continue
        names |= {part.id for target in bound for part in ast.walk(target) if isinstance(part, ast.Name)}
    return names


def own_attributes(source) -> set:
    """The attributes that the library's classes define, in their body or through `self`."""
    names = set()
    for module in source:
        for node in ast.walk(module.syntax):
            if isinstance(node, ast.ClassDef):
                names |= {n.id for s in node.body for n in _targets(s) if isinstance(n, ast.Name)}
            names |= {n.attr for n in _targets(node) if isinstance(n, ast.Attribute) and _root(n) in ("self", "cls")}
    return names


def _targets(statement) -> list:
    if isinstance(statement, ast.Assign):
        return [n for t in statement.targets for n in (t.elts if isinstance(t, ast.Tuple) else [t])]
    return [statement.target] if isinstance(statement, (ast.AnnAssign, ast.AugAssign)) else []


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
    """Return the comment at the end of a line, without its `noqa` part."""
    comment = line.partition("#")[2]
    return re.sub(r"^\s*noqa: [A-Z0-9, ]*", "", comment).strip(" ()")


def magic(source, allowed=()) -> list:
    """Return one sentence for each breach that is not allowed."""
    found, own = [], own_attributes(source)
    for module in source:
        finder = _Magic(module, own)
        finder.visit(module.syntax)
        found += [
            f"{module.path}:{line}: {rule} ({what}): {ADVICE[rule]}."
            for rule, what, line in finder.found
            if (module.path, rule, what) not in allowed
        ]
    return found


def test_there_is_no_magic(source):
    """The library breaks no rule, except at the places in ALLOWED."""
    found = magic(source, ALLOWED)
    assert [] == found, "\n" + "\n".join(found)


def test_the_allowed_are_in_use(source):
    """ALLOWED has no entry that is no longer needed."""
    used, own = set(), own_attributes(source)
    for module in source:
        finder = _Magic(module, own)
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
        ("__class__", "class A:\n    @property\n    def __class__(self):\n        return int\n"),
        ("__class__", "def f(x):\n    x.__class__ = int\n"),
        ("excepthook", "import sys\ndef f():\n    sys.excepthook = print\n"),
        ("frame", "import sys\ndef f():\n    return sys._getframe(1)\n"),
        ("frame", "import sys\ndef f():\n    return sys._current_frames()\n"),
        ("frame", "from inspect import currentframe\n"),
        ("foreign attribute", "def f(graph):\n    graph.memory = {}\n"),
        ("foreign attribute", "def f():\n    graph = tf.Graph()\n    graph._memory = {}\n"),
        ("foreign attribute", "def f(config):\n    config.a.b, x = 1, 2\n"),
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
    """A breach gives one sentence, which begins with the place and names the rule."""
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
        "def f():\n    config = tf.ConfigProto()\n    config.allow_soft_placement = True\n",
        "class A:\n    def __init__(self):\n        self.x = 1\ndef f(a):\n    a.x = 2\n",
    ],
)
def test_good_habits_pass(read, text):
    """Code that resembles a breach but is harmless passes."""
    assert [] == magic(read({"utils/a.py": text}))
