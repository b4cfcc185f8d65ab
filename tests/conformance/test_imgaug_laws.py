"""Laws that hold for every public augmentor; `imgaug_rows.py` has a row for each."""

from __future__ import annotations

import inspect
import pickle
import weakref

import numpy as np
import pytest

pytest.importorskip("cv2", reason="most augmentors need OpenCV")

from conformance.imgaug_rows import ROWS, image

from tensorpack_lite.dataflow import imgaug
from tensorpack_lite.utils.utils import fix_rng_seed

pytestmark = pytest.mark.law

H, W = 64, 80
KINDS = [(shape, dtype) for shape in [(H, W), (H, W, 1), (H, W, 3)] for dtype in (np.uint8, np.float32)]
BASES = {"Augmentor", "ImageAugmentor", "PhotometricAugmentor"}
SEEDS = range(7, 11)


def rows(chosen):
    """Parametrize a law over rows, with the names of the rows as IDs."""
    return pytest.mark.parametrize("row", chosen, ids=str)


def images(row):
    """Return an image of each kind that the augmentor accepts: one and three channels, uint8 and float32."""
    for shape, dtype in KINDS:
        if not row.needs_color or shape[2:] == (3,):
            yield image(shape, dtype)


def built(row, seed=7):
    """Build the augmentor of a row with a fixed seed."""
    fix_rng_seed(seed)
    return row.build()


def spot(x, y):
    """Return a black image with a soft white spot, centered on a pixel."""
    rows_, columns = np.mgrid[:H, :W]
    return (255 * np.exp(-((columns - x) ** 2 + (rows_ - y) ** 2) / 8.0)).astype(np.float32)


def middle_of_spot(img):
    """Return (x, y) of the center of brightness."""
    rows_, columns = np.mgrid[: img.shape[0], : img.shape[1]]
    return np.array([(img * columns).sum(), (img * rows_).sum()]) / img.sum()


def test_every_public_augmentor_has_a_row():
    """Every public augmentor has a row."""
    public = {
        name
        for name in imgaug.__all__
        if inspect.isclass(getattr(imgaug, name)) and issubclass(getattr(imgaug, name), imgaug.ImageAugmentor)
    }
    assert public - BASES == {row.name for row in ROWS}


@rows(ROWS)
def test_type_and_shape(row):
    """Type and shape do not change, unless the row specifies otherwise."""
    for source in images(row):
        result = built(row).augment(source)
        assert np.dtype(row.type_after or source.dtype) == result.dtype
        if row.keeps_dimensions:
            assert (source.ndim, source.shape[2:]) == (result.ndim, result.shape[2:])
        if row.keeps_size:
            assert (H, W) == result.shape[:2]


@rows(ROWS)
def test_input_does_not_change(row):
    """No augmentor modifies its input."""
    for source in images(row):
        before = source.copy()
        built(row).augment(source)
        np.testing.assert_array_equal(before, source)


@rows(ROWS)
def test_transform_repeats(row):
    """A transform gives the same pixels each time it is applied to a copy of the image."""
    for source in images(row):
        tfm = built(row).get_transform(source)
        first = tfm.apply_image(source).copy()
        np.testing.assert_array_equal(first, tfm.apply_image(source.copy()))
        np.testing.assert_array_equal(first, tfm.apply_image(source))


@rows(ROWS)
def test_seed(row):
    """An augmentor that is built again after the same seed gives the same result."""
    source = image((H, W, 3))
    np.testing.assert_array_equal(built(row).augment(source), built(row).augment(source))


@rows(ROWS)
def test_reset_state_starts_a_new_stream(row):
    """`reset_state` starts a new stream, which depends on the current seed."""
    source, results = image((H, W, 3)), []
    for _ in range(2):
        augmentor = row.build()
        fix_rng_seed(3)
        augmentor.reset_state()
        results.append(augmentor.augment(source))
    np.testing.assert_array_equal(results[0], results[1])


@rows([row for row in ROWS if row.has_repr])
def test_repr(row):
    """`eval(repr(augmentor))` gives an equal augmentor."""
    augmentor = row.build()
    again = eval(repr(augmentor), {"imgaug": imgaug, "array": np.array})
    assert type(augmentor) is type(again)
    assert repr(augmentor) == repr(again)
    assert repr(augmentor).startswith(f"imgaug.{row.name}(")


@rows(ROWS)
def test_pickle(row):
    """A pickled copy gives the same result after the same seed, and has a separate stream."""
    source, augmentor = image((H, W, 3)), row.build()
    travelled = pickle.loads(pickle.dumps(augmentor))
    results = []
    for each in (augmentor, travelled):
        fix_rng_seed(5)
        each.reset_state()
        results.append(each.augment(source))
    np.testing.assert_array_equal(results[0], results[1])


@rows(ROWS)
def test_pickled_transform(row):
    """Transforms can be pickled, so one process can draw and another apply."""
    source = image((H, W, 3))
    tfm = built(row).get_transform(source)
    travelled = pickle.loads(pickle.dumps(tfm))
    if row.name != "AugmentorList":  # its later transforms are functions of the augmentors
        np.testing.assert_array_equal(tfm.apply_image(source), travelled.apply_image(source))


@rows([row for row in ROWS if row.coords == "moved"])
def test_coordinates_follow_the_image(row):
    """The coordinates of a bright spot move with the spot, to within a pixel."""
    x, y = 42, 28
    source = spot(x, y)
    for seed in SEEDS:
        tfm = built(row, seed).get_transform(source)
        # the center of a pixel is half a pixel from its corner
        found = middle_of_spot(tfm.apply_image(source)) + 0.5
        coords = np.float32([[x + 0.5, y + 0.5], [0, 0]])
        moved = tfm.apply_coords(coords)
        assert (np.float32, (2, 2)) == (moved.dtype, moved.shape)
        np.testing.assert_allclose(moved[0], found, atol=0.75)
        # the input does not change
        np.testing.assert_array_equal(np.float32([[x + 0.5, y + 0.5], [0, 0]]), coords)


@rows([row for row in ROWS if row.coords == "kept"])
def test_coordinates_do_not_change(row):
    """Photometric augmentors return coordinates unchanged."""
    source, coords = image((H, W, 3)), np.float32([[3, 4]])
    np.testing.assert_array_equal(coords, built(row).get_transform(source).apply_coords(coords))


@rows([row for row in ROWS if row.coords == "refused"])
def test_coordinates_are_rejected(row):
    """Augmentors that cannot transform coordinates raise NotImplementedError."""
    tfm = built(row).get_transform(image((H, W, 3)))
    with pytest.raises(NotImplementedError, match="does not define apply_coords"):
        tfm.apply_coords(np.float32([[3, 4]]))


@rows(ROWS)
def test_garbage_collection(row):
    """An augmentor is collected when its last reference is deleted, without the cycle collector."""
    augmentor = row.build()
    augmentor.augment(image((H, W, 3)))
    gone = weakref.ref(augmentor)
    del augmentor
    assert gone() is None


@rows(ROWS)
def test_contiguous_in_a_list(row):
    """In a list, the result is contiguous, because other libraries reject negative strides."""
    for seed in SEEDS:
        result = imgaug.AugmentorList([built(row, seed)]).augment(image((H, W, 3)))
        assert result.flags["C_CONTIGUOUS"]
