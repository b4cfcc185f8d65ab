"""The arguments of all commands. This module imports only the standard library, so `--help` and usage errors are immediate."""

from __future__ import annotations

import argparse
import difflib
import re
from typing import Any, Callable, NoReturn, Sequence

from .._version import __version__

_PATH_HELP = "a checkpoint (log/model-100), a directory (its latest checkpoint), or an .npz or .safetensors file"
_TARGET_HELP = "function without arguments that returns the DataFlow; also path/to/file.py:function"
_STRICT_HELP = "exit with code 1 also for warnings"
_UNKNOWN_COMMAND = re.compile(r"argument COMMAND: invalid choice: '(.*?)' \(choose from (.*)\)")
_MATCH_HELP = "only names that contain this regular expression"
_ARGUMENTS = "[argument ...]"
_PROGRAM = f"(script.py | -m module) {_ARGUMENTS}"


class _Parser(argparse.ArgumentParser):
    """
    Parser of all arguments, or of those of a command.

    Its error about an unknown command names the command that was probably meant.

    Attributes:
        program_after: what precedes a script or `-m module` with its arguments, which become `program`: "options", "--", or "" if
            there is no script. argparse cannot split them off: it would interpret options of the script, such as `--help`.
    """

    def __init__(self, **options: Any) -> None:
        self._with_values: set[str] = set()
        self.program_after = ""
        super().__init__(**options)

    def error(self, message: str) -> NoReturn:
        found = _UNKNOWN_COMMAND.match(message)
        super().error(message if found is None else _describe_unknown(found.group(1), found.group(2)))

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        action = super().add_argument(*names, **options)
        if action.nargs is None:
            self._with_values.update(action.option_strings)
        return action

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if not self.program_after:
            return super().parse_known_args(args, namespace)
        end = args.index("--") if "--" in args else len(args)
        if self.program_after == "options":
            end = self._end_of_options(args)
        namespace, unknown = super().parse_known_args(args[:end], namespace)
        namespace.program = args[end + 1 :] if args[end : end + 1] == ["--"] else args[end:]
        return namespace, unknown

    def _end_of_options(self, args: Sequence[str]) -> int:
        end = 0
        while end < len(args) and re.match("-(?!m|-$|$)", args[end]):
            end += 2 if args[end] in self._with_values else 1
        return min(end, len(args))


