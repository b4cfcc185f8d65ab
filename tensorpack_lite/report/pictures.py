"""Pictures inside the page: logged images and samples, as small PNG or JPEG files."""

from __future__ import annotations

import base64
import zlib
from typing import List, NamedTuple, Tuple

import numpy as np

from ..utils.png import encode_png
from .events import LoggedImage
from .html import Html, element

_MAX_SIDE = 640  # of a logged image; larger ones are scaled down
_MAX_SAMPLE_SIDE = 160
_LARGE = 200_000  # bytes
_JPEG_QUALITY = 85
# CSS pixels, to which the shorter side of a small picture is enlarged, without smoothing
_SAMPLE, _LOGGED = 96, 160
_MAX_SHOWN = 300  # CSS pixels, of the longer side of an enlarged picture
_MIN_SCALE = 1.5  # pictures that would be enlarged by less are shown as they are
_PNG_HEADER = 8


class Picture(NamedTuple):
    """
    A picture with its texts.

    Attributes:
        content: a PNG or JPEG file.
        size: width and height in pixels.
        caption: the text below it.
        alt: what it shows, for people who cannot see it.
    """

    content: bytes
    size: Tuple[int, int]
    caption: str
    alt: str


class Gallery(NamedTuple):
    """
    Pictures of one kind, the oldest first.

    Attributes:
        title: what they are.
        pictures: the pictures.
        is_logged: whether the training logged them. They are enlarged more than samples, because they are often grids.
        remark: how to read them.
        num_left_out: the number of those that do not fit into the page.
    """

    title: str
    pictures: List[Picture]
    is_logged: bool = False
    remark: str = ""
    num_left_out: int = 0


def fit(galleries: List[Gallery], max_bytes: int) -> List[Gallery]:
    """
    Leave out pictures until the rest fits.

    Every second one of the gallery with most pictures goes first, and the newest of each gallery last.

    Args:
        galleries: the galleries.
        max_bytes: the maximum size of all pictures in the page.
    """
    found = list(galleries)
    while sum(_size(gallery) for gallery in found) > max_bytes:
        number = max(range(len(found)), key=lambda k: (len(found[k].pictures) > 1, _size(found[k])))
        pictures = found[number].pictures
        kept = pictures[::-1][::2][::-1] if len(pictures) > 1 else []
        left_out = found[number].num_left_out + len(pictures) - len(kept)
        found[number] = found[number]._replace(pictures=kept, num_left_out=left_out)
    return found


def draw_gallery(gallery: Gallery) -> Html:
    """Return a title and all pictures with their captions."""
    side = _LOGGED if gallery.is_logged else _SAMPLE
    figures = [
        element("figure", _draw(picture, side), element("figcaption", picture.caption)) for picture in gallery.pictures
    ]
    left_out = f"{gallery.num_left_out} more omitted to keep the file small" if gallery.num_left_out else ""
    remarks = "; ".join(filter(None, (gallery.remark, left_out)))
    title = element("h3", gallery.title, element("small", f" ({remarks})") if remarks else None)
    return element("section", title, element("div", *figures, class_="gallery"))


def shrunk(image: LoggedImage) -> LoggedImage:
    """
    Return a large image scaled down, if OpenCV is installed.

    Raises:
        ValueError: the image is damaged.
    """
    if image.content[:_PNG_HEADER] == b"\x89PNG\r\n\x1a\n":
        _check_png(image.content)
    if len(image.content) <= _LARGE and max(image.width, image.height) <= _MAX_SIDE:
        return image
    try:
        import cv2
    except ImportError:
        return image
    pixels = cv2.imdecode(np.frombuffer(image.content, np.uint8), cv2.IMREAD_COLOR)
    if pixels is None:
        raise ValueError("it cannot be decoded")
    scale = min(1.0, _MAX_SIDE / max(pixels.shape[:2]))
    size = tuple(max(1, round(side * scale)) for side in pixels.shape[1::-1])
    pixels = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)
    _, encoded = cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY])
    return image._replace(content=encoded.tobytes(), width=size[0], height=size[1])


