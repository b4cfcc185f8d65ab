"""Only contrib may use `tf.layers` and Keras 2, which new versions of TensorFlow do not have."""

from __future__ import annotations

import ast
from pathlib import Path

LIBRARY = Path(__file__).resolve().parents[2] / "tensorpack_lite"


def uses(file: Path) -> list:
    """Return the lines of a file that use `.layers` or `.keras` of TensorFlow, or import Keras."""
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id in ("tf", "tfv1", "tensorflow") and node.attr in ("layers", "keras"):
                found.append(node.lineno)
        elif isinstance(node, ast.Import):
            found += [node.lineno for alias in node.names if "keras" in alias.name]
        elif isinstance(node, ast.ImportFrom) and "keras" in (node.module or ""):
            found.append(node.lineno)
    return found


def test_no_keras_and_no_tf_layers():
    """No file outside contrib uses Keras or `tf.layers`."""
    files = [file for file in LIBRARY.rglob("*.py") if "contrib" not in file.relative_to(LIBRARY).parts]
    assert [] == [f"{file.relative_to(LIBRARY)}:{line}" for file in files for line in uses(file)]


def test_it_would_be_found(tmp_path):
    """The search finds imports of Keras and uses of `tf.layers`."""
    file = tmp_path / "some.py"
    file.write_text("import keras\nfrom tf_keras import layers\ntf.layers.dense(x)\ntf.nn.relu(x)\n", encoding="utf-8")
    assert [1, 2, 3] == sorted(uses(file))
