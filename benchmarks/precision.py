"""
Accuracy, loss curve, time and peak memory of three models in each precision, as one Markdown table.

    python benchmarks/precision.py                     # about 3 minutes on two cores
    python benchmarks/precision.py --works lstm --precisions float32 mixed_bfloat16 --steps 1000

The models are those of `peers.py`: a convnet for MNIST, a ResNet of CIFAR size, and an LSTM. The two networks for images are
trained on the digits of scikit-learn, scaled to the size of their inputs; the LSTM predicts the next token of sequences with a
rule, in which one token of ten is random. Each training runs in a separate process, with the same batches and
initial values for each precision.

Accuracy is that on data that was not trained on. The curve has the mean cost of each fifth of the steps. The time is the median
of the steps after the fifth one, so it means something only on a quiet machine. The memory is the peak of the process, or on a GPU
that of TensorFlow's allocator.

On a CPU, float16 is rounded and multiplied in float32, so it is not faster. These runs are skipped there; --slow runs them.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time

import _peer_models as models
import numpy as np

PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")
NUM_TEST = 512


def make_data(work: str) -> list[np.ndarray]:
    """Return inputs and labels; the last `NUM_TEST` of them are for the accuracy."""
    rng = np.random.RandomState(0)
    if work == "lstm":
        tokens = rng.randint(models.TOKENS, size=[4096 + NUM_TEST, models.LENGTH + 1])
        is_random = rng.rand(*tokens.shape) < 0.1
        for k in range(1, tokens.shape[1]):
            by_rule = (5 * tokens[:, k - 1] + 3) % models.TOKENS
            tokens[:, k] = np.where(is_random[:, k], tokens[:, k], by_rule)
        tokens = tokens.astype("int32")
        return [tokens[:, :-1], tokens[:, 1:]]
    from tensorpack_lite.dataflow import dataset

    digits = []
    for part in ("train", "test"):
        source = dataset.Digits(part, size=28 if work == "mnist" else 32, shuffle=False)
        source.reset_state()
        digits += list(source)
    digits = [digits[k] for k in rng.permutation(len(digits))]
    images = np.stack([image for image, _ in digits])[..., None]
    images = images if work == "mnist" else np.repeat(images, 3, axis=3)
    return [images.astype("float32"), np.array([label for _, label in digits], "int32")]


def train(work: str, precision: str, steps: int, batch: int) -> dict:
    """Train in this process, and return the accuracy, the costs, the seconds of steps, and the bytes."""
    import tensorpack_lite as tp
    from tensorpack_lite.compat import tfv1 as tf
    from tensorpack_lite.utils.memory import peak_memory
    from tensorpack_lite.utils.random_streams import fix_rng_seed

    class Model(tp.ModelDesc):
        def inputs(self):
            return [
                tf.TensorSpec([None, *each.shape[1:]], tf.as_dtype(each.dtype), name)
                for name, each in zip(("x", "label"), data)
            ]

        def build_graph(self, x, label):
            logits = models.logits_of(work, x)
            is_right = tf.equal(tf.cast(tf.argmax(logits, -1), tf.int32), label)
            tf.reduce_mean(tf.cast(is_right, tf.float32), name="accuracy")
            return models.cost_of_logits(logits, label)

        def optimizer(self):
            return models.optimizer_of(work)

    class Recorder(tp.Callback):
        def _setup_graph(self):
            self.costs, self.times = [], []
            self.cost = tf.get_default_graph().get_tensor_by_name("cost:0")

        def _before_run(self, context):
            return tf.train.SessionRunArgs(self.cost)

        def _after_run(self, context, values):
            self.costs.append(float(values.results))

        def _trigger_step(self):
            self.times.append(time.perf_counter())

    data = make_data(work)
    rows = [list(row) for row in zip(*data)]
    recorder, tracker = Recorder(), tp.GPUMemoryTracker()
    test = tp.BatchData(tp.DataFromList(rows[-NUM_TEST:], shuffle=False), 128)
    fix_rng_seed(1)
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        config = tp.TrainConfig(
            model=Model(),
            data=tp.FeedInput(tp.RepeatedData(tp.BatchData(tp.DataFromList(rows[:-NUM_TEST]), batch), -1)),
            callbacks=[recorder, tracker, tp.InferenceRunner(test, tp.ScalarStats("accuracy"))],
            monitors=[],
            steps_per_epoch=steps,
            max_epoch=1,
            precision=precision,
        )
        trainer = tp.SimpleTrainer()
        tp.launch_train_with_config(config, trainer)
    peaks = trainer.monitors.get_history("PeakMemory(MB)/gpu:0")
    return {
        "accuracy": trainer.monitors.get_latest("validation_accuracy"),
        "costs": recorder.costs,
        "seconds": float(np.median(np.diff(recorder.times)[4:])),
        "megabytes": peaks[-1][1] if peaks else peak_memory() / 1e6,
    }


def _train_in_child(queue, *args) -> None:
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 1)
    os.environ["TENSORPACK_LITE_LOG"] = "quiet"
    try:
        queue.put(train(*args))
    except Exception as error:  # noqa: BLE001 (it becomes a row of the table)
        queue.put((str(error).strip() or type(error).__name__).splitlines()[0])


def row(work: str, precision: str, steps: int, batch: int) -> str:
    """Train in another process, and return the row of the table."""
    context = multiprocessing.get_context("fork")  # TensorFlow is imported once
    queue = context.Queue()
    process = context.Process(target=_train_in_child, args=(queue, work, precision, steps, batch))
    process.start()
    process.join()
    found = f"exit code {process.exitcode}" if process.exitcode else queue.get()
    if isinstance(found, str):
        return f"| {work} | {precision} | {found} | | | |"
    curve = " ".join(f"{part.mean():.3f}" for part in np.array_split(np.array(found["costs"]), 5))
    numbers = f"{found['accuracy']:.1%} | {curve} | {found['seconds'] * 1e3:.1f} | {found['megabytes']:,.0f}"
    return f"| {work} | {precision} | {numbers} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--works", nargs="+", choices=models.WORKS[:3], default=models.WORKS[:3])
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=PRECISIONS)
    parser.add_argument("--steps", type=int, default=0, help="0: 100 for mnist, 200 for resnet20, 300 for lstm")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--slow", action="store_true", help="also mixed_float16 on a CPU")
    args = parser.parse_args()
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    from tensorpack_lite.compat import tensorflow
    from tensorpack_lite.utils.gpu import get_num_gpu

    print(f"TensorFlow {tensorflow.__version__}, batch {args.batch}\n")
    print("| model | precision | accuracy | mean cost of each fifth | ms a step | peak memory, MB |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    for work in args.works:
        steps = args.steps or {"mnist": 100, "resnet20": 200, "lstm": 300}[work]
        for precision in args.precisions:
            if precision == "mixed_float16" and not (args.slow or get_num_gpu()):
                print(f"| {work} | {precision} | left out on a CPU | | | |")
            else:
                print(row(work, precision, steps, args.batch), flush=True)


if __name__ == "__main__":
    main()
