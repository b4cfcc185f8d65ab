"""
File that Python imports at the start of every process of `tensorpack-lite run`.

It changes what `import tensorflow` and `import tensorpack` give to a script. It uses only the standard library: the
script's child processes import it as well, and many of them need neither TensorFlow nor tensorpack_lite.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import opcode
import os
import runpy
import site
import sys
import sysconfig
from functools import lru_cache
from importlib.machinery import ModuleSpec
from types import CodeType, FrameType, ModuleType, TracebackType
from typing import Any, Callable, Mapping, Sequence

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_LIBRARY = os.path.dirname(os.path.dirname(_FOLDER))  # .../tensorpack_lite


def _load_alone(name: str, *path: str) -> Any:
    """Load a file of tensorpack_lite that needs only the standard library, without the package."""
    spec: Any = importlib.util.spec_from_file_location(name, os.path.join(_LIBRARY, *path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


replacement = _load_alone("replacement", "compat", "replacement.py")
"""`tensorpack_lite.compat.replacement`, which must not import TensorFlow here."""

# Imports of tensorflow ---------------------------------------------------------------------------------------------------
_plain_import = builtins.__import__
_ROOTS = ("tensorflow", "tf_slim", "keras")


class _Importer:
    """
    `builtins.__import__`, which gives a script the TF 1 view of `tensorflow`.

    Python reads the property `__call__`, then calls its value. So the import of any other module has no frame of this
    file, which would show in tracebacks, and which `warnings.warn(..., stacklevel=2)` in that module would report.
    """

    @property
    def __call__(self) -> Callable[..., ModuleType]:
        return _import if _may_import_roots(calling_frame()) else _plain_import


def calling_frame() -> FrameType | None:
    """Return the frame that has called the function which calls this one: which file imports decides what it gets."""
    return sys._getframe(1).f_back


def _may_import_roots(frame: FrameType | None) -> bool:
    """Return False if the current instruction of a frame is the statement `import` of a module outside `_ROOTS`."""
    if frame is None or sys.version_info >= (3, 15):  # which encodes the instruction in another way
        return True
    code, names, place = frame.f_code.co_code, frame.f_code.co_names, frame.f_lasti
    is_statement = code[place] == opcode.opmap["IMPORT_NAME"]
    if not is_statement or code[place - 2] == opcode.EXTENDED_ARG:  # it has more than 256 names
        return True
    return names[code[place + 1]].partition(".")[0] in _ROOTS


def _import(
    name: str,
    globals: Mapping[str, Any] | None = None,
    locals: Mapping[str, Any] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    """Import a module. A script gets the TF 1 view of `tensorflow`, and a tf_slim that works with the installed TensorFlow."""
    root = name.partition(".")[0]
    if level or root not in _ROOTS or _is_library(calling_frame()):
        return _plain_import(name, globals, locals, fromlist, level)
    if root == "tf_slim":
        from tensorpack_lite.tf1.contrib._slim import complete_tf_slim, require_keras_2

        require_keras_2("tf_slim")
        module = _plain_import(name, globals, locals, fromlist, level)
        complete_tf_slim()
        return module
    if root == "keras":
        keras = importlib.import_module(f"{_REMOVED}.keras_names").import_keras(name, fromlist)
        return keras or _plain_import(name, globals, locals, fromlist, level)
    from tensorpack_lite.tf1.view import import_module

    return import_module(name, fromlist)


def _is_library(frame: FrameType | None) -> bool:
    """
    Return whether code belongs to an installed package rather than to the script.

    Code without a file, which was typed at a prompt or passed to `python -c` or `exec`, belongs to its caller.
    """
    while frame is not None and "__file__" not in frame.f_globals:
        frame = frame.f_back
    return frame is not None and is_library_file(frame.f_globals["__file__"])


@lru_cache(maxsize=None)
def is_library_file(file: str) -> bool:
    """Return whether a file belongs to Python, an installed package or tensorpack_lite."""
    paths = {os.path.abspath(file), os.path.realpath(file)}
    if any(f"{path}{os.sep}".startswith(own + os.sep) for path in paths for own in _tf1_packages()):
        return False
    folders = {part for path in paths for part in path.split(os.sep)}
    if not folders.isdisjoint({"site-packages", "dist-packages"}):
        return True
    return any(path.startswith(folder + os.sep) for path in paths for folder in _library_folders())


@lru_cache(maxsize=None)
def _tf1_packages() -> list[str]:
    """Return the folders and files of the installed packages that get TensorFlow 1: the option --tf1-packages."""
    names = os.environ.get("TENSORPACK_LITE_TF1_PACKAGES", "").split(",")
    specs = [importlib.util.find_spec(name) for name in names if name]
    found = [path for spec in specs if spec for path in spec.submodule_search_locations or [str(spec.origin)]]
    return sorted({path for one in found for path in (os.path.abspath(one), os.path.realpath(one))})


@lru_cache(maxsize=None)
def _library_folders() -> list[str]:
    installed = sysconfig.get_paths()
    folders = [installed[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders += [*site.getsitepackages(), site.getusersitepackages(), _LIBRARY]
    # these may be in any folder of PYTHONPATH
    for package in ("tensorflow", "tensorflow_core", "tensorflow_estimator", "keras", "tf_keras", "tf_slim"):
        spec = importlib.util.find_spec(package)
        folders += [os.path.dirname(spec.origin)] if spec and spec.origin else []
    return sorted({path for folder in folders for path in (os.path.abspath(folder), os.path.realpath(folder))})


# Imports of tensorpack ---------------------------------------------------------------------------------------------------
class _TensorpackFinder:
    """Finder of the modules of tensorpack_lite under the names of tensorpack. They are the same module objects."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.partition(".")[0] != "tensorpack":
            return None
        from tensorpack_lite.tf1.old_tensorpack.modules import find_current

        current = find_current(name)
        if current is None or current.name == name:  # the latter is a stand-in
            return current
        is_package = current.submodule_search_locations is not None
        loader: Any = _TensorpackLoader(current)
        return ModuleSpec(name, loader, origin=current.origin, is_package=is_package)


