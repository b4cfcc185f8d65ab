"""The command line: output, exit code and errors of each command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fakes.processes import run_python

import tensorpack_lite
from tensorpack_lite.cli.arguments import make_parser
from tensorpack_lite.cli.main import main
from tensorpack_lite.tfutils import environment
from tensorpack_lite.tfutils.checkpoint_state import write_state
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
    """The path of a checkpoint of a training."""
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


def run_process(arguments, code="from tensorpack_lite.cli.main import main; sys.exit(main())"):
    """Run the command line, or other code, in a process whose environment does not quiet TensorFlow."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("TF_CPP", "TF_ENABLE"))}
    environment["PYTHONPATH"] = str(Path(tensorpack_lite.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-c", f"import sys; {code}", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


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
        """Each command names the damaged checkpoint in one line and exits with code 2."""
        damage(checkpoint + suffix)
        more = {"dump-params": [str(tmp_path / "out.npz")], "checkpoint-diff": [checkpoint]}.get(command, [])
        assert 2 == main([command, checkpoint, *more])
        told = capfd.readouterr().err.splitlines()
        prefix = f"tensorpack-lite {command}: {checkpoint} cannot be read as a checkpoint: "
        assert 1 == len([line for line in told if line.startswith(prefix)])
        assert not any("Traceback" in line for line in told)
        assert not os.path.exists(str(tmp_path / "out.npz"))

    def test_an_npz_file(self, tmp_path, capfd):
        """The error names a damaged npz file."""
        path = str(tmp_path / "w.npz")
        np.savez(path, w=np.zeros(1000))
        damage(path)
        assert 2 == main(["ls-checkpoint", path])
        assert (
            f"tensorpack-lite ls-checkpoint: {path} cannot be read as an npz file: Bad CRC-32" in capfd.readouterr().err
        )

    def test_the_list_of_checkpoints(self, checkpoint, capfd):
        """The error names a damaged file `checkpoint` and suggests to name the checkpoint itself."""
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
        """`--help` after a command prints the usage of that command."""
        with pytest.raises(SystemExit) as end:
            main([command, "--help"])
        assert 0 == end.value.code
        assert f"usage: tensorpack-lite {command}" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            (
                ["launch", "-n", "2", "train.py"],
                "'launch'. To start several processes, use python -m tensorpack_lite.launch.",
            ),
            (["rehearsal", "train.py"], "'rehearsal'. Did you mean 'rehearse'?"),
            (["xyz"], "'xyz'. The commands are: ls-checkpoint, dump-params, "),
        ],
    )
    def test_an_unknown_command(self, capsys, arguments, text):
        """A command that does not exist is an error that names the nearest one, or all."""
        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert 2 == end.value.code
        assert f"tensorpack-lite: error: there is no command {text}" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("arguments", "program"),
        [
            (["lint", "train.py", "--help"], ["train.py", "--help"]),
            (["find-lr", "--steps", "5", "-mtrain", "--steps", "7"], ["-mtrain", "--steps", "7"]),
            (["run", "--check", "--tf1-packages", "a", "-"], ["-"]),
            (["lint", "--", "-x"], ["-x"]),
            (["nan-replay", "log", "--", "train.py", "--", "x"], ["train.py", "--", "x"]),
            (["nan-replay", "log"], []),
        ],
    )
    def test_the_script_begins_after_the_options(self, arguments, program):
        """The arguments from the script on are left to the script, also those that look like options of the command."""
        assert program == make_parser().parse_args(arguments).program

    def test_no_command(self, capsys):
        """Without a command, the help goes to stderr and the exit code is 2."""
        assert 2 == main([])
        assert "ls-checkpoint" in capsys.readouterr().err

    @pytest.mark.parametrize(
        "arguments",
        [[], ["--help"], ["--version"], ["ls-chekpoint"], ["ls-checkpoint", "--help"], ["env", "--help"]],
    )
    def test_help_and_usage_errors_import_neither_tensorflow_nor_numpy(self, arguments):
        """Help, the version and usage errors appear without TensorFlow, NumPy or a command being imported."""
        assert [False, False] == self.imported(arguments)

    @staticmethod
    def imported(arguments):
        """Run a command in a new process; return whether it imported TensorFlow and NumPy."""
        code = """
from tensorpack_lite.cli.main import main
try:
    main()
except SystemExit:
    pass
print()
print(["tensorflow" in sys.modules, "numpy" in sys.modules])
"""
        done = run_process(arguments, code)
        assert 0 == done.returncode, done.stderr
        return json.loads(done.stdout.splitlines()[-1].lower())

    @pytest.mark.nightly
    @pytest.mark.slow
    def test_tensorflow_is_quiet(self, checkpoint):
        """A command that imports TensorFlow writes nothing but its result, also for a damaged checkpoint."""
        done = run_process(["ls-checkpoint", checkpoint])
        assert (0, "") == (done.returncode, done.stderr)
        damage(checkpoint + ".data-00000-of-00001")
        done = run_process(["ls-checkpoint", checkpoint])
        assert 2 == done.returncode
        assert 1 == len(done.stderr.splitlines())

    @pytest.mark.slow
    def test_python_m(self, checkpoint):
        """`python -m tensorpack_lite` runs the command line."""
        done = run_python("-m", "tensorpack_lite", "ls-checkpoint", checkpoint + "0", exit_code=2)
        assert "tensorpack-lite ls-checkpoint: There is no checkpoint" in done.stderr


