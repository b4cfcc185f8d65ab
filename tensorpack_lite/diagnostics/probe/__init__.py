"""
Probes: scripts that a command runs only until their training begins, or for a few steps of it.

**In:** the arguments of commands such as `tensorpack-lite lint`, `find-lr` or `rehearse`.
**Out:** a process with a request in its environment, and its result.
**Next:** `train/defaults.py`, which lets each training answer such a request.
"""
