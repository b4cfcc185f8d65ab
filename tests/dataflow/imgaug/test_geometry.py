"""Tests of affine augmentors."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.dataflow.imgaug import Affine, Rotation, RotationAndCropValid, Shift
from tensorpack_lite.dataflow.imgaug.base import ImagePlaceholder
from tensorpack_lite.utils.utils import fix_rng_seed

pytestmark = pytest.mark.usefixtures("cv2")

CONSTANT, REPLICATE = 0, 1  # cv2.BORDER_...


def numbered(h=5, w=7, dtype=np.float32):
    """Return an image in which all pixels differ."""
    return (1 + np.arange(h * w)).reshape(h, w).astype(dtype)


class TestShift:
    def test_whole_pixels(self, drawing):
        """The drawn shift is rounded to whole pixels, and the edge is repeated."""
        image = numbered()
        moved = drawing(Shift(0.3, 0.3), 1.8, -1.2).augment(image)
        np.testing.assert_array_equal(image[1:, :-2], moved[:-1, 2:])
        np.testing.assert_array_equal(np.repeat(image[1:, :1], 2, axis=1), moved[:-1, :2])
        np.testing.assert_array_equal(moved[-2], moved[-1])

    def test_color_beyond_the_edge(self, drawing):
        """With BORDER_CONSTANT, the pixels beyond the edge have the given color."""
        moved = drawing(Shift(0.3, 0, CONSTANT, 99), 2, 0).augment(numbered())
        assert (moved[:, :2] == 99).all()

    def test_range(self):
        """Shifts stay within the fractions of width and height."""
        fix_rng_seed(0)
        mats = np.array([Shift(0.2, 0.1).get_transform(ImagePlaceholder((100, 50))).mat for _ in range(300)])
        for axis in range(2):
            assert set(range(-10, 11)) == set(mats[:, axis, 2].astype(int))


class TestRotation:
    @pytest.mark.parametrize(("angle", "turns"), [(90, 1), (180, 2), (-90, -1)])
    @pytest.mark.parametrize("channels", [(), (1,), (3,)])
    def test_quarter_turns(self, drawing, angle, turns, channels):
        """Rotations by multiples of 90 degrees are exact and counterclockwise: the center of a 6x6 image is at 2.5."""
        image = np.arange(36 * int(np.prod(channels))).reshape((6, 6) + channels).astype(np.uint8)
        augmentor = drawing(Rotation(180, center_range=(0.5, 0.5)), np.array([0.5, 0.5]), angle)
        np.testing.assert_array_equal(np.rot90(image, turns), augmentor.augment(image))

    def test_fixed_point(self, drawing):
        """The rotation keeps the drawn point fixed."""
        augmentor = drawing(Rotation(180), np.array([0.25, 0.75]), 77.0)
        tfm = augmentor.get_transform(ImagePlaceholder((40, 80)))
        np.testing.assert_allclose([[19.5, 29.5]], tfm.apply_coords(np.float64([[19.5, 29.5]])))

    def test_color_beyond_the_edge(self, drawing):
        """The edge is repeated by default; with BORDER_CONSTANT, the pixels beyond it have the given color."""
        image = np.full((9, 9), 5, np.uint8)
        about = np.array([0.5, 0.5])
        assert 77 == drawing(Rotation(45, border=CONSTANT, border_value=77), about, 45.0).augment(image)[0, 0]
        assert 5 == drawing(Rotation(45), about, 45.0).augment(image)[0, 0]

    @pytest.mark.parametrize(("drawn", "expected"), [(100.0, 90), (-1.0, -45), (45.0, 45)])
    def test_steps(self, drawing, drawn, expected):
        """The drawn angle is rounded down to a multiple of the step."""
        tfm = drawing(Rotation(180, step_deg=45), np.array([0.5, 0.5]), drawn).get_transform(ImagePlaceholder((9, 9)))
        assert np.cos(np.radians(expected)) == pytest.approx(tfm.mat[0, 0], abs=1e-9)
        assert np.sin(np.radians(expected)) == pytest.approx(tfm.mat[0, 1], abs=1e-9)


class TestRotationAndCropValid:
    @pytest.mark.parametrize("seed", range(5))
    @pytest.mark.parametrize("shape", [(60, 90), (90, 60), (50, 50)])
    def test_only_pixels_of_the_image(self, seed, shape):
        """A white image stays white, except for rounding of the outermost pixels."""
        fix_rng_seed(seed)
        result = RotationAndCropValid(180).augment(np.full(shape, 255, np.uint8))
        assert (result[1:-1, 1:-1] == 255).all()
        assert min(result.shape) >= 0.4 * min(shape)

    def test_no_rotation(self):
        """Without rotation, the crop is the whole image."""
        image = numbered()
        np.testing.assert_array_equal(image, RotationAndCropValid(0).augment(image))

    @pytest.mark.parametrize(
        ("w", "h", "angle", "expected"),
        [
            (100, 50, 0, (100, 50)),
            (100, 50, 90, (50, 100)),
            (100, 50, 180, (100, 50)),
            (100, 100, 45, (71, 71)),  # 100 / sqrt(2): half of the area
            (1000, 100, 45, (71, 71)),  # half of the short side over sine and cosine
            (1000, 100, 30, (100, 58)),  # 50 / sin 30, 50 / cos 30
            (100, 1000, 30, (58, 100)),
        ],
    )
    def test_largest_rotated_rect(self, w, h, angle, expected):
        """The size equals closed-form results, for both signs of the angle."""
        assert expected == RotationAndCropValid.largest_rotated_rect(w, h, angle)
        assert expected == RotationAndCropValid.largest_rotated_rect(w, h, -angle)


class TestAffine:
    def transform(self, drawing, augmentor, *answers, shape=(40, 60)):
        """Return the matrix that Affine draws from given numbers."""
        return drawing(augmentor, *answers).get_transform(ImagePlaceholder(shape))

    def test_installed_opencv(self):
        """Affine runs on the installed version of OpenCV; tensorpack's raises TypeError."""
        assert (8, 8, 3) == Affine((0.9, 1.1), (0.1, 0.1), 10, 5).augment(np.zeros((8, 8, 3), np.uint8)).shape

    def test_scale(self, drawing):
        """Scaling keeps the center fixed."""
        tfm = self.transform(drawing, Affine(scale=(1, 3)), 2.0, 0.0, 0.0)
        np.testing.assert_allclose(
            [[29.5, 19.5], [31.5, 23.5]], tfm.apply_coords(np.float64([[29.5, 19.5], [30.5, 21.5]]))
        )

    def test_translation(self, drawing):
        """The translation is a whole number of pixels and is applied last."""
        tfm = self.transform(drawing, Affine(translate_frac=(0.2, 0.3)), 0.0, 0.0, 4.4, -7.6)
        np.testing.assert_allclose([[4, -8]], tfm.apply_coords(np.zeros((1, 2))))

    def test_rotation(self, cv2, drawing):
        """The rotation is that of cv2.getRotationMatrix2D about the center."""
        tfm = self.transform(drawing, Affine(scale=(1, 2), rotate_max_deg=90), 1.5, 30.0, 0.0)
        np.testing.assert_allclose(cv2.getRotationMatrix2D((29.5, 19.5), 30.0, 1.5), tfm.mat, atol=1e-9)

    def test_shear(self, drawing):
        """Shear keeps rows horizontal and tilts the vertical axis; its length and the center do not change."""
        tfm = self.transform(drawing, Affine(shear=45), 0.0, 30.0)
        middle = np.array([29.5, 19.5])
        along, up = tfm.apply_coords(np.array([middle + [1, 0], middle + [0, 1]])) - middle
        np.testing.assert_allclose([1, 0], along, atol=1e-9)
        np.testing.assert_allclose([np.sin(np.radians(30)), np.cos(np.radians(30))], up, atol=1e-9)

    def test_ranges(self):
        """Scale, angle and translation stay within their ranges."""
        fix_rng_seed(0)
        augmentor = Affine((0.5, 2), (0.1, 0.2), 20)
        mats = np.array([augmentor.get_transform(ImagePlaceholder((100, 100))).mat for _ in range(300)])
        scales = np.sqrt(np.linalg.det(mats[:, :, :2]))
        angles = np.degrees(np.arctan2(mats[:, 0, 1], mats[:, 0, 0]))
        assert 0.5 <= scales.min() < 0.6
        assert 1.9 < scales.max() <= 2
        assert 18 < np.abs(angles).max() <= 20
        moved = mats[:, :, 2] - (49.5 - mats[:, :, :2] @ np.full(2, 49.5))
        assert [10, 20] == np.abs(np.round(moved)).max(axis=0).tolist()
