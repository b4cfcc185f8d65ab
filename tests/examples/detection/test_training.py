"""Tests of the detector as a whole: its cost, learning rate and weights, and the programs for two steps."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from fakes.processes import run_python
from fakes.programs import read_stats

pytest.importorskip("cv2")
pytest.importorskip("pycocotools")
pytest.importorskip("skimage")
pytest.importorskip("sklearn")

import cv2

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.tower.context import TrainTowerContext

TRAIN = Path(__file__).resolve().parents[3] / "examples" / "detection" / "train.py"
TWO_STEPS = ["--steps-per-epoch", "2", "--max-epoch", "1", "--log-dir", "log", "--data", "scenes"]
MASKS = ["--masks", "--batch", "4", *TWO_STEPS]


class TestModel:
    @pytest.mark.slow
    @pytest.mark.any_tensorflow
    @pytest.mark.parametrize(
        "options",
        [
            {},
            pytest.param({"cascade": True, "norm": "group", "depth": 50, "width": 8}, marks=pytest.mark.proof),
        ],
    )
    def test_cost_without_objects(self, load, config, options):
        """A batch without objects has a finite cost and finite gradients."""
        config = config._replace(masks=True, fpn_channels=16, mask_channels=8, **options)
        model = load("model").Model(config)
        with tf.Graph().as_default(), tf.Session() as session:
            rng = np.random.RandomState(0)
            image = tf.constant(rng.randint(0, 256, [2, 70, 90, 3]).astype("uint8"))
            with TrainTowerContext(""):
                masks = tf.zeros([2, 1, 56, 56], tf.uint8)
                cost = model.build_graph(image, tf.zeros([2, 1, 4]), tf.zeros([2, 1], tf.int32), masks)
            gradients = [g for g in tf.gradients(cost, tf.trainable_variables()) if g is not None]
            session.run(tf.global_variables_initializer())
            values = session.run([cost, *gradients])
        assert all(np.isfinite(value).all() for value in values)

    def test_learning_rate(self, load, config):
        """The rate is proportional to the batch, rises during the warmup, and ends at 0."""
        model = load("model").Model(config._replace(rate=1.0, warmup_steps=10), total_steps=100, batch=16)
        with tf.Graph().as_default(), tf.Session() as session:
            step = tf.train.get_or_create_global_step()
            model.optimizer()
            (summary,) = tf.get_collection(tf.GraphKeys.SUMMARIES)
            rates = []
            for value in (0, 4, 50, 100):
                session.run(step.assign(value))
                message = tf.Summary.FromString(session.run(summary))
                rates.append(message.value[0].simple_value)
        half = [0.5 * (1 + np.cos(np.pi * k / 100)) for k in (0, 4, 50, 100)]
        np.testing.assert_allclose(2 * np.array([0.1, 0.5, 1, 1]) * half, rates, atol=1e-6)

    @pytest.mark.slow
    def test_pretrained_backbone(self, load, config, tmp_path):
        """The variables of an ImageNet model of tensorpack get their values; its first layer expects BGR images."""
        config = config._replace(norm="frozen", levels=(2, 3, 4, 5), width=8, depth=10)
        rng = np.random.RandomState(0)
        with tf.Graph().as_default(), tf.Session() as session:
            with TrainTowerContext(""):
                load("backbone").get_features(tf.zeros([1, 32, 32, 3], tf.uint8), config)
            variables = {v.op.name: v for v in tf.global_variables() if not v.op.name.startswith("fpn/")}
            assert {"conv0/W", "conv0/bn/mean/EMA", "group3/block0/shortcut/W"} <= set(variables)
            frozen = set(variables) - {v.op.name for v in tf.trainable_variables()}
            assert "group0/block0/conv1/W" in frozen
            assert "group1/block0/conv1/W" not in frozen
            values = {name: rng.rand(*v.shape.as_list()).astype("float32") for name, v in variables.items()}
            names = {name.replace("/shortcut/", "/convshortcut/"): value for name, value in values.items()}
            np.savez(str(tmp_path / "r.npz"), **names)
            session.run(tf.global_variables_initializer())
            load("backbone").read_pretrained(str(tmp_path / "r.npz")).init(session)
            loaded = session.run(variables)
        np.testing.assert_array_equal(values.pop("conv0/W")[:, :, ::-1], loaded.pop("conv0/W"))
        assert set(values) == set(loaded)
        for name, value in values.items():
            np.testing.assert_array_equal(value, loaded[name])

    def test_settings_are_stored(self, load, config, tmp_path):
        """config.json contains all settings."""
        config.save(str(tmp_path))
        loaded = load("config").Config.load(str(tmp_path))
        assert json.dumps(config) == json.dumps(loaded)


@pytest.fixture
def trained(tmp_path, scenes, run_example):
    """A directory with a Mask R-CNN that was trained for two steps."""
    (tmp_path / "scenes").symlink_to(scenes)
    run_example("detection/train.py", MASKS, tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.proof
def test_two_steps(trained):
    """Mask R-CNN trains, is evaluated, and draws predictions."""
    row = read_stats(trained / "log")[-1]
    losses = [
        "rpn_class_loss",
        "rpn_box_loss",
        "losses0/class_loss",
        "losses0/box_loss",
        "mask_loss",
        "total_cost",
    ]
    assert np.isfinite([row[key] for key in losses]).all()
    assert {"box_AP", "mask_AP"} <= set(row)
    files = {"model-2.index", "config.json", "results.json", "predictions.png"}
    assert files <= set(os.listdir(trained / "log"))


@pytest.mark.proof
@pytest.mark.any_tensorflow
def test_resume(trained, run_example):
    """Training is resumed after its first epoch."""
    assert "Epoch 2 (global_step 4)" in run_example(
        "detection/train.py", [*MASKS, "--resume", "--max-epoch", "2"], trained
    )


@pytest.mark.slow
@pytest.mark.any_tensorflow
def test_what_follows_training(trained, scenes, run_example):
    """A trained detector is evaluated, draws pictures, and is exported to models with the same boxes."""
    output = run_example("detection/evaluate.py", ["--data", "scenes", "--log-dir", "log"], trained)
    figures = dict(line.split() for line in output.splitlines() if re.match(r"(box|mask)_AP", line))
    assert read_stats(trained / "log")[-1]["box_AP"] == pytest.approx(float(figures["box_AP"]), abs=2e-3)

    images = [str(path) for path in sorted((scenes / "test").glob("*.jpg"))[:2]]
    run_example("detection/predict.py", [*images, "--log-dir", "log", "--output", "pictures"], trained)
    assert (256, 256, 3) == cv2.imread(str(trained / "pictures" / "000001.png")).shape
    output = run_example("detection/export.py", ["--log-dir", "log", "--image", images[0]], trained)
    assert 2 == output.count("boxes as the checkpoint")
    assert {"model.pb", "serving"} <= set(os.listdir(trained / "log"))


@pytest.mark.slow
@pytest.mark.any_tensorflow
@pytest.mark.proof
def test_cascade_on_two_towers(tmp_path, scenes, run_example):
    """Cascade R-CNN trains on two towers with one image each, which have different sizes."""
    (tmp_path / "scenes").symlink_to(scenes)
    arguments = [
        "--cascade",
        "--gpus",
        "2",
        "--batch",
        "2",
        "--norm",
        "group",
        "--backbone",
        "50",
        *TWO_STEPS,
    ]
    run_example("detection/train.py", arguments, tmp_path)
    row = read_stats(tmp_path / "log")[-1]
    assert np.isfinite([row[f"losses{k}/{name}_loss"] for k in range(3) for name in ("class", "box")]).all()
    assert "mask_AP" not in row


@pytest.mark.slow
@pytest.mark.any_tensorflow
@pytest.mark.proof
def test_two_ranks(tmp_path, scenes):
    """Two ranks train with the collective engine, and only the chief writes files."""
    (tmp_path / "scenes").symlink_to(scenes)
    program = ["-m", "tensorpack_lite.launch", "-n", "2", TRAIN]
    run_python(*program, "--engine", "collective", "--batch", "4", *TWO_STEPS, cwd=tmp_path)
    assert np.isfinite(read_stats(tmp_path / "log")[-1]["total_cost"])
    assert {"log", "scenes"} == set(os.listdir(tmp_path))
