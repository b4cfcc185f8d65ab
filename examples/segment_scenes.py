"""
A U-Net that finds the class of each pixel: handwritten digits over photographs, or any data set in COCO's format.

Shows: skip connections, Dice loss, COCO's format, an inferencer that computes the mean IoU and draws predictions.png.
Expect: a mean IoU (intersection over union) of the ten digits of about 0.79 on held-out scenes after 10,500 steps, and
of 0.81 if the background counts as a class. After 4,500 steps, the latter is 0.73.

    python examples/segment_scenes.py               scenes of digits, written to train_log/; no download
    python examples/segment_scenes.py --train IMAGES JSON --test IMAGES JSON --size 192    e.g. COCO
    python examples/segment_scenes.py --resume      continue the last run in train_log/

Source: Ronneberger, Fischer, Brox 2015, "U-Net: convolutional networks for biomedical image segmentation"; the loss:
Milletari et al. 2016, "V-Net: fully convolutional neural networks for volumetric medical image segmentation".
"""

from __future__ import annotations

import cv2
import numpy as np
from common import get_config_class, get_parser, print_summary, start
from data.scenes import make_scenes
from pycocotools.coco import COCO

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.utils.palette import PALETTE_RGB
from tensorpack_lite.utils.viz import stack_patches

BATCH = 4  # small, because the number of steps limits the learning
CHANNELS = [24, 48, 96, 128]  # at 1/2, 1/4, 1/8 and 1/16 of the resolution


class Model(ModelDesc):
    """A U-Net with four levels. Each level adds its logits, so coarse levels learn early. Class 0 is the background."""

    def __init__(self, num_classes: int, total_steps: int) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.total_steps = total_steps

    def inputs(self):
        return [
            tf.TensorSpec([None, None, None, 3], tf.uint8, "image"),
            tf.TensorSpec([None, None, None], tf.int32, "label"),
        ]

    def build_graph(self, image, label):
        logits = self.get_logits(tf.cast(image, tf.float32) / 128 - 1)  # [N, H, W, classes]
        prediction = tf.argmax(logits, axis=3, output_type=tf.int32, name="prediction")

        # Most pixels are background, so the pixels of objects count more: four times at first, once at the end.
        progress = tf.cast(get_global_step_var(), tf.float32) / self.total_steps  # from 0 to 1
        extra = 3.0 * tf.maximum(1 - progress, 0.0)
        weight = 1.0 + extra * tf.cast(label > 0, tf.float32)  # [N, H, W]
        cross_entropy = tf.losses.sparse_softmax_cross_entropy(label, logits, weight, scope="cross_entropy")

        # Dice loss: 0 if a class overlaps with itself, 1 if not at all. + 1: also 0 if the class is nowhere.
        truth = tf.one_hot(label, self.num_classes)  # [N, H, W, classes]
        probability = tf.nn.softmax(logits, name="probability")
        shared, total = count_overlaps(probability, truth)
        dice = tf.reduce_mean(1 - (2 * shared + 1) / (total + 1), name="dice_loss")

        # The same numbers for predicted classes, instead of probabilities, are for MeanIoU.
        predicted = tf.one_hot(prediction, self.num_classes)  # [N, H, W, classes]
        tf.stack(count_overlaps(predicted, truth), name="overlaps")  # [2, classes]
        summary.add_moving_summary(cross_entropy, dice)
        return tf.add(cross_entropy, dice, name="cost")

    def get_logits(self, x):
        """Return the scores of the classes of all pixels [N, H, W, classes], for an image [N, H, W, 3]."""
        levels = range(len(CHANNELS))
        features = []  # of each level, at 1/2, 1/4, 1/8 and 1/16 of the resolution
        logits = 0
        with argscope(Conv2D, kernel_size=3, use_bias=False, activation=BNReLU):
            # down: from fine to coarse
            x = Conv2D("stem", x, CHANNELS[0], kernel_size=5, strides=2)
            for level in levels:
                if level > 0:
                    x = MaxPooling(f"pool{level}", x, 2)
                    x = Conv2D(f"down{level}.1", x, CHANNELS[level])
                x = Conv2D(f"down{level}.2", x, CHANNELS[level])
                features.append(x)

            # up: from coarse to fine, starting with x at 1/16
            for level in reversed(levels):
                if level < levels[-1]:
                    x = Conv2DTranspose(f"enlarge{level}", x, CHANNELS[level], kernel_size=2, strides=2)
                    x = tf.concat([x, features[level]], axis=3)  # both at the resolution of this level
                    x = Conv2D(f"up{level}", x, CHANNELS[level])
                    # The logits of the coarser level have the size of x; those of this level have twice that size.
                    logits = tf.image.resize_bilinear(logits, 2 * tf.shape(x)[1:3], half_pixel_centers=True)
                logits += Conv2DTranspose(f"logits{level}", x, self.num_classes, kernel_size=4, strides=2)
        return logits

    def optimizer(self):
        rate = tf.train.cosine_decay(2e-3, get_global_step_var(), self.total_steps)
        return tf.train.AdamOptimizer(rate)


def count_overlaps(a, b) -> tuple:
    """
    Return the sums of a * b and of a + b over all pixels of a batch, [C] and [C], from two [N, H, W, C].

    If a and b are 0 or 1, these are the sizes of the intersection, and of both together: intersection plus union.
    """
    shared = tf.reduce_sum(a * b, axis=[0, 1, 2])
    total = tf.reduce_sum(a + b, axis=[0, 1, 2])
    return shared, total


