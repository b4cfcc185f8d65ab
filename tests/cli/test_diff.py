"""The command `diff`: its first line, its sections, its exit code and its errors."""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pytest
from fakes.models import Mean
from fakes.reports import write_training

from tensorpack_lite.callbacks.param.schedule import ScheduledHyperParamSetter
from tensorpack_lite.callbacks.saver import ModelSaver
from tensorpack_lite.callbacks.trigger import PeriodicTrigger
from tensorpack_lite.cli.main import main
from tensorpack_lite.compat import ensure_graph_mode
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.batch import BatchData
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.models.fc import FullyConnected
from tensorpack_lite.tfutils import summary
from tensorpack_lite.train.config import TrainConfig
from tensorpack_lite.train.interface import launch_train_with_config
from tensorpack_lite.train.simple import SimpleTrainer
from tensorpack_lite.utils import logger, random_streams

SAME = "Same code, same graph, same data; the curves "


class Layers(Mean):
    """`Mean` with some layers around it."""

    def __init__(self, num_layers=1):
        self.num_layers = num_layers

    def build_graph(self, x):
        x = tf.reshape(x, [-1, 1])
        for number in range(self.num_layers):
            x = FullyConnected(f"fc{number}", x, 1)
        cost = tf.reduce_mean(x**2, name="cost")
        summary.add_moving_summary(cost)
        return cost

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(tf.get_variable("learning_rate", initializer=0.01, trainable=False))


def random_data(batch_size=4):
    """Return shuffled data."""
    return BatchData(DataFromList([[np.float32(k)] for k in range(16)]), batch_size)


def train(directory, seed=1, model=None, data=None, schedule=((1, 0.01),), callbacks=(), max_epoch=3):
    """Train for three epochs with the default callbacks."""
    ensure_graph_mode()
    random_streams.fix_rng_seed(seed)
    logger.set_logger_dir(str(directory))
    setter = ScheduledHyperParamSetter("learning_rate", schedule)
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        config = TrainConfig(
            model=model or Layers(),
            dataflow=data or random_data(),
            callbacks=[setter, *callbacks],
            steps_per_epoch=4,
            max_epoch=max_epoch,
        )
        launch_train_with_config(config, SimpleTrainer())
    logger.reset()
    random_streams.reset_rng_seed()
    return str(directory)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """The directory of a training."""
    directory = tmp_path_factory.mktemp("base")
    return train(directory / "log", callbacks=[ModelSaver()])


@pytest.fixture
def edited(base, tmp_path):
    """Function that copies the training and changes its manifest or rows."""

    def edit(change=None, change_rows=None):
        directory = str(tmp_path / "edited")
        shutil.copytree(base, directory)
        for name, function in (("manifest.json", change), ("stats.json", change_rows)):
            path = os.path.join(directory, name)
            with open(path) as file:
                content = json.load(file)
            if function is not None:
                function(content)
            with open(path, "w") as file:
                json.dump(content, file)
        return directory

    return edit


@pytest.fixture
def diff(capsys):
    """Function that compares two training runs; returns the exit code, the first line, and all lines."""

    def compare(first, second, *options):
        capsys.readouterr()  # the log of training runs
        code = main(["diff", first, second, *options])
        lines = capsys.readouterr().out.splitlines()
        return code, lines[0], lines

    return compare


