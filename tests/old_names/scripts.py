"""Run code in a new interpreter, in which old names work."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tf1.command import PACKAGES, STARTUP

REPORT = """
import json, numpy as np
def report(values):
    print('REPORT', json.dumps({name: np.asarray(value).tolist() for name, value in values.items()}))
"""


def python(tmp_path, code: str, accepted: bool, stdin: str = ""):
    """Run code in a new interpreter, with or without old names."""
    environment = dict(os.environ, PYTHONPATH=PACKAGES, TF_CPP_MIN_LOG_LEVEL="3")
    if accepted:  # as `tensorpack-lite run` starts it
        path = os.pathsep.join([STARTUP, PACKAGES])
        environment.update(PYTHONPATH=path, TENSORPACK_LITE_RUN="1", TENSORPACK_LITE_PREFIX=sys.prefix)
    (tmp_path / "script.py").write_text(code, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "script.py"],
        cwd=str(tmp_path), env=environment, input=stdin.encode(), capture_output=True, timeout=240, check=False,
    )  # fmt: skip


def reports(tmp_path, script: str) -> list:
    """Run a script with old names, and return what it passed to `report`."""
    done = python(tmp_path, REPORT + script, accepted=True)
    assert 0 == done.returncode, done.stderr.decode()[-3000:]
    lines = [line for line in done.stdout.decode().splitlines() if line.startswith("REPORT ")]
    return [json.loads(line[len("REPORT ") :]) for line in lines]
