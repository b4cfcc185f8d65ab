"""A window that shows an image and handles keys and clicks."""

from __future__ import annotations

from typing import Callable

import numpy as np

from ..optional import load_optional
from .images import to_uint8, write_image

_POLL_MS = 100


def interactive_imshow(
    img: np.ndarray,
    lclick_cb: Callable[[np.ndarray, int, int], object] | None = None,
    rclick_cb: Callable[[np.ndarray, int, int], object] | None = None,
    **kwargs: Callable[[np.ndarray], object],
) -> None:
    """
    Show an image in a window and wait until the window is closed.

    Keys: `q` closes the window, `s` writes the image to `out.png`, `x` ends the program.

    Args:
        img: `[H, W]` or `[H, W, C]`, BGR in [0, 255].
        lclick_cb, rclick_cb: called as `f(img, x, y)` at each click of the left or right mouse button.
        kwargs: `key_cb_<key>=f` calls `f(img)` when the key is pressed. This also replaces the three keys above.

    Raises:
        TypeError: a keyword argument is not `key_cb_<key>`.
        RuntimeError: OpenCV was built without windows, or there is no display.
        ImportError: OpenCV is not installed.
    """
    cv2 = load_optional("cv2", "interactive_imshow")
    unknown = [name for name in kwargs if not (name.startswith("key_cb_") and len(name) == len("key_cb_") + 1)]
    if unknown:
        raise TypeError(
            f"interactive_imshow: unknown arguments (expected key_cb_<key>=f(img), got {', '.join(unknown)})."
        )
    image = to_uint8(img)
    title = "image"

    def on_mouse(event: int, x: int, y: int, *_: object) -> None:
        callback = {cv2.EVENT_LBUTTONUP: lclick_cb, cv2.EVENT_RBUTTONUP: rclick_cb}.get(event)
        if callback is not None:
            callback(img, x, y)

    try:
        cv2.imshow(title, image)
        cv2.setMouseCallback(title, on_mouse)
    except cv2.error as error:
        raise RuntimeError(
            "interactive_imshow: OpenCV cannot open a window. Check that there is a display, and install opencv-python "
            "instead of opencv-python-headless."
        ) from error
    try:
        while cv2.getWindowProperty(title, cv2.WND_PROP_VISIBLE) >= 1:
            key = cv2.waitKey(_POLL_MS)
            if key >= 0 and not _handle_key(chr(key & 0xFF), img, kwargs):
                break
    finally:
        cv2.destroyAllWindows()


def _handle_key(key: str, img: np.ndarray, callbacks: dict[str, Callable[[np.ndarray], object]]) -> bool:
    """Handle a key and return whether the window stays open."""
    if f"key_cb_{key}" in callbacks:
        callbacks[f"key_cb_{key}"](img)
    elif key == "x":
        raise SystemExit
    elif key == "s":
        write_image("out.png", to_uint8(img))
    return key != "q" or "key_cb_q" in callbacks