def _describe_unknown(name: str, choices: str) -> str:
    if name == "launch":
        return "there is no command 'launch'. To start several processes, use python -m tensorpack_lite.launch."
    names = re.findall(r"[\w-]+", choices)
    nearest = difflib.get_close_matches(name, names, n=1)
    cure = f"Did you mean '{nearest[0]}'?" if nearest else f"The commands are: {', '.join(names)}."
    return f"there is no command '{name}'. {cure}"


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line. Its result has the name of the command in `command`, and its module in `module`."""
    parser = _Parser(
        prog="tensorpack-lite",
        description="Run old scripts. Inspect checkpoints, statistics and data of a training.",
    )
    parser.add_argument("--version", action="version", version=f"tensorpack_lite {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")

    def add(name: str, text: str, epilog: str | None = None, module: str = "", usage: str | None = None) -> _Parser:
        usage = f"%(prog)s {usage}" if usage else None
        command: _Parser = commands.add_parser(name, help=text, description=text, epilog=epilog, usage=usage)
        command.set_defaults(module=module or name.replace("-", "_"))
        command.program_after = "options" if (usage or "").endswith(_ARGUMENTS) else ""
        return command

    _add_checkpoint_commands(add)
    _add_training_commands(add)
    _add_commands_about_processes(add)
    _add_pipeline_commands(add)
    _add_script_commands(add)
    _add_proposals(add)
    _add_run(add)
    _add_commands_about_this_machine(add)
    return parser


def _add_numbers(command: _Parser, **options: tuple[float, str]) -> None:
    """Add options with numbers, each with its default, which has the type of the number, and its description."""
    for name, (default, text) in options.items():
        command.add_argument(f"--{name}", type=type(default), default=default, help=f"{text} (default %(default)s)")


def _add_checkpoint_commands(add: Callable[..., _Parser]) -> None:
    """Add the commands about checkpoints and parameter files."""
    command = add(
        "ls-checkpoint",
        "List the variables in a checkpoint or a parameter file, and the state of the training.",
        module="checkpoints",
    )
    command.add_argument("path", help=_PATH_HELP)
    command.add_argument("--match", default="", help=_MATCH_HELP)

    command = add(
        "dump-params",
        "Write the parameters of a checkpoint to a file, without the variables that only training needs.",
        "Variables that only training needs are recognized by name: optimizer slots, moving averages of summaries "
        "and step counters.",
    )
    command.add_argument("input", help=_PATH_HELP)
    command.add_argument("output", help="x.npz or x.safetensors; any other name for a checkpoint")
    command.add_argument("--match", default="", help=_MATCH_HELP)
    command.add_argument("--all", action="store_true", help="also keep the variables that only training needs")
    command.add_argument("--force", action="store_true", help="replace the output if it exists")

    command = add(
        "checkpoint-diff",
        "Compare the variables of two checkpoints or parameter files. The exit code is 1 if they differ.",
        module="checkpoints",
    )
    command.add_argument("first", help=_PATH_HELP)
    command.add_argument("second", help="likewise")
    command.add_argument("--match", default="", help=_MATCH_HELP)
    _add_numbers(command, rtol=(0.0, "relative tolerance"), atol=(0.0, "absolute tolerance"))


def _add_training_commands(add: Callable[..., _Parser]) -> None:
    """Add the commands that read what training runs wrote to their directories."""
    command = add(
        "plot",
        "Plot the scalars of one or several training runs. Training and validation curves of a statistic share a plot.",
    )
    command.add_argument("paths", nargs="+", metavar="path", help="a stats.json, or the directory that has it")
    command.add_argument("--match", default="", help=_MATCH_HELP)
    command.add_argument("-x", choices=("epoch_num", "global_step"), default="global_step", help="the horizontal axis")
    command.add_argument("-o", "--output", help="write this .png file instead of opening a window")

    command = add(
        "report",
        "Write one HTML file with the curves, images, notes, settings and log of one or several training runs; of several, also "
        "print a table with mean and deviation of those that differ only in their seeds.",
        "Example: report train_log/a train_log/b -o report.html",
    )
    command.add_argument("paths", nargs="+", metavar="directory", help="directory of a training")
    command.add_argument(
        "-o",
        "--output",
        help="the file (default: report.html in the directory; of several training runs, here)",
    )
    command.add_argument(
        "--serve",
        action="store_true",
        help="write no file; show the report in a browser of this machine, at the address that is printed, until Ctrl-C",
    )
    command.add_argument("--port", type=int, default=0, help="the port of --serve (default: any free one)")

    command = add(
        "diff",
        "Compare two training runs: code, data, graph, settings and curves. The exit code is 1 if more than the machine and "
        "the time differ.",
        "Example: diff train_log/a train_log/b",
    )
    command.add_argument("first", help="directory of a training; for its variables alone, a checkpoint (log/model-100)")
    command.add_argument("second", help="likewise")
    command.add_argument("--json", action="store_true", help="print JSON")


def _add_commands_about_processes(add: Callable[..., _Parser]) -> None:
    """Add the commands about training runs that are in progress, and `nan-replay`."""
    command = add(
        "where",
        "Say where a running training is: the step or callback, and who waits for whom. The training is not disturbed.",
        "Example: where train_log/mnist",
    )
    command.add_argument("training", help="directory of a training, or the id of its process")
    command.add_argument("--stacks", action="store_true", help="also print the stacks of all threads")

    command = add(
        "ranks",
        "Let the processes that a launcher starts meet, and print a table of them (exit code 2 if they cannot). Nothing is trained.",
        "Example: srun tensorpack-lite ranks",
    )
    _add_numbers(command, **{"time-limit": (60.0, "seconds until all must have come")})

    command = add(
        "nan-replay",
        "Run the step again that TerminateOnNaN has examined (exit code 0: not finite again, 1: finite).",
        "Runs the script of the training until before its first step. Example: nan-replay train_log/x/nan-4711",
        "scripts",
        usage=f"directory [-- {_PROGRAM}]",
    )
    command.add_argument("directory", help="the directory nan-<step> that TerminateOnNaN wrote")
    command.program_after = "--"


def _add_pipeline_commands(add: Callable[..., _Parser]) -> None:
    """Add the commands about DataFlows."""
    command = add(
        "data-check",
        "Run a DataFlow and report broken promises (exit code 1), its speed, and the stage that limits it.",
        "Example: write `def get_data(): return BatchData(...)` in train.py and run: data-check train:get_data",
        "pipelines",
    )
    command.add_argument("target", metavar="module:function", help=_TARGET_HELP)
    _add_numbers(
        command,
        seconds=(3.0, "approximate time limit of each check"),
        size=(2000, "maximum number of datapoints per check"),
        seed=(7, "seed for the check of determinism"),
    )
    command.add_argument("--strict", action="store_true", help=_STRICT_HELP)

    command = add(
        "resume-check",
        "Cut a DataFlow at several positions, restore each in a new process, and compare the datapoints that follow "
        "(exit code 1 if they differ).",
        "Example: resume-check train:get_data",
        "pipelines",
    )
    command.add_argument("target", metavar="module:function", help=_TARGET_HELP)
    _add_numbers(
        command,
        cuts=(3, "number of random positions, in addition to the fixed ones"),
        size=(1000, "maximum number of datapoints of a pass"),
        seconds=(10.0, "approximate time limit of a pass"),
    )
    command.add_argument("--seed", type=int, help="chooses the positions (default: random; it is printed)")
    command.add_argument("--strict", action="store_true", help=_STRICT_HELP)


def _add_script_commands(add: Callable[..., _Parser]) -> None:
    """Add the commands that run a script to examine it."""
    add(
        "lint",
        "Run a script until its training starts, and print the mistakes that lint finds in it (exit code 1). No log "
        "directory is changed.",
        "Example: lint train.py --gpu 0",
        "scripts",
        _PROGRAM,
    )
    add(
        "rehearse",
        "Go through a whole training in seconds: 2 steps of 2 epochs, all callbacks, a resume and a prediction (exit code 1: a "
        "part has failed). No log directory is changed.",
        "Example: rehearse train.py --gpu 0",
        "scripts",
        _PROGRAM,
    )
    command = add(
        "schedule",
        "Show the values that callbacks will give to the learning rate and other hyper-parameters, before training.",
        "Example: schedule -o schedule.png train.py --gpu 0",
        "scripts",
        f"[--epochs N] [-o FILE.png] {_PROGRAM}",
    )
    command.add_argument("--epochs", type=int, help="number of epochs (default: those of the training)")
    command.add_argument("-o", "--output", help="also draw them in this file")
    add(
        "summary",
        "Show the layers of a model: output shapes, parameters, floating-point operations and memory. Of a checkpoint: parameters.",
        "Example: summary train.py --gpu 0, or: summary train_log/mnist",
        usage="(script.py | -m module | checkpoint) [argument ...]",
    )


def _add_proposals(add: Callable[..., _Parser]) -> None:
    """Add the commands that run a script to propose a setting."""
    command = add(
        "find-lr",
        "Propose a learning rate for a script, by steps with growing rates. No log directory is changed.",
        "Example: find-lr train.py --gpu 0",
        "scripts",
        f"[--variable NAME] [--lowest X] [--highest X] [--steps N] [-o FILE.png] {_PROGRAM}",
    )
    command.add_argument("--variable", default="learning_rate", help="its name (default %(default)s)")
    _add_numbers(
        command,
        lowest=(1e-6, "the first rate"),
        highest=(10.0, "the last rate"),
        steps=(100, "the number of steps"),
    )
    command.add_argument("-o", "--output", default="find-lr.png", help="the picture (default %(default)s)")
    command = add(
        "find-batch",
        "Propose a batch size for a script: double it until memory or the gain ends (exit code 1: the script's own batch does not "
        "fit). No log directory is changed.",
        "Example: find-batch train.py --gpu 0",
        "scripts",
        f"[--steps N] [--gain X] [--memory MB] {_PROGRAM}",
    )
    _add_numbers(
        command,
        steps=(20, "the number of steps with each batch"),
        gain=(0.1, "end when twice the batch does not give this share more samples per second"),
        memory=(0.0, "the megabytes that the process may use, 0 for what is free now"),
    )


def _add_run(add: Callable[..., _Parser]) -> None:
    command = add(
        "run",
        "Run a script written for TensorFlow 1 and tensorpack, unmodified, on the installed TensorFlow.",
        "Example: tensorpack-lite run train.py --gpu 0",
        usage="[--check] [--cpu-layout {auto,on,off}] [--pretend-gpu[=N]] [--tf1-packages NAME[,NAME]] " + _PROGRAM,
    )
    command.add_argument(
        "--check",
        action="store_true",
        help="do not run the script; list the names of TensorFlow 1 and tensorpack that it uses and that are missing",
    )
    command.add_argument(
        "--cpu-layout",
        choices=("auto", "on", "off"),
        default="auto",
        help="whether NCHW works on the CPU, by transposing; auto (the default): if no GPU is visible",
    )
    command.add_argument(
        "--pretend-gpu",
        metavar="N",
        type=int,
        nargs="?",
        const=1,
        default=0,
        help="let the script count N GPUs (1 without N; write --pretend-gpu=2), and compute on the CPU",
    )
    command.add_argument(
        "--tf1-packages",
        metavar="NAME",
        default="",
        help="installed packages, separated by commas, that get TensorFlow 1 as the script does",
    )


def _add_commands_about_this_machine(add: Callable[..., _Parser]) -> None:
    command = add(
        "docs",
        "Build the documentation of a clone, with the API reference, and open it in a browser.",
        "Needs Sphinx: pip install '.[tf,docs]'",
    )
    command.add_argument("--no-browser", action="store_true", help="only build, and print the path")

    command = add("env", "Describe this machine, its package versions and what its TensorFlow supports.")
    command.add_argument(
        "--gpu",
        action="store_true",
        help="describe GPUs, driver and CUDA's libraries instead, compute something on each GPU, and say what is wrong; the "
        "exit code is 1 if TensorFlow can use none",
    )
