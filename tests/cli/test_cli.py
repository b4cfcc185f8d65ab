"""The command line: what each command prints, its exit code, its errors."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tensorpack_lite
from tensorpack_lite.cli.main import main
from tensorpack_lite.tfutils.varmanip import load_checkpoint_vars, save_checkpoint_vars

VARIABLES = {
    "fc/W": np.arange(6, dtype="float32").reshape(2, 3),
    "fc/b": np.zeros(3, "float32"),
    "fc/W/Momentum": np.ones([2, 3], "float32"),
    "bn/mean/EMA": np.ones(3, "float32"),
    "EMA/cost": np.float32(1.0),
    "beta1_power": np.float32(0.9),
    "global_step": np.int64(7),
}


@pytest.fixture
def checkpoint(tmp_path):
    """A checkpoint of a training, in a directory of its own."""
    (tmp_path / "log").mkdir()
    path = str(tmp_path / "log" / "model-7")
    save_checkpoint_vars(VARIABLES, path)
    return path


@pytest.fixture
def stats(tmp_path):
    """The stats.json of a training."""
    elements = [{"cost": 1.0 / n, "wrong": 0.5, "epoch_num": n, "global_step": 10 * n} for n in (1, 2, 3)]
    (tmp_path / "stats.json").write_text(json.dumps(elements))
    return tmp_path


def damage(path):
    """Flip a bit in the middle of a file."""
    with open(str(path), "r+b") as file:
        content = bytearray(file.read())
        content[len(content) // 2] ^= 0x10
        file.seek(0)
        file.write(bytes(content))


class TestDamagedFiles:
    @pytest.mark.parametrize("command", ["ls-checkpoint", "dump-params", "checkpoint-diff"])
    @pytest.mark.parametrize("suffix", [".index", ".data-00000-of-00001"])
    def test_a_checkpoint(self, checkpoint, tmp_path, capfd, command, suffix):
        """Each command says in one line which checkpoint is damaged, and ends with code 2."""
        damage(checkpoint + suffix)
        more = {"dump-params": [str(tmp_path / "out.npz")], "checkpoint-diff": [checkpoint]}.get(command, [])
        assert 2 == main([command, checkpoint, *more])
        told = capfd.readouterr().err.splitlines()
        prefix = f"tensorpack-lite {command}: {checkpoint} cannot be read as a checkpoint: "
        assert 1 == len([line for line in told if line.startswith(prefix)])
        assert not any("Traceback" in line for line in told)
        assert not os.path.exists(str(tmp_path / "out.npz"))

    def test_an_npz_file(self, tmp_path, capfd):
        """A damaged npz file is named, too."""
        path = str(tmp_path / "w.npz")
        np.savez(path, w=np.zeros(1000))
        damage(path)
        assert 2 == main(["ls-checkpoint", path])
        assert (
            f"tensorpack-lite ls-checkpoint: {path} cannot be read as an npz file: Bad CRC-32"
            in capfd.readouterr().err
        )

    def test_the_list_of_checkpoints(self, checkpoint, capfd):
        """A damaged file `checkpoint` is named, with what to do."""
        directory = os.path.dirname(checkpoint)
        Path(directory, "checkpoint").write_bytes(b"\xff\xfe not text")
        assert 2 == main(["ls-checkpoint", directory])
        told = capfd.readouterr().err
        assert f"{directory}/checkpoint cannot be read as a list of checkpoints: " in told
        assert "Name the checkpoint itself" in told


class TestMain:
    @pytest.mark.parametrize(
        "command", ["ls-checkpoint", "dump-params", "checkpoint-diff", "data-check", "env", "plot"]
    )
    def test_help(self, command, capsys):
        """Each command explains itself."""
        with pytest.raises(SystemExit) as end:
            main([command, "--help"])
        assert 0 == end.value.code
        assert f"usage: tensorpack-lite {command}" in capsys.readouterr().out

    def test_no_command(self, capsys):
        """Without a command it says what there is."""
        with pytest.raises(SystemExit) as end:
            main([])
        assert 2 == end.value.code
        assert "COMMAND" in capsys.readouterr().err

    def test_importing_runs_nothing(self):
        """The module behind `python -m` can be imported, by a tool for documentation say."""
        assert importlib.import_module("tensorpack_lite.__main__").main is main

    @pytest.mark.slow
    def test_python_m(self, checkpoint):
        """`python -m tensorpack_lite` is the same."""
        root = str(Path(tensorpack_lite.__file__).parents[1])
        done = subprocess.run(
            [sys.executable, "-m", "tensorpack_lite", "ls-checkpoint", checkpoint + "0"],
            env=dict(os.environ, PYTHONPATH=root, TF_CPP_MIN_LOG_LEVEL="3"),
            capture_output=True,
            timeout=120,
            check=False,
        )
        assert 2 == done.returncode
        assert b"tensorpack-lite ls-checkpoint: There is no checkpoint" in done.stderr


class TestLsCheckpoint:
    def test_all(self, checkpoint, capsys):
        """Names, shapes, dtypes and totals."""
        assert 0 == main(["ls-checkpoint", checkpoint])
        output = capsys.readouterr().out
        assert ["fc/W", "[2,", "3]", "float32", "6"] in [line.split() for line in output.splitlines()]
        assert "7 variables, 21 elements, 0.00 MB" in output

    def test_directory_and_match(self, checkpoint, capsys):
        """A directory means its latest checkpoint."""
        assert 0 == main(["ls-checkpoint", os.path.dirname(checkpoint), "--match", "^fc/b"])
        assert "1 variables, 3 elements" in capsys.readouterr().out

    def test_wrong_expression(self, checkpoint, capsys):
        """A regular expression that is none is an error, not a traceback."""
        assert 2 == main(["ls-checkpoint", checkpoint, "--match", "("])
        assert capsys.readouterr().err.startswith("tensorpack-lite ls-checkpoint: ")


class TestDumpParams:
    def test_without_what_training_needs(self, checkpoint, tmp_path, capsys):
        """Slots, averages of summaries and counters stay behind; the model's own averages go along."""
        assert 0 == main(["dump-params", checkpoint, str(tmp_path / "p.npz")])
        saved = load_checkpoint_vars(str(tmp_path / "p.npz"))
        assert ["bn/mean/EMA", "fc/W", "fc/b"] == sorted(saved)
        np.testing.assert_array_equal(VARIABLES["fc/W"], saved["fc/W"])
        assert "3 of 7 variables written" in capsys.readouterr().out

    def test_all_to_a_checkpoint(self, checkpoint, tmp_path):
        """--all keeps everything; without .npz a checkpoint is written."""
        assert 0 == main(["dump-params", checkpoint, str(tmp_path / "copy"), "--all"])
        assert sorted(VARIABLES) == sorted(load_checkpoint_vars(str(tmp_path / "copy")))

    def test_existing_output(self, checkpoint, tmp_path, capsys):
        """Nothing is replaced unless --force says so."""
        output = str(tmp_path / "p.npz")
        Path(output).write_text("mine")
        assert 2 == main(["dump-params", checkpoint, output])
        assert "exists. Name another file, or pass --force" in capsys.readouterr().err
        assert "mine" == Path(output).read_text()
        assert 0 == main(["dump-params", checkpoint, output, "--force"])

    def test_nothing_left(self, checkpoint, tmp_path, capsys):
        """An empty file is not written."""
        assert 2 == main(["dump-params", checkpoint, str(tmp_path / "p.npz"), "--match", "Momentum"])
        assert "none of the 1 variables is left to write" in capsys.readouterr().err


