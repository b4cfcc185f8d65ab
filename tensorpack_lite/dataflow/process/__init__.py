"""
Worker processes and the transport of datapoints between processes of one machine.

**In:** a DataFlow or a function to run in workers.
**Out:** datapoints in this process; the error of a worker, or its death, as an exception.
**Next:** dataflow, whose runners and process maps are built on this package.

From the bottom up: `memory` allocates memory that two processes share, and `slots` divides it. `codec` encodes
datapoints into it. `channel` carries datapoints one way between two processes. `worker` is the code that runs in a
worker process, and `group` starts workers and receives from them. Nothing here has a name in the file system, so
no files are left behind, however a process ends. ZMQ is used only between machines: see `dataflow/remote.py`.
"""
