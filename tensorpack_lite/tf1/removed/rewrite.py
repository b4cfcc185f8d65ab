"""
Changes of a script's syntax tree where it uses methods, arguments and built-in names that were removed.

Such an expression becomes a call of a function of `_HELPERS`, which does what the expression says if that works, and what
it meant otherwise. Statements keep their line numbers.
"""

from __future__ import annotations

import ast
import sys
from types import CodeType
from typing import Any, NamedTuple

from .addresses import describe
from .guards import guarded_lines
from .helpers import ARGUMENTS, ATTRIBUTES
from .said import say, short_path
from .table import BUILTINS

_NAME_ERRORS = frozenset({"BaseException", "Exception", "NameError"})
_LIST_METHODS = frozenset({"append", "extend", "insert", "remove", "reverse", "sort"})
_PREFIX = "_tensorpack_lite_"
# the attribute of a syntax tree's node with the value of a text
_TEXT = "value" if sys.version_info >= (3, 8) else "s"
_HELPERS = {
    "python_2_classes": ["compared"],
    "helpers": ["attribute", "call", "listed"],
    "python_2_numbers": ["Places", "divide", "floated", "idivide"],
}


class Use(NamedTuple):
    """
    A use of something that was removed.

    Attributes:
        line: the line of the file.
        kind: "builtin", "attribute", "argument", "mode" or "item".
        name: what is used, such as "xrange" or "iteritems".
    """

    line: int
    kind: str
    name: str


def changed_code(
    tree: ast.Module, source: bytes, path: str, is_script: bool, is_translated: bool = False
) -> CodeType | None:
    """
    Return the code for the changed syntax tree of a file; None if a file in Python 3 needs no changes.

    Args:
        tree: the syntax tree, which is changed.
        source: the text of the file.
        path: the file.
        is_script: the file is the one that Python runs, and not a module.
        is_translated: the file was in Python 2.
    """
    found = rewrite(tree, is_translated)
    if not found and not is_translated:
        return None
    for use in found:
        if use.kind == "builtin":
            text = f"{use.name}, which Python 3 does not have, is {describe(BUILTINS[use.name])}."
            say(use.name, text, f"{short_path(path)}:{use.line}")
    if is_script:  # as in a script that Python runs by itself: multiprocessing then finds the file
        target = ast.Name(id="__spec__", ctx=ast.Store())
        _insert(tree, [ast.Assign(targets=[target], value=ast.Constant(None), type_comment=None)])
    return compile(tree, path, "exec", dont_inherit=True)


def rewrite(tree: ast.Module, is_translated: bool = False) -> list[Use]:
    """
    Change a syntax tree in place. Return what was removed and is used, or may be.

    Args:
        tree: the tree of a file.
        is_translated: the file was in Python 2, whose arithmetic it keeps.
    """
    rewriter = _Rewriter(tree, is_translated)
    rewriter.visit(tree)
    if rewriter.found or rewriter.has_helpers:
        _insert(tree, _imports(rewriter))
    return sorted(set(rewriter.found))


def _imports_division(tree: ast.Module) -> bool:
    futures = [one for one in tree.body if isinstance(one, ast.ImportFrom) and one.module == "__future__"]
    return any(alias.name == "division" for one in futures for alias in one.names)


