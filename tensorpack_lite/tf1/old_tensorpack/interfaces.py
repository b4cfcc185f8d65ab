"""Classes whose objects had another interface before 2018."""

from __future__ import annotations

from typing import Any

from ..startup.sitecustomize import replacement
from .names import load


def choose_interface(cls: Any) -> None:
    """
    Let `trainv1/choose.py` select the class of each object of a class or of a class that a script derives from it.

    The arguments matter only for trainers: they choose the generation.
    """

    def create(called: Any, *args: object, **kwargs: object) -> Any:
        old_class = load("trainv1.choose:old_class")
        return super(cls, called).__new__(old_class(called, [*args, *kwargs.values()]))

    replacement.add(cls, "__new__", staticmethod(create))
