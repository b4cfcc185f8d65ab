"""What every augmentor can do, and those of the old form."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle

import numpy as np
import pytest

from tensorpack_lite.dataflow import imgaug
from tensorpack_lite.dataflow.imgaug.base import (
    Augmentor,
    AugmentorList,
    ImageAugmentor,
    ImagePlaceholder,
    PhotometricAugmentor,
    TransformAugmentorBase,
)
from tensorpack_lite.dataflow.imgaug.transform import (
    CropTransform,
    FlipTransform,
    LazyTransform,
    TransformList,
)
from tensorpack_lite.utils import develop
from tensorpack_lite.utils.utils import enter_worker_stream, fix_rng_seed, make_worker_streams

IMAGE = np.arange(24, dtype=np.uint8).reshape(4, 6)
POINTS = np.float32([[0, 0], [6, 4]])


class Draws(PhotometricAugmentor):
    """Adds what it draws."""

    def _get_augment_params(self, img):
        return self._rand_range(0, 100)

    def _augment(self, img, params):
        return img + params


class WithoutBase(Draws):
    """Upstream had eight augmentors whose constructor did not call that of the base."""

    def __init__(self):
        self.ready = True


class LegacyFlip(ImageAugmentor):
    """The old form, with underscores."""

    def __init__(self, prob=0.5):
        super().__init__()
        self._init(locals())

    def _get_augment_params(self, img):
        return img.shape[1], self._rand_range(0, 1) < self.prob

    def _augment(self, img, params):
        return img[:, ::-1] if params[1] else img

    def _augment_coords(self, coords, params):
        return np.float32([params[0], 0]) + coords * np.float32([-1, 1]) if params[1] else coords


class OlderFlip(ImageAugmentor):
    """The oldest form, with public names."""

    def get_augment_params(self, img):
        return img.shape[1]

    def _augment(self, img, width):
        return img[:, ::-1]

    def augment_coords(self, coords, width):
        return np.float32([width, 0]) + coords * np.float32([-1, 1])


class OnlyAugment(ImageAugmentor):
    """Draws nothing and defines nothing for coordinates."""

    def _augment(self, img, params):
        assert params is None
        return img + 1


def drawn(augmentor) -> float:
    """What the augmentor draws next."""
    return float(augmentor.augment(np.zeros((1, 1), np.float32))[0, 0])


def in_a_fork(function):
    """The number that a function returns in a forked process."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, repr(function()).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        answer = float(file.read())
    os.waitpid(child, 0)
    return answer


