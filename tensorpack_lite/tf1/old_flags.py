"""
The interface that `tf.app.flags.FLAGS` had before TensorFlow 1.5, when argparse read the flags.

Scripts print `FLAGS.__flags`, a dict of values, which today would contain objects that describe flags.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable, Iterator, MutableMapping, Sequence

from ..compat import tfv1 as tf
from ..compat.replacement import replace

# {attribute of FLAGS: what `run` does about it}
OLD_FLAGS = {
    "__flags": "TensorFlow 1.5 changed it. Under run, it is a dict of the values, also in FLAGS.__dict__.",
    "_parse_flags": "TensorFlow 1.5 removed it. Under run, it parses the command line.",
}

_LIBRARIES = ("absl.", "tensorflow.", "tensorflow_core.", "tensorflow_estimator.")  # they define flags, too


class _Values(MutableMapping[str, Any]):
    """
    The values of the flags that the script has defined, by name. Reading one parses the command line.

    Args:
        flags: `tf.app.flags.FLAGS`.
    """

    def __init__(self, flags: Any) -> None:
        self._flags = flags

    def parse(self, args: Sequence[str] | None = None) -> list[str]:
        """Parse arguments, by default those of the process. Return those that are not flags."""
        arguments = sys.argv if args is None else [sys.argv[0], *args]
        return list(self._flags(arguments, known_only=True)[1:])

    def __getitem__(self, name: str) -> Any:
        if not self._flags.is_parsed():
            self.parse()
        return self._flags[name].value

    def __setitem__(self, name: str, value: Any) -> None:
        self._flags[name].value = value

    def __delitem__(self, name: str) -> None:
        delattr(self._flags, name)

    def __iter__(self) -> Iterator[str]:
        modules = self._flags.flags_by_module_dict().items()
        own = [flags for module, flags in modules if not module.startswith(_LIBRARIES)]
        return iter({flag.name: None for flags in own for flag in flags})

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return repr(dict(self))


def install() -> None:
    """Give `tf.app.flags.FLAGS` its old attributes. Further calls do nothing."""
    flags = tf.app.flags.FLAGS
    if "__flags" in vars(flags):
        return
    values = _Values(flags)
    vars(flags).update(__flags=values, _parse_flags=values.parse)
    owner = type(flags)
    replace(owner, "__getattribute__", _with_old_names(owner.__getattribute__))


def _with_old_names(plain: Callable[..., Any]) -> Callable[[Any, str], Any]:
    @functools.wraps(plain)
    def get(self: Any, name: str) -> Any:
        return plain(self, "__dict__")[name] if name in OLD_FLAGS else plain(self, name)

    return get
