"""
Command that lists the examples of an installed library, and copies them to a directory.

    python -m tensorpack_lite.examples            list what can be run
    python -m tensorpack_lite.examples DIR        copy all of them to a new directory
"""

from __future__ import annotations

import argparse
import ast
import shutil
from pathlib import Path

HERE = Path(__file__).resolve().parent


def describe(path: Path) -> str:
    """Return the first sentence of the docstring of an example."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(docstring.split("\n\n")[0].split()).split(". ")[0].rstrip(".")


def find_scripts() -> list:
    """Return the files that can be run, without the modules that they import."""
    paths = [path for path in sorted(HERE.rglob("*.py")) if path.name not in ("__main__.py", "__init__.py")]
    return [path for path in paths if 'if __name__ == "__main__":' in path.read_text(encoding="utf-8")]


def main(argv=None) -> None:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m tensorpack_lite.examples", None, __doc__, formatter_class=formatter)
    parser.add_argument("directory", nargs="?", type=Path, help="must not exist; default: list the examples")
    directory = parser.parse_args(argv).directory
    if directory is None:
        for path in find_scripts():
            print(f"{path.relative_to(HERE).as_posix():36} {describe(path)}")
        return
    if directory.exists():
        parser.error(f"{directory} exists. Choose a new directory.")
    shutil.copytree(str(HERE), str(directory), ignore=shutil.ignore_patterns("__pycache__", "__main__.py"))
    print(f"The examples are in {directory}. {directory / 'README.md'} describes them.")


if __name__ == "__main__":
    main()