class TestCheckpointDiff:
    def diff(self, tmp_path, changes, *arguments):
        """Compare VARIABLES with a changed copy."""
        np.savez(str(tmp_path / "a.npz"), **VARIABLES)
        second = {**VARIABLES, **changes}
        np.savez(str(tmp_path / "b.npz"), **{k: v for k, v in second.items() if v is not None})
        return main(["checkpoint-diff", str(tmp_path / "a.npz"), str(tmp_path / "b.npz"), *arguments])

    def test_equal(self, tmp_path, capsys):
        """No difference is exit code 0."""
        assert 0 == self.diff(tmp_path, {})
        assert "0 of 7 variables differ" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("changes", "text"),
        [
            ({"fc/b": None}, "only in the first"),
            ({"new": np.zeros(1)}, "only in the second"),
            ({"fc/b": np.zeros(4, "float32")}, "shape [3] and [4]"),
            ({"fc/b": np.zeros(3, "float64")}, "dtype float32 and float64"),
            ({"fc/b": np.float32([0, 0.5, -1])}, "at most 1 apart, 2 of 3 elements"),
        ],
    )
    def test_differences(self, tmp_path, capsys, changes, text):
        """Each difference is told, with exit code 1."""
        assert 1 == self.diff(tmp_path, changes)
        output = capsys.readouterr().out
        assert text in output
        assert "1 of " in output

    def test_tolerance(self, tmp_path):
        """Small differences may be allowed."""
        assert 0 == self.diff(tmp_path, {"fc/b": np.full(3, 1e-4, "float32")}, "--atol", "1e-3")


