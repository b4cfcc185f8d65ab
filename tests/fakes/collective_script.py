"""Script that tests/graph_builder/test_collective.py runs in each rank: prints the results of collective operations as JSON."""

from __future__ import annotations

import json

import numpy as np

from tensorpack_lite.compat import ensure_graph_mode
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.graph_builder.collective import RankGroup, allreduce_rank_grads, broadcast_variables
from tensorpack_lite.ranks.cluster import Cluster


def grads_of(rank):
    """Return gradients of several dtypes. One has an unknown shape; one is an IndexedSlices whose length depends on rank and step."""
    dense = tf.constant([[1.0, 2.0], [3.0, 4.0]]) * (rank + 1)
    double = tf.constant([0.5, 0.25], tf.float64) * (rank + 1)
    unknown = tf.placeholder_with_default(np.full(3, rank + 1, "float32"), [None])
    count = tf.placeholder_with_default(rank + 1, [])
    slices = tf.IndexedSlices(tf.ones([count, 2]) * (rank + 1), tf.cast(tf.range(count), tf.int32), tf.constant([5, 2]))
    half = tf.constant([1.0, 2.0], tf.float16) * (rank + 1)
    return {"dense": dense, "double": double, "unknown": unknown, "slices": slices, "half": half}, count


def variables_of(rank):
    """Create one variable of each kind."""
    kinds = {
        "float": np.float32(1.5), "half": np.float16(0.5), "flag": np.bool_(True), "step": np.int64(2**40),
        "byte": np.uint8(200), "double": np.float64(0.1),
    }  # fmt: skip
    return {
        name: tf.get_variable(
            name, initializer=tf.constant(value if rank == 0 else value * 0, value.dtype), use_resource=True
        )
        for name, value in kinds.items()
    }


def main():
    ensure_graph_mode()
    cluster = Cluster.from_environment()
    group = RankGroup(cluster.rank, cluster.size)
    config = tf.ConfigProto()
    config.experimental.collective_group_leader = cluster.leader
    config.device_filters.append(f"/job:worker/task:{cluster.rank}")
    server = tf.train.Server({"worker": cluster.addresses}, "worker", cluster.rank, config=config)
    grads, count = grads_of(cluster.rank)
    pairs = [(grad, None) for grad in grads.values()]
    results = {}
    for name, options in {"mean": {}, "sum": {"average": False}, "fp16": {"compression": "fp16"}}.items():
        results[name] = dict(zip(grads, [grad for grad, _ in allreduce_rank_grads(pairs, group, **options)]))
    variables = variables_of(cluster.rank)
    sync = broadcast_variables(list(variables.values()), group)
    names = {op.name for op in tf.get_default_graph().get_operations() if op.type == "CollectiveReduce"}
    with tf.Session(server.target, config=config) as session:
        session.run(tf.global_variables_initializer())
        shown = {name: session.run(result) for name, result in results.items()}
        shown["again"] = session.run(results["mean"], {count: 3 - cluster.rank})
        session.run(sync)
        shown["variables"] = session.run(variables)
        session.run(results["sum"]["dense"])  # no rank leaves while another one is still working
    print("RESULT " + json.dumps({"rank": cluster.rank, "reductions": len(names), **plain(shown)}), flush=True)


def plain(value):
    """Turn arrays into lists."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if hasattr(value, "indices"):
        return {"indices": value.indices.tolist(), "values": value.values.tolist()}
    return value.tolist()


if __name__ == "__main__":
    main()
