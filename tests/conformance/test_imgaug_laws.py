"""What holds for every public augmentor; `imgaug_rows.py` has a row for each."""

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

H, W = 64, 80
KINDS = [(shape, dtype) for shape in [(H, W), (H, W, 1), (H, W, 3)] for dtype in (np.uint8, np.float32)]
BASES = {"Augmentor", "ImageAugmentor", "PhotometricAugmentor"}
SEEDS = range(7, 11)


def rows(chosen):
    """Parametrise a law over rows, and call each case by the row's name."""
    return pytest.mark.parametrize("row", chosen, ids=str)


def images(row):
    """An image of each kind that the augmentor takes: one and three channels, bytes and floats."""
    for shape, dtype in KINDS:
        if not row.needs_colour or shape[2:] == (3,):
            yield image(shape, dtype)


def built(row, seed=7):
    """An augmentor whose numbers are those of the seed."""
    fix_rng_seed(seed)
    return row.build()


def spot(x, y):
    """A black image with a soft white spot, its middle at a pixel."""
    rows_, columns = np.mgrid[:H, :W]
    return (255 * np.exp(-((columns - x) ** 2 + (rows_ - y) ** 2) / 8.0)).astype(np.float32)


def middle_of_spot(img):
    """(x, y) of where the light is."""
    rows_, columns = np.mgrid[: img.shape[0], : img.shape[1]]
    return np.array([(img * columns).sum(), (img * rows_).sum()]) / img.sum()


def test_every_public_augmentor_has_a_row():
    """No row, no merge."""
    public = {
        name
        for name in imgaug.__all__
        if inspect.isclass(getattr(imgaug, name)) and issubclass(getattr(imgaug, name), imgaug.ImageAugmentor)
    }
    assert public - BASES == {row.name for row in ROWS}


@rows(ROWS)
def test_type_and_shape_are_kept(row):
    """Or what the row says becomes of them."""
    for source in images(row):
        result = built(row).augment(source)
        assert np.dtype(row.type_after or source.dtype) == result.dtype
        if row.keeps_dimensions:
            assert (source.ndim, source.shape[2:]) == (result.ndim, result.shape[2:])
        if row.keeps_size:
            assert (H, W) == result.shape[:2]


@rows(ROWS)
def test_the_source_is_not_changed(row):
    """Not even with copy=False: no augmentor works in place."""
    for source in images(row):
        before = source.copy()
        built(row).augment(source)
        np.testing.assert_array_equal(before, source)


@rows(ROWS)
def test_a_transform_repeats_itself(row):
    """On a copy of the image the same pixels come out, as often as it is applied."""
    for source in images(row):
        tfm = built(row).get_transform(source)
        first = tfm.apply_image(source).copy()
        np.testing.assert_array_equal(first, tfm.apply_image(source.copy()))
        np.testing.assert_array_equal(first, tfm.apply_image(source))


@rows(ROWS)
def test_the_same_seed_gives_the_same_result(row):
    """Built again in the same order."""
    source = image((H, W, 3))
    np.testing.assert_array_equal(built(row).augment(source), built(row).augment(source))


@rows(ROWS)
def test_reset_state_begins_a_new_stream(row):
    """And with it the seed counts from then on: what a worker process does."""
    source, results = image((H, W, 3)), []
    for _ in range(2):
        augmentor = row.build()
        fix_rng_seed(3)
        augmentor.reset_state()
        results.append(augmentor.augment(source))
    np.testing.assert_array_equal(results[0], results[1])


@rows([row for row in ROWS if row.has_repr])
def test_repr_builds_it(row):
    """`eval(repr(augmentor))` is the same augmentor."""
    augmentor = row.build()
    again = eval(repr(augmentor), {"imgaug": imgaug, "array": np.array})
    assert type(augmentor) is type(again)
    assert repr(augmentor) == repr(again)
    assert repr(augmentor).startswith(f"imgaug.{row.name}(")


@rows(ROWS)
def test_it_can_be_pickled(row):
    """The copy does what the original would have, and draws a stream of its own."""
    source, augmentor = image((H, W, 3)), row.build()
    travelled = pickle.loads(pickle.dumps(augmentor))
    results = []
    for each in (augmentor, travelled):
        fix_rng_seed(5)
        each.reset_state()
        results.append(each.augment(source))
    np.testing.assert_array_equal(results[0], results[1])


@rows(ROWS)
def test_its_transform_can_be_pickled(row):
    """So that one process may draw and another apply."""
    source = image((H, W, 3))
    tfm = built(row).get_transform(source)
    travelled = pickle.loads(pickle.dumps(tfm))
    if row.name != "AugmentorList":  # whose later parts are drawn by the first image
        np.testing.assert_array_equal(tfm.apply_image(source), travelled.apply_image(source))


@rows([row for row in ROWS if row.coords == "moved"])
def test_coordinates_follow_the_image(row):
    """The coordinates of a bright spot lead to the bright spot in the new image, to less than a pixel."""
    x, y = 42, 28
    source = spot(x, y)
    for seed in SEEDS:
        tfm = built(row, seed).get_transform(source)
        # the middle of a pixel is half a pixel from its corner
        found = middle_of_spot(tfm.apply_image(source)) + 0.5
        coords = np.float32([[x + 0.5, y + 0.5], [0, 0]])
        moved = tfm.apply_coords(coords)
        assert (np.float32, (2, 2)) == (moved.dtype, moved.shape)
        np.testing.assert_allclose(moved[0], found, atol=0.75)
        # not changed in place
        np.testing.assert_array_equal(np.float32([[x + 0.5, y + 0.5], [0, 0]]), coords)


@rows([row for row in ROWS if row.coords == "kept"])
def test_coordinates_stay_where_nothing_moves(row):
    """Photometric augmentors give them back."""
    source, coords = image((H, W, 3)), np.float32([[3, 4]])
    np.testing.assert_array_equal(coords, built(row).get_transform(source).apply_coords(coords))


@rows([row for row in ROWS if row.coords == "refused"])
def test_coordinates_are_refused(row):
    """Where nobody says what becomes of them."""
    tfm = built(row).get_transform(image((H, W, 3)))
    with pytest.raises(NotImplementedError, match="does not define apply_coords"):
        tfm.apply_coords(np.float32([[3, 4]]))


@rows(ROWS)
def test_it_can_be_collected(row):
    """Nothing keeps an augmentor alive, not even a circle of references; upstream's live for ever."""
    augmentor = row.build()
    augmentor.augment(image((H, W, 3)))
    gone = weakref.ref(augmentor)
    del augmentor
    assert gone() is None


@rows(ROWS)
def test_in_a_list_it_comes_out_contiguous(row):
    """Other libraries refuse views with negative strides."""
    for seed in SEEDS:
        result = imgaug.AugmentorList([built(row, seed)]).augment(image((H, W, 3)))
        assert result.flags["C_CONTIGUOUS"]
