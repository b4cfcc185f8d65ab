"""Sentences for errors that end a script: a library gives the same code another meaning than it had, or a GPU is missing."""

from __future__ import annotations

import linecache
import os
import re
from typing import Iterator

_NUMPY_1 = 'With TensorFlow 2.15 or older, the script runs as it is with: pip install "numpy<{}"'

_NO_GPU = (
    "this machine has no visible GPU. If the script requires one, let it compute on the CPU: "
    "tensorpack-lite run --pretend-gpu train.py"
)

_VIEWS = r"(dict_keys|dict_values|dict_items|odict_keys|odict_values|odict_items|filter|map|range|zip)"

# (type of the error, what its message contains, sentence)
HINTS = [
    (
        "ValueError",
        r"Object arrays cannot be loaded when allow_pickle=False",
        "The file contains pickled objects, which NumPy reads only on request since version 1.16.3. If you trust the "
        "file, pass the argument: np.load(..., allow_pickle=True). If Python 2 wrote it: encoding='latin1' as well.",
    ),
    (
        "UnicodeError|UnicodeDecodeError",
        r"'ascii' codec can't decode byte",
        "If the file is a pickle of Python 2, pass the argument: pickle.load(file, encoding='latin1'), or "
        "np.load(path, allow_pickle=True, encoding='latin1').",
    ),
    (
        "TypeError",
        r"a bytes-like object is required, not 'str'|must be str, not bytes|write\(\) argument must be str, not bytes",
        "Python 3 separates text and bytes. Open the file with the mode 'rb' or 'wb' for bytes, also for pickle.",
    ),
    (
        "TypeError",
        r"only 0-dimensional arrays can be converted to Python scalars",
        "NumPy 2.4 converts only arrays without dimensions by float() and int(). Write x.item(). " + _NUMPY_1.format(2),
    ),
    (
        "ValueError",
        r"inhomogeneous shape after",
        "NumPy 1.24 and later make an array of lists of different lengths only on request: "
        "np.asarray(lists, dtype=object). " + _NUMPY_1.format("1.24"),
    ),
    (
        "ValueError",
        r"not enough values to unpack \(expected 3|too many values to unpack \(expected (4|3|2)\)",
        "If an environment of gym or OpenCV returned the values: gym 0.26 and gymnasium return (observation, info) from "
        "reset() and five values from step(), and OpenCV 4 returns two values from findContours().",
    ),
    (
        "AttributeError|TypeError",
        rf"'{_VIEWS}' object (has no attribute|is not subscriptable|does not support item)|object of type '{_VIEWS}' has no len"
        rf"|for \+=?: .*'{_VIEWS}'|only concatenate list \(not \"{_VIEWS}\"|Population must be a sequence",
        "In Python 3, range(), map(), filter() and zip(), and the keys(), values() and items() of a dict, are not lists. Write "
        "list(...) around the call.",
    ),
    (
        "TypeError",
        r"sort\(\) takes no positional arguments|sorted expected 1 argument, got 2",
        "Python 3 sorts by a key: write key=functools.cmp_to_key(compare) for a function that compares two items.",
    ),
    (
        "TypeError",
        r"string argument expected, got 'bytes'",
        "Python 3 separates text and bytes. Use io.BytesIO for a file of bytes in memory.",
    ),
    (
        "ModuleNotFoundError",
        r"No module named '(tensorflow_core|gym|librosa|yaml|skimage|sklearn|cv2|PIL|h5py|matplotlib|distutils)",
        "The package is not installed. Packages: skimage is scikit-image, sklearn scikit-learn, cv2 "
        "opencv-python-headless, PIL pillow, yaml pyyaml, and distutils setuptools.",
    ),
]


def find_hint(error: BaseException | None) -> str:
    """Return the sentence for an error or one of its causes, and "" if there is none."""
    # a line such as `from GAN import MultiGPUTrainer` fails for want of a module
    concerns_gpu = error is not None and "gpu" in f"{_last_line(error)} {error}".lower()
    if concerns_gpu and not isinstance(error, ImportError) and _lacks_gpu():
        return _NO_GPU
    for one in _chain(error):
        kinds = {kind.__name__ for kind in type(one).__mro__}
        for names, pattern, sentence in HINTS:
            if kinds & set(names.split("|")) and re.search(pattern, str(one)):
                return sentence
    return ""


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _lacks_gpu() -> bool:
    pretended = os.environ.get("TENSORPACK_LITE_PRETEND_GPU")
    return os.environ.get("TENSORPACK_LITE_HAS_GPU") == "" and not pretended


def _last_line(error: BaseException) -> str:
    """Return the line of source that raised an error."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    return "" if place is None else linecache.getline(place.tb_frame.f_code.co_filename, place.tb_lineno)
