"""The extension that explains errors about GPUs: memory that ran out, missing libraries, and unknown GPUs."""

from __future__ import annotations

import os
import re
import time
from contextlib import contextmanager
from typing import Iterator

from ...compat import tfv1 as tf
from ...loop.extension import ExtendedTrainer, Extension
from ...tfutils.precision import precision_record
from ...utils import logger
from ...utils.gpu import count_gpus, get_num_gpu
from ...utils.notes import write_note
from ..lint.graph_view import place_of
from ..nan.batch_capture import training_towers
from .messages import OutOfMemory, explain_messages, find_out_of_memory


class GPUErrors(Extension):
    """
    Extension that replaces the text of TensorFlow's errors about GPUs by a sentence, and keeps the text in a file.

    The error has the same type. Its cause is TensorFlow's error. The file is `gpu-error-<time>.txt` in the logger's directory.
    """

    @contextmanager
    def around_training(self, trainer: ExtendedTrainer) -> Iterator[None]:
        """
        Explain an error of the training.

        Raises:
            tf.errors.OpError: the explained error.
        """
        try:
            yield
        except tf.errors.OpError as error:
            sentence = explain_error(error, trainer)
            if sentence is None:
                raise
            text = f"{sentence} {_keep(str(error))}".rstrip()
            write_note("gpu", text)
            raise type(error)(error.node_def, error.op, text) from error

    def after_initialize(self, trainer: ExtendedTrainer) -> None:
        """Warn if the machine has a GPU for this process, but TensorFlow uses none."""
        if (
            count_gpus()
            and get_num_gpu()
            and not any("GPU" in device.device_type for device in trainer.sess.list_devices())
        ):
            logger.warning(
                f"TensorFlow uses none of the {get_num_gpu()} GPUs, so this training runs on the CPU. `tensorpack-lite env --gpu` "
                "tells why."
            )


def explain_error(error: tf.errors.OpError, trainer: ExtendedTrainer) -> str | None:
    """
    Return what is wrong and what to do, in a sentence.

    Args:
        error: an error of a step, or of the creation of a session.
        trainer: the trainer.

    Returns:
        None if the error is not about a GPU or memory.
    """
    text = str(error)
    memory = find_out_of_memory(text)
    if memory is not None:
        return _about_memory(memory, error, trainer)
    sentences = explain_messages(text)
    return sentences[0] if sentences else None


def _about_memory(memory: OutOfMemory, error: tf.errors.OpError, trainer: ExtendedTrainer) -> str:
    operation = error.op.name if error.op is not None else memory.operation
    names = [tower.ns_name for tower in training_towers(trainer) if tower.ns_name]
    tower = next((name for name in names if f"/{name}/" in f"/{operation}"), None)
    sentence = f"Tower '{tower}' ran" if tower else "The model ran"
    sentence += f" out of memory on {memory.device}" if memory.device else " out of memory"
    if operation:
        place = place_of(error.op) if error.op is not None else ""
        sentence += f" in '{operation}'" + (f" ({place})" if place else "")
    if memory.num_bytes is not None:
        sentence += f", which needs {_size(memory.num_bytes)}"
        sentence += f" for a tensor {memory.tensor}" if memory.tensor else ""
    if memory.largest:
        most = ", ".join(f"{_size(size)} of '{name}'" for size, name in memory.largest)
        sentence += f"; the largest tensors in memory are {most}"
    return f"{sentence}. {_advice(memory, operation)}"


def _advice(memory: OutOfMemory, operation: str) -> str:
    ways = ["a smaller batch"]
    if re.match(r"(Inference|tower-pred)", operation):
        ways = ["a smaller batch for inference"]
    elif not precision_record().dtypes and not memory.device.startswith("CPU"):
        ways.append('TrainConfig(precision="mixed_bfloat16")')
    ways.append("recompute_grad around parts of the model (docs/gpu.md)")
    advice = f"Use {', or '.join(ways)}."
    if memory.device.startswith("CPU"):
        return advice
    return f"{advice} If nvidia-smi lists other processes on this GPU, they take memory, too."


def _size(num_bytes: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if num_bytes < 1024:
            return f"{num_bytes:.4g} {unit}"
        num_bytes /= 1024
    return f"{num_bytes:.4g} TiB"


def _keep(text: str) -> str:
    """Write TensorFlow's text to a file, and return a sentence about it; "" without a logger directory."""
    directory = logger.get_logger_dir()
    if directory is None:
        return ""
    path = os.path.join(directory, f"gpu-error-{time.strftime('%m%d-%H%M%S')}.txt")
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text + "\n")
    except OSError as error:
        return f"TensorFlow's report cannot be written: {error}"
    return f"TensorFlow's report: {path}"
