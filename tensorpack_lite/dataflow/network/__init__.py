"""
Transport of datapoints between machines: ZMQ's sockets, authentication, and the format of messages.

**In:** datapoints of another machine, and whatever strangers send.
**Out:** datapoints, errors of the sender, a count of what was dropped; never code unless both ends ask for pickle.
**Next:** dataflow, whose `remote.py` is what users call.
"""

from __future__ import annotations

__all__: list[str] = []
