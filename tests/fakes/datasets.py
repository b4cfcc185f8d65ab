"""
Writers of small data sets in the formats of the large ones.

Each writer writes one part of a data set into a directory: six datapoints with labels 0 to 5, unless its docstring says
otherwise. Optional packages are imported where they are used.
"""

from __future__ import annotations

import gzip
import struct
import tarfile

import numpy as np

SIX = tuple(range(6))
WNIDS = tuple(f"n{k:08d}" for k in range(200))


def pixels(*shape, seed=0) -> np.ndarray:
    """Return a random uint8 array."""
    return np.random.RandomState(seed).randint(0, 256, shape).astype(np.uint8)


def smooth_image(height, width, seed=0) -> np.ndarray:
    """Return a uint8 image [height, width, 3] of one color with a vertical gradient, which JPEG compression barely changes."""
    colour = pixels(3, seed=seed).astype(np.float32) / 2
    slope = np.linspace(0, 60, height, dtype=np.float32)[:, np.newaxis, np.newaxis]
    return np.broadcast_to(colour + slope, (height, width, 3)).astype(np.uint8)


def write_image(path, image) -> None:
    """Write a BGR image in the format of the path's extension."""
    import cv2

    path.parent.mkdir(parents=True, exist_ok=True)
    assert cv2.imwrite(str(path), np.ascontiguousarray(image))


def tar(path, folder, names=None) -> None:
    """Write a .tar.gz archive of a folder or of some of its entries."""
    with tarfile.open(str(path), "w:gz") as archive:
        for name in names or sorted(p.name for p in folder.iterdir()):
            archive.add(str(folder / name), arcname=name)


