"""
Names that star imports of 13 releases of tensorpack gave, and that this library does not have.

`tests/data/star_rows.txt` has a line for each module, with the names.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from old_names.scripts import python

import tensorpack_lite
from tensorpack_lite.tf1.old_tensorpack.names import load
from tensorpack_lite.tf1.old_tensorpack.star_table import MODULES, star_names
from tensorpack_lite.utils.old_names_table import OLD_NAMES

ROWS = Path(__file__).parents[1] / "data" / "star_rows.txt"

# Prints the rows that are not bound, and the stand-ins that are used without an error.
IMPORT_EACH = """
import json, sys, types

def problem(module, name):
    namespace = {}
    exec('from %s import *' % module, namespace)
    if namespace.get(name) is None:
        return 'missing'
    value = namespace[name]
    if not hasattr(value, 'message'):
        return ''
    try:
        value.anything() if isinstance(value, types.ModuleType) else value()
    except NotImplementedError as error:
        return '' if len(str(error).split(': ', 1)[1].split()) > 1 else 'no sentence: %s' % error
    return 'used'

problems = {}
for module, names in json.load(sys.stdin).items():
    problems.update({'%s.%s' % (module, name): problem(module, name) for name in names})
print(json.dumps(problems))
"""


@pytest.mark.slow
def test_each_row(tmp_path):
    """A star import binds each name. It works, or it is a stand-in that raises its sentence when it is used."""
    lines = [line.split(": ") for line in ROWS.read_text().splitlines()]
    rows = {module: names.split() for module, names in lines}
    assert sum(map(len, rows.values())) > 400
    done = python(tmp_path, IMPORT_EACH, True, json.dumps(rows))
    assert 0 == done.returncode, done.stderr.decode()[-3000:]
    problems = json.loads(done.stdout.decode().splitlines()[-1])
    assert {} == {name: text for name, text in problems.items() if text}


@pytest.mark.slow
def test_names_of_the_script_stay(tmp_path):
    """A star import binds no old name that the file has already; names of today it does bind."""
    script = """
from collections import Counter as stat
timer, rect, Conv2D = 'timer', 'rect', 'Conv2D'
from tensorpack_lite import *
from tensorpack_lite.utils import *
print(stat.__name__, timer, rect, callable(Conv2D), viz.stack_patches.__name__, fs.mkdir_p.__name__)
"""
    done = python(tmp_path, script, accepted=True)
    assert "Counter timer rect True stack_patches mkdir_p" == done.stdout.decode().strip(), done.stderr.decode()


def test_the_table():
    """Each name that something provides exists there. No name of the facade, and no module, is both old and of today."""
    tables = star_names()
    olds = [old for names in tables.values() for old in names.values()]
    assert all(load(old.target) is not None for old in olds if old.target)
    assert all(old.target or old.advice.endswith(".") for old in [*olds, *MODULES.values()])
    old_names = {*tables[""], *(name for name in OLD_NAMES if "." not in name)}
    assert set() == old_names & {*tensorpack_lite.__all__}