class TestOneDifference:
    """The first line names the only difference."""

    def test_none(self, base, diff):
        """A training does not differ from itself: each section is one line."""
        code, first, lines = diff(base, base)
        assert (0, f"{SAME}are equal.") == (code, first)
        assert 13 == len(lines)
        assert all(" same" in line for line in lines[2:])

    def test_repeated(self, base, diff, tmp_path):
        """Two training runs with the same seeds do not differ, except in their directories."""
        code, first, _ = diff(base, train(tmp_path / "log", callbacks=[ModelSaver()]))
        assert (0, f"{SAME}are equal.") == (code, first)

    def test_seed(self, base, diff, tmp_path):
        """Another seed explains other curves; the data is the same in another order."""
        code, first, lines = diff(base, train(tmp_path / "log", seed=2, callbacks=[ModelSaver()]))
        same = "Same code, same graph, same data in another order; the curves "
        assert (1, f"{same}part at step 4: seeds differ (fix_rng_seed 1 in A, 2 in B).") == (code, first)
        assert any("the datapoints differ from number 1 on" in line for line in lines if line.startswith("data "))

    def test_no_seed(self, base, diff, tmp_path):
        """If curves differ and a training had no fixed seed, that is the reason."""
        directories = []
        for name, data in (("a", random_data()), ("b", random_data())):
            directories.append(train(tmp_path / name, data=data))
        for directory, value in zip(directories, (0.0, 1.0)):
            change(directory, lambda manifest: manifest["seeds"].update(fix_rng_seed=None))
            change(directory, lambda rows, value=value: rows[1].update(cost=value), "stats.json")
        assert f"{SAME}part at step 8: no seed was fixed." == diff(*directories)[1]

    def test_schedule(self, base, diff, tmp_path):
        """A schedule is named with its values; the curves part where it begins to matter."""
        other = train(tmp_path / "log", schedule=[(1, 0.01), (2, 0.5)], callbacks=[ModelSaver()])
        code, first, lines = diff(base, other)
        values = "schedule [[1, 0.01]] in A, [[1, 0.01], [2, 0.5]] in B"
        cause = f"optimizer and schedules differ (ScheduledHyperParamSetter.{values})"
        assert (1, f"{SAME}part at step 12: {cause}.") == (code, first)
        assert "    the curves part at step 12, and are equal up to step 8" in lines

    @pytest.mark.parametrize(
        ("changes", "text"),
        [
            (
                {"data": random_data(2)},
                "Same code, same graph; the curves part at step 4: data differs (BatchData.batch_size 4 in A, 2 in B).",
            ),
            (
                {"callbacks": [ModelSaver(), PeriodicTrigger(ModelSaver(), every_k_steps=100)]},
                f"{SAME}are equal, but callbacks differ (PeriodicTrigger in B only).",
            ),
            ({"max_epoch": 4}, f"{SAME}are equal, but exit and length differ (epoch 3 in A, 4 in B)"),
        ],
        ids=["another batch size", "an added callback", "a longer training"],
    )
    def test_one_argument(self, base, diff, tmp_path, changes, text):
        """Differences are named, even if the common curves are equal."""
        code, first, _ = diff(base, train(tmp_path / "log", **{"callbacks": [ModelSaver()], **changes}))
        assert 1 == code
        assert first.startswith(text)

    def test_layer(self, base, diff, tmp_path):
        """An added layer is named by its variables."""
        other = train(tmp_path / "log", model=Layers(2), callbacks=[ModelSaver()])
        _, first, lines = diff(base, other)
        assert first.startswith("Same code, same data; the curves part at step 4: graph differs (variable fc1/")
        assert any(line.startswith("    operations: ") and "MatMul +" in line for line in lines)


def change(directory, function, name="manifest.json"):
    """Change a JSON file in a directory."""
    path = os.path.join(directory, name)
    with open(path) as file:
        content = json.load(file)
    function(content)
    with open(path, "w") as file:
        json.dump(content, file)