class TestRandomStream:
    def test_it_is_there_from_the_start(self):
        """A RandomState; and each augmentor has its own."""
        assert isinstance(ImageAugmentor().rng, np.random.RandomState)
        assert drawn(Draws()) != drawn(Draws())

    def test_a_seed_repeats_it(self):
        """Built after `fix_rng_seed`, or reset after it."""
        fix_rng_seed(1)
        augmentor = Draws()
        first = [drawn(augmentor), drawn(augmentor)]
        fix_rng_seed(1)
        augmentor.reset_state()
        assert first == [drawn(augmentor), drawn(augmentor)]

    def test_a_constructor_that_forgets_the_base(self):
        """Has a generator all the same, also in a list that is reset."""
        assert 0 <= drawn(WithoutBase()) <= 100
        assert 0 <= drawn(AugmentorList([WithoutBase()])) <= 100

    def test_forked_processes_differ(self):
        """From each other and from the parent, although nobody resets anything."""
        augmentor = Draws()
        state = copy.deepcopy(augmentor.rng.get_state())
        children = {in_a_fork(lambda: drawn(augmentor)) for _ in range(2)}
        augmentor.rng.set_state(state)
        assert 3 == len(children | {drawn(augmentor)})

    def test_workers_streams_are_reproducible(self):
        """After `enter_worker_stream` a forked worker draws the same in every run, and each worker something else."""

        def run():
            fix_rng_seed(4)
            augmentor, numbers = Draws(), []
            for stream in make_worker_streams(2):

                def work(stream=stream):
                    enter_worker_stream(stream)
                    return drawn(augmentor)

                numbers.append(in_a_fork(work))
            return numbers

        first = run()
        assert first == run()
        assert first[0] != first[1]

    def test_a_pickled_copy_has_a_stream_of_its_own(self):
        """So spawned workers differ, and no generator travels."""
        augmentor = Draws()
        travelled = pickle.loads(pickle.dumps(augmentor))
        assert drawn(augmentor) != drawn(travelled)
        fix_rng_seed(3)
        augmentor.reset_state()
        expected = drawn(augmentor)
        fix_rng_seed(3)
        assert expected == drawn(pickle.loads(pickle.dumps(augmentor)))

    @pytest.mark.slow
    def test_spawned_processes_differ(self):
        """Each unpickles a copy, which begins a stream of its own."""
        augmentor = imgaug.GaussianNoise(50)
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            jobs = [pool.apply_async(augmentor.augment, (IMAGE,)) for _ in range(4)]
            results = [job.get(timeout=100) for job in jobs]
            pool.close()
            pool.join()
        assert 4 == len({result.tobytes() for result in results})

    def test_one_may_be_given(self):
        """`augmentor.rng = np.random.RandomState(0)`, as tests do."""
        augmentor = Draws()
        augmentor.rng = np.random.RandomState(0)
        assert drawn(augmentor) == pytest.approx(np.random.RandomState(0).uniform(0, 100))

    @pytest.mark.parametrize(
        ("arguments", "low", "high"), [((), 0, 1), ((3,), 0, 3), ((2, 5), 2, 5), ((-1, 1, (50,)), -1, 1)]
    )
    def test_rand_range(self, arguments, low, high):
        """One argument is the upper end; the type is float32; a size gives an array."""
        values = np.array([ImageAugmentor()._rand_range(*arguments) for _ in range(200)])
        assert np.float32 == values.dtype
        assert low <= values.min() < low + 0.1 * (high - low)
        assert high - 0.1 * (high - low) < values.max() <= high
        assert (200,) + (arguments[2] if len(arguments) > 2 else ()) == values.shape

    def test_a_single_number_is_a_number(self):
        """No array of no dimensions, which OpenCV refuses."""
        assert np.isscalar(ImageAugmentor()._rand_range(1))


class TestImageAugmentor:
    def test_the_old_name(self):
        """`Augmentor` is the same class."""
        assert ImageAugmentor is Augmentor is imgaug.Augmentor

    def test_nothing_defined(self):
        """A class without `get_transform` says what it lacks."""
        with pytest.raises(NotImplementedError, match=r"Augmentor: does not define get_transform\(img\)"):
            ImageAugmentor().augment(IMAGE)
        with pytest.raises(
            NotImplementedError, match=r"PhotometricAugmentor: does not define _augment\(img, params\)"
        ):
            PhotometricAugmentor().augment(IMAGE)

    def test_what_is_no_image(self):
        """Refused before anything is drawn."""
        with pytest.raises(
            TypeError, match="Draws: takes images that are numpy arrays, got list. Use np.asarray"
        ):
            Draws().augment([[1]])
        with pytest.raises(
            ValueError, match=r"Draws: takes an image \[h, w\] or \[h, w, c\], got shape \(2, 3, 4, 1\)"
        ):
            Draws().augment(np.zeros((2, 3, 4, 1)))

    def test_photometric_coordinates_stay(self):
        """Nothing moves."""
        assert POINTS is Draws().get_transform(IMAGE).apply_coords(POINTS)

    def test_repr_of_one_with_init(self):
        """Arguments at their defaults are left out."""
        assert "imgaug.LegacyFlip()" == repr(LegacyFlip())
        assert "imgaug.LegacyFlip(prob=1)" == str(LegacyFlip(1))
        assert "imgaug.Draws()" == repr(Draws())

    def test_repr_of_one_without_attributes(self, caplog):
        """Python's own, and one warning."""

        class Secret(ImageAugmentor):
            def __init__(self, key):
                super().__init__()

        class Anything(ImageAugmentor):
            def __init__(self, *keys):
                super().__init__()

        for _ in range(2):
            assert repr(Secret(1)).startswith("<")
            assert "object at" in repr(Anything(1))


