"""Functions that Python 3 has removed since 3.0, with the meaning that they had."""

from __future__ import annotations

import collections
import html
import inspect
import locale
import math
import sys
import time
from typing import Any, Callable

ArgSpec = collections.namedtuple("ArgSpec", "args varargs keywords defaults")


def getargspec(func: Callable[..., Any]) -> ArgSpec:
    """
    Return the names and default values of a function's parameters (`inspect.getargspec`).

    Raises:
        ValueError: the function has keyword-only parameters.
    """
    spec = inspect.getfullargspec(func)
    if spec.kwonlyargs:
        raise ValueError("Function has keyword-only parameters, use inspect.signature() API")
    return ArgSpec(spec.args, spec.varargs, spec.varkw, spec.defaults)


def clock() -> float:
    """Return the CPU time of this process in seconds; on Windows, the time since the first call (`time.clock`)."""
    return time.perf_counter() if sys.platform == "win32" else time.process_time()


def gcd(a: int, b: int) -> int:
    """Return the greatest common divisor, with the sign of `b` (`fractions.gcd`)."""
    divisor = math.gcd(a, b)
    return -divisor if (b or a) < 0 else divisor


def escape(s: str, quote: bool = False) -> str:
    """Replace "&", "<" and ">" in a text; quotes only on request (`cgi.escape`)."""
    return html.escape(s).replace("&#x27;", "'") if quote else html.escape(s, quote=False)


def locale_format(percent: str, value: Any, grouping: bool = False, monetary: bool = False) -> str:
    """Format a number (`locale.format`)."""
    return locale.format_string(percent, value, grouping, monetary)


def getcheckinterval() -> int:
    """Return the default number of instructions between switches of threads (`sys.getcheckinterval`)."""
    return 100


def setcheckinterval(n: int) -> None:
    """Do nothing, as in each Python 3 (`sys.setcheckinterval`)."""