class _Rewriter(ast.NodeTransformer):
    def __init__(self, tree: ast.Module, is_translated: bool) -> None:
        self.found: list[Use] = []
        self.has_helpers = False
        self._is_translated = is_translated
        self._divides = is_translated and not _imports_division(tree)
        self._bound = bound_names(tree)
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
        self._modules = {(alias.asname or alias.name).split(".")[0] for node in imports for alias in node.names}
        self._guarded = {id(node) for _, node in guarded_lines(tree, _NAME_ERRORS)}

    def _call(self, helper: str, node: Any, *args: Any, keywords: Any = ()) -> ast.Call:
        function = ast.Name(id=f"{_PREFIX}{helper}", ctx=ast.Load())
        return ast.copy_location(ast.Call(func=function, args=list(args), keywords=list(keywords)), node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        is_read = isinstance(node.ctx, ast.Load)
        if is_read and node.id in BUILTINS and node.id not in self._bound and id(node) not in self._guarded:
            self.found.append(Use(node.lineno, "builtin", node.id))
        return self._floated(node)

    def _floated(self, node: ast.Name | ast.Attribute) -> ast.AST:
        """Return a call of `floated` for what may be a function that gave floats in Python 2."""
        name = node.id if isinstance(node, ast.Name) else node.attr
        is_read = isinstance(node.ctx, ast.Load)
        if not self._is_translated or not is_read or name not in ("round", "ceil", "floor"):
            return node
        self.has_helpers = True
        return self._call("floated", node, node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if node.attr not in ATTRIBUTES or not isinstance(node.ctx, ast.Load):
            return self._floated(node)
        self.found.append(Use(node.lineno, "attribute", node.attr))
        return self._call("attribute", node, node.value, ast.copy_location(ast.Constant(node.attr), node))

    def visit_Call(self, node: ast.Call) -> ast.AST:
        use = _find_argument(node, self._modules)
        argument = _listed_name(node.args[0]) if len(node.args) == 1 else ""
        is_length = getattr(node.func, "id", "") == "len" and argument in ("filter()", "map()", "zip()")
        of_list = getattr(node.func, "attr", "") in _LIST_METHODS
        owner = _listed_name(node.func.value, "range") if of_list else ""  # type: ignore[attr-defined]
        self.generic_visit(node)
        if is_length:
            node.args[0] = self._listed(node.args[0], argument)
        elif owner:
            node.func.value = self._listed(node.func.value, owner)  # type: ignore[attr-defined]
        if use is None:
            return node
        self.found.append(use)
        return self._call("call", node, node.func, *node.args, keywords=node.keywords)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        name = _listed_name(node.value)
        self.generic_visit(node)
        if name and isinstance(node.ctx, ast.Load):
            node.value = self._listed(node.value, name)
        return node

    def _listed(self, node: ast.expr, name: str) -> ast.expr:
        """Return a call of `listed` for an expression that was a list in Python 2, where Python 3 would raise an error."""
        self.found.append(Use(node.lineno, "item", name))
        return self._call("listed", node, node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        names = [_listed_name(one, "range") for one in (node.left, node.right)]
        self.generic_visit(node)
        if isinstance(node.op, ast.Add) and any(names):
            sides = [self._listed(one, name) if name else one for one, name in zip((node.left, node.right), names)]
            return ast.copy_location(ast.BinOp(sides[0], node.op, sides[1]), node)
        if not self._divides or not isinstance(node.op, ast.Div):
            return node
        self.has_helpers = True
        return self._call("divide", node, node.left, node.right)

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        """Let `x.a /= b` become `place = x; place.a = idivide(place.a, b); del place`, which evaluates `x` once."""
        self.generic_visit(node)
        if not self._divides or not isinstance(node.op, ast.Div):
            return node
        self.has_helpers = True
        if isinstance(node.target, ast.Name):
            return self._idivide(node, node.target.id)
        owner, name = node.target.value, "value"
        if isinstance(node.target, ast.Attribute):
            name = node.target.attr
        else:
            places = self._call("Places", node, owner)
            owner = ast.copy_location(ast.Subscript(places, node.target.slice, ast.Load()), node)
        place = ast.copy_location(ast.Name(id=f"{_PREFIX}place", ctx=ast.Store()), node)
        assign = ast.Assign(targets=[place], value=owner, type_comment=None)
        delete = ast.Delete(targets=[ast.Name(id=place.id, ctx=ast.Del())])
        changed = self._idivide(node, place.id, name)
        return [ast.copy_location(assign, node), changed, ast.copy_location(delete, node)]

    def _idivide(self, node: ast.AugAssign, name: str, attribute: str = "") -> ast.Assign:
        """Return the assignment for `name /= ...` or `name.attribute /= ...`."""
        value: Any = ast.Name(id=name, ctx=ast.Load())
        target: Any = ast.Name(id=name, ctx=ast.Store())
        if attribute:
            target = ast.Attribute(value=value, attr=attribute, ctx=ast.Store())
            value = ast.Attribute(value=value, attr=attribute, ctx=ast.Load())
        call = self._call("idivide", node, value, node.value)
        return ast.copy_location(ast.Assign(targets=[target], value=call, type_comment=None), node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Let an iterator of Python 2, which has `next`, be one of Python 3, and `__cmp__` compare."""
        methods = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
        if self._is_translated and "__cmp__" in methods:
            self.has_helpers = True
            decorator = ast.Name(id=f"{_PREFIX}compared", ctx=ast.Load())
            node.decorator_list.append(ast.copy_location(decorator, node))
        if {"next", "__iter__"} <= methods and "__next__" not in methods:
            self.found.append(Use(node.lineno, "attribute", "next"))
            last = node.body[-1]
            value = ast.Name(id="next", ctx=ast.Load())
            target = ast.Name(id="__next__", ctx=ast.Store())
            node.body.append(ast.copy_location(ast.Assign(targets=[target], value=value), last))
        self.generic_visit(node)
        return node


def bound_names(tree: ast.Module) -> set[str]:
    """Return the names that a file defines, imports or assigns anywhere."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, (ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.FunctionDef)):
            names.add(node.name or "")
        elif isinstance(node, ast.Global):
            names.update(node.names)
    return names


def _find_argument(node: ast.Call, modules: set[str]) -> Use | None:
    """Return the argument of a call that its function may have lost. `modules` are the names of imported modules."""
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    for keyword in node.keywords:
        if keyword.arg and name in ARGUMENTS.get(keyword.arg, {}):
            is_copy = keyword.arg == "copy"
            if not is_copy or getattr(keyword.value, "value", None) is False:
                return Use(node.lineno, "argument", f"{name}({keyword.arg}=)")
    number = {"sort": 1, "sorted": 2}.get(name)
    if number == len(node.args) and not any(isinstance(one, ast.Starred) for one in node.args):
        is_method = isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") not in modules
        if is_method == (name == "sort") and isinstance(node.args[-1], (ast.Attribute, ast.Lambda, ast.Name)):
            return Use(node.lineno, "argument", f"{name}(cmp)")
    modes = [*node.args[1:2], *[keyword.value for keyword in node.keywords if keyword.arg == "mode"]]
    mode = getattr(modes[0], _TEXT, None) if modes else None
    if name == "open" and isinstance(mode, str) and "U" in mode:
        return Use(node.lineno, "mode", f'open(..., "{mode}")')
    has_mode = len(node.args) != 1 or any(keyword.arg in ("mode", None) for keyword in node.keywords)
    if name == "File" and not has_mode and not isinstance(node.args[0], ast.Starred):
        return Use(node.lineno, "mode", "File(path)")
    return None


def _listed_name(node: ast.AST, *others: str) -> str:
    """Return the name of a call that gave a list in Python 2, of `others` too."""
    if not isinstance(node, ast.Call):
        return ""
    if isinstance(node.func, ast.Attribute) and node.func.attr in ("keys", "values", "items") and not node.args:
        return f".{node.func.attr}()"
    is_builtin = isinstance(node.func, ast.Name) and node.func.id in ("map", "zip", "filter", *others)
    return f"{node.func.id}()" if is_builtin else ""  # type: ignore[attr-defined]


def _imports(rewriter: _Rewriter) -> list[ast.stmt]:
    """Return the imports of the helpers, and of the built-in names of Python 2."""
    names = sorted({use.name for use in rewriter.found if use.kind == "builtin"})
    imports: list[ast.stmt] = []
    for module, helpers in _HELPERS.items():
        aliases = [ast.alias(name=name, asname=f"{_PREFIX}{name}") for name in helpers]
        imports.append(ast.ImportFrom(module=f"{__package__}.{module}", names=aliases, level=0))
    if names:
        aliases = [ast.alias(name=name, asname=None) for name in names]
        imports.append(ast.ImportFrom(module=f"{__package__}.builtin_names", names=aliases, level=0))
    return imports


def _insert(tree: ast.Module, statements: list[ast.stmt]) -> None:
    """Insert statements in front of the first one that may be anywhere."""
    place = 1 if ast.get_docstring(tree, clean=False) is not None else 0
    while place < len(tree.body) and getattr(tree.body[place], "module", "") == "__future__":
        place += 1
    for one in statements:
        one.lineno, one.col_offset = 1, 0
    tree.body[place:place] = statements
    ast.fix_missing_locations(tree)
