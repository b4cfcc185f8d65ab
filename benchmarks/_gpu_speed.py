"""Sections of gpu_proof.py that measure speed, with the processes of peers.py in turns."""

from __future__ import annotations

import importlib.util

import _peer_models as models
import peers
from peers import Case

PIXELS, SMALL_PIXELS = 224, 32
PRECISIONS = {  # arguments of a case; in the order of importance, because time may run out
    "mixed_bfloat16": {"precision": "mixed_bfloat16"},
    "float32": {},
    "TF32": {"tf32": True},
    "mixed_float16": {"precision": "mixed_float16"},
    "mixed_bfloat16, XLA": {"precision": "mixed_bfloat16", "xla": True},
}
LONGEST_CASE = 25  # seconds; a case is not started if less time is left


def compare_precisions(section):
    """Images/s of ResNet-50 in each precision; ours within 2 % of the raw loop, mixed precision at least twice float32."""
    measure_precisions(section, 2 if section.small else 64, PRECISIONS)


def compare_large_batch(section):
    """The same with batches of 256. With small sizes only one precision, because the code is the same."""
    measure_precisions(section, 4 if section.small else 256, list(PRECISIONS)[: 1 if section.small else None])


def measure_precisions(section, batch, names):
    micros = {}
    for name in names:
        what = f"ResNet-50, batch {batch}, {name}"
        if section.seconds_left() < LONGEST_CASE:
            section.row(what, "not measured: no time left")
            continue
        case = Case("resnet50", batch, "synthetic", pixels=pixels_of(section), **PRECISIONS[name])
        found = compare_with_peers(section, what, case)
        if found:
            micros[name] = found["ours"]["us"]
    for name in micros:
        if name.startswith("mixed") and "float32" in micros:
            gain = micros["float32"] / micros[name]
            passed = gain >= 2 if section.has_gpu else None
            section.row(f"batch {batch}: {name} / float32", f"{gain:.2f} times as fast", passed, gain=gain)


def compare_with_peers(section, what, case):
    """Compare ours with the raw loop and PyTorch; with one after the other if the GPU has no memory for three."""
    raw = {peer: (peer, case) for peer in ("ours", "raw")}
    if case.xla or not importlib.util.find_spec("torch"):
        return compare(section, what, raw, case.batch, 0.98)
    found = compare(section, what, {**raw, "torch": ("torch", case)}, case.batch, 0.98)
    if not found:
        found = compare(section, what, raw, case.batch, 0.98)
        compare(section, what, {peer: (peer, case) for peer in ("ours", "torch")}, case.batch)
    return found


def compare_inputs(section):
    """A batch of float32 images that is ready in memory: through each input, against one on the device."""
    batch = 2 if section.small else 64
    arguments = {"precision": "mixed_bfloat16", "pixels": pixels_of(section)}
    kinds = {"synthetic": "synthetic", "QueueInput": "queue", "StagingInput(QueueInput)": "staged"}
    trainings = {name: ("ours", Case("resnet50", batch, kind, **arguments)) for name, kind in kinds.items()}
    # a ratio above 1 is slower than synthetic data
    found = compare(section, f"ResNet-50, batch {batch}, mixed_bfloat16", trainings, batch)
    if found:
        low = found["StagingInput(QueueInput)"]["ratio"][1]
        section.row(
            "StagingInput(QueueInput): time of a step / synthetic",
            "{:.3f} ({:.3f} to {:.3f})".format(*found["StagingInput(QueueInput)"]["ratio"]),
            low <= 1.03 if section.has_gpu else None,
        )


def compare_steps(section):
    """A linear layer: the time of our step against that of the callable, and the work of the device from a trace."""
    case = Case("linear", 64, "synthetic")
    section.row("a linear layer: work of the device in a step", describe_work(case))
    compare(section, "a linear layer, batch 64", {"ours": ("ours", case), "raw": ("raw", case)}, 64)


def pixels_of(section):
    return SMALL_PIXELS if section.small else PIXELS


def compare(section, what, trainings, batch, least=None):
    """
    Write a row with images/s and ratios. A training that fails makes the row an error. Return what `peers.compare` returns.

    Args:
        least: on a GPU, the ratio of the raw loop to ours must be at least this number, within its interval.
    """
    try:
        found = peers.compare(trainings, 1, 1 if section.small else 4)
    except (RuntimeError, OSError) as error:
        section.row(what, "failed: " + str(error).strip().splitlines()[-1][:300], False)
        return None
    base, *others = found
    text = f"{base} {1e6 * batch / found[base]['us']:,.0f} images/s ({found[base]['us']:,.0f} us a step)"
    for name in others:
        text += "; {} / {}: {:.2f} ({:.2f} to {:.2f}) times the time".format(name, base, *found[name]["ratio"])
    has_law = least is not None and "raw" in found and section.has_gpu
    passed = found["raw"]["ratio"][2] >= least if has_law else None
    section.row(what, text, passed, figures=found)
    return found


def describe_work(case):
    """Return the microseconds for which kernels of a step run, according to TensorFlow's trace, as text."""
    from tensorpack_lite.compat import ensure_graph_mode
    from tensorpack_lite.compat import tfv1 as tf

    ensure_graph_mode()
    with tf.Graph().as_default():
        train_op, fed = peers.raw_graph(case, *models.make_data(case.work))
        session = case.raw_session(train_op, fed)
        options, metadata = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), tf.RunMetadata()
        for _ in range(3):
            session.run(train_op)
        session.run(train_op, options=options, run_metadata=metadata)
        session.close()
    work = {
        device.device: sum(node.all_end_rel_micros for node in device.node_stats)
        for device in metadata.step_stats.dev_stats
        if device.device.endswith(("stream:all", "CPU:0"))
    }
    if not work:
        return "no trace (is CUPTI missing?)"
    return ", ".join(f"{micros} us on {device.split('/')[-1]}" for device, micros in work.items())
