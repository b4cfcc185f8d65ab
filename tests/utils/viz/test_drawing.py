"""Boxes and text on images, and color maps."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tensorpack_lite.utils.viz import draw_boxes, draw_text, intensity_to_rgb

BLUE = (255, 0, 0)  # BGR


class TestDrawBoxes:
    pytestmark = pytest.mark.usefixtures("cv2")

    @pytest.mark.parametrize("shape", [(8, 10), (8, 10, 1), (8, 10, 3)])
    def test_equals_numpy(self, shape):
        """The outline of each box is drawn on a new BGR image."""
        image = np.full(shape, 7, "float32")
        drawn = draw_boxes(image, [[1, 2, 5, 6]], color=BLUE)

        expected = np.full([8, 10, 3], 7, "uint8")
        expected[2, 1:6] = expected[6, 1:6] = BLUE
        expected[2:7, 1] = expected[2:7, 5] = BLUE
        np.testing.assert_array_equal(expected, drawn)
        np.testing.assert_array_equal(np.full(shape, 7), image)

    def test_small_ones_on_top(self):
        """Smaller boxes are drawn over larger ones, whatever their order."""
        image, boxes, labels = (
            np.zeros([60, 80, 3], "uint8"),
            [[10, 20, 40, 50], [5, 20, 75, 55]],
            ["s", "LLLLLL"],
        )
        np.testing.assert_array_equal(
            draw_boxes(image, boxes, labels, BLUE), draw_boxes(image, boxes[::-1], labels[::-1], BLUE)
        )

    def test_labels(self):
        """A label is drawn on a filled background at the upper left corner of the box."""
        drawn = draw_boxes(np.zeros([60, 80, 3]), np.array([[20.0, 30.0, 60.0, 50.0]]), ["cat"])
        assert (218, 218, 218) == tuple(drawn[29, 20])
        assert draw_boxes(np.zeros([60, 80, 3]), [[20, 30, 60, 50]])[29, 20].sum() == 0

    @pytest.mark.parametrize("boxes", [[], np.zeros([0, 4])])
    def test_no_boxes(self, boxes):
        """Without boxes, the result is a copy of the image."""
        image = np.full([4, 4, 3], 9, "uint8")
        drawn = draw_boxes(image, boxes, labels=[])
        np.testing.assert_array_equal(image, drawn)
        assert not np.shares_memory(image, drawn)

    @pytest.mark.parametrize("box", [(3, 1, 3, 2), (1, 3, 2, 2), (-1, 0, 2, 2), (0, 0, 9, 2), (0, 0, 2, 7)])
    def test_an_invalid_box(self, box):
        """A box without area or outside of the image raises a ValueError."""
        with pytest.raises(ValueError, match="has no area or is not inside the image of 8 x 6 pixels. Clip"):
            draw_boxes(np.zeros([6, 8]), [(0, 0, 1, 1), box])

    def test_up_to_the_border(self):
        """A box may cover the whole image."""
        assert (218, 218, 218) == tuple(draw_boxes(np.zeros([6, 8]), [(0, 0, 8, 6)])[0, 3])

    def test_shapes(self):
        """A wrong shape or number of labels raises a ValueError."""
        with pytest.raises(ValueError, match=r"wrong shape \(expected \[N, 4\], got \(4,\)\)"):
            draw_boxes(np.zeros([4, 4]), [0, 0, 1, 1])
        with pytest.raises(ValueError, match=r"wrong number of labels \(expected 1, got 2\)"):
            draw_boxes(np.zeros([4, 4]), [[0, 0, 1, 1]], ["a", "b"])


class TestDrawText:
    pytestmark = pytest.mark.usefixtures("cv2")

    def changed(self, *args, **kwargs):
        """Return the rows and columns that a text changes on a gray image, as (top, bottom, left, right)."""
        drawn = draw_text(np.full([40, 100, 3], 50, "uint8"), *args, **kwargs)
        rows, columns = np.nonzero((drawn != 50).any(axis=2))
        return rows.min(), rows.max(), columns.min(), columns.max()

    def test_it_stands_on_its_position(self):
        """The lower left corner of the background is at the position."""
        _, bottom, left, _ = self.changed((7, 30), "text", BLUE)
        assert (29, 7) == (bottom, left)

    def test_it_stays_in_the_image(self):
        """At the borders, the text is moved into the image."""
        top, _, _, right = self.changed((95, 2), "text", BLUE)
        assert (0, 99) == (top, right)

    def test_it_can_be_read(self):
        """Letters are white on dark colors and black on light ones. The given image is not changed."""
        image = np.full([40, 100, 3], 50, "uint8")
        assert 180 < draw_text(image, (0, 20), "III", (0, 0, 0)).max()
        assert 40 > draw_text(image, (0, 20), "III", (255, 255, 255)).min()
        assert {50} == set(image.ravel())

    def test_size(self):
        """`font_scale` changes the size."""
        small, large = (self.changed((0, 39), "text", BLUE, font_scale=scale) for scale in (0.4, 0.8))
        assert large[3] > 1.8 * small[3]


class TestIntensityToRgb:
    @pytest.fixture
    def matplotlib(self):
        return pytest.importorskip("matplotlib")

    @pytest.mark.parametrize("cmap", ["cubehelix", "jet"])
    def test_equals_the_color_map(self, matplotlib, cmap):
        """Each number has the color of the map, and numbers are clipped to [0, 1]."""
        numbers = np.array([[0.0, 0.25], [1.0, 7.0]])
        rgb = intensity_to_rgb(numbers, cmap)

        expected = [[[c * 255 for c in matplotlib.colormaps[cmap](min(n, 1.0))[:3]] for n in row] for row in numbers]
        np.testing.assert_allclose(expected, rgb, rtol=1e-6)
        assert np.float32 == rgb.dtype

    @pytest.mark.parametrize("dtype", ["int64", "float32"])
    def test_normalize(self, matplotlib, dtype):
        """The smallest number becomes 0 and the largest 1."""
        numbers = np.array([[-2, 0, 2]], dtype)
        np.testing.assert_array_equal(intensity_to_rgb([[0.0, 0.5, 1.0]]), intensity_to_rgb(numbers, normalize=True))

    def test_equal_numbers(self, matplotlib):
        """Equal numbers become 0."""
        np.testing.assert_array_equal(np.zeros([1, 2, 3]), intensity_to_rgb([[5, 5]], normalize=True))

    def test_mistakes(self, matplotlib):
        """A wrong shape or an unknown color map raises a ValueError."""
        with pytest.raises(ValueError, match=r"wrong shape \(expected \[H, W\], got \(2, 2, 1\)\)"):
            intensity_to_rgb(np.zeros([2, 2, 1]))
        with pytest.raises(ValueError, match="has no color map 'rainbows'"):
            intensity_to_rgb([[0.0]], "rainbows")

    def test_without_matplotlib(self, monkeypatch):
        """Without matplotlib, an ImportError has the command that installs it."""
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(ImportError, match=r'needs matplotlib, .*: pip install "tensorpack_lite\[plot\]"'):
            intensity_to_rgb([[0.0]])
