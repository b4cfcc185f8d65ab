"""Modules of this process as `tensorpack-lite run` completes them for old scripts."""

from __future__ import annotations

from tensorpack_lite.tf1.old_tensorpack.complete import complete
from tensorpack_lite.tf1.startup.sitecustomize import replacement


def complete_for_old_scripts(monkeypatch, *modules) -> None:
    """
    Complete modules until the end of a test. Names that other modules have imported stay as they are.

    A class whose `__new__` was replaced cannot be restored, so tests that need the old interface of one run a script.
    """

    def add(owner, name, value):
        if name != "__new__":
            monkeypatch.setattr(owner, name, value, raising=False)

    with monkeypatch.context() as patch:
        patch.setattr(replacement, "add", add)
        for module in modules:
            complete(module)
