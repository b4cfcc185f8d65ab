"""The extension that separates the graph of the model from what callbacks add to it, for the manifest."""

from __future__ import annotations

from ...compat import tfv1 as tf
from ...loop.extension import ExtendedTrainer, Extension


class ModelGraph(Extension):
    """
    Extension that counts the operations before callbacks add theirs.

    Attributes:
        num_operations: their number.
    """

    num_operations = 0

    def before_setup(self, trainer: ExtendedTrainer) -> None:
        """Count the operations."""
        self.num_operations = len(tf.get_default_graph().get_operations())
