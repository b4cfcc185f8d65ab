"""A window with a fake of OpenCV's display."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.utils.viz import interactive_imshow, window

IMAGE = np.full([4, 6], 300.0)


class Screen:
    """
    OpenCV's functions for windows.

    Args:
        keys: what `waitKey` gives, one after the other; a function among them is called instead, and no key pressed.
        stays_open: the number of times the window is found open.
    """

    def __init__(self, cv2, keys, stays_open=100) -> None:
        self.keys, self.left = list(keys), stays_open
        self.shown, self.written, self.closed, self.click = [], [], 0, None
        for name in ("error", "EVENT_LBUTTONUP", "EVENT_RBUTTONUP", "EVENT_MOUSEMOVE", "WND_PROP_VISIBLE"):
            setattr(self, name, getattr(cv2, name))

    def imshow(self, title, image):
        self.shown.append(image)

    def setMouseCallback(self, title, callback):
        self.click = callback

    def getWindowProperty(self, title, which):
        self.left -= 1
        return 1.0 if self.left >= 0 else 0.0

    def waitKey(self, milliseconds):
        key = self.keys.pop(0)
        if callable(key):
            key(self)
            return -1
        return ord(key)

    def imwrite(self, path, image):
        self.written.append((path, image))
        return True

    def destroyAllWindows(self):
        self.closed += 1


@pytest.fixture
def screen(cv2, monkeypatch):
    """Function that replaces OpenCV by a Screen with the given keys."""

    def make(*keys, **arguments):
        made = Screen(cv2, keys, **arguments)
        monkeypatch.setattr(window, "load_optional", lambda *_: made)
        monkeypatch.setattr("tensorpack_lite.utils.viz.images.load_optional", lambda *_: made)
        return made

    return make


def test_q_closes(screen):
    """'q' closes the window, and other keys do nothing. Values are clipped."""
    seen = screen("a", "q")
    interactive_imshow(IMAGE)

    assert ([], 1) == (seen.keys, seen.closed)
    np.testing.assert_array_equal(np.full([4, 6], 255), seen.shown[0])


def test_closed_by_hand(screen):
    """The function returns when the user closes the window."""
    seen = screen("a", "b", "c", stays_open=2)
    interactive_imshow(IMAGE)
    assert (["c"], 1) == (seen.keys, seen.closed)


def test_s_saves(screen):
    """'s' writes out.png and keeps the window open."""
    seen = screen("s", "q")
    interactive_imshow(IMAGE)
    ((path, image),) = seen.written
    assert "out.png" == path
    np.testing.assert_array_equal(np.full([4, 6], 255), image)


def test_x_ends_the_program(screen):
    """'x' closes the window and raises SystemExit."""
    seen = screen("x", "q")
    with pytest.raises(SystemExit):
        interactive_imshow(IMAGE)
    assert (["q"], 1) == (seen.keys, seen.closed)


def test_keys_of_the_caller(screen):
    """Functions for keys get the given image and replace the default ones."""
    seen, called = screen("q", "h", "q", stays_open=3), []
    interactive_imshow(IMAGE, key_cb_h=lambda img: called.append(img), key_cb_q=lambda img: called.append("q"))
    assert ["q", "q"] == [called[0], called[2]]
    assert called[1] is IMAGE
    assert [] == seen.keys


def test_clicks(screen):
    """Each mouse button has a function. Moves have none."""
    clicks = []

    def click(seen) -> None:
        for event in (seen.EVENT_LBUTTONUP, seen.EVENT_MOUSEMOVE, seen.EVENT_RBUTTONUP):
            seen.click(event, 3, 2, 0, None)

    screen(click, "q")
    interactive_imshow(
        IMAGE,
        lclick_cb=lambda img, x, y: clicks.append(("left", img is IMAGE, x, y)),
        rclick_cb=lambda img, x, y: clicks.append(("right", img is IMAGE, x, y)),
    )
    assert [("left", True, 3, 2), ("right", True, 3, 2)] == clicks


@pytest.mark.parametrize("name", ["other", "key_cb_", "key_cb_ab"])
def test_unknown_arguments(screen, name):
    """Other keyword arguments raise a TypeError."""
    screen()
    with pytest.raises(TypeError, match=rf"expected key_cb_<key>=f\(img\), got {name}"):
        interactive_imshow(IMAGE, **{name: print})


def test_no_windows(screen, cv2):
    """Without a display, a RuntimeError gives advice."""
    seen = screen()

    def fail(title, image):
        raise cv2.error("The function is not implemented.")

    seen.imshow = fail
    with pytest.raises(
        RuntimeError, match="cannot open a window. Check that there is a display, and install opencv-python"
    ):
        interactive_imshow(IMAGE)
