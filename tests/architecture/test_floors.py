"""
Rules for imports between packages. Each message explains how to fix the violation.

The floors are those of ARCHITECTURE.md. A file imports from lower floors and from its own package.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FLOORS = {
    "compat": 0,
    "utils": 1,
    "dataflow": 2,
    "ranks": 2,
    "tfutils": 2,
    "loop": 3,
    "models": 3,
    "graph_builder": 3,
    "report": 3,
    "input_source": 4,
    "predict": 5,
    "callbacks": 5,
    "diagnostics": 6,
    "train": 7,
    "cli": 8,
    "tf1": 8,
    "contrib": 8,
    "trainv1": 8,
    "": 8,  # the facade and the other files at the top level
}
BESIDE_THE_FLOORS = {
    "tensorpack_lite._version": 0,  # a literal string that every file may read
    "tensorpack_lite.__main__": 9,  # runs `cli`; no file imports it
}

# install_requires of setup.py
REQUIRED = {
    "msgpack",
    "numpy",
    "psutil",
    "tabulate",
    "termcolor",
    "tqdm",
    "zmq",
}
OPTIONAL = {
    "IPython", "PIL", "comet_ml", "crc32c", "cv2", "h5py", "horovod", "lmdb", "matplotlib", "mlflow", "onnx", "onnxruntime", "pyarrow",
    "pynvml", "safetensors", "scipy", "skimage", "sklearn", "tf2onnx", "tf_keras", "tf_slim", "wandb",
}  # fmt: skip

# Imports inside functions that are allowed besides those of optional packages, with the reason.
INSIDE_A_FUNCTION = {
    (
        "utils/concurrency.py",
        "tensorpack_lite.compat",
    ): "ShareSessionThread enters a session; utils imports without TensorFlow",
    (
        "utils/argtools.py",
        "tensorpack_lite.compat",
    ): "graph_memoized uses the default graph; utils imports without TensorFlow",
    (
        "utils/random_streams.py",
        "numpy",
    ): "the launcher needs only the standard library, and ranks wait for it",
    (
        "utils/utils.py",
        "tensorpack_lite.utils.progress",
    ): "it imports tqdm, which the launcher does not need either",
    ("utils/progress.py", "tqdm.auto"): "it warns on import where ipywidgets is missing",
    (
        "cli/main.py",
        "tensorpack_lite.compat",
    ): "only a command that imported TensorFlow raises its errors",
    ("cli/checkpoints.py", "tensorpack_lite.tfutils.checkpoint_state"): "likewise",
    (
        "cli/checkpoints.py",
        "tensorpack_lite.tfutils.varmanip",
    ): "an .npz file is read without TensorFlow, which takes seconds to import",
    (
        "dataflow/network/pyzmq.py",
        "zmq",
    ): "only data from other machines needs it",
    (
        "compat/private.py",
        "tensorflow.python.debug",
    ): "tfdbg is slow to import, prints a message without curses, and may be removed from TensorFlow",
    (
        "compat/__init__.py",
        "tensorpack_lite.compat.private",
    ): "an old version is rejected before private names are imported",
    (
        "tf1/removed/own_files.py",
        "tensorpack_lite.tf1.startup.sitecustomize",
    ): "it is being imported when this package is",
    (
        "tf1/startup/sitecustomize.py",
        "tensorpack_lite.tf1.contrib._slim",
    ): "it imports TensorFlow, which few processes use",
    (
        "tf1/startup/sitecustomize.py",
        "tensorpack_lite.tf1.view",
    ): "it imports TensorFlow, which few processes use",
    (
        "tf1/startup/sitecustomize.py",
        "tensorpack_lite.tf1.old_tensorpack.modules",
    ): "it imports the library, which not every process uses",
    (
        "tf1/startup/sitecustomize.py",
        "tensorpack_lite.utils.old_names_table",
    ): "likewise",
}

# Subclasses of RNNCell, which TensorFlow 2.16 and later have only with Keras 2. tests/tf1/contrib/test_old_models.py imports them.
NEEDS_KERAS_2 = {
    "tensorpack_lite.tf1.contrib._attention",
    "tensorpack_lite.tf1.contrib._rnn_cells",
    "tensorpack_lite.tf1.contrib._rnn_wrappers",
}

CALLBACKS = "tensorpack_lite.callbacks"  # it has callbacks of `diagnostics` among its names
FACADE = ("tensorpack_lite", "tensorpack_lite._with_tensorflow")  # they re-export names of packages


# Imports each file in a child process. The parent imports only TensorFlow, which takes seconds. An empty package replaces
# the facade, which Python would import first.
IMPORT_EACH_FIRST = """
import importlib, os, sys, traceback, types
import tensorflow

