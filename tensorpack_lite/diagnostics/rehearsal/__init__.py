"""
Rehearsal: scripts that a command runs only until their training begins.

**In:** the arguments of `tensorpack-lite lint` or `nan-replay`.
**Out:** a process with a request in its environment, and its result.
**Next:** `train/defaults.py`, which lets each training answer such a request.
"""
