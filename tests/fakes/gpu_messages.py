"""TensorFlow's messages about GPUs, in tests/data/gpu_messages."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parents[1] / "data" / "gpu_messages"


def read(name: str) -> str:
    """Return a message; its first line shows where it is from."""
    return (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
