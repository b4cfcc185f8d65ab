"""Scripts that use removed names of other libraries, and Python 2, run untouched on each TensorFlow."""

from __future__ import annotations

import pytest
from unmodified import corpus

pytestmark = pytest.mark.slow

# what the scripts print with Python 3.7 and the libraries of TensorFlow 1.15, and the largest difference from it
CHECKSUMS = {
    "detection_2018": (382.7977, 1e-3),
    "digits_python2_2016": (11.1957, 0.02),
    "images_2017": (124.994, 0.05),
    "voices_2016": (441.4372, 1e-3),
}


@pytest.mark.parametrize("script", sorted(CHECKSUMS))
def test_script(script, tmp_path):
    """A script prints the number that it prints with the libraries of TensorFlow 1.15."""
    for package in ("scipy", "PIL", "h5py", "matplotlib"):
        pytest.importorskip(package)
    expected, tolerance = CHECKSUMS[script]
    output = corpus.run_script(script, cwd=tmp_path, folder=corpus.OLD_LIBRARIES)
    assert corpus.last_number(output) == pytest.approx(expected, abs=tolerance)


def test_all_scripts_are_tested():
    """Each script of the folder has a number."""
    assert sorted(CHECKSUMS) == sorted(file.stem for file in corpus.OLD_LIBRARIES.glob("*.py"))
