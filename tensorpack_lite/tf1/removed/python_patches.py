"""Methods and arguments of Python's standard library that Python 3 has removed since 3.0."""

from __future__ import annotations

import collections.abc
import sys
from types import ModuleType
from typing import Any

from ..startup.sitecustomize import replacement
from .said import say


def complete_random(module: ModuleType) -> None:
    """Let `random.sample` take a set or a view of a dict, and `random.shuffle` a function."""
    views = (collections.abc.ValuesView,)  # what is no longer a list, or no longer accepted
    lost: tuple[Any, ...] = (collections.abc.Set, *views) if sys.version_info >= (3, 11) else views
    plain_sample, plain_shuffle = module.Random.sample, module.Random.shuffle

    def sample(self: Any, population: Any, k: int, **kwargs: Any) -> list[Any]:
        if isinstance(population, lost):
            say("random.sample", "random.sample of a set or a view of a dict, which was removed, takes its tuple.")
            population = tuple(population)
        return plain_sample(self, population, k, **kwargs)

    def shuffle(self: Any, x: Any, *rest: Any, **kwargs: Any) -> None:
        function = rest[0] if rest else kwargs.get("random")
        if function is None or sys.version_info < (3, 11):
            plain_shuffle(self, x, *rest, **kwargs)
            return
        say("random.shuffle", "random.shuffle(x, random), which was removed, works.")
        for i in reversed(range(1, len(x))):
            j = int(function() * (i + 1))
            x[i], x[j] = x[j], x[i]

    module_names, kind = vars(module), module.Random
    replacement.add(kind, "sample", sample)
    replacement.add(kind, "shuffle", shuffle)
    module_names["sample"], module_names["shuffle"] = module._inst.sample, module._inst.shuffle


def complete_threading(module: ModuleType) -> None:
    """Give threads the method `isAlive`."""
    if hasattr(module.Thread, "isAlive"):
        return

    def is_alive(self: Any) -> bool:
        say("threading.Thread.isAlive", "threading.Thread.isAlive, which was removed, is is_alive.")
        return self.is_alive()

    replacement.add(module.Thread, "isAlive", is_alive)