class TestLsCheckpoint:
    def test_all(self, checkpoint, capsys):
        """The table has names, shapes, dtypes and sizes; the totals follow."""
        assert 0 == main(["ls-checkpoint", checkpoint])
        output = capsys.readouterr().out
        assert ["fc/W", "[2,", "3]", "float32", "6"] in [line.split() for line in output.splitlines()]
        assert "7 variables, 21 elements, 0.00 MB" in output

    def test_directory_and_match(self, checkpoint, capsys):
        """A directory stands for its latest checkpoint, and --match selects variables."""
        assert 0 == main(["ls-checkpoint", os.path.dirname(checkpoint), "--match", "^fc/b"])
        assert "1 variables, 3 elements" in capsys.readouterr().out

    def test_the_state(self, checkpoint, capsys):
        """The entries of the `.state` file follow, with the sizes of lists and arrays and the size of the file."""
        state = {
            "place": {"epoch_num": 3, "callbacks": ["A", "B"], "later": {}},
            "data": [{"generator": np.zeros(624, np.uint32)}, {"names": ["x" * 100]}],
        }
        write_state(checkpoint + ".state", state)
        assert 0 == main(["ls-checkpoint", checkpoint])
        output = capsys.readouterr().out
        rows = [tuple(line.split(None, 1)) for line in output.splitlines()]
        assert [
            ("place/epoch_num", "3"),
            ("place/callbacks", "['A', 'B']"),
            ("place/later", "{}"),
            ("data/0/generator", "uint32 [624], 2496 bytes"),
            ("data/1/names", "list of 1: ['" + "x" * 57 + "..."),
        ] == rows[-7:-2]
        size = os.path.getsize(checkpoint + ".state")
        version = tensorpack_lite.__version__
        assert f"State of the training: 5 entries, {size} bytes, format 2 of version {version}" in output

    def test_the_state_and_match(self, checkpoint, capsys):
        """--match also selects entries of the state."""
        write_state(checkpoint + ".state", {"place": {"epoch_num": 3, "num_steps": 1}})
        assert 0 == main(["ls-checkpoint", checkpoint, "--match", "epoch"])
        output = capsys.readouterr().out
        assert "place/epoch_num" in output
        assert "num_steps" not in output

    def test_a_damaged_state(self, checkpoint, capsys):
        """A damaged state file is an error that names it, after the variables are listed."""
        Path(checkpoint + ".state").write_bytes(b"text")
        assert 2 == main(["ls-checkpoint", checkpoint])
        captured = capsys.readouterr()
        assert "7 variables" in captured.out
        assert f"{checkpoint}.state cannot be read as the state of a checkpoint" in captured.err

    def test_wrong_expression(self, checkpoint, capsys):
        """An invalid regular expression is an error without a traceback."""
        assert 2 == main(["ls-checkpoint", checkpoint, "--match", "("])
        assert capsys.readouterr().err.startswith("tensorpack-lite ls-checkpoint: ")


