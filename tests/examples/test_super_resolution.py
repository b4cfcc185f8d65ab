"""Tests of the super-resolution example: its data, its figures, two steps, and the whole training."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.programs import read_stats

pytest.importorskip("cv2")
pytest.importorskip("skimage")
pytest.importorskip("sklearn")

import cv2
from PIL import Image

from tensorpack_lite import OfflinePredictor, PredictConfig
from tensorpack_lite import tfv1 as tf


@pytest.fixture
def example(load_example):
    return load_example("super_resolution.py")


def latest(directory) -> dict:
    """Return the last row of stats.json."""
    return read_stats(directory / "train_log" / "super_resolution")[-1]


@pytest.mark.slow
def test_figures_of_the_model(example):
    """Both PSNR are those of the formula, without a border of 4 pixels; bicubic interpolation is that of Pillow."""
    tf.disable_eager_execution()
    config = PredictConfig(
        model=example.Model(2, 1),
        input_names=["small", "large"],
        output_names=["bicubic", "enlarged", "psnr_bicubic", "psnr"],
    )
    small, large = example.get_pair(np.random.RandomState(0).randint(0, 256, [40, 48]).astype(np.uint8), 2)
    bicubic, enlarged, *figures = OfflinePredictor(config)(small[None], large[None])
    expected = np.array(Image.fromarray(small).resize((48, 40), Image.BICUBIC))
    np.testing.assert_allclose(expected, bicubic[0], atol=2e-3)
    for image, figure in zip((bicubic, enlarged), figures):
        difference = (np.clip(image[0], 0, 1) - large)[4:-4, 4:-4]
        assert -10 * np.log10(np.mean(difference**2)) == pytest.approx(figure, abs=1e-3)


def test_pair(example):
    """The large image is the luminance, cropped to a multiple of the scale; the small one has the same mean."""
    photo = np.random.RandomState(0).randint(0, 256, [31, 44, 3]).astype(np.uint8)
    small, large = example.get_pair(photo, 3)
    assert (10, 14) == small.shape
    assert (30, 42) == large.shape
    luminance = photo @ [0.299, 0.587, 0.114] / 255
    np.testing.assert_allclose(luminance[:30, :42], large, atol=0.003)
    assert large.mean() == pytest.approx(small.mean(), abs=0.01)
    gray = np.full([8, 8], 51, np.uint8)
    np.testing.assert_allclose(0.2, example.get_pair(gray, 2)[0], atol=1e-6)


def test_photos_of_two_folders(example, tmp_path):
    """--images reads the images of two folders as RGB."""
    for folder, blue in [("train", 10), ("test", 20)]:
        (tmp_path / folder).mkdir()
        image = np.zeros([30, 30, 3], np.uint8)
        image[:, :, 0] = blue  # OpenCV's order is BGR
        cv2.imwrite(str(tmp_path / folder / "a.png"), image)
    (train,), (test,) = example.get_photos([str(tmp_path / "train"), str(tmp_path / "test")])
    assert [0, 0, 10] == train[0, 0].tolist()
    assert [0, 0, 20] == test[0, 0].tolist()


def test_train_and_test_photos_differ(example):
    """No test photograph is among the training photographs."""
    assert not set(example.TRAIN) & set(example.TEST)


@pytest.mark.slow
def test_two_steps(run_example, tmp_path):
    """Two steps write statistics, a checkpoint and a picture; --resume continues with the second epoch."""
    short = ["--scale", "3", "--steps-per-epoch", "2"]
    run_example("super_resolution.py", [*short, "--max-epoch", "1"], tmp_path)
    run_example("super_resolution.py", [*short, "--max-epoch", "2", "--resume"], tmp_path)
    assert 4 == latest(tmp_path)["global_step"]
    log = tmp_path / "train_log" / "super_resolution"
    assert (log / "model-4.index").exists()
    assert (160, 480, 3) == cv2.imread(str(log / "comparison.png")).shape


@pytest.mark.gallery
def test_gain_of_the_readme(run_example, tmp_path):
    """The network is at least 1.0 dB above bicubic interpolation on photographs that it has not seen."""
    run_example("super_resolution.py", [], tmp_path)
    row = latest(tmp_path)
    assert row["val_psnr"] - row["val_psnr_bicubic"] >= 1.0