package = types.ModuleType("tensorpack_lite")
package.__path__ = [sys.argv[1]]
failed = 0
for name in sys.argv[2:]:
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        sys.modules["tensorpack_lite"] = package
        try:
            importlib.import_module(name)
        except BaseException:
            print("first import of", name)
            traceback.print_exc(file=sys.stdout)
            sys.stdout.flush()
            os._exit(1)
        os._exit(0)
    failed += os.waitpid(child, 0)[1] != 0
print(len(sys.argv) - 2, "files")
sys.exit(failed != 0)
"""


def floor(name: str) -> int:
    """Return the floor of a module, by its dotted name."""
    if name in BESIDE_THE_FLOORS:
        return BESIDE_THE_FLOORS[name]
    parts = name.split(".")
    return FLOORS[parts[1]] if len(parts) > 1 and parts[1] in FLOORS else FLOORS[""]


def room(name: str) -> str:
    """Return the top-level package of a module; "" for the facade and the other files at the top level."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in FLOORS else ""


def upward_imports(source) -> list:
    """Return imports that neither go to a lower floor nor stay in their package. No file imports addresses, so they may go up."""
    found = []
    for module in source:
        if module.is_address:
            continue
        for imported in module.imports:
            if not imported.internal or room(imported.target) == room(module.name):
                continue
            if floor(imported.target) < floor(module.name):
                continue
            if module.name == CALLBACKS and room(imported.target) == "diagnostics":
                continue
            found.append(
                f"{module.path}:{imported.line}: floor {floor(module.name)} imports {room(imported.target) or imported.target} "
                f"(floor {floor(imported.target)}). Move what both need down, or hand it in as an argument."
            )
    return found


def imports_not_from_the_defining_module(source) -> list:
    """Return imports of a name from a package's `__init__`, an address, or another module that does not define it."""
    found = []
    for module in source:
        if module.is_address:
            continue
        for imported in module.imports:
            target = source.get(imported.target)
            if target is None or (room(target.name) == "compat" and target.is_package):
                continue
            place = f"{module.path}:{imported.line}"
            if target.is_address:
                found.append(f"{place}: imports the address {target.path}. Import from the module that it names.")
            elif module.name in FACADE or (module.is_package and not imported.names):
                continue
            else:
                found += [
                    f"{place}: {name} is not defined in {target.path}. Import it from the module that defines it."
                    for name in imported.names
                    if name != "*" and target.bindings().get(name) not in ("def", "class", "assign")
                ]
    return found


def cycles(source) -> list:
    """Return import cycles among the modules of a package, without `__init__` files."""
    edges = {
        module.name: [
            i
            for i in module.imports
            if i.where in ("module", "type_checking")
            and i.internal
            and room(i.target) == room(module.name)
            and not source.get(i.target).is_package
        ]
        for module in source
        if not module.is_package
    }
    found, done = [], set()

    def walk(name, trail) -> None:
        if name in trail:
            circle = " -> ".join([*trail[trail.index(name) :], name]).replace("tensorpack_lite.", "")
            found.append(f"{circle}: an import cycle. Move the code that they share to another module.")
            return
        if name in done:
            return
        for imported in edges.get(name, ()):
            walk(imported.target, [*trail, name])
        done.add(name)

    for name in sorted(edges):
        walk(name, [])
    return found


def imports_inside_functions(source) -> list:
    """Return imports inside functions that are neither of an optional package nor in INSIDE_A_FUNCTION."""
    return [
        f"{module.path}:{i.line}: imports {i.target} inside a function. Import it at the top; "
        f"only optional packages, and those in INSIDE_A_FUNCTION of this test, are imported later."
        for module in source
        for i in module.imports
        if i.where == "function"
        and i.target.split(".")[0] not in OPTIONAL
        and not any(
            module.path == path and (i.target == target or i.target.startswith(target + "."))
            for path, target in INSIDE_A_FUNCTION
        )
    ]


