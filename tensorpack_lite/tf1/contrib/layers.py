"""`tf.contrib.layers`: the layers, initializers and regularizers of tf_slim, and embeddings."""

from __future__ import annotations

from typing import Any

from ...compat import tfv1 as tf
from ._lookup import contrib_names, import_source

__getattr__, __dir__ = contrib_names(
    __name__,
    # the package first; it imports from its modules only what it exports
    sources=(
        "tf_slim.layers",
        "tf_slim.layers.layers",
        "tf_slim.layers.initializers",
        "tf_slim.layers.regularizers",
    ),
    inner={"utils": "tf_slim.layers.utils", "summaries": "tf_slim.layers.summaries"},
    same=("layers", "initializers", "regularizers", "normalization", "optimizers"),
)


def embed_sequence(
    ids: tf.Tensor,
    vocab_size: int | None = None,
    embed_dim: int | None = None,
    unique: bool = False,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    scope: Any = None,
    reuse: bool | None = None,
) -> tf.Tensor:
    """
    Look up ids in an embedding matrix.

    Shapes: `ids` is [batch, length] of integers; the result is [batch, length, embed_dim].

    Variables: `embeddings`, of shape [vocab_size, embed_dim], in the scope `EmbedSequence`.

    Raises:
        ValueError: `vocab_size` or `embed_dim` is missing, and `reuse` is not set.
    """
    if not (reuse or (vocab_size and embed_dim)):
        raise ValueError(
            "embed_sequence: expected vocab_size and embed_dim without reuse, "
            f"got vocab_size={vocab_size}, embed_dim={embed_dim}."
        )
    with tf.variable_scope(scope, "EmbedSequence", [ids], reuse=reuse):
        embeddings = import_source("tf_slim.ops.variables").model_variable(
            "embeddings",
            shape=None if vocab_size is None or embed_dim is None else [vocab_size, embed_dim],
            initializer=initializer,
            regularizer=regularizer,
            trainable=trainable,
        )
        if unique:
            return embedding_lookup_unique(embeddings, ids)
        return tf.nn.embedding_lookup(embeddings, ids)


def embedding_lookup_unique(
    params: Any, ids: Any, partition_strategy: str = "mod", name: str | None = None
) -> tf.Tensor:
    """Look up ids like `tf.nn.embedding_lookup`, but each distinct id only once."""
    with tf.name_scope(name, "EmbeddingLookupUnique", [params, ids]):
        ids = tf.convert_to_tensor(ids)
        distinct, places = tf.unique(tf.reshape(ids, [-1]))
        embedded = tf.nn.embedding_lookup(params, distinct, partition_strategy)
        shape = tf.concat([tf.shape(ids), tf.shape(embedded)[1:]], 0)
        result = tf.reshape(tf.gather(embedded, places), shape)
        result.set_shape(ids.shape.concatenate(embedded.shape[1:]))
        return result


def safe_embedding_lookup_sparse(*args: Any, **kwargs: Any) -> tf.Tensor:
    """Look up a sparse tensor of ids; see `tf.nn.safe_embedding_lookup_sparse` for the arguments."""
    return tf.nn.safe_embedding_lookup_sparse(*args, **kwargs)
