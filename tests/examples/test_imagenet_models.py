"""Tests of examples/imagenet/imagenet_models.py: sizes from the papers, blocks against NumPy, weights from a file."""

from __future__ import annotations

import argparse

import numpy as np
import pytest
from fakes.programs import read_stats

from tensorpack_lite import BatchNorm, BNReLU, Conv2D, MaxPooling, TowerContext, argscope
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.dataflow.dataset import Digits
from tensorpack_lite.tfutils.varmanip import load_checkpoint_vars, save_checkpoint_vars

TWO_STEPS = ["--steps-per-epoch", "2", "--max-epoch", "1", "--batch", "4", "--log-dir", "log"]
# Trainable weights, and multiply-adds for an image of 224 x 224 pixels, as the papers list them. VGG-16: table 2 has 138 M.
# AlexNet: section 3.5 has 60 M. ShuffleNetV2: table 8 has 2.3 M and 146 M. MobileNetV2: table 4 has 3.4 M and 300 M. The
# exact weights are those of the usual reimplementations. `inception_weights` counts those of Inception-BN by hand; 13.6 M in
# the paper's text is not what the columns of its table add up to. 2.87 G for DenseNet-121 includes BatchNorm and pooling.
WEIGHTS = {
    "vgg16": 138357544,
    "alexnet": 60965224,
    "shufflenet_v2": 2278604,
    "densenet121": 7978856,
    "mobilenet_v2": 3504872,
}
MULTIPLY_ADDS = {
    "vgg16": (15.47e9, 0.001),
    "alexnet": (724.4e6, 0.001),
    "inception_bn": (2.03e9, 0.03),
    "shufflenet_v2": (146e6, 0.02),
    "densenet121": (2.87e9, 0.02),
    "mobilenet_v2": (300e6, 0.01),
}


@pytest.fixture
def networks(load_example):
    return load_example("imagenet/architectures.py")


def build(function, *shape, training=False, **kwargs):
    """Build a function of one placeholder of this shape in the default graph; return the placeholder and the output."""
    x = tf.placeholder(tf.float32, shape)
    with TowerContext("", is_training=training):
        return x, function(x, **kwargs)


def count_multiply_adds(graph):
    """Count the multiplications of all convolutions and matrix products for one image, from their static shapes."""
    count = 0
    for op in graph.get_operations():
        if op.type in ("Conv2D", "DepthwiseConv2dNative"):
            kernel = np.prod(op.inputs[1].shape.as_list())
            # a depthwise convolution uses each of its weights once per pixel, like an ordinary one
            count += int(kernel) * int(np.prod(op.outputs[0].shape.as_list()[1:3]))
        elif op.type == "MatMul":
            count += int(np.prod(op.inputs[1].shape.as_list()))
    return count


def count_weights():
    return sum(int(np.prod(v.shape.as_list())) for v in tf.trainable_variables())


def inception_weights():
    """
    Count the weights of Inception-BN by hand, from figure 5 of the paper.

    A row has the inputs, then the outputs of 1x1, 3x3 reduce, 3x3, double reduce, double 3x3, and projection.
    """
    rows = [
        (192, 64, 64, 64, 64, 96, 32),
        (256, 64, 64, 96, 64, 96, 64),
        (320, 0, 128, 160, 64, 96, 0),
        (576, 224, 64, 96, 96, 128, 128),
        (576, 192, 96, 128, 96, 128, 128),
        (576, 160, 128, 160, 128, 160, 128),
        (608, 96, 128, 192, 160, 192, 128),
        (608, 0, 128, 192, 192, 256, 0),
        (1056, 352, 192, 320, 160, 224, 128),
        (1024, 352, 192, 320, 192, 224, 128),
    ]
    layers = [(7, 3, 64), (1, 64, 64), (3, 64, 192)]
    for x, one, reduce3, three, reduce_double, double, projection in rows:
        layers += [(1, x, one), (1, x, reduce3), (3, reduce3, three), (1, x, reduce_double)]
        layers += [(3, reduce_double, double), (3, double, double), (1, x, projection)]
    return sum(k * k * inputs * outputs + 2 * outputs for k, inputs, outputs in layers) + 1024 * 1000 + 1000


class TestSizes:
    @pytest.mark.slow
    @pytest.mark.any_tensorflow
    @pytest.mark.parametrize("name", sorted(MULTIPLY_ADDS))
    def test_weights_and_multiply_adds(self, networks, name):
        """A network for ImageNet has as many weights and multiply-adds as the paper's table lists."""
        _, scores = build(networks.NETWORKS[name], None, 224, 224, 3, classes=1000)
        assert [None, 1000] == scores.shape.as_list()
        assert WEIGHTS.get(name, inception_weights()) == count_weights()
        expected, tolerance = MULTIPLY_ADDS[name]
        np.testing.assert_allclose(count_multiply_adds(scores.graph), expected, rtol=tolerance)


