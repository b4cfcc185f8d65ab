"""Tests of examples/ctc_strips.py: strips, padding, files, the label error rate, and the stated result."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from fakes.programs import read_stats

pytest.importorskip("cv2")
pytest.importorskip("sklearn")

from tensorpack_lite import DataFromList, OfflinePredictor, PredictConfig
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.dataflow import NumpySerializer


@pytest.fixture
def example(load_example):
    return load_example("ctc_strips.py")


@pytest.fixture
def strips(load_example):
    return load_example("data/strips.py")


def one_pass(ds):
    ds.reset_state()
    return list(ds)


class TestStrips:
    @pytest.mark.slow
    def test_writers_are_apart(self, strips, monkeypatch):
        """Training strips use the images before 1300, held-out strips those from 1437 on."""
        images = np.zeros([1797, 8, 8])
        images[:1300], images[1437:] = 16, 8
        images[1300:1437] = np.nan
        digits = SimpleNamespace(images=images, target=np.arange(1797) % 10)
        monkeypatch.setattr(strips, "load_digits", lambda: digits)
        train, test = strips.get_strips()
        assert {1.0} == {round(float(frames.max()), 3) for frames, _ in one_pass(train)}
        assert {0.5} == {round(float(frames.max()), 3) for frames, _ in one_pass(test)}


@pytest.mark.slow
def test_errors_are_edit_distances(example):
    """A model with random weights makes no error if the labels are what it reads, and one per inserted label."""
    inputs, outputs = ["frames", "length"], ["read"]
    config = PredictConfig(model=example.Model(8, 4), input_names=inputs, output_names=outputs, create_graph=False)
    with tf.Graph().as_default():
        predict = OfflinePredictor(config)
        frames, length = np.random.RandomState(0).randn(3, 40, 8), np.int32([40, 32, 40])
        (read,) = predict(frames, length)
        assert (read >= 0).any()
        names = ["frames:0", "length:0", "label:0"]
        for more, expected in ((0, [0, 0, 0]), (2, [2, 2, 2])):
            label = np.full([3, read.shape[1] + more], -1)
            for row, line in zip(label, read):
                true = [k for k in line if k >= 0] + more * [3]
                row[: len(true)] = true
            errors = predict.sess.run("errors:0", dict(zip(names, (frames, length, label))))
            assert expected == errors.tolist()


def test_label_error_rate(example, tmp_path, monkeypatch):
    """Three errors in five labels are a rate of 0.6; the picture shows the first sequences, at most twelve."""
    monkeypatch.setattr(example.logger, "get_logger_dir", lambda: str(tmp_path))
    measure = example.LabelErrorRate()
    measure.before_epoch()
    frames, read = np.zeros([1, 40, 20], "float32"), np.array([[3, 4]])
    measure.on_fetches([np.array([1.0]), np.array([[1, 2, -1]]), frames, read])
    measure.on_fetches([np.array([2.0]), np.array([[3, 4, 5]]), frames, read])
    assert {"label_error_rate": pytest.approx(0.6)} == measure.get_numbers()
    assert (6 * 56 + 5 * 4, 2 * 80 + 4, 3) == example.cv2.imread(str(tmp_path / "strips.png")).shape


def write_sequences(directory, bands=8):
    """Write sequences whose label k is a block of 8 frames with energy in band k."""
    rng = np.random.RandomState(0)
    for name in ("train", "test"):
        sequences = []
        for _ in range(40):
            labels = rng.randint(3, size=rng.randint(2, 5)).astype("int32")
            sequences.append([np.repeat(np.eye(bands, dtype="float32")[labels], 8, axis=0), labels])
        NumpySerializer.save(DataFromList(sequences, shuffle=False), str(directory / f"{name}.npz"))


def test_sequences_from_files(example, tmp_path):
    """`get_data` pads the sequences that NumpySerializer has written, to batches of at most 32."""
    write_sequences(tmp_path)
    batches = one_pass(example.get_data(str(tmp_path))[1])
    assert [32, 8] == [len(frames) for frames, _, _ in batches]
    for frames, length, label in batches:
        assert (8 * (label >= 0).sum(axis=1) == length).all()
        for row, labels in zip(frames[:, ::8], label):
            assert row.argmax(axis=1)[: (labels >= 0).sum()].tolist() == labels[labels >= 0].tolist()


@pytest.mark.slow
@pytest.mark.parametrize("data", ["digits", pytest.param("files", marks=pytest.mark.any_tensorflow)])
def test_two_steps(data, tmp_path, run_example):
    """After two steps there are a rate, a picture, and checkpoints, for digits and for sequences in files."""
    arguments = ["--steps-per-epoch", "2", "--max-epoch", "1", "--log-dir", "log"]
    if data == "files":
        write_sequences(tmp_path)
        arguments += ["--data", ".", "--classes", "3"]
    run_example("ctc_strips.py", arguments, tmp_path)
    stats = read_stats(tmp_path / "log")[-1]
    assert 0 < stats["label_error_rate"] < 5
    assert (tmp_path / "log" / "strips.png").stat().st_size > 1000
    assert (tmp_path / "log" / "min-label_error_rate.index").exists()
