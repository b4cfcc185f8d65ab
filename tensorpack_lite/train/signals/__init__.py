"""
The end of a training by a signal: the extension, the checkpoint that is saved, and the last step of several ranks.

**In:** signals, which `loop.signals` receives.
**Out:** a checkpoint.
**Next:** `train.defaults`, which lists the extension.
"""
