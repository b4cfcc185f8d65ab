"""Augmentors made of others, and of functions."""

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
    """The very array comes back."""
    assert IMAGE is Identity().augment(IMAGE)


class TestRandomApply:
    @pytest.mark.parametrize(("number", "applied"), [(0.0, True), (0.29, True), (0.31, False)])
    def test_below_the_probability(self, drawing, number, applied):
        """Applied if the number drawn is less."""
        result = drawing(RandomApplyAug(plus_one, 0.3), number).augment(IMAGE)
        np.testing.assert_array_equal(IMAGE + applied, result)

    def test_frequency(self):
        """As often as the probability says, to four standard deviations."""
        fix_rng_seed(0)
        augmentor = RandomApplyAug(plus_one, 0.3)
        count = sum(int(augmentor.augment(IMAGE)[0, 0]) for _ in range(2000))
        assert 2000 * 0.3 == pytest.approx(count, abs=4 * np.sqrt(2000 * 0.3 * 0.7))

    @pytest.mark.parametrize("prob", [-0.1, 1.1])
    def test_no_probability(self, prob):
        """Refused when built."""
        with pytest.raises(ValueError, match="RandomApplyAug: prob takes a probability from 0 to 1, got"):
            RandomApplyAug(plus_one, prob)

    def test_no_augmentor(self):
        """Refused when built."""
        with pytest.raises(
            TypeError, match=r"RandomApplyAug: takes augmentors, got function. Wrap a function"
        ):
            RandomApplyAug(lambda img: img, 0.5)

    def test_reset_reaches_the_child(self):
        """Under a seed the child repeats itself too."""
        augmentor, results = RandomApplyAug(Flip(horiz=True), 1.0), []
        for _ in range(2):
            fix_rng_seed(3)
            augmentor.reset_state()
            results.append([augmentor.augment(IMAGE)[0, 0] for _ in range(20)])
        assert results[0] == results[1]
        assert {0, 5} == set(results[0])


class TestRandomChoose:
    def test_one_of_them(self):
        """Each as often as the others, to four standard deviations."""
        fix_rng_seed(0)
        augmentor = RandomChooseAug([plus_one, double, Identity()])
        counts = np.bincount([augmentor.augment(np.full((1, 1), 5))[0, 0] for _ in range(900)], minlength=11)
        assert 900 == counts[5] + counts[6] + counts[10]
        np.testing.assert_allclose(counts[[5, 6, 10]], 300, atol=4 * np.sqrt(900 * 2 / 9))

    def test_probabilities(self):
        """Given with each augmentor."""
        augmentor = RandomChooseAug([(plus_one, 0.0), (double, 1.0)])
        assert {10} == {int(augmentor.augment(np.full((1, 1), 5))[0, 0]) for _ in range(20)}

    @pytest.mark.parametrize("probabilities", [(0.5, 0.6), (1.5, -0.5)])
    def test_wrong_probabilities(self, probabilities):
        """None is negative, and their sum is 1."""
        match = "RandomChooseAug: the probabilities must be >= 0 and add up to 1, got"
        with pytest.raises(ValueError, match=match):
            RandomChooseAug(list(zip((plus_one, double), probabilities)))

    def test_nothing_to_choose(self):
        """An empty list, or what is no augmentor."""
        with pytest.raises(
            ValueError, match="RandomChooseAug: takes at least one augmentor, got an empty list"
        ):
            RandomChooseAug([])
        with pytest.raises(TypeError, match="RandomChooseAug: takes augmentors, got int"):
            RandomChooseAug([3])
        with pytest.raises(TypeError, match="RandomChooseAug: takes augmentors, got tuple"):
            RandomChooseAug([(plus_one, 1.0), double])


class TestRandomOrder:
    def test_both_orders_come(self):
        """(x + 1) * 2 and x * 2 + 1."""
        augmentor = RandomOrderAug([plus_one, double])
        assert {11, 12} == {int(augmentor.augment(np.full((1, 1), 5))[0, 0]) for _ in range(50)}

    def test_all_draw_for_the_original(self):
        """In the order of the list, before any of them is applied."""
        seen = []

        class Looks(Identity):
            def get_transform(self, img):
                seen.append(int(img[0, 0]))
                return super().get_transform(img)

        RandomOrderAug([plus_one, Looks(), plus_one, Looks()]).augment(np.full((1, 1), 5))
        assert [5, 5] == seen

    def test_coordinates(self):
        """They go through the same order."""
        tfm = RandomOrderAug([Flip(horiz=True, prob=1), Flip(vert=True, prob=1)]).get_transform(IMAGE)
        np.testing.assert_array_equal([[5, 2]], tfm.apply_coords(POINTS))

    def test_a_list_inside(self):
        """Its later parts are drawn when it is applied."""
        augmentor = RandomOrderAug([AugmentorList([Flip(vert=True), CenterCrop((4, 6))]), Identity()])
        assert IMAGE.shape == augmentor.augment(IMAGE).shape

    def test_no_augmentor(self):
        """Refused when built."""
        with pytest.raises(TypeError, match="RandomOrderAug: takes augmentors, got str"):
            RandomOrderAug(["x"])


class TestMapImage:
    def test_a_function(self):
        """Applied to the image; coordinates are refused without a second one."""
        tfm = MapImage(np.negative).get_transform(IMAGE)
        np.testing.assert_array_equal(-IMAGE, tfm.apply_image(IMAGE))
        with pytest.raises(NotImplementedError, match="does not define apply_coords"):
            tfm.apply_coords(POINTS)

    def test_both(self):
        """The second function is for coordinates."""
        tfm = MapImage(np.negative, lambda coords: coords + 1).get_transform(IMAGE)
        np.testing.assert_array_equal(POINTS + 1, tfm.apply_coords(POINTS))

    def test_no_function(self):
        """Refused when built."""
        with pytest.raises(TypeError, match="MapImage: takes a function, got int"):
            MapImage(3)
