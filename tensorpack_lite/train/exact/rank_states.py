"""
The states of several ranks in one checkpoint.

The chief's `.state` file holds, under "ranks", the state of each other rank: the position of its data, its
generators and its callbacks. The states travel on the ranks' channel in the format of a state file, which is
checked and never executed.
"""

from __future__ import annotations

import base64
from typing import Any, Dict, Iterable, Iterator, Sequence

from ...dataflow.shard import deal_again
from ...ranks.channel import RankChannel
from ...ranks.connecting import RankError
from ...utils.packed_state import MAX_STATE_BYTES, pack_state, unpack_state
from ...utils.random_streams import derive_number

_PIECE = 1 << 18  # the most characters of a rank in one round
_MIN_PIECE = 1 << 12
_ROUND = 16 << 20  # characters of all ranks in one round, which are in the chief's memory at a time
_MAX_TEXT = MAX_STATE_BYTES * 4 // 3 + 4  # of base64
_NAME = "the states of the ranks"

State = Dict[str, Any]


def gather_states(channel: RankChannel, state: State) -> list[State] | None:
    """
    Send the state of each rank to the chief. All ranks call it at the same step.

    Args:
        channel: the ranks' channel.
        state: JSON values and NumPy arrays.

    Returns:
        On the chief, the states in the order of ranks; None on other ranks.

    Raises:
        RankError: training cannot continue, or a rank sent something that is not a state.
        TypeError, ValueError: this state cannot be packed; see `pack_state`.
    """
    text = _encode(state)
    sizes = channel.gather(f"the sizes of {_NAME}", len(text)) or ()
    for rank, size in enumerate(sizes):
        _check_size(rank, size)
    texts = [""] * channel.size
    for start, end in _pieces(channel, sizes):
        for rank, piece in enumerate(channel.gather(_NAME, text[start:end]) or ()):
            texts[rank] += _checked(piece)
    return [_decode(text, rank) for rank, text in enumerate(texts)] if channel.rank == 0 else None


def take_part(channel: RankChannel, states: Sequence[State] | None) -> State:
    """
    Return the state that the chief has for this rank. All ranks call it.

    Args:
        channel: the ranks' channel.
        states: on the chief, a state for each rank.

    Raises:
        RankError: training cannot continue.
        TypeError, ValueError: the states cannot be packed; see `pack_state`.
    """
    texts = None if states is None else [_encode(state) for state in states]
    text = ""
    for start, end in _pieces(channel, map(len, texts or ())):
        text += _checked(channel.scatter(_NAME, texts and [text_of_rank[start:end] for text_of_rank in texts]))
    return _decode(text, 0)


def num_saved(state: State | None) -> int | None:
    """Return how many ranks have saved the state of a chief; None if it has no states of ranks."""
    return None if state is None or "exact" not in state else 1 + len(state.get("ranks", []))


def split_state(state: State | None, size: int) -> tuple[list[State], str]:
    """
    Return the parts of the ranks in the state of a checkpoint, and a sentence if they cannot be exact.

    If the number of ranks has changed, every rank gets the positions of the last rank, because a ShardData
    deals out from there, and new random numbers.

    Args:
        state: the state of the chief, with the other ranks' under "ranks"; None if the training starts.
        size: the number of ranks now.
    """
    if state is None or num_saved(state) is None:
        return [state or {}, *({} for _ in range(size - 1))], ""
    saved = [state, *state.get("ranks", [])]
    if len(saved) == size:
        return saved, ""
    mine, last = state["exact"], saved[-1]["exact"]
    parts: list[State] = []
    for rank in range(size):
        entropy = derive_number(("rank", mine["entropy"], rank, size))
        exact = {
            **saved[min(rank, len(saved) - 1)]["exact"],
            "entropy": entropy,
            "generators": {"entropy": entropy},
        }
        parts.append({"exact": {**exact, "sources": _deal_again(mine, last, entropy)}})
    lost = [name for name in last["sources"] if name not in parts[-1]["exact"]["sources"]]
    of_chief = {name: at for name, at in mine["sources"].items() if name not in last["sources"]}
    parts[0]["exact"]["sources"].update(of_chief)
    sentence = f"The checkpoint was saved by {len(saved)} ranks and is resumed by {size}."
    if lost:
        sentence += f" {', '.join(lost)}: only a ShardData can deal out the rest of the data anew."
    return [{**state, **parts[0], "ranks": parts[1:]}, *parts[1:]], sentence


def _deal_again(chief: State, last: State, entropy: int) -> dict[str, State]:
    """Return the positions of the inputs of a rank among another number of ranks; those that cannot continue are omitted."""
    # inputs of validation, which are at the same place on all ranks that have them
    rounds = chief.get("rounds", ())
    positions = {name: deal_again(at, (entropy, name)) for name, at in last["sources"].items() if name not in rounds}
    positions.update((name, at) for name, at in chief["sources"].items() if name in rounds)
    return {name: at for name, at in positions.items() if at is not None}


def _pieces(channel: RankChannel, sizes: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of a piece of each rank's text for each round; the chief knows the sizes of the texts."""
    longest = channel.all_gather(f"the largest of {_NAME}", max(sizes, default=0))[0]
    _check_size(0, longest)
    num = min(_PIECE, max(_MIN_PIECE, _ROUND // channel.size))
    for start in range(0, longest, num):
        yield start, start + num


def _check_size(rank: int, size: object) -> None:
    if type(size) is not int or not 0 <= size <= _MAX_TEXT:
        raise RankError(f"Rank {rank} announced a state of {size!r} characters (expected at most {_MAX_TEXT}).")


def _checked(piece: object) -> str:
    if not isinstance(piece, str) or len(piece) > _PIECE:
        raise RankError(f"A rank sent a piece of its state that is not a text of at most {_PIECE} characters.")
    return piece


def _encode(state: State) -> str:
    return base64.b64encode(pack_state(state, "the ranks")).decode("ascii")


def _decode(text: str, rank: int) -> State:
    try:
        return unpack_state(base64.b64decode(text, validate=True), f"the message of rank {rank}").state
    except ValueError as error:
        raise RankError(f"Rank {rank} sent a state that cannot be read: {error}") from error
