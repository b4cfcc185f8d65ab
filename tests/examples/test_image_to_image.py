"""Tests of examples/gan/pix2pix.py and cyclegan.py: data, networks on small inputs, and training runs."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from fakes.programs import read_stats

pytest.importorskip("cv2")
pytest.importorskip("skimage")

import cv2

from tensorpack_lite import TowerContext
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.compat import TF_VERSION

TWO_STEPS = ["--steps-per-epoch", "2", "--max-epoch", "1", "--log-dir", "log"]
needs_coco = pytest.mark.skipif(importlib.util.find_spec("pycocotools") is None, reason="the scenes need pycocotools")


@pytest.fixture
def pairs(load_example):
    return load_example("gan/image_pairs.py")


@pytest.fixture
def pix2pix(load_example):
    return load_example("gan/pix2pix.py")


@pytest.fixture
def cyclegan(load_example):
    return load_example("gan/cyclegan.py")


def build_losses(model, inputs):
    """Build a model in the default graph, and return the losses in a session with initial weights."""
    with TowerContext("", is_training=True):
        losses = model.build_graph(*[tf.constant(x) for x in inputs])
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    return losses, session


@pytest.fixture
def batch():
    return list(np.random.RandomState(0).randint(0, 256, [2, 3, 64, 64, 3]).astype("uint8"))


def named(name):
    return tf.get_default_graph().get_tensor_by_name(name + ":0")


class TestData:
    def test_folder_of_facades(self, pairs, tmp_path):
        """A picture with photo and labels side by side becomes a pair [labels, photo] of 64 x 64 pixels, in RGB order."""
        (tmp_path / "train").mkdir()
        picture = np.zeros([128, 256, 3], "uint8")
        picture[:, :128] = (255, 0, 0)  # blue in BGR order
        picture[:, 128:] = (0, 0, 255)
        cv2.imwrite(str(tmp_path / "train" / "1.png"), picture)
        ((labels, photo),) = pairs.read_pairs(str(tmp_path), "train")
        np.testing.assert_array_equal(np.broadcast_to([255, 0, 0], [64, 64, 3]), labels)
        np.testing.assert_array_equal(np.broadcast_to([0, 0, 255], [64, 64, 3]), photo)

    @pytest.mark.slow
    def test_unpaired_images(self, cyclegan):
        """No training image of one kind has its partner in the other kind; each pass has independent orders."""
        images, test = cyclegan.get_data("digits")
        images.reset_state()
        first, second = list(images), list(images)
        assert 718 == len(first)
        assert 360 == len(test)
        a = {x.tobytes() for x, _ in first}
        partners = {y.tobytes(): x.tobytes() for x, y in cyclegan.read_pairs("digits", "train")}
        assert not any(partners[y.tobytes()] in a for _, y in first)
        together = {(x.tobytes(), y.tobytes()) for x, y in first}
        assert len(together & {(x.tobytes(), y.tobytes()) for x, y in second}) < 20

    def test_folder_of_two_kinds(self, cyclegan, tmp_path):
        """trainA, trainB, testA and testB may have different numbers of images."""
        for name, count in (("trainA", 3), ("trainB", 5), ("testA", 2), ("testB", 1)):
            (tmp_path / name).mkdir()
            for k in range(count):
                cv2.imwrite(str(tmp_path / name / f"{k}.png"), np.full([80, 80, 3], 50 * k + len(name), "uint8"))
        images, test = cyclegan.get_data(str(tmp_path))
        images.reset_state()
        assert 3 == len(list(images))
        assert [(64, 64, 3)] == [b.shape for _, b in test]


class TestPix2Pix:
    def test_gradient_energy(self, pix2pix):
        """An image whose columns increase by 3 and rows by 4 has the energy 9 + 16."""
        rows, columns = np.mgrid[:6, :7]
        image = tf.constant((3.0 * columns + 4 * rows).reshape(1, 6, 7, 1), tf.float32)
        with tf.Session() as session:
            np.testing.assert_allclose(25, session.run(pix2pix.gradient_energy(image, "energy")), rtol=1e-6)

    @pytest.mark.slow
    @pytest.mark.parametrize("plain", [False, True])
    def test_losses(self, pix2pix, batch, plain):
        """The generator minimizes 100 times the mean absolute difference, plus the adversary's loss unless `plain`."""
        (_, loss), session = build_losses(pix2pix.Model(plain), batch)
        with session:
            loss, adversarial, sample, l1 = session.run([loss, named("g_loss"), named("sample"), named("l1")])
        image, generated, target = np.split(sample, 3, axis=2)
        np.testing.assert_allclose(batch[0], image, atol=0.01)
        np.testing.assert_allclose(batch[1], target, atol=0.01)
        np.testing.assert_allclose(np.abs(generated - target).mean() / 127.5, l1, rtol=1e-4)
        np.testing.assert_allclose(100 * l1 + (0 if plain else adversarial), loss, rtol=1e-5)
        assert adversarial > 0.1


