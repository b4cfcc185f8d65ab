"""
Is it the data? What a DataFlow promises and whether it keeps it, and which of its stages limits its speed.

**In:** a function that builds a DataFlow.
**Out:** a report; `tensorpack-lite data-check` prints it.
**Next:** cli, or a script of one's own that calls `examine`.
"""

from __future__ import annotations

from .examine import Finding, Report, examine

__all__ = ["Finding", "Report", "examine"]
