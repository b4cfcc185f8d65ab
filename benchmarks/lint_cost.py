"""
Cost of lint: CPU seconds of the rules, and of the start-up without them, for ResNet-50 on K devices.

    python benchmarks/lint_cost.py [--towers 1 4 8]

The targets are 2 % of the start-up, and 3 seconds for 50,000 operations. The start-up is the time to build the graph and to
create the session. Seconds are CPU time, so other load on the machine does not count.
"""

from __future__ import annotations

import argparse
import logging
import time

from _measure import machine
from growth import BATCH, SIZE, make_model

import tensorpack_lite
from tensorpack_lite.compat import ensure_graph_mode
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.diagnostics.lint.lint import lint_training
from tensorpack_lite.tfutils.sesscreate import NewSessionCreator
from tensorpack_lite.tfutils.sessinit import JustCurrentSession


def measure(num_towers: int) -> tuple:
    """Return the number of operations, and the seconds of the start-up and of lint."""
    with tf.Graph().as_default() as graph:
        start = time.process_time()
        model = make_model(tensorpack_lite)
        trainer = tensorpack_lite.SyncMultiGPUTrainerReplicated(num_towers, mode="cpu")
        source = tensorpack_lite.DummyConstantInput([[BATCH, SIZE, SIZE, 3], [BATCH]])
        trainer.setup_graph(model.get_input_signature(), source, model.build_graph, model.get_optimizer)
        trainer.setup_callbacks(tensorpack_lite.DEFAULT_CALLBACKS(), [])
        built = time.process_time()
        remarks = lint_training(trainer, JustCurrentSession(), "warn")
        linted = time.process_time()
        assert remarks == [], remarks
        trainer.initialize(NewSessionCreator(), JustCurrentSession())
        ended = time.process_time()
        trainer.hooked_sess.close()
        return len(graph.get_operations()), built - start + ended - linted, linted - built


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--towers", type=int, nargs="+", default=[1, 4, 8])
    args = parser.parse_args()
    ensure_graph_mode()
    logging.getLogger("tensorpack_lite").setLevel(logging.CRITICAL)
    measure(1)  # the first build also loads modules of TensorFlow
    print(f"ResNet-50: operations, seconds of the start-up and of lint  [{machine()}]")
    for num_towers in args.towers:
        operations, start_up, lint = measure(num_towers)
        share = lint / start_up
        print(f"K={num_towers}  {operations:7d} {start_up:6.1f} {lint:6.2f}  {share:5.1%}", flush=True)


if __name__ == "__main__":
    main()