class TestEdited:
    """Differences in parts that are the same for all training runs of one process."""

    @pytest.mark.parametrize(
        ("edit", "code", "text"),
        [
            (
                lambda m: m["packages"].update(numpy="9.9"),
                1,
                f"{SAME}are equal, but packages differ (numpy {np.__version__} in A, 9.9 in B).",
            ),
            (lambda m: m["code"]["git"].update(patch="+x = 1\n"), 1, "code differs (patch: "),
            (
                lambda m: m["first datapoints"][0][2].__setitem__(0, "other"),
                1,
                "Same code, same graph; the curves are equal, but data differs (the datapoints differ from number 3 on, "
                "although the seeds are equal).",
            ),
            (
                lambda m: m.update(exit=None),
                1,
                "exit and length differ (outcome finished in A, running, or killed in B)",
            ),
            (lambda m: m.update(hyperparameters={"note": "x"}), 1, "but hyperparameters differ (note"),
            (lambda m: m.update(lint=["G01"], verdicts={}), 0, f"{SAME}are equal."),
        ],
        ids=[
            "package",
            "uncommitted changes",
            "datapoints with equal seeds",
            "killed",
            "hyperparameters of the user",
            "parts of a later version",
        ],
    )
    def test_the_manifest(self, base, edited, diff, edit, code, text):
        """A difference of the manifests is named with both values; parts that a later version may add are ignored."""
        got, first, _ = diff(base, edited(edit))
        assert code == got
        assert text in first

    @pytest.mark.parametrize(
        ("edit", "text"),
        [
            (
                lambda rows: rows[0].update({"Throughput (steps/sec)": 3.0, "QueueInput/queue_size": 7.0}),
                f"{SAME}are equal.",
            ),
            (
                lambda rows: rows[2].update(learning_rate=0.5, cost=7.0),
                f"{SAME}part at step 12: learning_rate 0.01 in A, 0.5 in B.",
            ),
        ],
        ids=["speed", "a hyper-parameter that was changed by hand"],
    )
    def test_the_scalars(self, base, edited, diff, edit, text):
        """Scalars of the machine are not compared; a hyper-parameter that differs where the curves part is named first."""
        assert text == diff(base, edited(change_rows=edit))[1]

    def test_code(self, base, edited, diff):
        """A changed line of code is named with its file and shown as a unified diff."""

        def change_code(manifest):
            manifest["code"]["files"] = {"model.py": "a = 1\nb = 2\n"}

        first, second = edited(change_code), None
        second = f"{first}2"
        shutil.copytree(first, second)
        change(second, lambda manifest: manifest["code"]["files"].update({"model.py": "a = 1\nb = 3\n"}))
        _, line, lines = diff(first, second)
        assert line.endswith("the curves are equal, but code differs (model.py: b = 2 in A, b = 3 in B).")
        assert ["    -b = 2", "    +b = 3"] == lines[lines.index("    -b = 2") :][:2]

    def test_a_script_of_another_name(self, base, edited, diff):
        """Two scripts with other names and the same content are the same code."""
        first = edited(lambda manifest: manifest["code"].update(script="/a/one.py", files={"one.py": "x = 1"}))
        second = f"{first}2"
        shutil.copytree(first, second)
        change(second, lambda manifest: manifest["code"].update(script="/b/two.py", files={"two.py": "x = 1"}))
        assert f"{SAME}are equal." == diff(first, second)[1]

    def test_machine(self, base, edited, diff):
        """If only the machine and the time differ, the exit code is 0."""

        def move(manifest):
            manifest["machine"]["host"] = "elsewhere"
            manifest["started"] = manifest["exit"]["when"] = "2030-01-01T00:00:00+0000"

        code, first, lines = diff(base, edited(move))
        assert 0 == code
        assert first.startswith(f"{SAME}are equal, but the machine differs (host ")
        assert any(line.startswith("machine") and line.endswith("differs") for line in lines)

    def test_nan(self, base, edited, diff):
        """NaN equals NaN."""
        first = edited(change_rows=lambda rows: rows[0].update(cost=float("nan")))
        assert 0 == diff(first, first)[0]
        assert "part at step 4" in diff(base, first)[1]

    def test_resumption(self, base, edited, diff):
        """A resumption that was not exact is a difference; an exact one is not."""

        def resume(exact):
            return lambda manifest: manifest["resumptions"].append({"global_step": 8, "exact": exact, "changed": {}})

        other = edited(resume(True))
        assert 0 == diff(base, other)[0]
        change(other, resume(False))
        assert "exit and length differ (inexact resumptions [] in A, [{'global_step': 8" in diff(base, other)[1]

    def test_a_part_that_was_left_out(self, base, edited, diff):
        """A part that one manifest lacks is not compared."""
        code, _, lines = diff(base, edited(lambda manifest: manifest.update(machine=None, graph=None, code=None)))
        assert 0 == code
        assert any(line.startswith("code") and "not known of B" in line for line in lines)

    def test_without_statistics(self, base, edited, diff):
        """Without `stats.json`, the other parts are compared."""
        other = edited()
        os.remove(os.path.join(other, "stats.json"))
        assert "Same code, same graph, same data; no curves to compare." == diff(base, other)[1]


class TestCheckpoints:
    def test_variables(self, base, diff):
        """A checkpoint is compared by its variables."""
        code, first, _ = diff(os.path.join(base, "model-12"), base)
        assert (0, "Same variables; no curves to compare.") == (code, first)

    def test_other_variables(self, base, edited, diff):
        """A variable of another shape is named."""
        other = edited(lambda manifest: manifest["graph"]["variables"].update({"fc0/W": ["float32", [7], True]}))
        code, first, _ = diff(os.path.join(base, "model-12"), other)
        assert 1 == code
        assert "variables differ (fc0/W ['float32', [1, 1]] in A, ['float32', [7]] in B)" in first


