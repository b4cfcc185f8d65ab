"""The datapoint that a worker stands still at, as a note that the process which started the worker can read."""

from __future__ import annotations

import threading

from ...utils.frames import frame_of_thread
from ...utils.stacks import describe_argument
from ..records import Page
from .stack_file import StackFile

__all__ = ["InWork"]


class InWork:
    """
    Watches the main thread of a worker. If no stage has moved between two looks, it describes the datapoint in work.

    Args:
        page: the records of the worker.
        stacks: receives the description as its note; None does nothing.
    """

    def __init__(self, page: Page | None, stacks: StackFile | None) -> None:
        self._page, self._stacks = page, stacks
        self._counts: list[int] = []
        self._note = ""

    def look(self) -> None:
        """Look once; another thread than the main one calls it several times a second."""
        if self._page is None or self._stacks is None:
            return
        counts = [reading.count for reading in self._page.read()]
        moves, self._counts = counts != self._counts, counts
        if moves and self._note:
            self._note = self._stacks.note = ""
        elif not (moves or self._note):
            self._note = describe_argument(frame_of_thread(threading.main_thread().ident or 0))
            if self._note:
                self._stacks.note = self._note
