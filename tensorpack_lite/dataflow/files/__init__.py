"""
Datapoints in files: how they lie there, byte by byte.

**In:** datapoints, from dataflow; files of other programs.
**Out:** files that are complete or absent; datapoints again, read without running anything that is in them.
**Next:** dataflow, whose `serialize.py` and `format.py` are what users call.
"""

from __future__ import annotations

__all__: list[str] = []