class TestLegacy:
    def test_underscored(self):
        """`_get_augment_params`, `_augment`, `_augment_coords` make a transform."""
        tfm = LegacyFlip(prob=1).get_transform(IMAGE)
        np.testing.assert_array_equal(IMAGE[:, ::-1], tfm.apply_image(IMAGE))
        np.testing.assert_array_equal([[6, 0], [0, 4]], tfm.apply_coords(POINTS))
        assert "imgaug.Transform(imgaug.LegacyFlip(prob=1))" == repr(tfm)

    def test_public(self):
        """`get_augment_params` and `augment_coords`, the names before."""
        tfm = OlderFlip().get_transform(IMAGE)
        np.testing.assert_array_equal(IMAGE[:, ::-1], tfm.apply_image(IMAGE))
        np.testing.assert_array_equal([[6, 0], [0, 4]], tfm.apply_coords(POINTS))

    def test_only_augment(self):
        """The parameters are None, and coordinates stay unchanged."""
        np.testing.assert_array_equal(IMAGE + 1, OnlyAugment().augment(IMAGE))
        assert POINTS is OnlyAugment().get_transform(IMAGE).apply_coords(POINTS)

    def test_only_augment_between_others(self):
        """Coordinates pass through a list of augmentors in which one does not move them."""
        tfm = AugmentorList([LegacyFlip(prob=1), OnlyAugment(), LegacyFlip(prob=1)]).get_transform(IMAGE)
        tfm.apply_image(IMAGE)
        np.testing.assert_array_equal(POINTS, tfm.apply_coords(POINTS))

    def test_in_a_list_with_new_ones(self):
        """It replays as they do."""
        tfm = AugmentorList([imgaug.RandomCrop(3), LegacyFlip()]).get_transform(IMAGE)
        first = tfm.apply_image(IMAGE)
        np.testing.assert_array_equal(first, tfm.apply_image(IMAGE))
        assert (2, 2) == tfm.apply_coords(POINTS).shape

    @pytest.mark.parametrize(
        "augmentor", [LegacyFlip(), imgaug.Flip(horiz=True), AugmentorList([LegacyFlip()])]
    )
    def test_the_old_calls(self, augmentor):
        """augment_return_params, augment_with_params, augment_coords."""
        augmented, params = augmentor.augment_return_params(IMAGE)
        np.testing.assert_array_equal(augmented, augmentor.augment_with_params(IMAGE, params))
        moved = augmentor.augment_coords(POINTS, params)
        flipped = augmented[0, 0] != IMAGE[0, 0]
        np.testing.assert_array_equal([[6, 0], [0, 4]] if flipped else POINTS, moved)

    def test_the_old_calls_warn_three_times(self, log_lines):
        """And then no more: they stand in loops."""
        develop._warning_numbers.cache_clear()
        for _ in range(5):
            OnlyAugment().augment_return_params(IMAGE)
        assert 3 == len(log_lines)
        assert "Use get_transform and apply_image" in log_lines[0]

    def test_params_are_a_transform(self):
        """`_get_augment_params` of a TransformAugmentorBase returns what is to be done."""

        class Corner(TransformAugmentorBase):
            def _get_augment_params(self, img):
                return CropTransform(0, 0, 2, 2)

        np.testing.assert_array_equal(IMAGE[:2, :2], Corner().augment(IMAGE))


