"""Names and arguments that h5py 3 has removed, with the meaning that they had."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from .said import say


def complete(module: ModuleType) -> None:
    """Add the property `value` to h5py datasets."""
    kind: Any = module.Dataset
    if hasattr(kind, "value"):
        return

    def value(self: Any) -> Any:
        """All values of the dataset, as an array or a scalar."""
        say("h5py.Dataset.value", "h5py's dataset.value, which was removed, is dataset[()].")
        return self[()]

    kind.value = property(value)


def open_file(kind: Any, name: Any, **kwargs: Any) -> Any:
    """
    Open a file as h5py 2 did without a mode: for reading and writing; only for reading if the file is read-only;
    and as a new file if it does not exist.
    """
    errors = (OSError,)
    try:
        return kind(name, "r+", **kwargs)
    except errors:
        try:
            return kind(name, "r", **kwargs)
        except errors:
            return kind(name, "w-", **kwargs)  # it does not overwrite a file
