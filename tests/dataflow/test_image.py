"""Tests of DataFlows that read and augment images."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.dataflow import imgaug
from tensorpack_lite.dataflow.image import (
    AugmentImageComponent,
    AugmentImageComponents,
    AugmentImageCoordinates,
    ImageFromFile,
)
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.utils.argtools import log_once
from tensorpack_lite.utils.utils import fix_rng_seed

IMAGE = np.arange(72, dtype=np.uint8).reshape(4, 6, 3)
POINTS = np.float32([[0, 0], [6, 4]])


def flow_of(*datapoints):
    """Return a DataFlow that yields datapoints in order."""
    return DataFromList(list(datapoints), shuffle=False)


def only(flow):
    """Reset a DataFlow and return its only datapoint."""
    flow.reset_state()
    (datapoint,) = list(flow)
    return datapoint


def in_place(img):
    """Change an image in place."""
    img[:] = 0
    return img


def fail_on_zero(img):
    """Raise an error for a black image."""
    if not img.any():
        raise RuntimeError("black")
    return img


class TestImageFromFile:
    @pytest.fixture
    def files(self, tmp_path):
        """Paths of three images whose red, green and blue values are 10k, 20k and 30k."""
        cv2 = pytest.importorskip("cv2")
        paths = []
        for k in (1, 2, 3):
            paths.append(str(tmp_path / f"{k}.png"))
            cv2.imwrite(paths[-1], np.full((4, 6, 3), [30 * k, 20 * k, 10 * k], np.uint8))
        return paths

    def test_red_comes_first(self, files):
        """Images are RGB, unlike those that OpenCV reads, and contiguous."""
        flow = ImageFromFile(files)
        flow.reset_state()
        images = [datapoint[0] for datapoint in flow]
        assert 3 == len(flow) == len(images)
        assert [(4, 6, 3)] * 3 == [image.shape for image in images]
        assert [[10, 20, 30], [20, 40, 60], [30, 60, 90]] == [image[0, 0].tolist() for image in images]
        assert all(image.flags["C_CONTIGUOUS"] for image in images)

    def test_grey(self, files):
        """With `channel=1`, images are [h, w, 1] with 0.299 red + 0.587 green + 0.114 blue."""
        image = only(ImageFromFile(files[:1], channel=1))[0]
        assert (4, 6, 1) == image.shape
        assert 0.299 * 10 + 0.587 * 20 + 0.114 * 30 == pytest.approx(image[0, 0, 0], abs=1)

    @pytest.mark.parametrize(("resize", "expected"), [(5, (5, 5)), ((3, 8), (3, 8))])
    @pytest.mark.parametrize("channel", [1, 3])
    def test_resize(self, files, resize, expected, channel):
        """`resize` is one number or (height, width)."""
        assert (*expected, channel) == only(ImageFromFile(files[:1], channel, resize=resize))[0].shape

    def test_shuffle(self, files):
        """Shuffling changes the order in each pass, but not the caller's list."""
        before = list(files)
        flow = ImageFromFile(files, shuffle=True)
        fix_rng_seed(0)
        flow.reset_state()
        orders = {tuple(int(datapoint[0][0, 0, 0]) for datapoint in flow) for _ in range(30)}
        assert 6 == len(orders)
        assert before == files

    def test_a_file_that_is_not_there(self, files):
        """A missing file raises FileNotFoundError with its path."""
        with pytest.raises(FileNotFoundError, match="ImageFromFile: the file '/nowhere.png' does not exist"):
            list(iter(ImageFromFile(["/nowhere.png"])))

    def test_a_file_that_is_not_an_image(self, files, tmp_path):
        """A file that is not an image raises ValueError with its path."""
        path = tmp_path / "text.png"
        path.write_text("no image")
        with pytest.raises(ValueError, match="ImageFromFile: OpenCV cannot read '.*text.png' as an image"):
            list(iter(ImageFromFile([str(path)])))


