"""
Bridges to other libraries, on which the rest of the library does not depend.

**In:** a model of another library, and the trainers of `train`.
**Out:** a training with the usual callbacks, files and variable names.
**Next:** the user's script, which imports a bridge: `from tensorpack_lite.contrib.keras import KerasModel`.

A bridge is imported by name, so the other library may be missing.
"""

__all__ = []
