"""
Better direction of a statistic, derived from its name.

In:  the name of a statistic, such as "validation_error".
Out: -1 if smaller values are better, 1 if larger ones are, 0 if the name does not tell.
"""

from __future__ import annotations

import re

from . import logger
from .checks import check_choice, check_type

_SMALLER = (
    r"cer|err|fid|mae|mape|mse|nll|ppl|rmse|wer|wrong|incorrect",
    r"error|loss(?:es)?|cost|perplexity|cross[-_ ]?entropy|xentropy|xent",
)
_LARGER = (
    r"acc|ap|auc|bleu|correct|dice|f1|iou|map|miou|precision|psnr|r2|recall|reward|score|ssim",
    r"accurac(?:y|ies)",
)
# the first words of each pair stand alone, the second ones may end a longer word, such as "valerror"
_WORD = re.compile(
    rf"(?P<smaller>(?<![a-z])(?:{_SMALLER[0]})|{_SMALLER[1]})s?\d*(?![a-z])"
    rf"|(?:(?<![a-z])(?:{_LARGER[0]})|{_LARGER[1]})s?\d*(?![a-z])"
)
_NO_RESULT = re.compile(r"regulari[sz]|weight_decay|queue_size|learning_rate")
_OTHER_MEANING = re.compile(
    r"(?<![a-z])(gap|drop|change|std|dev|var|variance|scale|scaler|scaling|weight|decrease|decline|degradation|reduction|delta|"
    r"diff|difference|improvement|penalty|uncertainty|fixed|free|saved|saving|correction|corrected|detection|detected|"
    r"threshold|thresh|time)s?(?![a-z])"
)
# "1-ssim", "-loss", "neg_mean_squared_error"; not "top-1-error", "fold_1-accuracy"
_NEGATED = re.compile(
    r"(?:^|/)-|(?:^|/|^(?:val|valid|validation|test|train)[-_])1 ?- ?|"
    r"(?<![a-z])(?:neg|negative|minus|inv|inverse)(?![a-z])"
)
_AMBIGUOUS = re.compile(r"(?<![a-z])(correct|map|score|wrong)s?(?![a-z])")
_PLAIN = {
    "average", "avg", "binary", "categorical", "char", "character", "class", "classification", "dev", "epoch", "eval", "image",
    "label", "macro", "mean", "micro", "pixel", "rate", "sample", "sigmoid", "softmax", "sparse", "test", "token", "top", "total",
    "train", "training", "val", "valid", "validation", "word",
}  # fmt: skip


def better_direction(name: str) -> int:
    """
    Return 1 if larger values of a statistic are better, -1 if smaller ones are, 0 if its name does not tell.

    The last known word decides: smaller is better for an error, a loss or a cost, larger for an accuracy or a score.

    Example:
        >>> [better_direction(name) for name in ("val_loss", "precision", "error_score", "loss_scale", "stat")]
        [-1, 1, 1, 0, 0]
    """
    name = name.lower()
    words = list(_WORD.finditer(name))
    if not words or _NO_RESULT.search(name) or _NEGATED.search(name) or _OTHER_MEANING.search(name, words[-1].end()):
        return 0
    return -1 if words[-1].group("smaller") else 1


def certain_direction(name: str) -> int:
    """
    Return `better_direction` if it is certain: each word of the name is known, and all of them agree; otherwise 0.

    Example:
        >>> [certain_direction(name) for name in ("val-error-top1", "attack_error", "error_score")]
        [-1, 0, 0]
    """
    found = {"smaller" if word.group("smaller") else "larger" for word in _WORD.finditer(name.lower())}
    is_certain = len(found) == 1 and _other_words(name) <= _PLAIN and not _AMBIGUOUS.search(name.lower())
    return better_direction(name) if is_certain else 0


def _other_words(name: str) -> set[str]:
    return set(re.findall(r"[^\W\d_]+", _WORD.sub(" ", name.lower())))


def _chosen_direction(name: str) -> int:
    """
    Return `better_direction`, but 0 if it would be 1 only because of the order of the words, as in "loss_dice", or because of
    a score that may be one of errors, as in "brier_score".
    """
    direction, words = better_direction(name), list(_WORD.finditer(name.lower()))
    if direction <= 0 or certain_direction(name) > 0:
        return direction
    is_mixed = any(word.group("smaller") for word in words)
    is_score = all(re.match(r"scores?\d*$", word.group()) for word in words) and not _other_words(name) <= _PLAIN
    return 0 if is_mixed or is_score else direction


def check_direction(who: str, name: str, direction: int, advice: str) -> None:
    """
    Raise an error if a callback treats the worst values of a statistic as the best ones.

    Under `tensorpack-lite run`, log a warning instead.

    Args:
        who: the class of the callback.
        name: the name of the statistic.
        direction: 1 if the callback treats larger values as better, -1 for smaller values.
        advice: what to write instead.

    Raises:
        ValueError: the name shows that the opposite direction is better.
    """
    if certain_direction(name) == -direction:
        takes, are = ("larger", "smaller") if direction > 0 else ("smaller", "larger")
        raise ValueError(
            f"{who} treats {takes} values of '{name}' as better, but the name shows that {are} values are better. "
            f"{advice}"
        )


def choose_mode(who: str, name: str, mode: str | None) -> str:
    """
    Return the mode of a callback, "min" or "max": `mode`, or if `mode` is None, the mode that the name of the statistic
    shows.

    Log a warning if `mode` contradicts the name.

    Args:
        who: the class of the callback.
        name: the name of the statistic.
        mode: "min", "max" or None.

    Raises:
        TypeError: the name is not a string.
        ValueError: `mode` is unknown; or `mode` is None, and the name does not show the direction.
    """
    check_type(f"{who}: the name of the statistic", name, str)
    direction = _chosen_direction(name)
    if mode is not None:
        check_choice(f"{who}: mode", mode, ("min", "max"))
        if certain_direction(name) == (1 if mode == "min" else -1):
            are = "larger" if mode == "min" else "smaller"
            logger.warning(
                f"{who}: mode='{mode}' contradicts the name of the statistic: {are} values of '{name}' are better."
            )
        return mode
    if not direction:
        raise ValueError(
            f"{who}: the name of the statistic, '{name}', does not show whether smaller or larger values are better. "
            "Correct the name, or pass mode='min' or mode='max'."
        )
    mode = "max" if direction > 0 else "min"
    logger.info(f"{who}: {'larger' if direction > 0 else 'smaller'} values of '{name}' are better (mode='{mode}').")
    return mode
