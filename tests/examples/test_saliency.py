"""Tests of examples/saliency.py: explanations of functions whose answer is known, and of a trained network."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.programs import read_figures

pytest.importorskip("cv2")
pytest.importorskip("matplotlib")

import cv2

from tensorpack_lite import Conv2D, FullyConnected, GlobalAvgPooling, ModelDesc, TowerContext
from tensorpack_lite import tfv1 as tf

SIZE = 8


@pytest.fixture
def example(load_example):
    return load_example("saliency.py")


@pytest.fixture
def images():
    return np.random.RandomState(0).uniform(0, 1, [3, SIZE, SIZE, 2]).astype("float32")


CLASSES = np.array([0, 1, 1], "int32")


def quadratic(images, classes):
    """A predictor whose score is sum(x^2), times 3 for class 1; it returns probabilities, gradients and a CAM."""
    factor = np.where(classes == 1, 3, 1).reshape(-1, 1, 1, 1)
    return [np.full([len(images), 2], 0.5), (2 * factor * images).astype("float32"), images[:, ::2, ::2, 0]]


def first_row_decides(images, classes):
    """A predictor whose probability of both classes is the mean of the first row, e.g. 1 for white and 0 for black."""
    prob = images[:, 0].reshape(len(images), -1).mean(axis=1)
    return [np.stack([prob, prob], axis=1), np.zeros_like(images), images[..., 0]]


class TestMethods:
    def test_integrated_gradients_are_complete(self, example, images):
        """The sum of a map is the score of the image minus that of the background, exactly for a quadratic score."""
        maps = example.integrate_gradients(quadratic, images, CLASSES)
        difference = (images**2 - example.background(images) ** 2) * np.array([1, 3, 3]).reshape(-1, 1, 1, 1)
        np.testing.assert_allclose(difference, maps, rtol=1e-3, atol=1e-5)

    def test_maps_of_all_methods(self, example, images):
        """Each method returns one number per pixel. The gradient is summed over channels; CAM is enlarged."""
        maps = example.explain(quadratic, images, CLASSES)
        assert {"gradient", "integrated gradients", "CAM", "difference from the background", "random order"} == set(
            maps
        )
        assert {images.shape[:3]} == {m.shape for m in maps.values()}
        np.testing.assert_allclose(2 * images[0].sum(axis=2), maps["gradient"][0], rtol=1e-5)
        assert maps["integrated gradients"].min() == 0
        assert images.min() <= maps["CAM"].min() < maps["CAM"].max() <= images.max()

    def test_salient_pixels_are_replaced_first(self, example):
        """If the first row decides, its pixels are enough: an eighth of all. In reverse order, all others come before."""
        images = np.zeros([2, SIZE, SIZE, 1], "float32")
        images[:, 0] = 1  # white on black
        labels = np.zeros(2, "int32")
        curve = example.replace_pixels(first_row_decides, images, labels, images[..., 0])
        expected = np.clip(1 - np.ceil(np.round(example.PARTS * 64, 6)) / SIZE, 0, 1)
        np.testing.assert_allclose(expected, curve, atol=1e-6)
        reverse = example.replace_pixels(first_row_decides, images, labels, -images[..., 0])
        assert (reverse[:-2] == 1).all()
        assert 0 == reverse[-1]


class Net(ModelDesc):
    """A convolution, global average pooling and a matrix: the networks for which CAM was defined."""

    def inputs(self):
        return [
            tf.TensorSpec([None, SIZE, SIZE, 2], tf.float32, "image"),
            tf.TensorSpec([None], tf.int32, "label"),
        ]

    def build_graph(self, image, label):
        x = Conv2D("conv", image, 4, 3, strides=2, activation=tf.nn.relu)
        FullyConnected("linear", GlobalAvgPooling("gap", x), 3)
        return tf.constant(0.0)


def test_predictor(example, images, tmp_path):
    """The predictor returns probabilities, the gradient of the score of the given class, and the CAM of Zhou et al."""
    with tf.Graph().as_default(), tf.Session() as session:
        with TowerContext("", is_training=False):
            Net().build_graph(tf.zeros([1, SIZE, SIZE, 2]), None)
        session.run(tf.global_variables_initializer())
        matrix = session.run(next(v for v in tf.global_variables() if v.op.name == "linear/W"))
        path = tf.train.Saver().save(session, str(tmp_path / "model"))
    predict = example.make_predictor(Net(), path, "linear/output", "conv/output")
    prob, gradient, cam = predict(images, CLASSES)
    np.testing.assert_allclose(1, prob.sum(axis=1), rtol=1e-5)
    assert (prob.shape, images.shape, (3, 4, 4)) == ((3, 3), gradient.shape, cam.shape)

    def score(x):  # from the probabilities, up to a constant
        return np.log(predict(x, CLASSES)[0])[np.arange(3), CLASSES]

    other = predict(images, 1 - CLASSES)
    assert np.abs(other[1] - gradient).max() > 1e-3  # the class matters
    small = np.zeros_like(images)
    small[:, 3, 4, 1] = 1e-2
    together = [predict(images, np.full(3, k, "int32"))[1] for k in range(3)]
    mean = sum(
        prob[:, k].reshape(-1, 1, 1, 1) * together[k] for k in range(3)
    )  # gradient of the log of the denominator
    slope = (score(images + small) - score(images - small)) / 2e-2
    np.testing.assert_allclose((gradient - mean)[:, 3, 4, 1], slope, rtol=2e-2, atol=2e-3)

    with tf.Graph().as_default(), tf.Session() as session:
        with TowerContext("", is_training=False):
            Net().build_graph(tf.constant(images), None)
        tf.train.Saver().restore(session, path)
        features = session.run("conv/output:0")
    expected = (
        np.maximum(np.einsum("nhwc,cn->nhw", features, matrix[:, CLASSES]), 0) / 16
    )  # the pooling divides by 4 x 4
    np.testing.assert_allclose(expected, cam, rtol=1e-3, atol=1e-6)


@pytest.mark.slow
def test_two_steps(tmp_path, run_example):
    """Without a checkpoint, the example trains one; it writes two pictures. The second run uses the same checkpoint."""
    for k in range(6):  # fewer than those of the data set
        image = np.random.RandomState(k).randint(256, size=[32, 32, 3])
        cv2.imwrite(str(tmp_path / f"{k}.png"), image)
    arguments = ["--steps-per-epoch", "2", "--max-epoch", "1", "--log-dir", "log", "--images", "*.png"]
    output = run_example("saliency.py", arguments, tmp_path)
    assert "Epoch 1 of 1" in output
    figures = read_figures(tmp_path / "log")
    for name in ("saliency.png", "flipping.png"):
        assert (tmp_path / "log" / name).read_bytes().startswith(b"\x89PNG")
    (tmp_path / "output.txt").unlink()
    again = run_example("saliency.py", arguments, tmp_path)
    assert "Epoch 1 of 1" not in again
    assert figures == read_figures(tmp_path / "log")


@pytest.mark.slow
@pytest.mark.any_tensorflow
@pytest.mark.proof
def test_another_model(tmp_path, run_example):
    """`--model`, `--logits` and `--features` explain a checkpoint of mnist_convnet.py, whose images have no channel axis."""
    run_example("mnist_convnet.py", ["--steps-per-epoch", "2", "--max-epoch", "1", "--log-dir", "mnist"], tmp_path)
    (tmp_path / "output.txt").unlink()
    arguments = ["--load", "mnist", "--model", "mnist_convnet", "--model-args", "1", "1"]
    arguments += ["--logits", "fc1/output", "--features", "conv3/output", "--log-dir", "log"]
    run_example("saliency.py", arguments, tmp_path)
    assert 4 == len(read_figures(tmp_path / "log"))


@pytest.mark.slow
@pytest.mark.gallery
def test_explanations_are_better_than_random(tmp_path, run_example):
    """After 8 epochs, the curves of integrated gradients and CAM are at least 0.1 and 0.03 below random order."""
    run_example("saliency.py", ["--log-dir", "log"], tmp_path)
    found = read_figures(tmp_path / "log")
    assert found["integrated gradients"] >= 0.1
    assert found["CAM"] >= 0.03
