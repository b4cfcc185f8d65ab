"""The names of OpenCV 1 and 2, such as `cv2.cv.CV_FOURCC` and `cv2.CV_AA`."""

from __future__ import annotations

import re

_RENAMED = {"CV_AA": "LINE_AA", "CV_FOURCC": "VideoWriter_fourcc", "FOURCC": "VideoWriter_fourcc"}
_PREFIXES = ("", "COLOR_", "HOUGH_", "THRESH_", "IMREAD_", "RETR_", "CHAIN_")


def find(name: str) -> str:
    """Return the address of a name of `cv2` or `cv2.cv` in today's `cv2`; "" if there is none."""
    import cv2

    known = vars(cv2)
    if name in _RENAMED:
        return f"cv2.{_RENAMED[name]}"
    if not re.match(r"(CV_|[A-Z])", name):
        return ""
    rest = name[3:] if name.startswith("CV_") else name
    found = [prefix + rest for prefix in _PREFIXES if prefix + rest in known]
    if name.startswith("CV_LOAD_IMAGE_"):
        found = [f"IMREAD_{name[len('CV_LOAD_IMAGE_') :]}"]
    return f"cv2.{found[0]}" if found and found[0] in known else ""