# Layers in NumPy, for images [N, H, W, C] --------------------------------------------------------------------------


def windows(x, size, strides, padding, fill):
    """Return the windows of a convolution or pooling, [N, H', W', size, size, C]."""
    if padding == "same":  # as in TensorFlow: the odd pixel is at the end
        total = [max((-(-n // strides) - 1) * strides + size - n, 0) for n in x.shape[1:3]]
        x = np.pad(x, [(0, 0), *((t // 2, t - t // 2) for t in total), (0, 0)], mode="constant", constant_values=fill)
    height, width = ((n - size) // strides + 1 for n in x.shape[1:3])
    columns = [x[:, i : i + strides * height : strides, j : j + strides * width : strides]
               for i in range(size) for j in range(size)]  # fmt: skip
    return np.stack([c[:, :height, :width] for c in columns], axis=3).reshape(len(x), height, width, size, size, -1)


class Reference:
    """The layers of a network in NumPy, with the weights of a session."""

    def __init__(self, values):
        self.values = values

    def conv(self, name, x, strides=1, padding="same", split=1, then=None):
        kernel = self.values[name + "/W"].astype("float64")
        parts = zip(np.split(x, split, axis=3), np.split(kernel, split, axis=3))
        size = len(kernel)
        y = np.concatenate(
            [np.einsum("nhwijc,ijcf->nhwf", windows(p, size, strides, padding, 0), k) for p, k in parts], 3
        )
        y = y + self.values.get(name + "/b", 0)
        return y if then is None else then(name, y)

    def depthwise(self, name, x, strides=1):
        kernel = self.values[name + "/W"][:, :, :, 0]
        return self.norm(name, np.einsum("nhwijc,ijc->nhwc", windows(x, 3, strides, "same", 0), kernel))

    def norm(self, name, x):
        gamma, beta, mean, variance = (
            self.values[f"{name}/bn/{key}"] for key in ("gamma", "beta", "mean/EMA", "variance/EMA")
        )
        return (x - mean) / np.sqrt(variance + 1.001e-5) * gamma + beta

    def norm_relu(self, name, x):
        return np.maximum(self.norm(name, x), 0)

    def norm_relu6(self, name, x):
        return np.clip(self.norm(name, x), 0, 6)

    @staticmethod
    def pool(x, size, strides, padding="valid", reduce=np.nanmax):
        """Pool; pixels outside of the image are NaN and do not count."""
        return reduce(windows(x, size, strides, padding, np.nan), axis=(3, 4))


def evaluate(x, y, *shape):
    """Compute `y` for random images and random weights; return the images, the result, and a Reference."""
    rng = np.random.RandomState(0)
    images = rng.normal(size=shape).astype("float32")
    variables = tf.global_variables()
    with tf.Session() as session:
        for v in variables:
            shape = v.shape.as_list()
            values = (
                rng.uniform(0.5, 1.5, shape) if len(shape) == 1 else rng.normal(0, np.prod(shape[:3]) ** -0.5, shape)
            )
            v.load(values, session)
        values = {v.op.name: session.run(v) for v in variables}
        return images.astype("float64"), session.run(y, {x: images}), Reference(values)


def same(expected, actual):
    np.testing.assert_allclose(expected, actual, rtol=1e-3, atol=1e-4)


class TestBlocks:
    """One block of each network equals a computation in NumPy."""

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["3a", "3c", "5b"])
    def test_inception_bn(self, networks, name):
        """A module has four branches; with stride 2 it has three, and the pooled input is the last of them."""
        one, *outputs = networks.INCEPTION[name]
        outputs = [max(n // 16, 1) for n in outputs[:4]] + [outputs[4], outputs[5] // 16]
        with argscope(Conv2D, use_bias=False, activation=BNReLU):
            x, y = build(lambda x: networks.inception(x, one // 16, *outputs), None, 9, 9, 8)
        images, actual, layer = evaluate(x, y, 2, 9, 9, 8)
        strides = 1 if one else 2

        def conv(name, x, strides=1):
            return layer.conv(name, x, strides, then=layer.norm_relu)

        branches = [conv("conv1x1", images)] if one else []
        branches.append(conv("conv3x3", conv("conv3x3_reduce", images), strides))
        double = conv("double3x3_a", conv("double3x3_reduce", images))
        branches.append(conv("double3x3_b", double, strides))
        reduce = np.nanmax if outputs[4] is MaxPooling else np.nanmean
        pooled = layer.pool(images, 3, strides, "same", reduce)
        branches.append(conv("projection", pooled) if outputs[5] else pooled)
        same(np.concatenate(branches, axis=3), actual)

    def test_densenet121(self, networks):
        """A layer appends channels, which it computes from normalized inputs."""
        with argscope(Conv2D, use_bias=False):
            x, y = build(networks.dense_layer, None, 5, 6, 8, growth=3)
        images, actual, layer = evaluate(x, y, 2, 5, 6, 8)
        hidden = layer.conv("conv1", layer.norm_relu("norm1", images))
        assert 12 == hidden.shape[3]
        same(images, actual[..., :8])
        same(layer.conv("conv2", layer.norm_relu("norm2", hidden)), actual[..., 8:])

    @pytest.mark.slow
    @pytest.mark.parametrize(("channels", "strides"), [(4, 1), (4, 2), (5, 1)])
    def test_mobilenet_v2(self, networks, channels, strides):
        """A block with stride 1 and equal channels adds its input; there is no nonlinearity after the projection."""

        def block(x):
            with argscope(Conv2D, use_bias=False, activation=lambda y: BatchNorm("bn", y)):
                return networks.inverted_residual(x, 6, channels, strides)

        x, y = build(block, None, 6, 5, 4)
        images, actual, layer = evaluate(x, y, 2, 6, 5, 4)
        hidden = layer.conv("expand", images, then=layer.norm_relu6)
        hidden = np.clip(layer.depthwise("dw", hidden, strides), 0, 6)
        expected = layer.conv("project", hidden, then=layer.norm)
        same(expected + images if (channels, strides) == (4, 1) else expected, actual)
        assert actual.min() < 0


class TestData:
    @pytest.mark.slow
    def test_batches_of_digits(self, load_example):
        """Batches have gray digits as RGB images of the requested size; test images are in order and complete."""
        example = load_example("imagenet/imagenet_models.py")
        args = argparse.Namespace(data="digits", fake=False, size=64, batch=50)
        for which, count in (("train", 1437 // 50), ("val", 8)):
            data = example.get_data(args, which)
            data.reset_state()
            batches = list(data)
            assert count == len(batches) == len(data)
            image, label = batches[0]
            assert ((50, 64, 64, 3), np.uint8) == (image.shape, image.dtype)
            assert ((50,), np.int32) == (label.shape, label.dtype)
            assert 200 < image.max()
            assert (image[..., 0] == image[..., 2]).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "mobilenet_v2",
        *[pytest.param(name, marks=pytest.mark.any_tensorflow) for name in ("alexnet", "shufflenet_v2")],
        *[
            pytest.param(name, marks=[pytest.mark.any_tensorflow, pytest.mark.proof])
            for name in ("inception_bn", "densenet121")
        ],
    ],
)
def test_two_steps_on_fake_images(name, tmp_path, run_example):
    """The network trains for two steps on random images of 64 x 64 pixels, and writes a curve. (VGG-16 needs too much memory.)"""
    run_example("imagenet/imagenet_models.py", ["--model", name, "--fake", *TWO_STEPS], tmp_path)
    assert (tmp_path / "log" / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert np.isfinite(read_stats(tmp_path / "log")[-1]["cross_entropy_loss"])


@pytest.mark.slow
@pytest.mark.any_tensorflow
def test_load_npz_and_evaluate(tmp_path, run_example):
    """`--load` reads an .npz file, and `--eval` prints the error of its weights; constant scores for the zero are right for 36 of 360."""
    run_example("imagenet/imagenet_models.py", TWO_STEPS, tmp_path)
    (index,) = (tmp_path / "log").glob("model-*.index")
    values = load_checkpoint_vars(str(index)[: -len(".index")])
    values = {name: value for name, value in values.items() if not name.startswith(("global_step", "learning_rate"))}
    values["linear/W"] = np.zeros_like(values["linear/W"])
    values["linear/b"] = np.arange(10, 0, -1, dtype="float32")
    save_checkpoint_vars(values, str(tmp_path / "weights.npz"))
    (tmp_path / "output.txt").unlink()
    output = run_example(
        "imagenet/imagenet_models.py", ["--load", "weights.npz", "--eval", "--log-dir", "eval"], tmp_path
    )
    labels = Digits("test").labels
    top1, top5 = (labels != 0).mean(), (labels >= 5).mean()
    assert f"shufflenet_v2: top-1 error {top1:.4f}, top-5 error {top5:.4f}" in output


@pytest.mark.slow
@pytest.mark.any_tensorflow
@pytest.mark.proof
def test_resume(tmp_path, run_example):
    """`--resume` continues with the epoch after the last checkpoint."""
    run_example("imagenet/imagenet_models.py", TWO_STEPS, tmp_path)
    run_example("imagenet/imagenet_models.py", [*TWO_STEPS, "--max-epoch", "2", "--resume"], tmp_path)
    stats = read_stats(tmp_path / "log")
    assert [1, 2] == [row["epoch_num"] for row in stats]
