"""Address: `dumps` and `loads` live in `utils.serialize`."""

from .serialize import dumps, loads

__all__ = ["dumps", "loads"]
