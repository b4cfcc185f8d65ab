"""
Signals that end a training: SIGTERM and SIGUSR1, and Ctrl-C, also while the main thread waits inside TensorFlow.

**In:** signals of the operating system.
**Out:** exceptions, which the loop raises where a training can be saved.
**Next:** `train.signals`, which saves it.
"""