class TestDumpParams:
    def test_without_what_training_needs(self, checkpoint, tmp_path, capsys):
        """Optimizer slots, averages of summaries and counters are dropped; the model's own averages are kept."""
        assert 0 == main(["dump-params", checkpoint, str(tmp_path / "p.npz")])
        saved = load_checkpoint_vars(str(tmp_path / "p.npz"))
        assert ["bn/mean/EMA", "fc/W", "fc/b"] == sorted(saved)
        np.testing.assert_array_equal(VARIABLES["fc/W"], saved["fc/W"])
        assert "3 of 7 variables written" in capsys.readouterr().out

    def test_all_to_a_checkpoint(self, checkpoint, tmp_path):
        """--all keeps all variables; an output without .npz is a checkpoint."""
        assert 0 == main(["dump-params", checkpoint, str(tmp_path / "copy"), "--all"])
        assert sorted(VARIABLES) == sorted(load_checkpoint_vars(str(tmp_path / "copy")))

    def test_existing_output(self, checkpoint, tmp_path, capsys):
        """An existing output is replaced only with --force."""
        output = str(tmp_path / "p.npz")
        Path(output).write_text("mine")
        assert 2 == main(["dump-params", checkpoint, output])
        assert "exists. Choose another name, or pass --force" in capsys.readouterr().err
        assert "mine" == Path(output).read_text()
        assert 0 == main(["dump-params", checkpoint, output, "--force"])

    def test_nothing_left(self, checkpoint, tmp_path, capsys):
        """If no parameter is selected, nothing is written."""
        assert 2 == main(["dump-params", checkpoint, str(tmp_path / "p.npz"), "--match", "Momentum"])
        assert "none of the 1 selected variables is a parameter" in capsys.readouterr().err


class TestCheckpointDiff:
    def diff(self, tmp_path, changes, *arguments):
        """Compare VARIABLES with a changed copy."""
        np.savez(str(tmp_path / "a.npz"), **VARIABLES)
        second = {**VARIABLES, **changes}
        np.savez(str(tmp_path / "b.npz"), **{k: v for k, v in second.items() if v is not None})
        return main(["checkpoint-diff", str(tmp_path / "a.npz"), str(tmp_path / "b.npz"), *arguments])

    def test_equal(self, tmp_path, capsys):
        """Equal files give exit code 0."""
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
        """Each kind of difference is described, with exit code 1."""
        assert 1 == self.diff(tmp_path, changes)
        output = capsys.readouterr().out
        assert text in output
        assert "1 of " in output

    def test_tolerance(self, tmp_path):
        """Differences within the tolerance are ignored."""
        assert 0 == self.diff(tmp_path, {"fc/b": np.full(3, 1e-4, "float32")}, "--atol", "1e-3")


def test_env(capsys, monkeypatch):
    """The description of the environment has the library's version."""
    monkeypatch.setattr(environment, "tensorflow_capabilities", dict)  # looking for `layers` imports Keras
    assert 0 == main(["env"])
    facts = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["tensorpack_lite", tensorpack_lite.__version__] in facts


def use_windows(monkeypatch):
    """Make the command believe that matplotlib can open windows; the test replaces `pyplot.show`."""
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    monkeypatch.setattr(pyplot, "get_backend", lambda: "TkAgg")
    return pyplot


