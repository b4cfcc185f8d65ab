"""
Train a Keras model with this library's loop, callbacks and checkpoints.

Shows: `KerasModel`, with the BatchNormalization, Dropout and weight regularizer of Keras.
Expect: an accuracy of 0.99, like mnist_convnet.py. A support vector machine is as good.

On TensorFlow 2.16 and later, it requires Keras 2: pip install "tensorpack_lite[keras]".

    python examples/keras_digits.py                      1,797 digits from scikit-learn; no download
"""

from __future__ import annotations

from common import get_parser, print_summary, start
from data.baselines import digits_svm_accuracy

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.contrib.keras import KerasModel, import_keras
from tensorpack_lite.dataflow import dataset

SIZE = 28


def build(image):
    """Return a model for a batch of images; called once per tower."""
    keras = import_keras()
    layers = keras.layers
    decay = keras.regularizers.l2(1e-5)
    return keras.models.Sequential(
        [
            layers.InputLayer(input_tensor=tf.expand_dims(image, 3) * 2 - 1),
            layers.Conv2D(32, 3, padding="same", use_bias=False),
            layers.BatchNormalization(momentum=0.9),
            layers.Activation("relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(64, activation="relu", kernel_regularizer=decay),
            layers.Dropout(0.5),
            layers.Dense(10, activation="softmax", kernel_regularizer=decay),
        ]
    )


def main(argv=None) -> None:
    args = get_parser(__doc__, "keras_digits", max_epoch=15, has_resume=False).parse_args(argv)
    start(args)
    train = BatchData(dataset.Digits("train", size=SIZE), 32)
    validation = BatchData(dataset.Digits("test", size=SIZE, shuffle=False), 40)
    model = KerasModel(
        build,
        input_signature=[tf.TensorSpec([None, SIZE, SIZE], tf.float32, "image")],
        target_signature=[tf.TensorSpec([None], tf.int32, "label")],
        input=QueueInput(train),
    )
    model.compile(tf.train.AdamOptimizer(1e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(
        validation,
        steps_per_epoch=args.steps_per_epoch or len(train),
        max_epoch=args.max_epoch,
        callbacks=[ModelSaver(), MaxSaver("validation_accuracy")],
    )
    accuracy = model.trainer.monitors.get_latest("validation_accuracy")
    figures = {"network": accuracy, "support vector machine on pixels": digits_svm_accuracy()}
    print_summary(args, "accuracy on 360 held-out digits", figures)


if __name__ == "__main__":
    main()
