"""
Checks of a DataFlow: its length, datapoints, determinism, pickling and memory, and the stage that limits its speed.

**In:** a function that builds a DataFlow.
**Out:** a report; `tensorpack-lite data-check` prints it.
**Next:** cli, or a user's script that calls `examine`.
"""

from __future__ import annotations

from .examine import DataReport, Finding, examine
