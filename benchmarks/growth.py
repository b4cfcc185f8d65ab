"""
Cost of building towers: seconds, operations and megabytes of ResNet-50's graph on K devices.

    python benchmarks/growth.py [--towers 1 2 4 8]

The target is linear growth in K, and not to be slower than tensorpack, which is also measured if TENSORPACK_CHECKOUT is set
and TensorFlow is older than 2.16. Seconds are CPU time, so other load on the machine does not count.
"""

from __future__ import annotations

import argparse
import logging
import time

from _measure import import_tensorpack, machine

import tensorpack_lite
from tensorpack_lite.compat import TF_VERSION, ensure_graph_mode
from tensorpack_lite.compat import tfv1 as tf

BATCH, SIZE = 8, 64
BLOCKS = ((64, 3), (128, 4), (256, 6), (512, 3))


def make_model(lib):
    """ResNet-50 with the layers of tensorpack_lite or tensorpack."""

    def normalized(x):
        return lib.BatchNorm("bn", x)

    def bottleneck(x, channels, stride):
        shortcut = x
        if x.shape[3] != channels * 4:
            shortcut = lib.Conv2D("shortcut", x, channels * 4, 1, strides=stride, activation=normalized)
        x = lib.Conv2D("conv1", x, channels, 1, activation=lib.BNReLU)
        x = lib.Conv2D("conv2", x, channels, 3, strides=stride, activation=lib.BNReLU)
        x = lib.Conv2D("conv3", x, channels * 4, 1, activation=normalized)
        return tf.nn.relu(x + shortcut)

    class ResNet50(lib.ModelDesc):
        def inputs(self):
            return [
                tf.TensorSpec([BATCH, SIZE, SIZE, 3], tf.float32, "image"),
                tf.TensorSpec([BATCH], tf.int32, "label"),
            ]

        def build_graph(self, image, label):
            with lib.argscope(lib.Conv2D, use_bias=False):
                x = lib.Conv2D("conv0", image, 64, 7, strides=2, activation=lib.BNReLU)
                x = lib.MaxPooling("pool0", x, 3, strides=2, padding="SAME")
                for group, (channels, count) in enumerate(BLOCKS):
                    for block in range(count):
                        with tf.variable_scope(f"group{group}/block{block}"):
                            x = bottleneck(x, channels, 2 if group and not block else 1)
            logits = lib.FullyConnected("linear", lib.GlobalAvgPooling("gap", x), 1000)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
            return tf.reduce_mean(losses) + lib.regularize_cost(".*/W", lib.l2_regularizer(1e-4))

        def optimizer(self):
            return tf.train.MomentumOptimizer(0.1, 0.9)

    return ResNet50()


def build(lib, kind, num_towers):
    """Build the graph. Return seconds, operations and megabytes."""
    makers = {
        "parameter server": lambda: lib.SyncMultiGPUTrainerParameterServer(num_towers),
        "replicated": lambda: lib.SyncMultiGPUTrainerReplicated(num_towers, mode="gpu"),
    }
    with tf.Graph().as_default() as graph:
        model, trainer = make_model(lib), makers[kind]()
        source = lib.DummyConstantInput([[BATCH, SIZE, SIZE, 3], [BATCH]])
        start = time.process_time()
        trainer.setup_graph(model.get_input_signature(), source, model.build_graph, model.get_optimizer)
        seconds = time.process_time() - start
        return seconds, len(graph.get_operations()), graph.as_graph_def().ByteSize() / 2**20


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--towers", type=int, nargs="+", default=[1, 2, 4, 8])
    args = parser.parse_args()
    ensure_graph_mode()
    logging.getLogger("tensorpack_lite").setLevel(logging.CRITICAL)
    libraries = {"tensorpack_lite": tensorpack_lite}
    tensorpack = import_tensorpack() if TF_VERSION < (2, 16) else None
    if tensorpack is not None:
        libraries["tensorpack"] = tensorpack
    build(tensorpack_lite, "replicated", 1)  # the first build also loads modules of TensorFlow
    print(f"ResNet-50: seconds, operations, MB of GraphDef  [{machine()}]")
    for kind in ("parameter server", "replicated"):
        for name, lib in libraries.items():
            for num_towers in args.towers:
                seconds, operations, megabytes = build(lib, kind, num_towers)
                print(
                    f"{kind:16} {name:15} K={num_towers}  {seconds:6.1f} {operations:7d} {megabytes:6.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
