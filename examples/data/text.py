"""
Text as numbers: a fixed text or a file, random pieces of it, and a part that is held out.

The fixed text is a copy of this library's documentation and of a part of its source, of November 2026: docs.txt.gz and
source.txt.gz. It stays as it is when the library changes, so that results can be compared.

char_rnn.py and transformer_lm.py import this module.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

from tensorpack_lite.dataflow import DataFlow, DataFromList, RNGDataFlow

HERE = Path(__file__).resolve().parent


def read_pages(path: str = "", with_source: bool = False) -> list:
    """Return the text of a file in a list. Without a path: the pages of the documentation, and modules of the source."""
    if path:
        return [Path(path).read_text(encoding="utf-8")]
    pages: list = []
    for name in ["docs", "source"] if with_source else ["docs"]:
        content = gzip.decompress((HERE / f"{name}.txt.gz").read_bytes())
        pages += content.decode("utf-8").split("\f")
    return pages


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
    held_out = "".join(page[end:] for page, end in zip(pages, ends))
    return text, text.encode(held_out)


class RandomPieces(RNGDataFlow):
    """Random pieces of a text: [piece [T], the piece that starts one character later [T]]."""

    def __init__(self, text: Text, length: int) -> None:
        self.text = text
        self.length = length

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
    pieces = [[numbers[start : start + length], numbers[start + 1 : start + 1 + length]] for start in starts]
    return DataFromList(pieces, shuffle=False)


def number_contexts(numbers: np.ndarray, following: np.ndarray, length: int, num_characters: int) -> tuple:
    """Number the contexts of `length` characters, and the contexts with the next character: two int64 [T]."""
    context = np.zeros(len(following), "int64")
    for k in range(length, 0, -1):  # the character k positions earlier
        earlier = numbers[-len(following) - k : -k]
        context = context * num_characters + earlier
    return context, context * num_characters + following


def look_up(keys: np.ndarray, counts: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return the counts of the wanted keys; 0 for those that are not in the sorted `keys`."""
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, counts[place], 0)


def ngram_bits(text: Text, held_out: np.ndarray, longest: int = 6) -> float:
    """
    Return the bits per held-out character of counts: how often characters followed the last 0, 1, ... `longest` ones.

    Each longer context corrects the probabilities of the shorter one (Witten, Bell 1991, "The zero-frequency problem").
    """
    size = len(text.characters)
    following = text.numbers[longest:]
    truth = held_out[longest:]
    probability = np.full(len(truth), 1 / size)  # of each held-out character
    for length in range(longest + 1):
        context, pair = number_contexts(text.numbers, following, length, size)
        pairs, pair_counts = np.unique(pair, return_counts=True)
        contexts, context_counts = np.unique(context, return_counts=True)
        _, num_followers = np.unique(pairs // size, return_counts=True)  # different characters after each context

        context, pair = number_contexts(held_out, truth, length, size)
        total = look_up(contexts, context_counts, context)
        followers = look_up(contexts, num_followers, context)
        seen = look_up(pairs, pair_counts, pair)
        corrected = (seen + followers * probability) / np.maximum(total + followers, 1)
        probability = np.where(total > 0, corrected, probability)
    return float(-np.log2(probability).mean())
