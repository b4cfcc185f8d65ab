"""ranks/messages.py: lines of JSON from peers that are not trusted."""

from __future__ import annotations

import pytest

from tensorpack_lite.ranks.messages import Lines, max_line_bytes, pack, parse


class TestLines:
    def test_pieces(self):
        """Lines are whole, however their bytes are split."""
        lines = Lines(10)
        assert [[], [b"one"], [b"", b"two"], [], [b"three"]] == [
            lines.feed(data) for data in (b"on", b"e\n", b"\ntwo\nt", b"hre", b"e\n")
        ]

    @pytest.mark.parametrize("pieces", [[b"12345"], [b"123", b"45"], [b"1\n12345\n"], [b"12", b"345\n"]])
    def test_a_line_that_is_too_long(self, pieces):
        """A line beyond the limit is an error, whether or not its end has arrived."""
        lines = Lines(4)
        with pytest.raises(ValueError, match="a line is longer than 4 bytes"):
            for piece in pieces:
                lines.feed(piece)


class TestMessages:
    @pytest.mark.parametrize(
        "line",
        [
            b"[]",
            b"7",
            b"null",
            b"{}",
            b"\xff",
            b"[" * 200_000,
            b'{"type": []}',
            b'{"type": "other"}',
            b'{"type": "hello", "rank": 1, "address": "10.0.0.2"}',
            b'{"type": "hello", "rank": 1, "size": 2}',
            b'{"type": "hello", "rank": 1, "size": 2, "address": 3}',
            b'{"type": "hello", "rank": true, "size": 2, "address": ""}',
            b'{"type": "hello", "rank": 1e999, "size": 2, "address": ""}',
            b'{"type": "hello", "rank": ' + b"9" * 100_000 + b', "size": 2, "address": ""}',
            b'{"type": "status", "status": {"kind": "step", "step": "1", "where": ""}}',
            b'{"type": "gathered", "name": "x", "values": 0}',
        ],
    )
    def test_invalid_lines(self, line):
        """Every other line is a ValueError, also if it is hostile to the parser."""
        with pytest.raises(ValueError, match="."):
            parse(line)

    @pytest.mark.slow
    def test_a_value_that_is_nested_too_deeply(self):
        """A value that is nested too deeply for JSON is a ValueError."""
        value = []
        for _ in range(200_000):
            value = [value]
        try:
            with pytest.raises(ValueError, match="nested too deeply"):
                pack({"type": "gather", "value": value})
        finally:
            while value:  # freeing all levels at once could overflow the stack
                value = value[0]


class TestLimit:
    @pytest.mark.parametrize("text", ["many", "0", "-1", "1.5", "9999999"])
    def test_invalid_limits(self, monkeypatch, text):
        """A value that is not a positive number of MB is an error that names the variable."""
        monkeypatch.setenv("TENSORPACK_RANKS_MAX_LINE_MB", text)
        with pytest.raises(ValueError, match=f"TENSORPACK_RANKS_MAX_LINE_MB: expected .* got '{text}'"):
            max_line_bytes()