class TestAugmentorList:
    def test_the_first_draws_at_once_and_the_others_later(self):
        """Those wait for the image that the ones before them make."""
        tfm = AugmentorList(
            [imgaug.RandomCrop(3), imgaug.RandomCrop(2), imgaug.Flip(vert=True)]
        ).get_transform(IMAGE)
        assert [CropTransform, LazyTransform, LazyTransform] == [type(each) for each in tfm.tfms]

    def test_running_image(self):
        """A crop of 5, then the middle 3 of that: on a 6x4 image only if each draws for what it gets."""
        tfm = AugmentorList([imgaug.CenterCrop((4, 4)), imgaug.CenterCrop((2, 2))]).get_transform(IMAGE)
        np.testing.assert_array_equal(IMAGE[1:3, 2:4], tfm.apply_image(IMAGE))
        np.testing.assert_array_equal([[-2, -1], [4, 3]], tfm.apply_coords(POINTS))

    def test_coordinates_before_the_image(self):
        """Refused: it is not known yet what is to be done."""
        tfm = AugmentorList([imgaug.RandomCrop(3), imgaug.RandomCrop(2)]).get_transform(IMAGE)
        with pytest.raises(RuntimeError, match=r"Call apply_image\(img\) first"):
            tfm.apply_coords(POINTS)

    def test_replay(self, cv2):
        """Contrast, Flip, Resize, SaltPepper: the same pixels on a copy, and coordinates after it."""
        augs = [
            imgaug.Contrast((0.5, 1.5)),
            imgaug.Flip(horiz=True),
            imgaug.Resize((8, 12)),
            imgaug.SaltPepperNoise(),
        ]
        tfm = AugmentorList(augs).get_transform(IMAGE)
        first = tfm.apply_image(IMAGE.copy())
        np.testing.assert_array_equal(first, tfm.apply_image(IMAGE.copy()))
        flipped = isinstance(tfm.tfms[1]._transform, FlipTransform)
        expected = np.float32([[12, 0], [0, 8]] if flipped else [[0, 0], [12, 8]])
        np.testing.assert_array_equal(expected, tfm.apply_coords(POINTS))

    def test_a_second_image_of_another_size(self, cv2):
        """The resize was drawn for the first one."""
        tfm = AugmentorList([imgaug.Identity(), imgaug.Resize(8)]).get_transform(IMAGE)
        tfm.apply_image(IMAGE)
        with pytest.raises(ValueError, match="ResizeTransform: was made for images of 4x6"):
            tfm.apply_image(IMAGE.T)

    def test_nested(self):
        """A list in the first place is taken apart; elsewhere it waits."""
        inner = AugmentorList([imgaug.CenterCrop((3, 5)), imgaug.CenterCrop((3, 3))])
        tfm = AugmentorList([inner, AugmentorList([imgaug.CenterCrop(1)])]).get_transform(IMAGE)
        assert [CropTransform, LazyTransform, LazyTransform] == [type(each) for each in tfm.tfms]
        np.testing.assert_array_equal([[IMAGE[1, 2]]], tfm.apply_image(IMAGE))

    def test_empty(self):
        """Nothing happens."""
        np.testing.assert_array_equal(IMAGE, AugmentorList([]).augment(IMAGE))
        assert isinstance(AugmentorList([]).get_transform(IMAGE), TransformList)

    def test_reset_reaches_all(self):
        """Also those in lists in it."""
        augs = AugmentorList([AugmentorList([Draws()]), Draws()])
        fix_rng_seed(2)
        augs.reset_state()
        first = drawn(augs)
        fix_rng_seed(2)
        augs.reset_state()
        assert first == drawn(augs)

    def test_what_is_no_list(self):
        """Refused when built, and so is what is no augmentor."""
        with pytest.raises(TypeError, match="AugmentorList: takes a list of augmentors, got Draws"):
            AugmentorList(Draws())
        with pytest.raises(
            TypeError, match=r"takes a list of augmentors, got function. Wrap a function: MapImage"
        ):
            AugmentorList([in_a_fork])

    def test_what_is_no_image(self):
        """The shape is looked at, and nothing else."""
        with pytest.raises(
            ValueError, match=r"AugmentorList: takes an image \[h, w\] or \[h, w, c\], got shape \(3,\)"
        ):
            AugmentorList([Draws()]).get_transform(np.zeros(3))
        AugmentorList([imgaug.RandomCrop(3)]).get_transform(ImagePlaceholder(shape=(5, 5)))
