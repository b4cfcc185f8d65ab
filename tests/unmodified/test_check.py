"""`tensorpack-lite run --check` finds no missing name in the scripts that run."""

from __future__ import annotations

import pytest
from unmodified import corpus

pytestmark = pytest.mark.slow

WITH_STAND_INS = ["star_names_2017"]

# one process for all scripts, because TensorFlow takes seconds to start
_CHECK = """\
import os, sys
from tensorpack_lite.tf1.check import find_missing
for script in sys.argv[1:]:
    sys.path[0] = os.path.dirname(script)
    for one in find_missing(script):
        if not one.is_provided:
            print(one.file, one.line, one.name, one.reason)
"""


# what the script with stand-ins imports and does not use, and could not
STAND_INS = [
    "dataflow.parallel.PlasmaGetData",
    "RL",
    "utils.loadcaffe.get_caffe_pb",
    "globvars",
    "ModelFromMetaGraph",
]


def test_stand_ins(tmp_path):
    """The names that a script could not use are those that are listed."""
    (tmp_path / "check.py").write_text(_CHECK)
    script = str(corpus.FOLDER / "families" / "star_names_2017.py")
    lines = corpus.run_script("check", script, cwd=tmp_path, folder=tmp_path).splitlines()
    assert [f"tensorpack.{name}" for name in STAND_INS] == [line.split()[2] for line in lines]


def test_scripts(tmp_path):
    """No name of the scripts is missing, on any TensorFlow."""
    (tmp_path / "check.py").write_text(_CHECK)
    folders = [corpus.FOLDER / name for name in ("families", "old_libraries", "scripts")]
    scripts = [
        str(file) for folder in folders for file in sorted(folder.glob("*.py")) if file.stem not in WITH_STAND_INS
    ]
    assert len(scripts) > 15
    missing = corpus.run_script("check", *scripts, cwd=tmp_path, folder=tmp_path).splitlines()
    assert [line for line in missing if "tensorflow_probability" not in line] == []  # which may be installed
