"""
Exact resume of a training: the extension, the log lines about what is exact, and the states of several ranks.

**In:** the state in a checkpoint.
**Out:** a training that continues where the checkpoint was saved.
**Next:** `train.defaults`, which lists the extension.
"""
