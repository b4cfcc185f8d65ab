"""
Scripts in the style of each year run with `tensorpack-lite run`, byte for byte the same file on each TensorFlow.

`reference.json` and `checkpoints/` were written with TensorFlow 1.15.5; see `corpus.py`.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from unmodified import corpus

from tensorpack_lite.compat import tfv1 as tf

pytestmark = pytest.mark.slow

REFERENCES = json.loads(corpus.REFERENCE.read_text())

# script: the largest figure that is a success, and the largest difference from TensorFlow 1.15
FIGURES = {
    "digits_2016": (0.06, 0.012),  # 360 digits for validation, so that one digit more is 0.003
    "letters_2017": (0.10, 0.05),  # two processes produce the datapoints, in any order
    "gan_2017": (0.10, 0.02),
    "dqn_2018": (0.01, 0.002),
    "rnn_2018": (0.12, 0.01),  # 400 waves
    "slim_2019": (0.08, 0.012),
    "autoencoder_2021": (0.05, 0.001),
}
ORDERED = sorted(set(FIGURES) - {"letters_2017"})  # the first epochs are equal, because the data are


@pytest.fixture(scope="module")
def results():
    """The results of the scripts that have run, by name."""
    return {}


# CI runs all scripts on TensorFlow 1.15, for which they were written, and on the newest one, and one of them on 2.15.
OTHERS = [pytest.mark.any_tensorflow] if tf.__version__.startswith("2.") else []


def scripts(names, one):
    """Return the scripts as parameters. `one` is that of TensorFlow 2.15."""
    return [pytest.param(name, marks=[] if name == one else OTHERS) for name in names]


@pytest.fixture(params=scripts(sorted(FIGURES), "slim_2019"))
def script(request):
    if request.param in ("digits_2016", "slim_2019"):
        pytest.importorskip("sklearn")
    return request.param


def test_all_scripts_are_tested():
    """Each script of the folder has a figure and a reference."""
    assert sorted(FIGURES) == sorted(file.stem for file in corpus.SCRIPTS.glob("*.py")) == sorted(REFERENCES)


def test_training(script, tmp_path):
    """A script trains to the figure of TensorFlow 1.15, and its checkpoint has the same variables."""
    reference = REFERENCES[script]
    result = corpus.train(script, tmp_path)
    assert reference["variables"] == result.variables
    limit, tolerance = FIGURES[script]
    assert result.figure <= limit
    assert result.figure == pytest.approx(reference["figure"], abs=tolerance)
    if script in ORDERED:
        assert result.first_epoch == pytest.approx(reference["first_epoch"], rel=1e-3)


@pytest.mark.parametrize("script", scripts(corpus.WITH_CHECKPOINT, "rnn_2018"), indirect=True)
def test_checkpoint_of_tensorflow_1(script, tmp_path):
    """A checkpoint that the script wrote on TensorFlow 1.15 gives the same probabilities and the same error."""
    error, probabilities = corpus.probabilities(script, corpus.CHECKPOINTS / script, tmp_path)
    expected = np.load(str(corpus.CHECKPOINTS / f"{script}.npy"))
    np.testing.assert_allclose(probabilities, expected, rtol=0, atol=1e-5)
    assert REFERENCES[script]["loaded_figure"] == error
