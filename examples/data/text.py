"""
Text as numbers: the files of this library or another file, random pieces, and a part that is held out.

char_rnn.py and transformer_lm.py import it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import tensorpack_lite
from tensorpack_lite.dataflow import DataFlow, DataFromList, RNGDataFlow

EXAMPLES = Path(__file__).resolve().parents[1]
LIBRARY = Path(tensorpack_lite.__file__).resolve().parent


def read_pages(path: str = "", with_source: bool = False) -> list:
    """
    Return the text of a file in a list, or of each page in docs/ and of each module of the library (`with_source`).

    Copied examples have no docs/ beside them: they are read instead.
    """
    docs = sorted(EXAMPLES.parent.glob("docs/*.md")) or sorted(EXAMPLES.rglob("*.py"))
    files = [Path(path)] if path else docs + (sorted(LIBRARY.rglob("*.py")) if with_source else [])
    return [file.read_text(encoding="utf-8") for file in files]


class Text:
    """A text, and its conversion to numbers."""

    def __init__(self, text: str) -> None:
        self.characters = sorted(set(text))
        self.number = {c: i for i, c in enumerate(self.characters)}
        self.numbers = self.encode(text)

    def encode(self, text: str) -> np.ndarray:
        """Return the numbers of characters, int32 [T]; characters that this text does not have are skipped."""
        return np.array([self.number[c] for c in text if c in self.number], dtype="int32")


def split_pages(pages: list) -> tuple:
    """Return the first nine tenths of all pages as a Text, and the numbers of the last tenths, which are held out."""
    ends = [len(page) * 9 // 10 for page in pages]
    text = Text("".join(page[:end] for page, end in zip(pages, ends)))
    return text, text.encode("".join(page[end:] for page, end in zip(pages, ends)))


class RandomPieces(RNGDataFlow):
    """Random pieces of a text: [piece [T], the piece that starts one character later [T]]."""

    def __init__(self, text: Text, length: int) -> None:
        self.text, self.length = text, length

    def __len__(self) -> int:
        return len(self.text.numbers) // self.length

    def __iter__(self):
        for _ in range(len(self)):
            start = self.rng.randint(len(self.text.numbers) - self.length)
            piece = self.text.numbers[start : start + self.length + 1]
            yield [piece[:-1], piece[1:]]


def spread_pieces(numbers: np.ndarray, length: int, count: int) -> DataFlow:
    """Return `count` pieces at equal distances: [piece [T], the piece that starts one character later [T]]."""
    starts = np.linspace(0, len(numbers) - length - 1, count).astype(int)
    pieces = [[numbers[start + k : start + k + length] for k in (0, 1)] for start in starts]
    return DataFromList(pieces, shuffle=False)
