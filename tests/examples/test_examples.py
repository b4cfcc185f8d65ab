"""Tests of the examples: each runs for two steps, and their functions are tested on small inputs."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fakes.processes import python_environment, run_python
from fakes.programs import read_figures, read_stats

import tensorpack_lite
from tensorpack_lite.compat import TF_VERSION
from tensorpack_lite.compat import tfv1 as tf

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
TWO_STEPS = ["--steps-per-epoch", "2", "--max-epoch", "1"]
SHORT = {
    "00_journey.py": [],
    "char_rnn.py": TWO_STEPS,
    "cifar_convnet.py": TWO_STEPS,
    "custom_trainer.py": TWO_STEPS,
    "imagenet/train.py": ["--fake", "--size", "32", "--batch", "4", *TWO_STEPS],
    "keras_digits.py": TWO_STEPS,
    "mnist_convnet.py": TWO_STEPS,
    "mnist_plain_tf.py": TWO_STEPS,
    "ptb_lstm.py": TWO_STEPS,
    "recompute.py": ["--recompute", "--blocks", "3", *TWO_STEPS],
    "resnet_cifar.py": ["--gpus", "2", *TWO_STEPS],
    "time_budget.py": TWO_STEPS,
    "trainv1_digits.py": TWO_STEPS,
}


def run_to_any_end(name: str, arguments: list, directory: Path) -> subprocess.CompletedProcess:
    """Run an example in `directory`, which may fail."""
    return subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        cwd=str(directory),
        env=python_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,  # TensorFlow 1.15 writes deprecation warnings to stderr
        timeout=600,
        check=False,
    )


def run(name: str, arguments: list, directory: Path) -> str:
    """Run an example in `directory`; return its output."""
    if name == "keras_digits.py" and TF_VERSION >= (2, 16):
        pytest.importorskip("tf_keras")
    done = run_to_any_end(name, arguments, directory)
    output = done.stdout.decode()
    assert 0 == done.returncode, output + done.stderr.decode()
    assert "Lint:" not in output, output  # no rule has a remark about an example
    return output


def load(name: str):
    """Import an example without running it."""
    sys.path.insert(0, str(EXAMPLES))
    try:
        spec = importlib.util.spec_from_file_location(name[:-3].lstrip("0_"), str(EXAMPLES / name))
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(EXAMPLES))
    return module


def code_block_after(text: str, sentence: str) -> str:
    """Return the first fenced code block after a sentence of the README."""
    return re.search(r"```\w*\n(.*?)```", text[text.index(sentence) :], re.DOTALL).group(1)


def test_every_example_is_tested_and_in_the_table():
    """A test mentions each file, and examples/README.md, or the README of the folder, each one that can be run."""
    files = sorted(p.relative_to(EXAMPLES).as_posix() for p in EXAMPLES.rglob("*.py") if "__" not in p.name)
    tests = "".join(p.read_text(encoding="utf-8") for p in Path(__file__).parent.rglob("test_*.py"))
    assert [] == [name for name in files if Path(name).stem not in tests]
    pages = "".join(p.read_text(encoding="utf-8") for p in EXAMPLES.rglob("README.md"))
    scripts = [name for name in files if "__main__" in (EXAMPLES / name).read_text(encoding="utf-8")]
    assert [] == [name for name in scripts if f"[{name}]({name})" not in pages and f"]({Path(name).name})" not in pages]


MODULES = {"opencv-python-headless": "cv2", "scikit-image": "skimage", "scikit-learn": "sklearn"}
ELSEWHERE = {  # imported where a message names the command of pip; TensorFlow is the user's
    *("ale_py", "optuna", "ray", "tensorflow"),
    *("PIL", "joblib"),  # matplotlib and scikit-learn require them
}


def declared_modules() -> set:
    """Return the modules of the packages that `pip install ".[tf,examples]"` names."""
    statements = ast.parse((ROOT / "setup.py").read_text(encoding="utf-8")).body
    (lines,) = [
        s.value for s in statements if isinstance(s, ast.Assign) and getattr(s.targets[0], "id", "") == "EXAMPLES"
    ]
    names = [re.split(r"[\[<>=;! ]", line)[0] for line in ast.literal_eval(lines)]
    return {MODULES.get(name, name.replace("-", "_")) for name in names}


def imported_modules(path: Path) -> set:
    """Return the first parts of the names of all modules that a file imports, also in functions."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.skipif(sys.version_info < (3, 10), reason="sys does not name the modules of the standard library")