def as_images(array: np.ndarray) -> Tuple[List[Tuple[bytes, Tuple[int, int]]], str]:
    """
    Return the samples of a batch as PNG files, if they look like images.

    Args:
        array: `[N, H, W]`, `[N, H, W, C]` or `[N, C, H, W]` with C = 1, 3 or 4. Values in [0, 1] or [0, 255] are shown as they
            are, others are scaled to their range in the batch.

    Returns:
        The files with their widths and heights, none if they are not images; and the range of the values and the order of
        three channels in words.
    """
    images = _as_batch_of_images(array)
    if images is None:
        return [], ""
    finite = images[np.isfinite(images)] if images.dtype.kind == "f" else images
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    first, last = low, high
    if low >= 0 and high <= 1 and (images.dtype.kind == "f" or high == 1):
        first, last = 0.0, 1.0
    elif low >= 0 and high <= 255:
        first, last = 0.0, 255.0
    images = _averaged(images, _stride(images))
    with np.errstate(all="ignore"):
        scaled = np.nan_to_num((images - first) * (255.0 / ((last - first) or 1.0)))
    pixels = np.clip(np.rint(scaled), 0, 255).astype(np.uint8)
    size = pixels.shape[2], pixels.shape[1]
    order = ", three channels shown as RGB" if pixels.shape[3] == 3 else ""
    return [(encode_png(image), size) for image in pixels], f"values from {low:.4g} to {high:.4g}{order}"


def shrink_samples(array: np.ndarray) -> np.ndarray | None:
    """
    Return the samples of a batch, at most 160 pixels wide and high, if `as_images` would show them; otherwise None.

    Args:
        array: as in `as_images`.

    Returns:
        `[N, H, W, C]`, integers of the same dtype or float32.
    """
    images = _as_batch_of_images(array)
    if images is None:
        return None
    dtype = np.dtype(np.float32) if images.dtype.kind == "f" else images.dtype
    stride = _stride(images)
    if stride > 1:
        images = _averaged(images, stride)
        images = images if dtype.kind == "f" else np.rint(images)
    return images.astype(dtype)


def _as_batch_of_images(array: np.ndarray) -> np.ndarray | None:
    if array.dtype.kind not in "biuf" or array.ndim not in (3, 4) or 0 in array.shape:
        return None
    if array.ndim == 3:
        array = array[..., np.newaxis]
    elif array.shape[3] not in (1, 3, 4) and array.shape[1] in (1, 3, 4):
        array = array.transpose(0, 2, 3, 1)
    is_image = array.shape[3] in (1, 3, 4) and min(array.shape[1:3]) >= 4
    return array if is_image else None


def _stride(images: np.ndarray) -> int:
    return -(-max(images.shape[1:3]) // _MAX_SAMPLE_SIDE)


def _averaged(images: np.ndarray, stride: int) -> np.ndarray:
    """Return images scaled down by an integer."""
    height, width = (side // stride * stride for side in images.shape[1:3])
    total = np.zeros([len(images), height // stride, width // stride, images.shape[3]])
    for row in range(stride):  # five times as fast as a mean over axes
        for column in range(stride):
            total += images[:, row:height:stride, column:width:stride]
    return total / stride**2


def _draw(picture: Picture, side: int) -> Html:
    kind = "png" if picture.content[:1] == b"\x89" else "jpeg"
    source = Html(f"data:image/{kind};base64,{base64.b64encode(picture.content).decode()}")
    scale = min(side / max(1, min(picture.size)), _MAX_SHOWN / max(1, *picture.size))
    scale = float(int(scale)) if scale >= 2 else scale  # by whole numbers, all pixels get the same size
    is_small = scale >= _MIN_SCALE
    width = round(scale * picture.size[0]) if is_small else None
    return element("img", src=source, alt=picture.alt, class_="small" if is_small else None, width=width)


def _size(gallery: Gallery) -> int:
    texts = sum(len(picture.caption) + len(picture.alt) + 200 for picture in gallery.pictures)
    return texts + sum(4 * (len(picture.content) + 2) // 3 for picture in gallery.pictures)


def _check_png(content: bytes) -> None:
    """Raise ValueError unless a PNG file is complete and the checksums of its chunks are right."""
    place = _PNG_HEADER
    while place + 12 <= len(content):
        length = int.from_bytes(content[place : place + 4], "big")
        chunk = content[place + 4 : place + 8 + length]
        if zlib.crc32(chunk) != int.from_bytes(content[place + 8 + length : place + 12 + length], "big"):
            raise ValueError("a checksum is wrong")
        if chunk == b"IEND":
            return
        place += 12 + length
    raise ValueError("it is truncated")
