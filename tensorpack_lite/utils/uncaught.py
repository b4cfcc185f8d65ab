"""A brief traceback for an error that ends a script, and one line after Ctrl-C."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr
from types import TracebackType

from .brief_traceback import shorten_stacks, shorten_traceback
from .errors import error_text
from .script_end import Show, at_error
from .streams import standard_streams


class EndsBriefly:
    """
    Context manager around a training, or the building of its graph.

    If nothing catches an error that leaves it, the script prints a traceback without the frames of the libraries, and after
    Ctrl-C one line. Other errors of the script are printed so from then on, too.
    """

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, KeyboardInterrupt):
            if not hasattr(error, "exit_code"):  # `Interrupted` has one
                error.exit_code = None  # type: ignore[attr-defined]  # read by the hook
            end_briefly()
        elif isinstance(error, Exception):
            end_briefly()


def end_briefly() -> None:
    """From now on, print the error that ends the script without the frames of the libraries."""
    at_error(_print_briefly)


def _print_briefly(
    show: Show, kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    with standard_streams():
        _print_to_stderr(show, kind, error)


def _print_to_stderr(show: Show, kind: type[BaseException], error: BaseException) -> None:
    sys.stdout.flush()
    if isinstance(error, KeyboardInterrupt) and hasattr(error, "exit_code"):
        sys.stderr.write(f"KeyboardInterrupt: {str(error) or 'Ctrl-C ended the training.'}\n")
        if error.exit_code is not None:
            raise SystemExit(error.exit_code)
        return
    num_left_out = shorten_traceback(error)
    if num_left_out:
        sys.stderr.write(
            f"{num_left_out} frames of tensorpack_lite, TensorFlow and Python are hidden; "
            "TENSORPACK_LITE_FULL_TRACEBACK=1 shows them.\n"
        )
    text = error_text(error)
    short = shorten_stacks(text)
    if text == short:
        show(kind, error, error.__traceback__)
        return
    with redirect_stderr(io.StringIO()) as printed:
        show(kind, error, error.__traceback__)
    sys.stderr.write(printed.getvalue().replace(text, short))
