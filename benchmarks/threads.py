"""
How many threads an operation should have, and whether gradients should wait for each other.

    python benchmarks/threads.py [--works mnist lstm] [--batches 1 16 64] [--threads default 1 0] [--gated 0 1] [--rounds 2]

Each case trains the same network in this library with several settings, in processes that run in turn (see `peers.py`). The
first setting is the base. The output is the median time of a step, and the ratio to the base with its interval.

--threads: of one operation; "default" is the library's own choice, 0 is all cores.
"""

from __future__ import annotations

import argparse

import _peer_models as models
import peers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--works", nargs="+", default=["mnist", "resnet20", "lstm"], choices=models.WORKS)
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 16, 64, 256])
    parser.add_argument("--pixels", type=int, default=224)
    parser.add_argument("--threads", nargs="+", default=["default", "1", "0"])
    parser.add_argument("--gated", nargs="+", type=int, default=[0])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--blocks", type=int, default=5)
    args = parser.parse_args()
    for work in args.works:
        for batch in args.batches:
            trainings = {}
            for threads in args.threads:
                for gated in args.gated:
                    number = None if threads == "default" else int(threads)
                    case = peers.Case(work, batch, "synthetic", pixels=args.pixels, threads=number)
                    name = f"threads {threads}" + (", gated" if gated else "")
                    trainings[name] = (("free", "gated")[gated], case)
            for name, figures in peers.compare(trainings, args.rounds, args.blocks).items():
                ratio = "{:.3f} ({:.3f} to {:.3f})".format(*figures["ratio"])
                print(f"{work:9} batch {batch:4}  {name:20} {figures['us']:10.0f} us  {ratio}", flush=True)


if __name__ == "__main__":
    main()
