"""
Under `tensorpack-lite run`, the names and arguments of tensorpack 0.2 to 0.10 work.

These tests start scripts as `run` does, or complete the modules of this process until the end of a test.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
from pathlib import Path

import numpy as np
import pytest
from fakes.processes import RUN, run_python
from old_names.scripts import python, reports

import tensorpack_lite
from tensorpack_lite import trainv1
from tensorpack_lite.callbacks import ModelSaver
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow import DataFromList, MultiProcessRunner, MultiProcessRunnerZMQ
from tensorpack_lite.predict import OnlinePredictor, PredictorBase
from tensorpack_lite.tf1.old_tensorpack.behavior import BEHAVIOR
from tensorpack_lite.tf1.old_tensorpack.modules import find_current
from tensorpack_lite.tf1.old_tensorpack.table import ARGUMENTS, INTERFACES
from tensorpack_lite.utils.missing_names import missing_name
from tensorpack_lite.utils.old_names_table import KEPT_NAMES, OLD_MODULES, OLD_NAMES

# Loads each name of the table, and prints the result as `{name: text of the error, or ""}`.
LOAD_EACH = """
import importlib, json, sys

def load(name):
    module, _, attribute = name.rpartition('.')
    try:
        parent = importlib.import_module(('tensorpack_lite.' + module).rstrip('.'))
    except ModuleNotFoundError:
        parent = load(module)
    try:
        return getattr(parent, attribute)
    except AttributeError:
        return importlib.import_module('tensorpack_lite.' + name)

def problem(name):
    try:
        load(name)
    except (ImportError, AttributeError) as error:
        return type(error).__name__ + ': ' + str(error)
    return ''

print(json.dumps({name: problem(name) for name in json.load(sys.stdin)}))
"""


class TestTable:
    """The tables in utils/old_names_table.py, which docs/names.md shows."""

    @pytest.mark.full
    @pytest.mark.parametrize("accepted", [True, False])
    def test_each_name(self, tmp_path, accepted):
        """
        In scripts of `run`, each name can be loaded, if only as a stand-in; otherwise it raises an ImportError with the table's
        sentence, unless this library has a module of that name for something else (`train.trainer`).
        """
        olds = {**OLD_NAMES, **{name: old for name, old in OLD_MODULES.items() if parent_exists(name)}}
        done = python(tmp_path, LOAD_EACH, accepted, json.dumps([*olds, *KEPT_NAMES]))
        assert 0 == done.returncode, done.stderr.decode()[-3000:]
        found = json.loads(done.stdout.decode().splitlines()[-1])
        expected = dict.fromkeys(KEPT_NAMES, "")
        for name, old in olds.items():
            works = accepted or name == "train.trainer"
            expected[name] = "" if works else f"ImportError: tensorpack_lite.{name}: {old.advice}"
        assert expected == {name: text.split(" An old script runs")[0] for name, text in found.items()}

    def test_old_modules(self):
        """An old module has a module of today as target, or its ModuleNotFoundError gives advice."""
        modules = {name: find_current(f"tensorpack.{name}") for name, old in OLD_MODULES.items() if old.target}
        assert len(modules) > 5
        assert None not in modules.values()
        assert "tensorpack_lite.tfutils.sessinit" == modules["utils.sessinit"].name

    def test_old_modules_under_run(self, tmp_path):
        """The statement `import` gives the table's module, also if the library has loaded another one of that name (`train.trainer`)."""
        targets = {name: old.target for name, old in OLD_MODULES.items() if old.target}
        script = tmp_path / "script.py"
        script.write_text(
            "import importlib, json, tensorpack\n"
            f"found = {{name: importlib.import_module('tensorpack.' + name).__name__ for name in {list(targets)}}}\n"
            "print(json.dumps(found))\n"
        )
        found = json.loads(run_python(*RUN, script).stdout.splitlines()[-1])
        assert {name: f"tensorpack_lite.{target}" for name, target in targets.items()} == found

    @pytest.mark.parametrize("name", ["RL.envbase", "RL.unheard_of", "utils.rect"])
    def test_modules_without_target(self, name):
        """A module that nothing provides, and a module in it, can be imported. Using its contents is an error."""
        spec = find_current(f"tensorpack.{name}")
        module = importlib.util.module_from_spec(spec)
        assert f"tensorpack.{name}" == module.__name__
        with pytest.raises(NotImplementedError, match=rf"tensorpack\.{name}: .*(gymnasium|array)"):
            module.anything()
        with pytest.raises(AttributeError, match=name):
            getattr(module.anything, "inner")  # noqa: B009
        with pytest.raises(AttributeError, match="no attribute '__all__'"):
            getattr(module, "__all__")  # noqa: B009


