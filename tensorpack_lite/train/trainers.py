"""Address: the trainers live in train/simple.py."""

from .simple import NoOpTrainer, QueueInputTrainer, SimpleTrainer

__all__ = ["NoOpTrainer", "QueueInputTrainer", "SimpleTrainer"]
