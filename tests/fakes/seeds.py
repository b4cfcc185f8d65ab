"""Seeds for TensorFlow, so that no test depends on chance."""

from __future__ import annotations


def seed_graphs() -> None:
    """Give each graph that this process creates from now on the seed 1. A test can still set another one, or None."""
    from tensorflow.compat.v1 import Graph

    create = Graph.__init__

    def create_with_seed(graph, *args, **options):
        create(graph, *args, **options)
        graph.seed = 1

    Graph.__init__ = create_with_seed