class TestAugmentImageComponent:
    def test_one_component(self):
        """The first component is augmented by default, and the others are unchanged."""
        flip = [imgaug.Flip(horiz=True, prob=1)]
        np.testing.assert_array_equal(IMAGE[:, ::-1], only(AugmentImageComponent(flow_of([IMAGE, 3]), flip))[0])
        datapoint = only(AugmentImageComponent(flow_of([3, IMAGE]), flip, index=1))
        assert 3 == datapoint[0]
        np.testing.assert_array_equal(IMAGE[:, ::-1], datapoint[1])
        assert datapoint[1].flags["C_CONTIGUOUS"]

    def test_dicts(self):
        """`index` is a key if datapoints are dicts."""
        flow = AugmentImageComponent(flow_of({"image": IMAGE}), [imgaug.CenterCrop(2)], index="image")
        np.testing.assert_array_equal(IMAGE[1:3, 2:4], only(flow)["image"])

    @pytest.mark.parametrize("wrap", [list, imgaug.AugmentorList])
    def test_two_pipelines_share_augmentors(self, wrap):
        """Pipelines that are given the same augmentors draw from separate streams, in whatever order they are read."""
        shared = [
            imgaug.RandomApplyAug(imgaug.Brightness(50), 0.5),
            imgaug.RandomChooseAug([imgaug.Contrast((0.5, 2))]),
        ]

        def start():
            fix_rng_seed(3)
            augs = wrap(shared)
            flows = [AugmentImageComponent(flow_of([IMAGE], [IMAGE], [IMAGE]), augs) for _ in range(2)]
            for flow in flows:
                flow.reset_state()
            return flows

        first, second = start()
        separately = [[image for (image,) in flow] for flow in (first, second)]
        alternately = zip(*[(a, b) for (a,), (b,) in zip(*start())])
        np.testing.assert_array_equal(separately, list(map(list, alternately)))
        assert (separately[0][0] != separately[1][0]).any()

    @pytest.mark.parametrize("copy", [True, False])
    def test_copy(self, copy):
        """With `copy=False`, a function that works in place changes the image of the source."""
        image = IMAGE.copy()
        flow = AugmentImageComponent(flow_of([image]), [imgaug.MapImage(in_place)], copy=copy)
        assert not only(flow)[0].any()
        assert copy == image.any()

    def test_no_view_of_the_source(self):
        """With `copy=True`, the result does not share memory with the source."""
        flow = AugmentImageComponent(flow_of([IMAGE]), [imgaug.CenterCrop((2, 6))])
        assert not np.shares_memory(IMAGE, only(flow)[0])

    def test_no_image(self):
        """A component that is not an image raises an error that describes it."""
        with pytest.raises(TypeError, match="AugmentImageComponent: expected images that are numpy arrays, got str"):
            only(AugmentImageComponent(flow_of(["x"]), []))
        with pytest.raises(
            ValueError,
            match=r"AugmentImageComponent: expected an image \[h, w\] or \[h, w, c\], got shape \(3,\)",
        ):
            only(AugmentImageComponent(flow_of([np.zeros(3)]), []))

    def test_strange_integers_are_let_through(self, log_lines):
        """Integer images other than uint8 are augmented, with one warning, because scripts augment label maps."""
        log_once.cache_clear()
        for _ in range(2):
            flow = AugmentImageComponent(flow_of([IMAGE.astype(np.int32)]), [imgaug.CenterCrop(2)])
            assert np.int32 == only(flow)[0].dtype
        assert ["AugmentImageComponent: got an image of type int32; augmentors support uint8 and float32."] == log_lines


class TestCatchExceptions:
    def test_the_error_arrives_by_default(self):
        """By default, an exception of an augmentor is raised in the consumer."""
        flow = AugmentImageComponent(flow_of([IMAGE * 0]), [imgaug.MapImage(fail_on_zero)])
        with pytest.raises(RuntimeError, match="black"):
            only(flow)

    def test_how_often_it_is_logged(self, log_lines):
        """The first nine exceptions and then every hundredth are logged."""
        flow = AugmentImageComponents(
            flow_of(*[[IMAGE * 0]] * 250), [imgaug.MapImage(fail_on_zero)], index=(0,), catch_exceptions=True
        )
        assert [] == list(flow)
        numbers = [int(line.split("exception ")[1].rstrip(".")) for line in log_lines]
        assert [*range(1, 10), 100, 200] == numbers


