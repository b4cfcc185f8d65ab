"""Names of tensorpack's `utils.compatible_serialize`, defined in `utils/serialize.py`."""

from .serialize import dumps, loads

__all__ = ["dumps", "loads"]