# names in the documentation of tensorpack 0.1 to 0.11, and those that 36 public projects use
STAR_NAMES = Path(__file__).parents[1] / "data" / "star_names.txt"


def parent_exists(name: str) -> bool:
    """Return whether the package of an old module still exists, so that it can say what became of the module."""
    return name.rpartition(".")[0] not in OLD_MODULES


class TestNames:
    def test_without_run(self):
        """Without `run`, old names are not in `__all__`, importing one names both ways out, and a list is one component."""
        with pytest.raises(ImportError, match=r"tf.TensorSpec.*trainv1.*tensorpack-lite run"):
            from tensorpack_lite import InputDesc  # noqa: F401
        assert "InputDesc" not in tensorpack_lite.__all__
        assert [[1, 2]] == EchoPredictor()([1, 2])

    def test_star_imports_bind_accepted_old_names(self, accepted):
        """`__all__` has the old names if they are accepted. Using one that nothing provides is an error."""
        assert {"InputDesc", "StatPrinter", "change_gpu"} <= set(tensorpack_lite.__all__)
        assert "QueueInputTrainerBase" in tensorpack_lite.__all__
        with pytest.raises(NotImplementedError, match="QueueInputTrainerBase: Derive from SingleCostTrainer"):
            tensorpack_lite.QueueInputTrainerBase(1)
        assert tensorpack_lite.InputDesc is trainv1.InputDesc

    def test_star_names_of_all_versions(self, accepted):
        """Each name that `from tensorpack import *` gave scripts is bound, to an object or to a stand-in with a sentence."""
        names = set(STAR_NAMES.read_text().split())
        assert 250 < len(names)
        assert set() == names - set(tensorpack_lite.__all__)
        for name in names:
            assert getattr(tensorpack_lite, name) is not None

    def test_an_unknown_name(self, accepted):
        """A name that tensorpack never had is an AttributeError."""
        with pytest.raises(AttributeError, match="'tensorpack_lite.models' has no attribute 'Conv9D'"):
            tensorpack_lite.models.Conv9D  # noqa: B018
        assert isinstance(missing_name("tensorpack_lite.models", "Conv9D"), AttributeError)


class EchoPredictor(PredictorBase):
    """Returns the components of the datapoint."""

    def _do_call(self, dp):
        return list(dp)


class TestPredictors:
    @pytest.mark.parametrize(
        ("shape", "value", "expected"),
        [
            ([None, 2], [np.ones(2)], (1, 2)),  # a batch of one
            ([None, 2], [np.ones(2), np.ones(2)], (2, 2)),  # a batch of two
            ([None, 2], [[1.0, 2.0]], (1, 2)),
            (None, [np.ones(2)], (1, 2)),  # the shape is unknown
            ([2], [np.ones(2)], (2,)),  # before 0.8: [x] cannot be the value
            ([None, 2], [np.ones([3, 2])], (3, 2)),
        ],
    )
    def test_a_list_for_one_input(self, sess, accepted, shape, value, expected):
        """A list is the value of the only input, as since 0.8. It is a datapoint only if it cannot be the value."""
        x = tf.placeholder(tf.float32, shape)
        (found,) = OnlinePredictor([x], [x * 2.0], sess=sess)(value)
        assert expected == found.shape

    def test_a_list_for_two_inputs(self, sess, accepted):
        """A list is the datapoint of a predictor with two inputs, as before 0.8."""
        x, y = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
        predictor = OnlinePredictor([x, y], [x + y], sess=sess)
        assert [3.0] == predictor([1, 2]) == predictor(1, 2)

    def test_a_predictor_without_known_inputs(self, accepted):
        """A script's own predictor gets a list as one component."""
        assert [[1, 2]] == EchoPredictor()([1, 2])
        assert [1, 2] == EchoPredictor()(1, 2)