def unknown_packages(source) -> list:
    """Return imports of packages that setup.py does not require, and of TensorFlow outside compat."""
    found = []
    for module in source:
        for i in module.imports:
            top, place = i.target.split(".")[0], f"{module.path}:{i.line}"
            if top == "tensorflow" and module.room != "compat":
                found.append(f"{place}: imports tensorflow. Write: from ..compat import tfv1 as tf")
            elif (
                top == "tensorflow"
                and i.target.startswith("tensorflow.")
                and (module.room != "compat" or module.is_package)
            ):
                found.append(
                    f"{place}: private TensorFlow names belong in a file of compat/, such as private.py, each with its reason."
                )
            elif top in OPTIONAL and i.where == "module":
                found.append(f"{place}: {top} is optional. Import it inside the function that needs it.")
            elif i.internal or top in REQUIRED | OPTIONAL | {"tensorflow", "__future__"}:
                continue
            elif sys.version_info >= (3, 10) and top not in sys.stdlib_module_names:
                found.append(f"{place}: {top} is in neither REQUIRED nor OPTIONAL, nor in the standard library.")
    return found


def imports_of_diagnostics(source) -> list:
    """Return imports of `diagnostics` in files that carry a training."""
    return [
        f"{module.path}:{i.line}: imports {i.target}. Let the diagnostics be an extension or a callback, in train/defaults.py."
        for module in source
        for i in module.imports
        if room(i.target) == "diagnostics"
        and room(module.name) not in ("diagnostics", "cli")
        and module.path not in ("train/defaults.py", "callbacks/__init__.py")
    ]


def nothing(found: list) -> None:
    """Fail with one sentence per line."""
    assert [] == found, "\n" + "\n".join(found)


class TestLibrary:
    def test_imports_go_down(self, source):
        """Every import, also one under TYPE_CHECKING, goes to a lower floor or stays in its package."""
        nothing(upward_imports(source))

    def test_the_core_does_not_know_diagnostics(self, source):
        """Only train/defaults.py, the names of callbacks and the command line import diagnostics."""
        nothing(imports_of_diagnostics(source))

    def test_every_directory_has_a_floor(self, source):
        """Each package has a floor."""
        rooms = {m.room for m in source}
        assert set() == rooms - set(FLOORS), "Add it to FLOORS here and to the table in ARCHITECTURE.md."

    def test_names_come_from_their_defining_module(self, source):
        """Names are imported from the module that defines them. Only compat's `__init__` is an exception."""
        nothing(imports_not_from_the_defining_module(source))

    def test_no_circles_inside_a_package(self, source):
        """The modules of a package have no import cycles."""
        nothing(cycles(source))

    def test_imports_are_at_the_top(self, source):
        """Functions import only optional packages and the modules in INSIDE_A_FUNCTION."""
        nothing(imports_inside_functions(source))

    def test_only_known_packages(self, source):
        """Imported packages are required or optional in setup.py; TensorFlow is imported through compat."""
        nothing(unknown_packages(source))

    def test_the_list_of_exceptions_is_in_use(self, source):
        """INSIDE_A_FUNCTION has no entry that is no longer needed."""
        used = {
            (m.path, t)
            for m in source
            for i in m.imports
            for p, t in INSIDE_A_FUNCTION
            if m.path == p and i.target.startswith(t)
        }
        unused = {
            (p, t) for p, t in set(INSIDE_A_FUNCTION) - used if source.root.joinpath("tensorpack_lite", p).exists()
        }
        assert set() == unused

    def test_required_packages_are_required_and_used(self, source, root):
        """install_requires of setup.py lists exactly the packages that the library imports at module level."""
        line = next(x for x in (root / "setup.py").read_text().splitlines() if "install_requires" in x)
        declared = {name for name in REQUIRED | OPTIONAL if f'"{"pyzmq" if name == "zmq" else name}' in line}
        used = {i.target.split(".")[0] for m in source for i in m.imports} & REQUIRED
        assert declared == REQUIRED
        assert used == REQUIRED, "Each required package must be used; remove the others from setup.py."

    @pytest.mark.proof
    def test_each_file_can_be_imported_first(self, source):
        """Each file can be the first file of the library that a process imports."""
        import tensorpack_lite

        package = Path(tensorpack_lite.__file__).parent
        names = [module.name for module in source if module.name not in {"tensorpack_lite", *NEEDS_KERAS_2}]
        done = subprocess.run(
            [sys.executable, "-c", IMPORT_EACH_FIRST, str(package), *names],
            env=dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3", PYTHONPATH=str(package.parent)),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600, check=False,
        )  # fmt: skip
        assert 0 == done.returncode, done.stdout.decode()
        assert f"{len(names)} files" in done.stdout.decode()

    @pytest.mark.parametrize("limit", [400])
    def test_files_stay_short(self, source, limit):
        """Files have at most 400 lines."""
        long = {m.path: m.source.count("\n") for m in source if m.source.count("\n") > limit}
        assert {} == long, f"Over {limit} lines. Split the file by topic."