class _TensorpackLoader:
    """
    Loader of one module of tensorpack_lite under a name of tensorpack.

    The import system creates an empty module, which this loader replaces in `sys.modules`. The import system also
    makes each module that it loads an attribute of its package, which would replace `tfutils.argscope`, a function, by
    the module of the same name. So this loader registers the loaded modules of a package under their old names:
    an import of a registered module sets nothing. Names that meant another module in tensorpack are not registered.
    """

    def __init__(self, current: ModuleSpec) -> None:
        self._current: Any = current

    def create_module(self, spec: ModuleSpec) -> None:
        _plain_import(self._current.name)  # unlike importlib, it adds no frames to the traceback of an error

    def exec_module(self, module: ModuleType) -> None:
        from tensorpack_lite.utils.old_names_table import OLD_MODULES

        current = sys.modules[module.__name__] = sys.modules[self._current.name]
        for name, loaded in list(sys.modules.items()):
            place = name.partition(".")[2]
            if name.startswith(f"{current.__name__}.") and place not in OLD_MODULES:
                sys.modules.setdefault(f"tensorpack.{place}", loaded)

    def get_code(self, name: str) -> CodeType:
        """Return the code that `-m tensorpack.x` runs."""
        return self._current.loader.get_code(self._current.name)


# Tracebacks --------------------------------------------------------------------------------------------------------------
def _print_error(
    show: Callable[..., object],
    kind: type[BaseException],
    error: BaseException,
    place: TracebackType | None,
) -> None:
    """Print an error without the frames of the files that carry out imports."""
    seen: set[int] = set()
    chain: list[BaseException | None] = [error]
    while chain:
        one = chain.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            one.with_traceback(_without_ours(one.__traceback__))
            chain += [one.__cause__, one.__context__]
    show(kind, error, error.__traceback__)
    if not isinstance(error, Exception):  # an import would make Python forget that Ctrl-C has ended the script
        return
    hint = importlib.import_module(f"{_REMOVED}.hints").find_hint(error)
    if hint:
        sys.stderr.write(f"tensorpack-lite run: {hint}\n")


def _without_ours(place: TracebackType | None) -> TracebackType | None:
    ours: tuple[str, ...] = (
        os.path.dirname(_FOLDER) + os.sep,
        os.path.join(_LIBRARY, "utils", "missing_names.py"),
    )
    if _is_changed_script():  # Python starts it by runpy
        ours += ("<frozen runpy>", runpy.__file__)
    frames = []
    while place is not None:
        if not place.tb_frame.f_code.co_filename.startswith(ours):
            frames.append(place)
        place = place.tb_next
    for one in reversed(frames):
        place = TracebackType(place, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return place


def _is_changed_script() -> bool:
    loader = getattr(sys.modules["__main__"], "__loader__", None)
    return type(loader).__module__ == f"{_REMOVED}.source"


# Removed names -----------------------------------------------------------------------------------------------------------
_REMOVED = "tensorpack_lite.tf1.removed"


def _give_removed_names() -> None:
    """
    Give modules, and the files of the script, what libraries have removed.

    The package is imported without `tensorpack_lite`, which would import NumPy in every process.
    """
    sys.modules["tensorpack_lite.tf1.startup.sitecustomize"] = sys.modules[__name__]
    sys.modules[_REMOVED] = _load_alone(_REMOVED, "tf1", "removed", "__init__.py")
    for name in ("modules", "source"):
        importlib.import_module(f"{_REMOVED}.{name}").install()


# Start -------------------------------------------------------------------------------------------------------------------
def _start() -> None:
    """Install the hooks, then import the `sitecustomize` that Python would have imported without this one."""
    if os.environ.get("TENSORPACK_LITE_PREFIX") == sys.prefix:  # a child process may run another Python
        if importlib.util.find_spec("tensorpack_lite") is None:  # the command runs from a checkout
            sys.path.append(os.path.dirname(_LIBRARY))
        replacement.replace(builtins, "__import__", _Importer())
        sys.meta_path.insert(0, _TensorpackFinder)  # type: ignore[arg-type]
        _load_alone("script_end", "utils", "script_end.py").at_error(_print_error)
        _give_removed_names()
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != _FOLDER]
    this = sys.modules.pop("sitecustomize", None)
    try:
        importlib.import_module("sitecustomize")
    except ModuleNotFoundError as error:
        if error.name != "sitecustomize":
            raise
        if this is not None:
            sys.modules["sitecustomize"] = this


if __name__ == "sitecustomize" and os.environ.get("TENSORPACK_LITE_RUN"):
    _start()
