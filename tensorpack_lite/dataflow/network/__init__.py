"""
Datapoints on their way between machines: ZMQ's sockets, and what goes through them.

**In:** datapoints of another machine, and what strangers may send instead.
**Out:** datapoints, errors of the sender, a count of what was refused; never code.
**Next:** dataflow, whose `remote.py` is what users call.
"""

from __future__ import annotations

__all__: list[str] = []
