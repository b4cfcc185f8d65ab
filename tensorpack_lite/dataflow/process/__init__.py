"""
Worker processes, and datapoints on their way between processes of one machine.

**In:** a DataFlow or a function that shall run in workers.
**Out:** datapoints in this process; an error of a worker as an exception; a dead worker as one too.
**Next:** dataflow, whose runners and process maps are built on this.

From below: `memory` gets memory that two processes see; `slots` lends parts of it out; `codec` writes datapoints into
it; `channel` is the one-way road of datapoints between two processes; `worker` is what runs in a worker, and `group`
what this process holds of its workers. Nothing here has a name in the file system, so nothing is left behind, however
a process ends. ZMQ is for other machines: `dataflow/remote.py`.
"""

from __future__ import annotations

__all__: list[str] = []