def labels(axis):
    """Return the labels in the legend of a plot."""
    return [text.get_text() for text in axis.get_legend().get_texts()] if axis.get_legend() else []


class TestPlot:
    def test_picture(self, stats, capsys):
        """With -o, the plots are written to a PNG file."""
        pytest.importorskip("matplotlib")
        output = stats / "curves.png"
        assert 0 == main(["plot", str(stats), str(stats / "stats.json"), "-o", str(output)])
        assert b"\x89PNG" == output.read_bytes()[:4]
        assert "2 scalars of 2 training runs written" in capsys.readouterr().out

    def test_curves(self, tmp_path, monkeypatch):
        """Each statistic has a plot with one curve per training; without -o, a window opens."""
        pyplot = use_windows(monkeypatch)
        names = ["a", "b", "c", "d"]
        for run, scale in (("first", 1.0), ("second", 10.0)):
            (tmp_path / run).mkdir()
            elements = [
                {**dict.fromkeys(names, step * scale), "epoch_num": step, "global_step": step * 100} for step in (1, 2)
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

    def test_training_and_validation_share_a_plot(self, tmp_path, monkeypatch):
        """Curves whose names differ only in a prefix such as `val-` share a plot, and the legend has their names."""
        pyplot = use_windows(monkeypatch)
        names = ["cost", "validation_cost", "train-error", "val-error", "test_only"]
        (tmp_path / "stats.json").write_text(json.dumps([{**dict.fromkeys(names, 1.0), "global_step": 1}]))
        plots = {}
        monkeypatch.setattr(pyplot, "show", lambda: plots.update({a.get_title(): labels(a) for a in pyplot.gcf().axes}))
        assert 0 == main(["plot", str(tmp_path)])
        assert {"cost": names[:2], "error": names[2:4], "test_only": []} == plots

    def test_without_a_display(self, stats, capsys):
        """Where matplotlib cannot open a window, the error says to use -o."""
        pytest.importorskip("matplotlib").use("Agg")
        assert 2 == main(["plot", str(stats)])
        assert "Write a file instead: use -o curves.png" in capsys.readouterr().err

    def test_without_matplotlib(self, stats, monkeypatch, capsys):
        """Without matplotlib, the error has the command that installs it."""
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        assert 2 == main(["plot", str(stats)])
        assert 'pip install "tensorpack_lite[plot]"' in capsys.readouterr().err

    def test_nothing_to_draw(self, stats, capsys):
        """An error reports that no name matches."""
        assert 2 == main(["plot", str(stats), "--match", "accuracy"])
        assert "nothing to plot: no scalar has 'accuracy' in its name" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("{", "JSONDecodeError"),
            ("{}", "does not hold a list of objects"),
            ('[{"global_step": 1, "cost": "high"}]', "'cost' has a point (1, 'high'), expected two numbers"),
        ],
    )
    def test_broken_file(self, tmp_path, capsys, text, message):
        """A damaged stats.json is reported in one line with its path and the reason."""
        (tmp_path / "stats.json").write_text(text)
        assert 2 == main(["plot", str(tmp_path)])
        told = capsys.readouterr().err
        assert message in told
        assert f"tensorpack-lite plot: {tmp_path}" in told
        assert 1 == told.count("\n")

    def test_no_file(self, tmp_path, capsys):
        """A path that does not exist is an error."""
        assert 2 == main(["plot", str(tmp_path / "nothing")])
        assert "does not exist. The current directory is" in capsys.readouterr().err

    def test_one_training_has_no_legend(self, stats, monkeypatch):
        """A plot with one curve has no legend."""
        pyplot = use_windows(monkeypatch)
        legends = []
        monkeypatch.setattr(pyplot, "show", lambda: legends.extend(axis.get_legend() for axis in pyplot.gcf().axes))
        assert 0 == main(["plot", str(stats)])
        assert [None, None] == legends