class TestRules:
    """Each rule reports what it forbids."""

    def test_an_upward_import_is_seen(self, read):
        """A callback that imports a trainer is reported with two ways to fix it."""
        source = read({"callbacks/saver.py": "from ..train.base import StopTraining\n", "train/base.py": ""})
        assert upward_imports(source) == [
            "callbacks/saver.py:1: floor 5 imports train (floor 7). Move what both need down, or hand it in as an argument."
        ]

    def test_a_sideways_import_is_seen(self, read):
        """An import of another package on the same floor is reported."""
        source = read({"models/a.py": "from ..loop.b import B\n", "loop/b.py": "class B: pass\n"})
        assert 1 == len(upward_imports(source))

    def test_an_upward_import_for_types_is_seen(self, read):
        """Imports under TYPE_CHECKING obey the same rule."""
        text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..train.base import Trainer\n"
        source = read({"loop/a.py": text, "train/base.py": "class Trainer: pass\n"})
        assert 1 == len(upward_imports(source))

    def test_an_import_at_second_hand_is_seen(self, read):
        """An import of a name from a file that only imports it is reported."""
        source = read(
            {
                "utils/a.py": "class A: pass\n",
                "utils/b.py": "from .a import A\nX = A()\n",
                "utils/c.py": "from .b import A\n",
                "tfutils/d.py": "from ..utils import A\n",
                "utils/__init__.py": "from .a import A\n",
            }
        )
        assert [x.rsplit(": ", 1)[0].split(": ")[0] for x in imports_not_from_the_defining_module(source)] == [
            "tfutils/d.py:1",
            "utils/c.py:1",
        ]

    def test_the_use_of_an_address_is_seen(self, read):
        """An import from an address, which exists only for users' scripts, is reported."""
        source = read(
            {
                "dataflow/batch.py": "class BatchData: pass\n",
                "dataflow/common.py": '"""Lives in batch."""\nfrom .batch import BatchData\n__all__ = ["BatchData"]\n',
                "input_source/feed.py": "from ..dataflow.common import BatchData\n",
            }
        )
        assert 1 == len([x for x in imports_not_from_the_defining_module(source) if "the address" in x])

    def test_a_circle_is_seen(self, read):
        """The message shows the import cycle."""
        source = read(
            {
                "loop/a.py": "from .b import B\nclass A: pass\n",
                "loop/b.py": "from .a import A\nclass B: pass\n",
            }
        )
        assert cycles(source)[0].startswith("loop.a -> loop.b -> loop.a")

    def test_a_hidden_import_is_seen(self, read):
        """An import of the library inside a function is reported; one of cv2 is not."""
        source = read(
            {
                "utils/viz.py": "def f():\n    import cv2\n    from .fs import g\n",
                "utils/fs.py": "def g(): pass\n",
            }
        )
        assert [x.split(": ")[0] for x in imports_inside_functions(source)] == ["utils/viz.py:3"]

    def test_a_package_that_is_loaded_by_name_is_seen(self, read):
        """A module-level call of `load_optional` is reported like an import."""
        text = "from .optional import load_optional\ncv2 = load_optional('cv2', 'A')\ndef f():\n    return load_optional('cv2', 'f')\n"
        source = read({"utils/a.py": text, "utils/optional.py": "def load_optional(module, who): pass\n"})
        (sentence,) = unknown_packages(source)
        assert sentence.startswith("utils/a.py:2: cv2 is optional. Import it inside the function")

    def test_tensorflow_outside_compat_is_seen(self, read):
        """`import tensorflow` outside compat and private names in compat's `__init__` are reported."""
        source = read(
            {
                "utils/a.py": "import tensorflow as tf\n",
                "compat/__init__.py": "from tensorflow.python import x\n",
            }
        )
        assert 2 == len(unknown_packages(source))