def test_json(base, edited, diff):
    """With --json, the verdict and the sections are printed as JSON."""
    _, _, lines = diff(base, edited(lambda manifest: manifest["seeds"].update(graph=9)), "--json")
    content = json.loads("\n".join(lines))
    assert content["verdict"].startswith(SAME)
    assert ["graph 1 in A, 9 in B"] == content["sections"]["seeds"]["differences"]
    assert [] == content["sections"]["data"]["differences"]


class TestErrors:
    def test_a_damaged_manifest(self, base, edited, capsys):
        """The error of a damaged manifest names the file."""
        other = edited()
        with open(os.path.join(other, "manifest.json"), "w") as file:
            file.write('{"format": 1, ')
        assert 2 == main(["diff", base, other])
        told = capsys.readouterr().err
        assert told.startswith(
            f"tensorpack-lite diff: {other}/manifest.json cannot be read as the manifest of a training: "
        )

    @pytest.mark.parametrize("value", [3, "x", [[]], {"a": 1}, [{"type": [], "arguments": 4}], float("nan")])
    @pytest.mark.parametrize("name", ["data", "callbacks", "code", "graph", "exit", "packages", "resumptions"])
    def test_other_types(self, tmp_path, capsys, name, value):
        """A part of the manifest that has another type is an error in one line, or a difference."""
        one = write_training(tmp_path / "a")
        other = write_training(tmp_path / "b", manifest={name: value})
        for pair in ([one, other], [other, one]):
            assert main(["diff", *pair]) in (1, 2)
            assert len(capsys.readouterr().err.splitlines()) <= 1

    def test_counters_of_other_types(self, tmp_path, capsys):
        """A step that is not a number is an error that names the training runs."""
        one, other = write_training(tmp_path / "a"), write_training(tmp_path / "b")
        with open(os.path.join(other, "stats.json"), "w") as file:
            file.write('[{"global_step": [1], "epoch_num": 1, "cost": 2.0}]')
        assert 2 == main(["diff", one, other])
        assert f"of {one} or {other} cannot be read" in capsys.readouterr().err

    def test_a_directory_without_a_manifest(self, base, tmp_path, capsys):
        """The error names the directory, and the callback that writes a manifest."""
        assert 2 == main(["diff", base, str(tmp_path)])
        assert f"{tmp_path} has no manifest.json. ManifestWriter" in capsys.readouterr().err

    def test_a_missing_directory(self, base, capsys):
        """A path that does not exist is an error."""
        assert 2 == main(["diff", base, "no/such/model-1"])
        assert "no/such/model-1" in capsys.readouterr().err


def test_a_description_that_has_stopped(base, tmp_path):
    """A value that one manifest does not describe, because a limit was reached, is not a difference."""
    other = tmp_path / "other"
    shutil.copytree(base, other)
    manifest = json.loads((other / "manifest.json").read_text())
    manifest["data"][0]["arguments"]["ds"] = "..."
    (other / "manifest.json").write_text(json.dumps(manifest))
    assert 0 == main(["diff", base, str(other)])


def with_code(*directories, sources, arguments=((), ())):
    """Set the code, its arguments and the log directories of two manifests."""
    for directory, source, given, name in zip(directories, sources, arguments, ("train_log/one", "train_log/two")):
        code = {"files": {"train.py": source}, "arguments": list(given)}
        change(directory, lambda manifest, c=code: manifest["code"].update(script="/x/train.py", **c))
        change(directory, lambda manifest, name=name: manifest.update(directory=name))
    return directories


