"""
Bridges to other libraries; nothing of the house stands on them.

**In:** a model made by another library, and the trainers of `train`.
**Out:** a training like any other: the same callbacks, files and variable names.
**Next:** the user's script, which imports the bridge it wants: `from tensorpack_lite.contrib.keras import KerasModel`.

A bridge is imported by name, so that the library it leads to may be missing.
"""

__all__ = []
