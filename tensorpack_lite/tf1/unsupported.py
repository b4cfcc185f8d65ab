"""
Stand-ins for names and modules that a script may import, although nothing provides them.

Only scripts that `tensorpack-lite run` starts get them. Importing a stand-in does nothing; using it raises an error
with a sentence. So a script that imports a name and never uses it works.
"""

from __future__ import annotations

from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn


class Unsupported:
    """
    Stand-in for a function or class that does not exist.

    Calling it, or creating an object of a class that derives from it, raises a NotImplementedError. Its attributes
    raise an AttributeError. No object is an instance of it.

    Args:
        message: the message of these errors.
    """

    def __init__(self, message: str) -> None:
        self.message = message

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        """Raise the error."""
        raise NotImplementedError(self.message)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(name if name.startswith("_") or name == "message" else self.message)

    def __instancecheck__(self, instance: object) -> bool:
        return False

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        """Return the base class of a class whose definition lists this object as a base class."""
        message = self.message

        class Base:
            """The base class, whose objects cannot be created."""

            def __init__(self, *args: object, **kwargs: object) -> None:
                raise NotImplementedError(message)

        return (Base,)


class UnsupportedModule(ModuleType):
    """
    Stand-in for a module that does not exist. Its attributes are `Unsupported`.

    Args:
        name: the name of the module.
        message: the message of the errors.
    """

    __path__: list[str] = []  # the import system then asks the finders for submodules

    def __init__(self, name: str, message: str) -> None:
        super().__init__(name, message)
        self.message = message

    def __getattr__(self, name: str) -> Unsupported:
        if name.startswith("_"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return Unsupported(self.message)


class _Loader:
    """Loader of an `UnsupportedModule`."""

    def __init__(self, message: str) -> None:
        self._message = message

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return UnsupportedModule(spec.name, self._message)

    def exec_module(self, module: ModuleType) -> None:
        pass


def unsupported_spec(name: str, message: str) -> ModuleSpec:
    """
    Return the spec of an `UnsupportedModule`, for finders of modules.

    Args:
        name: the full name of the module.
        message: the message of the errors.
    """
    loader: Any = _Loader(message)
    return ModuleSpec(name, loader, is_package=True)