class TestTheCause:
    """The first line names the cause that a person would name."""

    @pytest.fixture
    def two(self, tmp_path, base):
        """Two directories of the same training."""
        directories = [str(tmp_path / name) for name in "ab"]
        for directory in directories:
            shutil.copytree(base, directory)
        return directories

    @pytest.mark.parametrize(
        ("sources", "arguments"),
        [
            (
                ("logger.set_logger_dir('train_log/one')\n", "logger.set_logger_dir('train_log/two')\n"),
                ((), ()),
            ),
            (('LOG_DIR = "one"', 'LOG_DIR = "two"'), ((), ())),
            (("a", "a"), (["--logdir", "./train_log/one"], ["--logdir", "./train_log/two"])),
            (("a", "a"), (["--log-dir=one"], ["--log-dir=two"])),
        ],
    )
    def test_the_log_directory(self, two, diff, sources, arguments):
        """The name of the log directory is not a difference of the code."""
        code, first, lines = diff(*with_code(*two, sources=sources, arguments=arguments))
        assert (0, f"{SAME}are equal.") == (code, first)
        assert 1 == len([line for line in lines if line.endswith("same (except for the log directory)")])

    @pytest.mark.parametrize("sources", [("KIND = 'one'", "KIND = 'two'"), ("f('log/one')", "f('log/three')")])
    def test_another_string(self, two, diff, sources):
        """A string that may be something else is a difference of the code."""
        assert 1 == diff(*with_code(*two, sources=sources))[0]

    def test_no_seed_and_other_batches(self, two, diff):
        """Two training runs that differ in the log directory, and that have no seed, differ because of that."""
        with_code(*two, sources=("set_logger_dir('one')", "set_logger_dir('two')"))
        for number, directory in enumerate(two):
            change(directory, lambda manifest: manifest["seeds"].update(fix_rng_seed=None, graph=None))
            change(directory, lambda manifest, n=number: manifest["first datapoints"][0].insert(0, [str(n)]))
            change(directory, lambda rows, n=number: rows[0].update(cost=float(n)), "stats.json")
        cause = "no seed was fixed, and the datapoints differ from number 1 on"
        same = "Same code, same graph, same data in another order; the curves "
        assert f"{same}part at step 4: {cause}." == diff(*two)[1]

    def test_no_seed_and_other_code(self, two, diff):
        """Without a seed, a change of the code is named, too."""
        with_code(*two, sources=("rate = 1\nother = 1", "rate = 2\nother = 1"))
        for number, directory in enumerate(two):
            change(directory, lambda manifest: manifest["seeds"].update(fix_rng_seed=None))
            change(directory, lambda rows, n=number: rows[0].update(cost=float(n)), "stats.json")
        causes = "no seed was fixed; code differs (script: rate = 1 in A, rate = 2 in B)"
        assert f"Same graph, same data; the curves part at step 4: {causes}." == diff(*two)[1]


class Optimized(Layers):
    """`Layers` with another optimizer, as if its code had been changed."""

    make = tf.train.AdamOptimizer

    def optimizer(self):
        rate = tf.get_variable("learning_rate", initializer=0.01, trainable=False)
        return type(self).make(rate)


@pytest.mark.slow
def test_another_optimizer(diff, tmp_path, monkeypatch):
    """Another optimizer is named first, then the line of code, and not the variables that the optimizer creates."""
    one = train(tmp_path / "a", model=Optimized(), callbacks=[ModelSaver()])
    monkeypatch.setattr(Optimized, "make", lambda rate: tf.train.MomentumOptimizer(rate, 0.9))
    two = train(tmp_path / "b", model=Optimized(), callbacks=[ModelSaver()])
    for directory, line in ((one, "opt = Adam(1e-3)"), (two, "opt = Momentum(1e-3, 0.9)")):
        lines = f"set_logger_dir('{directory}')\nx = 1\n{line}"
        code = {"script": "/x/train.py", "files": {"train.py": lines}}
        change(directory, lambda manifest, code=code: manifest["code"].update(code))
    optimizer = "the optimizer differs (Adam in A, Momentum in B)"
    code = "code differs (script: opt = Adam(1e-3) in A, opt = Momentum(1e-3, 0.9) in B)"
    assert f"Same data; the curves part at step 4: {optimizer}; {code}." == diff(one, two)[1]


@pytest.mark.parametrize(
    ("before", "after", "change_of"),
    [
        (0.001, 0.002, "learning rate 0.001 -> 0.002"),
        ("rate, initially 0.001", "rate, initially 0.002", "learning rate 0.001 -> 0.002"),
        (0.001, "rate, initially 0.001", "learning rate 0.001 -> rate, initially 0.001"),
    ],
)
def test_another_learning_rate(base, diff, tmp_path, before, after, change_of):
    """A learning rate that was changed in the script is named with both values, however many arguments the optimizer has."""
    directories = [str(tmp_path / name) for name in "ab"]
    for directory, rate in zip(directories, (before, after)):
        shutil.copytree(base, directory)
        powers = {"beta1_power": "beta1_power, initially 0.9", "beta2_power": "beta2_power, initially 0.999"}
        adam = {"ResourceApplyAdam": [{**powers, "lr": rate, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-08}]}
        change(directory, lambda manifest, adam=adam: manifest["graph"].update(optimizer=adam))
    _, first, text = diff(*directories)
    assert change_of in first
    assert "ResourceApplyAdam" not in first
    assert not any("beta1_power" in line for line in text)