def test_imports_are_declared():
    """Examples import the standard library, each other, this library, and packages of the extra that README names."""
    files = list(EXAMPLES.rglob("*.py"))
    own = {path.stem for path in files} | {"data", "numpy", "tensorpack_lite", "__future__"}
    known = own | declared_modules() | ELSEWHERE | set(sys.stdlib_module_names)
    unknown = {str(path.relative_to(EXAMPLES)): sorted(imported_modules(path) - known) for path in files}
    assert {} == {name: modules for name, modules in unknown.items() if modules}


BLOCKING = """
import importlib, sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"not declared: {{name}}", name=name)
sys.meta_path.insert(0, Blocker())
sys.path[:0] = [{folder!r}]
importlib.import_module({name!r})
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tabular.py", "detection/train.py", "rl/a2c.py", "gan/pix2pix.py", "saliency.py"])
def test_import_with_declared_packages_only(name, tmp_path):
    """An example can be imported in an environment that has the declared packages, and none of the optional others."""
    blocked = {"h5py", "lmdb", "optuna", "pandas", "pyarrow", "ray", "tf_keras", "tf_slim", "torch", "wandb"}
    assert not blocked & declared_modules()
    path = EXAMPLES / name
    program = BLOCKING.format(blocked=blocked, folder=str(path.parent), name=path.stem)
    run_python("-W", "ignore", "-c", program, cwd=tmp_path)


TWICE = {
    "adversarial_digits.py": [],
    "char_rnn.py": [],
    "cifar_convnet.py": [],
    "ctc_strips.py": [],
    "dorefa_digits.py": [],
    "gan/dcgan.py": [],
    "moco_digits.py": [],
    "rl/a2c.py": ["--eval-games", "2"],
    "similarity_digits.py": [],
    "spatial_transformer.py": [],
    "tabular.py": ["--csv", "iris", "--folds", "2"],
    "transformer_lm.py": [],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        name if name in ("ctc_strips.py", "cifar_convnet.py") else pytest.param(name, marks=pytest.mark.proof)
        for name in TWICE
    ],
)
def test_two_runs_with_a_seed_print_the_same_figures(name, tmp_path, run_example):
    """Two runs with the same seed end with the same figures of held-out data; these also exist for comparison."""
    for module in ("cv2", "sklearn", "matplotlib", "gymnasium"):
        pytest.importorskip(module)
    figures = []
    for directory in ("first", "second"):
        run_example(name, [*TWICE[name], *TWO_STEPS, "--log-dir", directory], tmp_path)
        figures.append(read_figures(tmp_path / directory))
    assert figures[0] == figures[1]
    assert len(figures[0]) > 1


@pytest.mark.slow
def test_no_checkpoint(tmp_path):
    """Without a checkpoint, options that need one end the example with a message, not with random weights."""
    for command in (
        ["char_rnn.py", "--sample", "a"],
        ["tabular.py", "--predict", "x.csv"],
        ["saliency.py", "--load", "."],
    ):
        done = run_to_any_end(command[0], command[1:], tmp_path)
        assert 1 == done.returncode
        assert re.search(rb"There is no (checkpoint|model) in ", done.stderr)
        assert b"Traceback" not in done.stderr


def test_measure(load_example):
    """The rows of measure.py name existing examples, and a row of its table has the mean and the range of each figure."""
    measure = load_example("measure.py")
    assert all((EXAMPLES / row.split()[0]).exists() for row in measure.ROWS)
    runs = [
        {"title": "error", "figures": {"network": value, "rule": 0.5}, "cpu_seconds": 61.2, "megabytes": 512}
        for value in (0.1, 0.2, 0.3)
    ]
    expected = "| `a.py` | error | 0.2 (0.1 to 0.3) | rule 0.5 | 61 s | 0.5 GB |"
    assert expected == measure.describe_row("a.py", runs)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SHORT))
def test_example_runs(name, tmp_path, run_example):
    """The example runs for two steps in a separate process, in an empty directory."""
    if name == "keras_digits.py" and TF_VERSION >= (2, 16):
        pytest.importorskip("tf_keras")
    assert run_example(name, SHORT[name], tmp_path)


@pytest.mark.slow
def test_journey_output_is_in_the_readme(tmp_path):
    """The README quotes the output of the example exactly."""
    told = code_block_after((ROOT / "README.md").read_text(encoding="utf-8"), "00_journey.py")
    assert told.strip() == run("00_journey.py", [], tmp_path).strip()


@pytest.mark.slow
def test_the_budget_is_shared_by_trainings(tmp_path):
    """The second training in a directory continues with the seconds of the first one; a spent budget ends training."""
    first, second = (run("time_budget.py", TWO_STEPS, tmp_path) for _ in range(2))
    assert "Training begins with epoch 1; 0.000 seconds were spent before." in first
    spent = re.search(r"begins with epoch 2; (\S+) seconds were spent before", second).group(1)
    before, after = (float(re.search(r"(\S+) of 60 seconds", text).group(1)) for text in (first, second))
    assert 0 < float(spent) <= before < after
    ended = run("time_budget.py", [*TWO_STEPS, "--seconds", "0"], tmp_path)
    assert "the budget of seconds is spent" in ended
    assert "After step 5," in ended


@pytest.mark.slow
def test_custom_trainers_fit_the_line(tmp_path):
    """Both trainers fit the line exactly."""
    output = run("custom_trainer.py", [], tmp_path)
    for trainer in ("TenLineTrainer", "AlternatingTrainer"):
        assert f"{trainer}: y = 2.00 x + 1.00" in output


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mnist_convnet.py", pytest.param("char_rnn.py", marks=pytest.mark.any_tensorflow)])
def test_resume(name, tmp_path):
    """`--resume` continues with the epoch after the last checkpoint, and keeps the files of the first run."""
    arguments = ["--steps-per-epoch", "2", "--log-dir", "log"]
    run(name, [*arguments, "--max-epoch", "2"], tmp_path)
    output = run(name, [*arguments, "--max-epoch", "3", "--resume"], tmp_path)
    assert "Epoch 3 of 3: 2 steps" in output
    assert "Epoch 2 of" not in output
    stats = read_stats(tmp_path / "log")
    assert [1, 2, 3] == [line["epoch_num"] for line in stats]
    names = {p.name for p in (tmp_path / "log").iterdir()}
    assert {"checkpoint", "model-2.index", "model-4.index", "model-6.index", "log.log", "stats.json"} <= names
    assert any(name.startswith("events.out.tfevents") for name in names)


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.parametrize("name", ["mnist_convnet.py", pytest.param("mnist_plain_tf.py", marks=pytest.mark.proof)])
def test_convnet_accuracy(name, tmp_path):
    """On digits, the validation accuracy is at least 0.98 after the last epoch."""
    run(name, ["--log-dir", "log"], tmp_path)
    assert read_stats(tmp_path / "log")[-1]["val_accuracy"] >= 0.98


@pytest.mark.slow
@pytest.mark.proof
def test_keras_and_trainv1_accuracy(tmp_path):
    """On digits, the validation accuracy is at least 0.975 after the last epoch."""
    run("trainv1_digits.py", ["--log-dir", "old"], tmp_path)
    assert read_stats(tmp_path / "old")[-1]["validation_error"] <= 0.025
    run("keras_digits.py", ["--log-dir", "keras"], tmp_path)
    assert read_stats(tmp_path / "keras")[-1]["validation_accuracy"] >= 0.975


@pytest.mark.slow
@pytest.mark.proof
def test_trainv1_resume(tmp_path):
    """`--resume` continues with the epoch after the last one."""
    arguments = ["--steps-per-epoch", "2", "--log-dir", "log"]
    run("trainv1_digits.py", [*arguments, "--max-epoch", "1"], tmp_path)
    run("trainv1_digits.py", [*arguments, "--max-epoch", "2", "--resume"], tmp_path)
    assert (2, 4) == tuple(read_stats(tmp_path / "log")[-1][key] for key in ("epoch_num", "global_step"))


@pytest.mark.slow
@pytest.mark.full
def test_mnist_test_images_are_split(tmp_path):
    """On the 10,000 test images of MNIST, the accuracy is at least 0.975 on the 2,000 validation images."""
    directory = ROOT.parent / "shared" / "data" / "mnist"
    if not directory.exists():
        pytest.skip("the test images of MNIST are not available")
    arguments = ["--data", "mnist", "--mnist-dir", str(directory), "--max-epoch", "6", "--log-dir", "log"]
    run("mnist_convnet.py", arguments, tmp_path)
    assert read_stats(tmp_path / "log")[-1]["val_accuracy"] >= 0.975


class TestFunctions:
    def test_random_shift_moves_by_whole_pixels(self):
        """A single bright pixel moves by at most two pixels and stays bright."""
        example = load("mnist_convnet.py")
        image = np.zeros((28, 28), "float32")
        image[10, 20] = 1
        flow = example.RandomShift(tensorpack_lite.DataFromList([[image, 3]] * 50, shuffle=False))
        flow.reset_state()
        places = set()
        for moved, label in flow:
            assert (28, 28) == moved.shape
            assert 3 == label
            down, right = np.argwhere(moved)[0] - (10, 20)
            places.add((int(down), int(right)))
        assert max(abs(v) for place in places for v in place) == 2
        assert len(places) > 10


class TestSmallImages:
    def test_training_stops_when_the_rate_is_tiny(self, load_example):
        """The learning rate is divided by three, and a tiny one stops training."""
        example = load_example("cifar_convnet.py")
        assert 1e-3 == pytest.approx(example.lower(3e-3))
        with pytest.raises(tensorpack_lite.StopTraining):
            example.lower(9e-5)

    @pytest.mark.slow
    @pytest.mark.parametrize(("depth", "millions"), [(18, 11.69), (50, 25.56)])
    def test_size_of_resnets(self, load_example, depth, millions):
        """ResNet-18 and ResNet-50 have the published number of weights."""
        model = load_example("imagenet/resnet_model.py").Model(depth, 64, total_batch=256)
        with tensorpack_lite.TowerContext("", is_training=True):
            model.get_logits(tf.zeros([1, 64, 64, 3]))
        count = sum(v.shape.num_elements() for v in tf.trainable_variables())
        assert millions == round(count / 1e6, 2)


class TestRecurrent:
    def test_write_keeps_the_state(self, load_example):
        """The predictor gets each character with the state that it returned for the previous one."""
        example, seen = load_example("char_rnn.py"), []

        def predictor(piece, state):
            seen.append((piece.item(), state.max()))
            prob = np.zeros([1, 3])
            prob[0, (piece.item() + 1) % 3] = 1
            return prob, state + 1

        assert "abcab" == example.write(predictor, example.Text("abc"), "ab", 3)
        assert [(0, 0), (1, 1), (2, 2), (0, 3)] == seen


@pytest.mark.slow
@pytest.mark.full
def test_ptb_lstm_learns(tmp_path, run_example):
    """After one of its eight epochs, the perplexity is below 5; the optimum is 3.03."""
    run_example("ptb_lstm.py", ["--max-epoch", "1", "--log-dir", "log"], tmp_path)
    assert 3.0 < read_stats(tmp_path / "log")[-1]["validation_perplexity"] < 5


@pytest.mark.slow
@pytest.mark.full
def test_char_rnn_learns_and_writes(tmp_path, run_example):
    """After two of ten epochs, the model needs less than 4 bits per character; `--sample` continues a given text."""
    run_example("char_rnn.py", ["--max-epoch", "2", "--log-dir", "log"], tmp_path)
    assert read_stats(tmp_path / "log")[-1]["bits_per_character"] < 4
    (tmp_path / "output.txt").unlink()
    output = run_example("char_rnn.py", ["--sample", "A trainer", "--count", "50", "--log-dir", "log"], tmp_path)
    assert "A trainer" in output
