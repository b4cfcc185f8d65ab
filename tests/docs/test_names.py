"""Names in pages, docstrings and messages exist: classes, modules, and commands with their options."""

from __future__ import annotations

import argparse
import ast
import builtins
import importlib
import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("tensorflow")

from tensorpack_lite.cli.arguments import make_parser
from tensorpack_lite.compat import tfv1
from tensorpack_lite.utils.old_names_table import KEPT_NAMES, OLD_NAMES

ROOT = Path(__file__).resolve().parents[2]
# the attribute of a syntax tree's node with the value of a text
TEXT = "value" if sys.version_info >= (3, 8) else "s"
FILES = sorted((ROOT / "tensorpack_lite").rglob("*.py"))
# tables of names that do not exist, with their own tests
OLD = (
    "tensorpack_lite/tf1/contrib/_replacements.py",
    "tensorpack_lite/tf1/removed/",
    "tensorpack_lite/tf1/old_tensorpack/star_table.py",
    "tensorpack_lite/tf1/renamed.py",
    "tensorpack_lite/tf1/missing.py",
    "tensorpack_lite/utils/old_names_table.py",
    "tensorpack_lite/tf1/unsupported.py",
)
PAGES = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "examples/README.md")]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
CAMEL_CASE = re.compile(
    r"(?<![\w.<$/-])((?:[a-z_]\w*\.)*)([A-Z][A-Za-z0-9]*[a-z0-9][A-Z]\w*|[A-Z]{2,}[a-z]{2}\w*)\b(?![\w-])"
)
DOTTED = re.compile(r"\btensorpack_lite((?:\.[A-Za-z_]\w*)+)")
SCRIPT = re.compile(r"(?<![\w./-])(?:tests|benchmarks|examples)/[\w/]+\.py\b")
COMMAND = re.compile(r"(?:tensorpack-lite|python -m tensorpack_lite)(?= )((?: +[^\s`\"']+)*)")
# Words, names of other programs, names of statistics, and names that stand for any
WORDS = """
AccumGrad AdaMax AdamW BatchGradientVerification BlobProto BytePS CMakeLists CPython CuDNN DeVries
EmbedSequence GPUUtil GiB GraceTime HostFreeMemory IPython ImageNet InferenceTower InferenceTower2 KillWait
LeCun MEMCPYDtoH MEMCPYHtoD MLflow MathWorks MegDet MyTrainer NaN NumPy OpenCV PeakMemory PyArrow PyTorch
RMSProp ReLU ResNet SVMLight SavedModel SciPy SigCgt SomeTrainer TFLite TFProf TFRecord TensorBoard
TensorFlow TensorRT TiB WordNet
"""
# Names in other libraries, or in TensorFlow versions that do not have them any more
ELSEWHERE = """
BackupAndRestore BasicLSTMCell BatchNormalization CSVLogger CheckpointState CosineDecay DataFrame DataLoader
DataType DebugTensorDatum DistributedOptimizer DropoutWrapper EagerTensor ExistingExperiment
GlobalAveragePooling2D GraphNodeProto GroupKFold HParamDef HorovodInternalError InferenceSession InputLayer
IterableDataset LambdaLR LayerNormalization LearningRateMonitor LearningRateScheduler
LocalCLIDebugWrapperSession LossScaleOptimizer MaxPooling2D MirroredStrategy
MixedPrecisionLossScaleOptimizer ModelCheckpoint MultiGraphNodeProto MultiRNNCell OpenVINO OpsSet
OrderedDict ParquetFile ParseFromString PiecewiseConstantDecay PolynomialDecay PyDataset ReduceLROnPlateau
RewriterConfig StagingArea TFLiteConverter TensorDataset TensorFlowState TensorflowTrainer WebDataset
WeightAveraging
"""


class Library:
    """All names that the library, TensorFlow and Python define."""

    def __init__(self) -> None:
        rows = (ROOT / "tests" / "api" / "public_api.txt").read_text(encoding="utf-8").splitlines()
        self.public = {row[2:].split(":")[0].rsplit(".", 1)[1] for row in rows}
        self.old = {name.rsplit(".", 1)[-1] for name in [*OLD_NAMES, *KEPT_NAMES]}
        self.defined = {name for file in FILES for name in names_in(file.read_text(encoding="utf-8"))}
        scripts = [file for name in ("tests", "examples") for file in (ROOT / name).rglob("*.py")]
        classes = [re.findall(r"^class (\w+)", file.read_text(encoding="utf-8"), re.MULTILINE) for file in scripts]
        self.other = set(dir(builtins)).union(*classes)
        for module in (tfv1, tfv1.train, tfv1.raw_ops, tfv1.nn, tfv1.errors, tfv1.data, tfv1.image):
            self.other |= set(dir(module))

    def has(self, name: str, extra: set) -> bool:
        """Return whether a name exists; a plural counts as its singular."""
        known = (self.other, self.old, WORDS.split(), ELSEWHERE.split(), extra)
        return any(one in names for one in (name, name.rstrip("s")) for names in known)


