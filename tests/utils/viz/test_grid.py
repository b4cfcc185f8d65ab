"""Grids of images."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.utils.viz import gen_stack_patches, grid, stack_patches

RED = (0, 0, 255)  # BGR


def numbered(count, height=4, width=6, channels=None):
    """Images with all values 1, all values 2, ..."""
    shape = (height, width) if channels is None else (height, width, channels)
    return np.stack([np.full(shape, i + 1, "uint8") for i in range(count)])


@pytest.fixture
def window(monkeypatch):
    """The list of `(image, callbacks)` for each window that would be shown."""
    shown = []
    monkeypatch.setattr(grid, "interactive_imshow", lambda image, **callbacks: shown.append((image, callbacks)))
    return shown


class TestStackPatches:
    @pytest.mark.parametrize("channels", [None, 1, 3])
    def test_equals_numpy(self, channels):
        """Images are arranged row by row, with borders and a background."""
        images = numbered(5, channels=channels)
        canvas = stack_patches(images, 2, 3, border=2, bgcolor=9)

        depth = channels or 1
        column, row = np.full([4, 2, depth], 9), np.full([2, 22, depth], 9)
        one, two, three, four, five = images.reshape(5, 4, 6, depth)
        none = np.full([4, 6, depth], 9)
        expected = [
            np.concatenate([one, column, two, column, three], axis=1),
            row,
            np.concatenate([four, column, five, column, none], axis=1),
        ]
        np.testing.assert_array_equal(np.concatenate(expected), canvas)
        assert np.uint8 == canvas.dtype

    def test_default_border(self):
        """The default border is 5 % of the smaller side, rounded down."""
        assert (2 * 40 + 2, 60, 1) == stack_patches(numbered(2, 40, 60), 2, 1).shape
        assert (8, 6, 1) == stack_patches(numbered(2), 2, 1).shape

    def test_a_color_makes_grey_images_colored(self):
        """A background of three numbers converts gray images to three channels."""
        canvas = stack_patches(numbered(1), 1, 2, border=0, bgcolor=RED)
        np.testing.assert_array_equal(np.ones([4, 6, 3]), canvas[:, :6])
        np.testing.assert_array_equal(np.broadcast_to(RED, [4, 6, 3]), canvas[:, 6:])

    @pytest.mark.parametrize("bgcolor", [9, RED])
    def test_pad(self, bgcolor):
        """Smaller images are centered in the largest height and width."""
        images = [np.full([2, 6], 1, "uint8"), np.full([4, 2], 2, "uint8")]
        canvas = stack_patches(images, 1, 2, border=0, pad=True, bgcolor=bgcolor)

        expected = np.empty([4, 12, np.size(bgcolor)], "uint8")
        expected[:] = bgcolor
        expected[1:3, :6] = 1
        expected[:, 8:10] = 2
        np.testing.assert_array_equal(expected, canvas)

    def test_values_are_clipped(self):
        """Numbers of any dtype are clipped to [0, 255]."""
        canvas = stack_patches(np.array([[[-5.0, 0.0, 254.9, 300.0]]]), 1, 1)
        assert [0, 0, 254, 255] == canvas.ravel().tolist()

    def test_the_images_stay(self):
        """The images are not changed, and the result does not share their memory."""
        images = numbered(2)
        stack_patches(images, 1, 2)[:] = 0
        np.testing.assert_array_equal(numbered(2), images)

    @pytest.mark.parametrize(
        ("images", "message"),
        [
            (numbered(5), "expected at most 2 x 2, got 5.. Use gen_stack_patches"),
            ([], "wrong images .* got none"),
            (np.zeros([1, 4, 4, 2]), r"wrong images .* got \(4, 4, 2\)"),
            ([np.zeros([4]), np.zeros([4])], r"wrong images .* got \(4,\)"),
            ([np.zeros([4, 4]), np.zeros([4, 4, 3])], r"got \(4, 4, 1\), \(4, 4, 3\)"),
            ([np.zeros([4, 4]), np.zeros([4, 5])], "different sizes. Pass pad=True"),
        ],
    )
    def test_mistakes(self, images, message):
        """Wrong or too many images raise a ValueError."""
        with pytest.raises(ValueError, match=message):
            stack_patches(images, 2, 2)

    def test_a_click(self, window):
        """A click on an image calls the function with it, and one on a border does nothing."""
        clicks = []
        canvas = stack_patches(
            numbered(3),
            2,
            2,
            border=2,
            viz=True,
            lclick_cb=lambda image, i: clicks.append((image[0, 0, 0], i)),
        )
        ((image, callbacks),) = window
        for x, y in [(0, 0), (5, 3), (6, 0), (0, 4), (8, 3), (13, 0), (3, 6), (9, 7)]:
            callbacks["lclick_cb"](image, x, y)

        assert canvas is image
        assert [(1, 0), (1, 0), (2, 1), (2, 1), (3, 2)] == clicks

    def test_a_click_without_a_function(self, window):
        """Without a function, a click does nothing."""
        stack_patches(numbered(1), 1, 1, viz=True)
        ((image, callbacks),) = window
        assert callbacks["lclick_cb"](image, 0, 0) is None


class TestGenStackPatches:
    def test_several_grids(self):
        """Each grid equals that of `stack_patches`, and the last one is incomplete."""
        images = numbered(7)
        grids = list(gen_stack_patches(images, 2, 2, border=1, bgcolor=RED))

        expected = [stack_patches(images[i : i + 4], 2, 2, border=1, bgcolor=RED) for i in (0, 4)]
        np.testing.assert_array_equal(expected, grids)

    def test_each_grid_is_a_new_array(self):
        """Each grid is a new array."""
        first, second = gen_stack_patches(numbered(2), 1, 1)
        assert (1, 2) == (first[0, 0, 0], second[0, 0, 0])
        assert not np.shares_memory(first, second)

    @pytest.mark.parametrize(
        ("limit", "shape"), [((20, 18), (14, 20, 1)), ((19, 14), (14, 13, 1)), ((1, 1), (4, 6, 1))]
    )
    def test_as_many_as_fit(self, limit, shape):
        """By default, a grid is as large as the limit allows and has at least one image."""
        width, height = limit
        first = next(gen_stack_patches(numbered(30), border=1, max_width=width, max_height=height))
        assert shape == first.shape

    def test_clicks_count_from_the_start(self, window):
        """The index in a callback is the position in the whole list."""
        clicks = []
        for _ in gen_stack_patches(numbered(5), 1, 2, viz=True, lclick_cb=lambda image, i: clicks.append(i)):
            image, callbacks = window[-1]
            callbacks["lclick_cb"](image, 0, 0)
        assert [0, 2, 4] == clicks

    def test_mistakes(self):
        """Wrong images raise a ValueError."""
        with pytest.raises(ValueError, match="gen_stack_patches: wrong images .* got none"):
            next(gen_stack_patches([]))
