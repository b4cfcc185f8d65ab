"""
Print the share of `Any` in the signatures of each package. The exit code is 1 if it is above 4 % in the library.

`tf1` is not counted: its functions take what old scripts pass, and look like those of other libraries.

    python .ci/count_any.py

Counts annotated parameters and returns: those that are `Any`, and those that contain `Any`, such as `list[Any]`.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path

LIMIT = 0.04
NOT_COUNTED = ("tf1",)
LIBRARY = Path(__file__).resolve().parents[1] / "tensorpack_lite"


def annotations(function: ast.FunctionDef) -> list:
    """Return the annotations of a function's parameters and its return."""
    given = function.args
    parameters = [*given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
    return [node for node in (*(p.annotation for p in parameters), function.returns) if node is not None]


def main() -> None:
    """Print a line for each package, one for all, and one for those that count."""
    counts: Counter = Counter()
    for file in LIBRARY.rglob("*.py"):
        place = file.relative_to(LIBRARY).parts[0] if file.parent != LIBRARY else "."
        for function in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef):
                for annotation in annotations(function):
                    names = [getattr(node, "id", "") for node in ast.walk(annotation)]
                    rows = [place, "all"] if place in NOT_COUNTED else [place, "all", "counted"]
                    for row in rows:
                        counts[row, "annotated"] += 1
                        counts[row, "any"] += getattr(annotation, "id", "") == "Any"
                        counts[row, "contains"] += "Any" in names
    print(f"{'package':15} annotated  Any  share  contains Any")
    for row in sorted({row for row, _ in counts}, key=lambda row: (row in ("all", "counted"), row)):
        total, bare, inside = (counts[row, key] for key in ("annotated", "any", "contains"))
        print(f"{row:15} {total:9} {bare:4} {bare / total:5.1%} {inside / total:13.1%}")
    if counts["counted", "any"] > LIMIT * counts["counted", "annotated"]:
        sys.exit(f"The share of Any is too large (expected at most {LIMIT:.0%}).")


if __name__ == "__main__":
    main()
