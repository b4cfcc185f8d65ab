"""`python -m tensorpack_lite COMMAND ...` runs the command line, like `tensorpack-lite COMMAND ...`."""

from __future__ import annotations

import sys

from .cli.main import main

if __name__ == "__main__":
    sys.exit(main())