class TestArguments:
    def test_they_are_refused(self):
        """Without `run`, an old argument is Python's own error."""
        with pytest.raises(TypeError, match="unexpected keyword argument 'nr_proc'"):
            MultiProcessRunnerZMQ(DataFromList([[1]]), nr_proc=2)

    def test_they_work(self, accepted):
        """Under `run`, old arguments have the effect of the new ones."""
        flow = MultiProcessRunner(DataFromList([[1]]), nr_prefetch=7, nr_proc=3)
        assert (7, 3) == (flow.num_prefetch, flow.num_proc)
        assert 3 == ModelSaver(keep_recent=3).max_to_keep

    def test_both_names(self, accepted):
        """An argument under both names is an error."""
        with pytest.raises(TypeError, match="'nr_proc' and 'num_proc' are the same argument"):
            MultiProcessRunnerZMQ(DataFromList([[1]]), nr_proc=2, num_proc=2)

    @pytest.mark.parametrize("module", sorted(ARGUMENTS))
    def test_the_table(self, module):
        """Each class of the table has the new arguments, and not the old ones."""
        for name, arguments in ARGUMENTS[module].items():
            cls = getattr(importlib.import_module(f"tensorpack_lite.{module}"), name)
            parameters = set(inspect.signature(cls).parameters)
            assert set(arguments.values()) <= parameters
            assert parameters.isdisjoint(arguments)


class TestCompletion:
    def test_the_tables(self):
        """Each module in the tables exists, with its class."""
        for module, name in INTERFACES.items():
            assert isinstance(getattr(importlib.import_module(f"tensorpack_lite.{module}"), name), type)
        for module in BEHAVIOR:
            assert importlib.util.find_spec(f"tensorpack_lite.{module}")

    @pytest.mark.slow
    def test_a_plain_import(self, tmp_path):
        """Without `run`, an import of all names and a use of an old one load no module for old scripts."""
        script = """
import sys
from tensorpack_lite import *
try:
    from tensorpack_lite import InputDesc
except ImportError as error:
    print(error)
print([name for name in sys.modules if name.startswith(('tensorpack_lite.tf1', 'tensorpack_lite.trainv1'))])
"""
        done = python(tmp_path, script, accepted=False)
        assert ["[]"] == done.stdout.decode().splitlines()[1:], done.stderr.decode()

    @pytest.mark.slow
    def test_processes(self, tmp_path):
        """Workers that are forked or spawned, and subprocesses, accept what the script does; classes stay the same objects."""
        script = """
import multiprocessing, pickle, subprocess, sys
import tensorpack_lite
from tensorpack_lite.dataflow import DataFromList, MultiProcessRunner, PrefetchData, RepeatedData

class Twice(RepeatedData):
    def __init__(self, ds):
        super().__init__(ds, nr=2)

def child(queue, flow):
    queue.put([flow.num, RepeatedData(flow, nr=3).num])

if __name__ == '__main__':
    assert PrefetchData is MultiProcessRunner
    found = []
    for method in 'fork', 'spawn':
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        process = context.Process(target=child, args=(queue, Twice(DataFromList([[1]]))))
        process.start()
        found.append(queue.get(timeout=120))
        process.join()
    code = "import tensorpack as t; print([2, t.dataflow.RepeatedData(t.DataFromList([[1]]), nr=3).num])"
    printed = subprocess.run([sys.executable, '-c', code], stdout=subprocess.PIPE, check=True).stdout
    report({'found': found + [eval(printed)]})
"""
        (values,) = reports(tmp_path, script)
        assert [[2, 3]] * 3 == values["found"]