def write_mnist(directory, half="train", labels=SIX) -> None:
    """Write the two idx files of one half of MNIST or Fashion-MNIST."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, magic, values in (
        ("images-idx3", 2051, pixels(len(labels), 28, 28)),
        ("labels-idx1", 2049, np.array(labels, np.uint8)),
    ):
        header = struct.pack(f">{1 + values.ndim}I", magic, *values.shape)
        content = gzip.compress(header + values.tobytes())
        (directory / f"{half}-{name}-ubyte.gz").write_bytes(content)


# CIFAR ------------------------------------------------------------------------------------------------------


def python2_pickle(values) -> bytes:
    """
    Pickle a dict as cPickle of Python 2 does with protocol 2: a str becomes a byte string, an array uses NumPy's old format.

    Args:
        values: a dict from str to 2-D uint8 array, str, list of ints, or list of str.
    """
    return b"\x80\x02}(" + b"".join(_string(k) + _value(v) for k, v in values.items()) + b"u."


def _string(text) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return b"T" + struct.pack("<i", len(raw)) + raw


def _int(number) -> bytes:
    return b"J" + struct.pack("<i", number)


def _value(value) -> bytes:
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, int):
        return _int(value)
    if isinstance(value, list):
        return b"](" + b"".join(map(_value, value)) + b"e"
    empty = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00t" + _string("b") + b"tR"
    dtype = b"cnumpy\ndtype\n(" + _string("u1") + b"K\x00K\x01tR(K\x03" + _string("|")
    dtype += b"NNN" + _int(-1) + _int(-1) + b"K\x00tb"
    shape = b"(" + b"".join(map(_int, value.shape)) + b"t"
    return empty + b"(K\x01" + shape + dtype + b"\x89" + _string(value.tobytes()) + b"tb"


def write_cifar10(directory) -> None:
    """
    Write the unpacked archive: six training images with labels 0 to 5 (2, 1, 1, 1, 1 in the five files) and four test images.

    The images of training file k (1 to 5) are `pixels(n, 3072, seed=k)`, the test images `pixels(4, 3072, seed=6)`.
    """
    folder = directory / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    for k, labels in enumerate([[0, 1], [2], [3], [4], [5]], start=1):
        content = {
            "batch_label": "training batch",
            "labels": labels,
            "data": pixels(len(labels), 3072, seed=k),
        }
        (folder / f"data_batch_{k}").write_bytes(python2_pickle(content))
    test = {"labels": [9, 8, 7, 9], "data": pixels(4, 3072, seed=6)}
    (folder / "test_batch").write_bytes(python2_pickle(test))
    names = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    (folder / "batches.meta").write_bytes(python2_pickle({"label_names": names}))


def write_cifar100(directory) -> None:
    """Write the unpacked archive: six training images with labels 0 to 5 and two test images."""
    folder = directory / "cifar-100-python"
    folder.mkdir(parents=True)
    for name, labels in (("train", list(SIX)), ("test", [99, 98])):
        content = {
            "fine_labels": labels,
            "coarse_labels": [0] * len(labels),
            "data": pixels(len(labels), 3072, seed=len(name)),
        }
        (folder / name).write_bytes(python2_pickle(content))
    names = [f"thing {k}" for k in range(100)]
    content = {"fine_label_names": names, "coarse_label_names": ["things"]}
    (folder / "meta").write_bytes(python2_pickle(content))


# MATLAB -----------------------------------------------------------------------------------------------------


def write_svhn(directory, name="train", labels=SIX, seed=0) -> np.ndarray:
    """Write `<name>_32x32.mat`, where label 0 is stored as 10. Return the images [N, 32, 32, 3]."""
    from scipy.io import savemat

    directory.mkdir(parents=True, exist_ok=True)
    images = pixels(len(labels), 32, 32, 3, seed=seed)
    numbers = np.array([[k or 10] for k in labels], np.uint8)
    savemat(
        str(directory / f"{name}_32x32.mat"),
        {"X": images.transpose(1, 2, 3, 0), "y": numbers},
        do_compression=True,
    )
    return images


def write_caltech101(directory) -> np.ndarray:
    """Write six training, two test (labels 99 and 100) and one validation image. Return the training data."""
    from scipy.io import savemat

    directory.mkdir(parents=True, exist_ok=True)
    data = pixels(6, 784) % 2
    content = {}
    for name, images, labels in (
        ("train", data, SIX),
        ("test", data[:2], (99, 100)),
        ("val", data[:1], (50,)),
    ):
        content[f"{name}_data"] = images
        content[f"{name}_labels"] = np.array(labels, np.uint8)[:, np.newaxis] + np.uint8(1)
    savemat(str(directory / "caltech101_silhouettes_28_split1.mat"), content)
    return data


def write_bsds500(directory, name="train", count=6) -> None:
    """
    Write the images `smooth_image(321, 481, seed=k)`, every second one transposed to portrait format.

    Image k has ten annotations; k of them contain a line in row k, columns 0 to 99, of the landscape image.
    """
    root = directory / "BSR" / "BSDS500" / "data"
    for k in range(count):
        image, maps = smooth_image(321, 481, seed=k), np.zeros((10, 321, 481), np.uint8)
        maps[:k, k, :100] = 1
        if k % 2:
            image, maps = image.swapaxes(0, 1), maps.swapaxes(1, 2)
        write_image(root / "images" / name / f"{1000 + k}.jpg", image)
        write_boundaries(root / "groundTruth" / name / f"{1000 + k}.mat", maps)
    (root / "images" / name / "Thumbs.db").write_bytes(b"not an image, but in the true archive")


def write_boundaries(path, maps) -> None:
    """Write a 1 x K cell of structs with `Boundaries` and `Segmentation`."""
    from scipy.io import savemat

    path.parent.mkdir(parents=True, exist_ok=True)
    cells = np.empty((1, len(maps)), object)
    for k, drawn in enumerate(maps):
        cells[0, k] = {"Boundaries": drawn, "Segmentation": drawn.astype(np.uint16) + np.uint16(1)}
    savemat(str(path), {"groundTruth": cells}, do_compression=True)


# lists of files ---------------------------------------------------------------------------------------------


def write_ilsvrc_meta(directory, count=6) -> None:
    """Write the files of Caffe's archive, for `count` classes and images."""
    directory.mkdir(parents=True, exist_ok=True)
    words = [f"{WNIDS[k]} thing {k}, whatsit" for k in range(count)]
    files = {
        "synsets.txt": WNIDS[:count],
        "synset_words.txt": words,
        "train.txt": [f"{WNIDS[k]}/{WNIDS[k]}_{k}.JPEG {k}" for k in range(count)],
        "val.txt": [f"ILSVRC2012_val_{k:08d}.JPEG {k}" for k in range(count)],
        "test.txt": [f"ILSVRC2012_test_{k:08d}.JPEG 0" for k in range(count)],
    }
    for name, lines in files.items():
        (directory / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    mean = np.arange(3 * 4 * 4, dtype="<f4")
    (directory / "imagenet_mean.binaryproto").write_bytes(blob_proto(mean, (3, 4, 4)))


def blob_proto(values, shape) -> bytes:
    """Return Caffe's BlobProto in the old form: num, channels, height, width, packed floats."""
    raw = values.tobytes()
    sizes = b"".join(bytes([8 * k]) + varint(n) for k, n in enumerate((1, *shape), start=1))
    return sizes + bytes([8 * 5 + 2]) + varint(len(raw)) + raw


def varint(number) -> bytes:
    """Encode a number as a protocol buffer varint."""
    found = []
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def write_ilsvrc12(directory, meta, structure="original") -> None:
    """Write the images listed by `write_ilsvrc_meta(meta)`. They differ in size: (10 + label) x 12."""
    for name in ("train", "val", "test"):
        for k, line in enumerate((meta / f"{name}.txt").read_text().splitlines()):
            file, label = line.split(" ")
            folder = WNIDS[int(label)] if structure == "train" and name != "train" else ""
            write_image(directory / name / folder / file, smooth_image(10 + k, 12, seed=k))


def write_tiny_imagenet(directory) -> None:
    """Write two training images of class 3, one of class 199, and six validation images with labels 0 to 5."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "wnids.txt").write_text("".join(f"{name}\n" for name in WNIDS))
    for name in WNIDS:
        (directory / "train" / name / "images").mkdir(parents=True)
    for k, name in ((0, WNIDS[3]), (1, WNIDS[3]), (0, WNIDS[199])):
        write_image(directory / "train" / name / "images" / f"{name}_{k}.JPEG", smooth_image(64, 64, seed=k))
    lines = [f"val_{k}.JPEG\t{WNIDS[k]}\t0\t0\t63\t63\n" for k in SIX]
    for k in SIX:
        write_image(directory / "val" / "images" / f"val_{k}.JPEG", smooth_image(64, 64, seed=k))
    (directory / "val" / "val_annotations.txt").write_text("".join(lines))


PLACES = ("airfield", "alley", "barn", "cafe", "desert-sand", "zoo")


def write_places(directory) -> None:
    """Write six training images, one per class in alphabetical order, and a zoo and a barn as validation images."""
    for name, kinds in (("train", PLACES), ("val", ("zoo", "barn"))):
        files = [f"{name}/{kind}/{k:08d}.jpg" for k, kind in enumerate(kinds)]
        for k, file in enumerate(files):
            write_image(directory / file, smooth_image(256, 256, seed=k))
        (directory / f"{name}.txt").write_text("".join(f"/{file}\n" for file in files))
