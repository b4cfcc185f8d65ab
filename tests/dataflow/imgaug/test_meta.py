"""Tests of augmentors that combine others, and of functions as augmentors."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.dataflow.imgaug import (
    AugmentorList,
    CenterCrop,
    Flip,
    Identity,
    MapImage,
    RandomApplyAug,
    RandomChooseAug,
    RandomOrderAug,
)
from tensorpack_lite.utils.utils import fix_rng_seed

IMAGE = np.arange(24, dtype=np.uint8).reshape(4, 6)
POINTS = np.float32([[1, 2]])

plus_one = MapImage(lambda img: img + 1)
double = MapImage(lambda img: img * 2)


def test_identity():
    """Identity returns the same array."""
    assert IMAGE is Identity().augment(IMAGE)


class TestRandomApply:
    @pytest.mark.parametrize(("number", "applied"), [(0.0, True), (0.29, True), (0.31, False)])
    def test_below_the_probability(self, drawing, number, applied):
        """The augmentor is applied if the drawn number is below the probability."""
        result = drawing(RandomApplyAug(plus_one, 0.3), number).augment(IMAGE)
        np.testing.assert_array_equal(IMAGE + applied, result)


class TestRandomChoose:
    def test_equal_probabilities(self):
        """All augmentors are equally likely, within four standard deviations."""
        fix_rng_seed(0)
        augmentor = RandomChooseAug([plus_one, double, Identity()])
        counts = np.bincount([augmentor.augment(np.full((1, 1), 5))[0, 0] for _ in range(900)], minlength=11)
        assert 900 == counts[5] + counts[6] + counts[10]
        np.testing.assert_allclose(counts[[5, 6, 10]], 300, atol=4 * np.sqrt(900 * 2 / 9))

    def test_probabilities(self):
        """Each augmentor can have a probability."""
        augmentor = RandomChooseAug([(plus_one, 0.0), (double, 1.0)])
        assert {10} == {int(augmentor.augment(np.full((1, 1), 5))[0, 0]) for _ in range(20)}


class TestRandomOrder:
    def test_both_orders_occur(self):
        """Both orders occur: (x + 1) * 2 and x * 2 + 1."""
        augmentor = RandomOrderAug([plus_one, double])
        assert {11, 12} == {int(augmentor.augment(np.full((1, 1), 5))[0, 0]) for _ in range(50)}

    def test_all_draw_for_the_original(self):
        """All augmentors draw for the original image, in the order of the list."""
        seen = []

        class Looks(Identity):
            def get_transform(self, img):
                seen.append(int(img[0, 0]))
                return super().get_transform(img)

        RandomOrderAug([plus_one, Looks(), plus_one, Looks()]).augment(np.full((1, 1), 5))
        assert [5, 5] == seen

    def test_coordinates(self):
        """Coordinates are transformed in the same order as the image."""
        tfm = RandomOrderAug([Flip(horiz=True, prob=1), Flip(vert=True, prob=1)]).get_transform(IMAGE)
        np.testing.assert_array_equal([[5, 2]], tfm.apply_coords(POINTS))

    def test_nested_list(self):
        """A list inside draws its later transforms when it is applied."""
        augmentor = RandomOrderAug([AugmentorList([Flip(vert=True), CenterCrop((4, 6))]), Identity()])
        assert IMAGE.shape == augmentor.augment(IMAGE).shape


class TestMapImage:
    def test_a_function(self):
        """The function is applied to images; coordinates raise NotImplementedError."""
        tfm = MapImage(np.negative).get_transform(IMAGE)
        np.testing.assert_array_equal(-IMAGE, tfm.apply_image(IMAGE))
        with pytest.raises(NotImplementedError, match="does not define apply_coords"):
            tfm.apply_coords(POINTS)

    def test_both(self):
        """The second function is applied to coordinates."""
        tfm = MapImage(np.negative, lambda coords: coords + 1).get_transform(IMAGE)
        np.testing.assert_array_equal(POINTS + 1, tfm.apply_coords(POINTS))
