"""`tf.contrib.learn.preprocessing`: texts as arrays of numbers."""

from __future__ import annotations

import pickle
import re
from typing import Any, Callable, Iterable, Iterator

import numpy as np

from ._lookup import contrib_names

__getattr__, __dir__ = contrib_names(
    __name__, same=("categorical_vocabulary", "text"), title="tf.contrib.learn.preprocessing"
)

_WORD = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Z][a-z]+(?=[A-Z])|['\w\-]+")

Tokenizer = Callable[[Iterable[str]], Iterable["list[str]"]]


def tokenizer(iterator: Iterable[str]) -> Iterator[list[str]]:
    """Yield the list of words of each text."""
    for text in iterator:
        yield _WORD.findall(text)


class CategoricalVocabulary:
    """
    Numbers for words, in the order in which they are first asked for.

    Args:
        unknown_token: what number 0 means.
        support_reverse: whether `reverse` works.
    """

    def __init__(self, unknown_token: str = "<UNK>", support_reverse: bool = True) -> None:
        self._unknown_token = unknown_token
        self._support_reverse = support_reverse
        self._mapping = {unknown_token: 0}
        self._reverse_mapping = [unknown_token]
        self._freq: dict[str, int] = {}
        self._freeze = False

    def __len__(self) -> int:
        return len(self._mapping)

    def freeze(self, freeze: bool = True) -> None:
        """Decide whether new words are unknown. They get a number otherwise."""
        self._freeze = freeze

    def get(self, category: str) -> int:
        """Return the number of a word."""
        if category not in self._mapping and not self._freeze:
            self._mapping[category] = len(self._mapping)
            self._reverse_mapping.append(category)
        return self._mapping.get(category, 0)

    def add(self, category: str, count: int = 1) -> None:
        """Count a word, unless it is unknown."""
        if self.get(category):
            self._freq[category] = self._freq.get(category, 0) + count

    def trim(self, min_frequency: float, max_frequency: float = -1) -> None:
        """
        Forget rare and frequent words. The others get new numbers, the most frequent one the smallest.

        Args:
            min_frequency: words must occur more often.
            max_frequency: words must not occur as often; there is no limit if it is not positive.
        """
        ordered = sorted(sorted(self._freq.items()), key=lambda item: item[1], reverse=True)
        kept = {word: n for word, n in ordered if n > min_frequency and not 0 < max_frequency <= n}
        self._reverse_mapping = [self._unknown_token, *kept]
        self._mapping = {word: number for number, word in enumerate(self._reverse_mapping)}
        self._freq = kept

    def reverse(self, class_id: int) -> str:
        """
        Return the word with a number.

        Raises:
            ValueError: the vocabulary was created with `support_reverse=False`.
        """
        if not self._support_reverse:
            raise ValueError(
                "CategoricalVocabulary.reverse: the vocabulary cannot look up words. Create it with support_reverse=True."
            )
        return self._reverse_mapping[class_id]


class VocabularyProcessor:
    """
    Converter from texts to arrays of the numbers of their words, `max_document_length` long and filled with zeros.

    Args:
        max_document_length: the length of the arrays. Longer texts are cut.
        min_frequency: words that do not occur more often are unknown.
        vocabulary: a `CategoricalVocabulary`; None means a new one.
        tokenizer_fn: a function like `tokenizer`, which is the default.
    """

    def __init__(
        self,
        max_document_length: int,
        min_frequency: int = 0,
        vocabulary: CategoricalVocabulary | None = None,
        tokenizer_fn: Tokenizer | None = None,
    ) -> None:
        self.max_document_length = max_document_length
        self.min_frequency = min_frequency
        self.vocabulary_ = vocabulary or CategoricalVocabulary()
        self._tokenizer = tokenizer_fn or tokenizer

    def fit(self, raw_documents: Iterable[str], unused_y: Any = None) -> VocabularyProcessor:
        """Learn the words of texts. Later calls of `transform` add none."""
        for tokens in self._tokenizer(raw_documents):
            for token in tokens:
                self.vocabulary_.add(token)
        if self.min_frequency > 0:
            self.vocabulary_.trim(self.min_frequency)
        self.vocabulary_.freeze()
        return self

    def fit_transform(self, raw_documents: Any, unused_y: Any = None) -> Iterator[np.ndarray]:
        """Learn the words of texts, which may not be an iterator, and yield their arrays."""
        self.fit(raw_documents)
        return self.transform(raw_documents)

    def transform(self, raw_documents: Iterable[str]) -> Iterator[np.ndarray]:
        """Yield the array of each text, int64."""
        for tokens in self._tokenizer(raw_documents):
            numbers = [self.vocabulary_.get(token) for _, token in zip(range(self.max_document_length), tokens)]
            yield np.array(numbers + [0] * (self.max_document_length - len(numbers)), np.int64)

    def reverse(self, documents: Iterable[Iterable[int]]) -> Iterator[str]:
        """Yield the text of each array."""
        for document in documents:
            yield " ".join(self.vocabulary_.reverse(number) for number in document)

    def save(self, filename: str) -> None:
        """Write the processor to a file, with pickle."""
        with open(filename, "wb") as file:
            pickle.dump(self, file)

    @classmethod
    def restore(cls, filename: str) -> VocabularyProcessor:
        """Read a processor from a file that `save` has written. Pickle can run code, so the file must be trusted."""
        with open(filename, "rb") as file:
            return pickle.load(file)