def names_in(source: str) -> set:
    """Return all names that a source defines, imports or reads as attributes."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            found.add(node.name)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.alias):
            found |= set(node.name.split("."))
    return found


def texts_in(file: Path) -> list:
    """Return (line, text) of each docstring and message of a file; a message has a space. `{}` stands for a value."""
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.JoinedStr):
            parts = [getattr(part, TEXT, None) for part in node.values]
            found.append((node.lineno, "".join(part if isinstance(part, str) else "{}" for part in parts)))
        else:
            text = getattr(node, TEXT, None)
            if isinstance(text, str):
                found.append((node.lineno, text))
    return [(line, text) for line, text in found if " " in text.strip()]


@pytest.fixture(scope="module")
def library() -> Library:
    """All names that exist."""
    return Library()


@pytest.fixture(scope="module")
def texts() -> list:
    """(place, text) of all pages, docstrings and messages."""
    found = [(str(page.relative_to(ROOT)), page.read_text(encoding="utf-8")) for page in PAGES]
    return found + [(f"{file.relative_to(ROOT)}:{line}", text) for file in FILES for line, text in texts_in(file)]


@pytest.mark.slow
def test_classes_in_pages_are_public(library):
    """Each CamelCase name in the inline code of a page is public, or the page defines it in a block of code."""
    missing = []
    for page in PAGES:
        blocks = re.split(r"^(```.*?^```)", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        own = set(re.findall(r"\w+", "".join(blocks[1::2])))
        for code in re.findall(r"`([^`\n]+)`", "".join(blocks[::2])):
            for prefix, name in CAMEL_CASE.findall(code):
                if not library.has(name, library.public | own | library.defined):
                    missing.append(f"{page.relative_to(ROOT)}: {prefix}{name}")
    assert [] == missing


@pytest.mark.slow
def test_classes_in_docstrings_and_messages_exist(library, texts):
    """Each CamelCase name in a docstring or a message of the library is defined somewhere in the library."""
    missing = []
    for place, text in texts:
        if not place.startswith("tensorpack_lite/") or place.startswith(OLD):
            continue
        own = set(re.findall(r"\bclass (\w+)", text))  # a class of an example
        for prefix, name in CAMEL_CASE.findall(text):
            if not library.has(name, library.defined | own):
                missing.append(f"{place}: {prefix}{name}")
    assert [] == missing


def resolves(dotted: str) -> bool:
    """Return whether `tensorpack_lite.x.y` can be imported: a module, and then attributes."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        except ImportError:  # an optional package is not installed
            return True
        for name in parts[length:]:
            if not hasattr(found, name):
                return False
            found = getattr(found, name)
        return True
    return False


@pytest.mark.slow
def test_dotted_paths_can_be_imported(texts):
    """Each `tensorpack_lite.x.y` in a page, docstring or message can be imported."""
    named = {}
    for place, text in texts:
        for path in DOTTED.findall(text):
            named.setdefault(f"tensorpack_lite{path}", place)
    missing = [f"{place}: {path}" for path, place in sorted(named.items()) if not resolves(path)]
    # the first one stands for any module; the examples are a package only in the wheel
    assert [] == [one for one in missing if not one.endswith(("tensorpack_lite.x.y", "tensorpack_lite.examples"))]


def test_scripts_exist():
    """Each test, benchmark and example that a page or a script names exists."""
    files = [*PAGES, *FILES, *(ROOT / "benchmarks").glob("*.py"), *(ROOT / "examples").rglob("*.py")]
    named = {
        (path, str(file.relative_to(ROOT)))
        for file in files
        for path in SCRIPT.findall(file.read_text(encoding="utf-8"))
    }
    assert [] == sorted((file, path) for path, file in named if not (ROOT / path).exists())


def parsers() -> dict:
    """Return the parser of each command."""
    actions = [action for action in make_parser()._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(actions[0].choices)


def problem(words: list, commands: dict) -> str:
    """Return what is wrong with the words after `tensorpack-lite`, or ""."""
    name = words[0].rstrip(".,:;)") if words else ""
    if not re.match(r"[a-z][a-z-]+$", name):
        return ""  # a placeholder, an option, or the end of a sentence
    if name not in commands:
        return f"there is no command {name}"
    known = {option for action in commands[name]._actions for option in action.option_strings}
    for word in words[1:]:
        if word in ("--", "-m") or word.endswith(".py") or "|" in word:
            break  # what follows is for the script or for another program
        option = word.rstrip(".,:;)").split("=")[0]
        if option.startswith("-") and len(option) > 1 and option not in known:
            return f"{name} has no option {option}"
    return ""


@pytest.mark.slow
def test_commands_and_options_exist(texts):
    """Each `tensorpack-lite COMMAND --option` in a page, docstring or message exists."""
    commands = parsers()
    problems = []
    for place, text in texts:
        for rest in COMMAND.findall(text):
            found = problem(rest.split(), commands)
            if found:
                problems.append(f"{place}: {found}")
    assert [] == problems


def test_no_page_teaches_to_delete_a_training():
    """No page and no example deletes the directory of an earlier training as a matter of course."""
    root = Path(__file__).resolve().parents[2]
    files = [root / "README.md", *root.glob("docs/*.md"), *root.glob("examples/**/*.py")]
    teaching = re.compile(r"""set_logger_dir\([^)\n]*,\s*(action=)?["']d["']""")
    assert [] == [file.name for file in files if teaching.search(file.read_text(encoding="utf-8"))]