def test_env(capsys):
    """The description of the environment."""
    assert 0 == main(["env"])
    facts = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["tensorpack_lite", tensorpack_lite.__version__] in facts


class TestPlot:
    def test_picture(self, stats, capsys):
        """A PNG file is written."""
        pytest.importorskip("matplotlib")
        output = stats / "curves.png"
        assert 0 == main(["plot", str(stats), str(stats / "stats.json"), "-o", str(output)])
        assert b"\x89PNG" == output.read_bytes()[:4]
        assert "2 scalars of 2 trainings written" in capsys.readouterr().out

    def test_curves(self, tmp_path, monkeypatch):
        """Each scalar has a picture of its own with a curve a training; without an output, a window opens."""
        matplotlib = pytest.importorskip("matplotlib")
        matplotlib.use("Agg")
        from matplotlib import pyplot

        names = ["a", "b", "c", "d"]
        for run, scale in (("first", 1.0), ("second", 10.0)):
            (tmp_path / run).mkdir()
            elements = [
                {**dict.fromkeys(names, step * scale), "epoch_num": step, "global_step": step * 100}
                for step in (1, 2)
            ]
            (tmp_path / run / "stats.json").write_text(json.dumps(elements))
        figures = []
        monkeypatch.setattr(pyplot, "show", lambda: figures.append(pyplot.gcf()))
        first, second = str(tmp_path / "first"), str(tmp_path / "second")
        assert 0 == main(["plot", first, second, "-x", "epoch_num"])

        (figure,) = figures
        shown = [axis for axis in figure.axes if axis.get_visible()]
        assert (6, names) == (len(figure.axes), [axis.get_title() for axis in shown])
        assert [[1, 2], [1.0, 2.0]] == [list(values) for values in shown[3].lines[0].get_data()]
        assert [10.0, 20.0] == list(shown[3].lines[1].get_ydata())
        assert [first, second] == [text.get_text() for text in shown[0].get_legend().get_texts()]
        assert [] == pyplot.get_fignums()

    def test_one_training_has_no_legend(self, stats, monkeypatch):
        """There is nothing to tell apart."""
        pytest.importorskip("matplotlib").use("Agg")
        from matplotlib import pyplot

        legends = []
        monkeypatch.setattr(
            pyplot, "show", lambda: legends.extend(axis.get_legend() for axis in pyplot.gcf().axes)
        )
        assert 0 == main(["plot", str(stats)])
        assert [None, None] == legends

    def test_without_matplotlib(self, stats, monkeypatch, capsys):
        """It says what to install."""
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        assert 2 == main(["plot", str(stats)])
        assert 'pip install "tensorpack_lite[plot]"' in capsys.readouterr().err

    def test_nothing_to_draw(self, stats, capsys):
        """No name fits."""
        assert 2 == main(["plot", str(stats), "--match", "accuracy"])
        assert "no scalar to draw: no name has 'accuracy' in it" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("{", "JSONDecodeError"),
            ("{}", "does not hold a list of objects"),
            ('[{"global_step": 1, "cost": "high"}]', "'cost' has a point (1, 'high'), expected two numbers"),
        ],
    )
    def test_broken_file(self, tmp_path, capsys, text, message):
        """A file that is not a training's stats.json gives one line with the path and the reason."""
        (tmp_path / "stats.json").write_text(text)
        assert 2 == main(["plot", str(tmp_path)])
        told = capsys.readouterr().err
        assert message in told
        assert f"tensorpack-lite plot: {tmp_path}" in told
        assert 1 == told.count("\n")

    def test_no_file(self, tmp_path, capsys):
        """A path that is not there."""
        assert 2 == main(["plot", str(tmp_path / "nothing")])
        assert "No such file" in capsys.readouterr().err