def get_data(images: str, annotations: str, *, size: int, shuffle: bool) -> tuple:
    """Return a DataFlow of images uint8 [S, S, 3] and the classes of their pixels int32 [S, S]; the number of classes."""
    coco = COCO(annotations)
    class_of = {category: k for k, category in enumerate(sorted(coco.cats), start=1)}  # 0 is the background

    def read(datapoint):
        (number,) = datapoint
        name = coco.imgs[number]["file_name"]
        image = cv2.imread(f"{images}/{name}")
        label = np.zeros(image.shape[:2], np.uint8)
        objects = sorted(coco.imgToAnns[number], key=lambda row: row["area"], reverse=True)
        for row in objects:  # small objects last, so that large ones do not hide them
            label[coco.annToMask(row) > 0] = class_of[row["category_id"]]
        image = cv2.resize(image, (size, size), interpolation=cv2.INTER_AREA)
        label = cv2.resize(label, (size, size), interpolation=cv2.INTER_NEAREST)
        return [image, label.astype(np.int32)]

    numbers = DataFromList([[number] for number in sorted(coco.imgs)], shuffle)
    return MapData(numbers, read), len(class_of) + 1


class MeanIoU(Inferencer):
    """
    Mean over classes of intersection over union, from all test pixels. Also draws the first predictions.

    `val_mean_iou` counts the background as a class, `val_object_iou` does not. `val_background_iou` is what
    `val_mean_iou` would be for a prediction of background everywhere.
    """

    def _before_inference(self) -> None:
        self.overlaps: list = []  # of each batch: [2, classes]
        self.num_pixels: list = []  # of each batch: [classes]

    def _get_fetches(self) -> list:
        return ["overlaps", "image", "label", "prediction"]

    def _on_fetches(self, results) -> None:
        overlaps, image, label, prediction = results
        if not self.overlaps:  # the first batch
            self.draw(image[:6], label[:6], prediction[:6])
        self.overlaps.append(overlaps)
        self.num_pixels.append(np.bincount(label.ravel(), minlength=overlaps.shape[1]))

    def draw(self, image: np.ndarray, label: np.ndarray, prediction: np.ndarray) -> None:
        """Write predictions.png, with rows of images, true classes and predicted classes."""
        colors = np.concatenate([np.zeros([1, 3]), PALETTE_RGB])  # the background is black
        sheet = stack_patches([*image, *colors[label], *colors[prediction]], 3, len(image), border=2)
        cv2.imwrite(f"{logger.get_logger_dir()}/predictions.png", sheet)

    def _after_inference(self) -> dict:
        shared, total = np.array(self.overlaps, np.float64).sum(axis=0)  # [classes], [classes]
        union = total - shared
        iou = shared / np.maximum(union, 1)
        is_there = union > 0  # classes that are neither in the labels nor in the predictions have no IoU
        is_object = is_there & (np.arange(len(iou)) > 0)

        # Background everywhere: its IoU is its part of all pixels, and that of all other classes is 0.
        num_pixels = np.sum(self.num_pixels, axis=0)  # [classes]
        background_iou = num_pixels[0] / num_pixels.sum()
        num_classes = np.count_nonzero(num_pixels)
        return {
            "val_mean_iou": iou[is_there].mean(),
            "val_object_iou": iou[is_object].mean(),
            "val_background_iou": background_iou / num_classes,
        }


def main(argv=None) -> None:
    parser = get_parser(__doc__, "segment_scenes", max_epoch=7)
    for name in ("--train", "--test"):
        parser.add_argument(name, nargs=2, metavar=("IMAGES", "JSON"), help="data in COCO's format")
    parser.add_argument("--scenes", type=int, default=6000, help="number of scenes, without --train")
    parser.add_argument("--size", type=int, default=128, help="side of the images; a multiple of 16")
    args = parser.parse_args(argv)
    start(args)
    if not args.train:
        folder = make_scenes(f"train_log/scenes-{args.scenes}-{args.size}", args.scenes, size=args.size)
        args.train = [f"{folder}/train", f"{folder}/train.json"]
        args.test = [f"{folder}/test", f"{folder}/test.json"]
    train, num_classes = get_data(*args.train, size=args.size, shuffle=True)
    test, _ = get_data(*args.test, size=args.size, shuffle=False)
    steps = args.steps_per_epoch or len(train) // BATCH
    config = get_config_class(args)(
        model=Model(num_classes, steps * args.max_epoch),
        data=QueueInput(BatchData(train, BATCH)),
        callbacks=[ModelSaver(), InferenceRunner(BatchData(test, BATCH, remainder=True), MeanIoU())],
        steps_per_epoch=steps,
        max_epoch=args.max_epoch,
    )
    trainer = SimpleTrainer()
    launch_train_with_config(config, trainer)
    figures = {
        "U-Net, without the background": trainer.monitors.get_latest("val_object_iou"),
        "U-Net, with the background as a class": trainer.monitors.get_latest("val_mean_iou"),
        "background everywhere, as a class": trainer.monitors.get_latest("val_background_iou"),
    }
    files = {"predictions.png": "images, true and predicted classes"}
    print_summary(args, "mean intersection over union on test scenes", figures, files)


if __name__ == "__main__":
    main()