class TestAugmentImageCoordinates:
    def test_both(self):
        """The image and the coordinates are transformed alike, and the source is unchanged."""
        points = POINTS.copy()
        augs = [imgaug.CenterCrop((2, 4)), imgaug.Flip(horiz=True, prob=1)]
        image, moved = only(AugmentImageCoordinates(flow_of([IMAGE, points]), augs))
        np.testing.assert_array_equal(IMAGE[1:3, 1:5][:, ::-1], image)
        np.testing.assert_array_equal([[5, -1], [-1, 3]], moved)
        np.testing.assert_array_equal(POINTS, points)

    def test_other_places(self):
        """The image and the coordinates are found by `img_index` and `coords_index`, which may be keys."""
        flip = [imgaug.Flip(horiz=True, prob=1)]
        flow = AugmentImageCoordinates(flow_of([POINTS, IMAGE]), flip, img_index=1, coords_index=0)
        np.testing.assert_array_equal([[6, 0], [0, 4]], only(flow)[0])
        flow = AugmentImageCoordinates(flow_of({"i": IMAGE, "c": POINTS}), flip, "i", "c")
        np.testing.assert_array_equal([[6, 0], [0, 4]], only(flow)["c"])

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_types(self, dtype):
        """Coordinates keep their dtype; tensorpack fails here on NumPy 1.24."""
        flow = AugmentImageCoordinates(flow_of((IMAGE, POINTS.astype(dtype))), [imgaug.Flip(horiz=True, prob=1)])
        assert dtype == only(flow)[1].dtype

    @pytest.mark.parametrize(
        ("coords", "error", "text"),
        [
            ([[1.0, 2.0]], TypeError, "expected coordinates that are numpy arrays, got list"),
            (np.array([[1, 2]]), TypeError, "expected coordinates of a floating type, got int64"),
            (
                np.zeros((3, 4)),
                ValueError,
                r"expected coordinates \[n, 2\], each \(x, y\), got shape \(3, 4\)",
            ),
            (np.zeros(2), ValueError, r"expected coordinates \[n, 2\], each \(x, y\), got shape \(2,\)"),
        ],
    )
    def test_no_coordinates(self, coords, error, text):
        """Invalid coordinates raise an error that describes them."""
        with pytest.raises(error, match=f"AugmentImageCoordinates: {text}"):
            only(AugmentImageCoordinates(flow_of([IMAGE, coords]), [imgaug.Identity()]))


class TestAugmentImageComponents:
    def test_the_same_augmentation_for_all_images(self):
        """Random parameters are drawn once for all images."""
        mask = IMAGE[:, :, 0].copy()
        augs = [imgaug.RandomCrop(3), imgaug.Flip(horiz=True), imgaug.Transpose()]
        flow = AugmentImageComponents(flow_of([IMAGE, POINTS, mask, "label"]), augs, (0, 2), (1,))
        flow.reset_state()
        for _ in range(10):
            ((image, points, mask_after, label),) = list(flow)
            np.testing.assert_array_equal(image[:, :, 0], mask_after)
            assert ((2, 2), "label") == (points.shape, label)

    def test_the_source_stays(self):
        """Lists, images and coordinates of the source are unchanged."""
        datapoint = [IMAGE.copy(), IMAGE.copy(), POINTS.copy()]
        flow = AugmentImageComponents(flow_of(datapoint), [imgaug.MapImage(in_place, in_place)], (0, 1), (2,))
        assert [False] * 3 == [bool(component.any()) for component in only(flow)]
        assert [True] * 3 == [bool(component.any()) for component in datapoint]
