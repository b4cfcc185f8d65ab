"""The script that this process runs."""

from __future__ import annotations

import os
import re
import sys


def own_program() -> list[str]:
    """Return the script of this process, or `-m` and a module, with its arguments; empty in an interactive session."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return ["-m", re.sub(r"\.__main__$", "", spec.name), *sys.argv[1:]]
    path = getattr(main, "__file__", None)
    return [] if path is None else [os.path.abspath(path), *sys.argv[1:]]
