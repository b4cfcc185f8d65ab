"""
Train examples with several seeds, and print the rows of the table in README.md: figures, comparisons, time and memory.

    python examples/measure.py tabular.py gan/dcgan.py      these examples, seeds 1 to 3
    python examples/measure.py "gan/pix2pix.py --plain"     an example with arguments
    python examples/measure.py                              all rows; takes hours
    python examples/measure.py --seeds 1                    one seed

Each training writes to train_log/measure/, with its output next to it. A second call repeats only what has not finished.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROWS = [
    "mnist_convnet.py",
    "mnist_plain_tf.py",
    "trainv1_digits.py",
    "keras_digits.py",
    "cifar_convnet.py",
    "resnet_cifar.py",
    "recompute.py",
    "recompute.py --recompute",
    "imagenet/imagenet_models.py",
    "saliency.py",
    "dorefa_digits.py",
    "dorefa_digits.py --bits 32,32,32",
    "adversarial_digits.py",
    "spatial_transformer.py",
    "spatial_transformer.py --plain",
    "similarity_digits.py",
    "moco_digits.py",
    "moco_digits.py --scratch",
    "super_resolution.py",
    "segment_scenes.py",
    "detection/train.py --masks",
    "rl/dqn.py",
    "rl/a2c.py",
    "char_rnn.py",
    "char_rnn.py --source",
    "transformer_lm.py",
    "ptb_lstm.py",
    "ctc_strips.py",
    "tabular.py",
    "tabular.py --csv diabetes",
    "tabular.py --csv breast_cancer",
    "gan/dcgan.py",
    "gan/wgan.py",
    "gan/wgan_gp.py",
    "gan/conditional_gan.py",
    "gan/infogan.py",
    "gan/pix2pix.py",
    "gan/pix2pix.py --plain",
    "gan/cyclegan.py",
]


def train(row: str, seed: int) -> dict:
    """Train an example, unless that has been done. Return its summary, with the time and memory of its processes."""
    name, *arguments = row.split()
    directory = Path("train_log", "measure", row.replace("/", "-").replace(" ", ""), f"seed{seed}")
    result = directory.with_name(directory.name + ".json")
    if not result.exists():
        directory.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, str(HERE / name), *arguments, "--seed", str(seed), "--log-dir", str(directory)]
        with open(directory.with_name(directory.name + ".txt"), "wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
            _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"{row} --seed {seed} failed; see {output.name}.")
        summary = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
        summary["cpu_seconds"] = usage.ru_utime + usage.ru_stime
        summary["megabytes"] = usage.ru_maxrss / 1024  # of the largest process
        result.write_text(json.dumps(summary, indent=2), encoding="utf-8")
    return json.loads(result.read_text(encoding="utf-8"))


def describe(values: list) -> str:
    """Return the mean of values and, if they differ, the least and the largest one."""
    least, mean, largest = (f"{value:.3g}" for value in (min(values), sum(values) / len(values), max(values)))
    return mean if least == largest else f"{mean} ({least} to {largest})"


def describe_row(row: str, summaries: list) -> str:
    """Return a row of the table in Markdown."""
    first, *others = summaries[0]["figures"]
    of_name = {name: describe([summary["figures"][name] for summary in summaries]) for name in (first, *others)}
    comparisons = "; ".join(f"{name} {of_name[name]}" for name in others)
    seconds = sum(summary["cpu_seconds"] for summary in summaries) / len(summaries)
    gigabytes = max(summary["megabytes"] for summary in summaries) / 1024
    title = summaries[0]["title"]
    return f"| `{row}` | {title} | {of_name[first]} | {comparisons} | {seconds:.0f} s | {gigabytes:.1f} GB |"


def main(argv=None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", default=ROWS, help="examples with their arguments; default: all")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    args = parser.parse_args(argv)
    print("| example | measure | figure | for comparison | CPU time | memory |")
    print("| --- | --- | --- | --- | --- | --- |")
    for row in args.rows:
        summaries = [train(row, seed) for seed in range(1, args.seeds + 1)]
        print(describe_row(row, summaries), flush=True)


if __name__ == "__main__":
    main()