class TestCycleGAN:
    @pytest.mark.slow
    def test_cycle(self, cyclegan, batch):
        """The cost has ten times the distances between the images and those that both generators return."""
        (_, loss), session = build_losses(cyclegan.Model(), batch)
        with session:
            loss, adversarial, sample, l1, inverted = session.run(
                [loss, *map(named, ["g_loss", "sample", "l1_to_digits", "l1_of_inverted"])]
            )
        a, _, cycle_a, b, fake_a, cycle_b = (x / 127.5 - 1 for x in np.split(sample, 6, axis=2))
        cycle = np.abs(a - cycle_a).mean() + np.abs(b - cycle_b).mean()
        np.testing.assert_allclose(adversarial + 10 * cycle, loss, rtol=1e-4)
        np.testing.assert_allclose([np.abs(a - fake_a).mean(), np.abs(a + b).mean()], [l1, inverted], rtol=1e-4)


@pytest.fixture
def folders(tmp_path):
    """A folder of images side by side for pix2pix.py, and one with four folders of images for cyclegan.py."""
    kinds = ("train", "test", "trainA", "trainB", "testA", "testB")
    for k, kind in enumerate(kinds):
        (tmp_path / "data" / kind).mkdir(parents=True)
        for number in range(8):
            size = [64, 128 if kind in ("train", "test") else 64, 3]
            image = np.random.RandomState(10 * k + number).randint(256, size=size)
            cv2.imwrite(str(tmp_path / "data" / kind / f"{number}.png"), image)


def check_log(name, directory, num_epochs):
    """Compare the sheets of samples and the statistics with those of epochs of two steps."""
    images = 3 if name == "pix2pix" else 6
    sheet = cv2.imread(str(directory / f"samples-{num_epochs:03d}.png"))
    assert (4 * 64 + 3, 2 * 64 * images + 1, 3) == sheet.shape
    rows = read_stats(directory)
    assert list(range(1, num_epochs + 1)) == [row["epoch_num"] for row in rows]
    assert [2 * row["epoch_num"] for row in rows] == [row["global_step"] for row in rows]
    measure = "val_l1" if name == "pix2pix" else "val_l1_to_digits"
    assert all(0 < row[measure] < 2 for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pix2pix", "cyclegan"])
def test_two_steps(name, tmp_path, folders, run_example):
    """
    Two steps on images from folders write a sheet of samples and the measures.

    On the newest TensorFlow, `--resume` continues pix2pix with the second epoch.
    """
    arguments = [*TWO_STEPS, "--data", "data"]
    run_example(f"gan/{name}.py", arguments, tmp_path)
    check_log(name, tmp_path / "log", 1)
    if TF_VERSION >= (2, 16) and name == "pix2pix":
        (tmp_path / "output.txt").unlink()
        run_example(f"gan/{name}.py", [*arguments, "--max-epoch", "2", "--resume"], tmp_path)
        check_log(name, tmp_path / "log", 2)


@pytest.mark.slow
@pytest.mark.gallery
def test_embedded_digits(tmp_path, run_example):
    """Without a folder, cyclegan.py trains on digits and their negatives over textures."""
    run_example("gan/cyclegan.py", TWO_STEPS, tmp_path)
    assert 0 < read_stats(tmp_path / "log")[-1]["val_l1_to_digits"] < 2


@pytest.mark.slow
@pytest.mark.gallery
@needs_coco
def test_scenes(tmp_path, run_example):
    """By default, pix2pix.py makes scenes, and learns to paint them from their edges."""
    run_example("gan/pix2pix.py", ["--plain", *TWO_STEPS], tmp_path)
    assert 1000 == len(list((tmp_path / "train_log" / "scenes" / "train").iterdir()))
    assert (tmp_path / "log" / "samples-001.png").exists()


@pytest.mark.slow
@pytest.mark.gallery
@needs_coco
def test_pix2pix_is_sharper_and_as_near(tmp_path, run_example):
    """With the adversary, L1 is at most 10 % larger than without, and the gradient energy is nearer to the real one."""
    run_example("gan/pix2pix.py", ["--log-dir", "adversary"], tmp_path)
    run_example("gan/pix2pix.py", ["--plain", "--log-dir", "plain"], tmp_path)
    adversary, plain = (read_stats(tmp_path / name)[-1] for name in ("adversary", "plain"))
    assert adversary["val_l1"] <= 1.1 * plain["val_l1"]
    assert abs(adversary["val_sharpness"] - 1) < abs(plain["val_sharpness"] - 1)


@pytest.mark.slow
@pytest.mark.gallery
def test_cyclegan_recovers_digits(tmp_path, run_example):
    """Digits that are recovered from their negatives are nearer to the originals than a third of the inverted images' distance."""
    run_example("gan/cyclegan.py", ["--log-dir", "log"], tmp_path)
    last = read_stats(tmp_path / "log")[-1]
    assert last["val_l1_to_digits"] <= last["val_l1_of_inverted"] / 3
