"""Trainings of the examples to the figures in examples/README.md. Comparisons of two trainings are beside their examples' tests."""

from __future__ import annotations

import pytest
from fakes.programs import read_stats

# example -> arguments, the packages that it needs, and {statistic: (its least value, its largest value)}
FIGURES = {
    "adversarial_digits.py": ([], ["cv2"], {"val_robust_accuracy": (0.80, 1), "val_accuracy": (0.95, 1)}),
    "ctc_strips.py": ([], ["cv2", "sklearn"], {"label_error_rate": (0, 0.03)}),
    "detection/train.py": (["--masks"], ["skimage", "pycocotools"], {"box_AP": (0.45, 1), "mask_AP": (0.40, 1)}),
    "imagenet/imagenet_models.py": ([], [], {"val_error_top1": (0, 0.04)}),
    "rl/dqn.py": ([], ["gymnasium"], {"mean_score": (450, 500)}),
    "rl/a2c.py": ([], ["gymnasium"], {"mean_score": (450, 500)}),
    "segment_scenes.py": ([], ["skimage", "pycocotools"], {"val_mean_iou": (0.80, 1)}),
}  # fmt: skip


@pytest.mark.gallery
@pytest.mark.parametrize("name", FIGURES)
def test_figures(tmp_path, run_example, name):
    """After the last epoch, held-out data has the figures of the README."""
    arguments, packages, bounds = FIGURES[name]
    for package in packages:
        pytest.importorskip(package)
    run_example(name, [*arguments, "--log-dir", "log"], tmp_path)
    row = read_stats(tmp_path / "log")[-1]
    for key, (least, largest) in bounds.items():
        assert least <= row[key] <= largest, key
