"""
Draw the pictures of pages in docs/ again: `python docs/images/make.py`.

It needs matplotlib, OpenCV and scikit-learn, and no TensorFlow.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from tensorpack_lite.dataflow import dataset, imgaug
from tensorpack_lite.utils import schedules
from tensorpack_lite.utils.random_streams import fix_rng_seed
from tensorpack_lite.utils.viz import draw_text, stack_patches
from tensorpack_lite.utils.viz.images import write_image

HERE = Path(__file__).parent
SIZE = (4, 2.5)  # inches


def save(figure: Figure, name: str) -> None:
    """Write a picture with 80 dots per inch."""
    figure.tight_layout()
    figure.savefig(HERE / name, dpi=80)


def read(part: str, size: int) -> list[np.ndarray]:
    """Return the images and the labels of a part of the digits."""
    digits = dataset.Digits(part, size=size, shuffle=False)
    digits.reset_state()
    return [np.stack(column) for column in zip(*digits)]


def draw_schedules() -> None:
    """Draw the schedules of docs/optimizers.md over 60 epochs."""
    figure = Figure(figsize=SIZE)
    axes = figure.add_subplot()
    shown = {
        "cosine": schedules.cosine(0.1, 60, warmup=5),
        "step": schedules.step(0.1, [30, 45], 0.1),
        "one_cycle": schedules.one_cycle(0.1, 60),
        "inverse_sqrt": schedules.inverse_sqrt(0.1, 5),
    }
    for name, schedule in shown.items():
        axes.plot([schedule(epoch) for epoch in range(60)], label=name)
    axes.set(xlabel="epoch", ylabel="learning rate")
    axes.legend(fontsize=7)
    save(figure, "schedules.png")


def draw_augmented() -> None:
    """Draw a digit 18 times, augmented."""
    image = (255 * read("train", 28)[0][7]).astype("uint8")
    augmentor = imgaug.AugmentorList(
        [imgaug.Rotation(30), imgaug.RandomResize((0.7, 1.3), (0.7, 1.3))]
    )
    patches = [
        imgaug.CenterPaste((44, 44)).augment(augmentor.augment(image))
        for _ in range(18)
    ]
    write_image(str(HERE / "augmented.png"), stack_patches(patches, 3, 6, border=2))


def draw_confusion() -> None:
    """Draw the confusion matrix of the nearest class mean, as the Inferencer of the page draws that of a network."""
    images, labels = read("train", 8)
    means = np.stack([images[labels == digit].mean(axis=0) for digit in range(10)])
    matrix = np.zeros([10, 10])
    for image, label in zip(*read("test", 8)):
        matrix[label, np.square(means - image).sum(axis=(1, 2)).argmin()] += 1
    share = matrix / matrix.sum(axis=1, keepdims=True)
    cells = np.kron(1 - share, np.full([32, 32], 255.0))
    picture = np.pad(cells, [(64, 0), (64, 0)], "constant", constant_values=255)
    picture = np.repeat(picture[:, :, np.newaxis], 3, axis=2)
    white = (255, 255, 255)
    picture = draw_text(picture, (64, 40), "predicted", white)
    picture = draw_text(picture, (0, 64), "true", white)
    for digit in range(10):
        place = 64 + 32 * digit
        picture = draw_text(picture, (place + 8, 60), str(digit), white)
        picture = draw_text(picture, (0, place + 22), str(digit), white)
    write_image(str(HERE / "confusion.png"), picture)


def draw_batches() -> None:
    """Draw the end of the gain of a larger batch: what a step costs besides its samples becomes small."""
    figure = Figure(figsize=SIZE)
    axes = figure.add_subplot()
    batch = 2 ** np.arange(5, 13)
    axes.plot(batch, batch / (0.005 + 2e-5 * batch), ".-")
    axes.set(xscale="log", xlabel="batch", ylabel="samples per second")
    axes.set_title("5 ms for a step and 20 µs for a sample", fontsize=8)
    save(figure, "batches.png")


if __name__ == "__main__":
    fix_rng_seed(1)
    draw_schedules()
    draw_augmented()
    draw_confusion()
    draw_batches()
