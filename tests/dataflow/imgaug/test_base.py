"""Tests of the base classes of augmentors, including the old style."""

from __future__ import annotations

import copy
import os
import pickle

import numpy as np
import pytest

from tensorpack_lite.dataflow import imgaug
from tensorpack_lite.dataflow.imgaug.base import (
    Augmentor,
    AugmentorList,
    ImageAugmentor,
    PhotometricAugmentor,
    TransformAugmentorBase,
)
from tensorpack_lite.dataflow.imgaug.transform import (
    CropTransform,
    LazyTransform,
    TransformList,
)
from tensorpack_lite.utils import develop
from tensorpack_lite.utils.random_streams import (
    enter_worker_stream,
    fix_rng_seed,
    make_worker_streams,
    reset_rng_seed,
)

IMAGE = np.arange(24, dtype=np.uint8).reshape(4, 6)
POINTS = np.float32([[0, 0], [6, 4]])


class Draws(PhotometricAugmentor):
    """Adds the number that it draws."""

    def _get_augment_params(self, img):
        return self._rand_range(0, 100)

    def _augment(self, img, params):
        return img + params


class WithoutBase(Draws):
    """An augmentor whose constructor does not call `super().__init__`, as in eight augmentors of tensorpack."""

    def __init__(self):
        self.ready = True


class LegacyFlip(ImageAugmentor):
    """An augmentor in the old style, with underscores."""

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
    """An augmentor in the oldest style, with public names."""

    def get_augment_params(self, img):
        return img.shape[1]

    def _augment(self, img, width):
        return img[:, ::-1]

    def augment_coords(self, coords, width):
        return np.float32([width, 0]) + coords * np.float32([-1, 1])


class OnlyAugment(ImageAugmentor):
    """An augmentor that defines only `_augment`."""

    def _augment(self, img, params):
        assert params is None
        return img + 1


def drawn(augmentor) -> float:
    """Return the next number that the augmentor draws."""
    return float(augmentor.augment(np.zeros((1, 1), np.float32))[0, 0])


def in_a_fork(function):
    """Return the number that a function returns in a forked process."""
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
    def test_each_augmentor_has_a_stream(self):
        """Each augmentor has a separate RandomState from its construction."""
        assert isinstance(ImageAugmentor().rng, np.random.RandomState)
        assert drawn(Draws()) != drawn(Draws())

    def test_constructor_without_super(self):
        """An augmentor whose constructor does not call the base class has a generator, also in a list that is reset."""
        assert 0 <= drawn(WithoutBase()) <= 100
        assert 0 <= drawn(AugmentorList([WithoutBase()])) <= 100

    def test_forked_processes_differ(self):
        """Forked processes draw other numbers than each other and the parent, without a reset."""
        reset_rng_seed()
        augmentor = Draws()
        state = copy.deepcopy(augmentor.rng.get_state())
        children = {in_a_fork(lambda: drawn(augmentor)) for _ in range(2)}
        augmentor.rng.set_state(state)
        assert 3 == len(children | {drawn(augmentor)})

    def test_streams_of_workers_are_reproducible(self):
        """After `enter_worker_stream`, each forked worker draws different numbers, which are the same in every run."""

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

    def test_pickled_copy_has_a_separate_stream(self):
        """A pickle does not contain the generator, so the copy has a separate stream."""
        augmentor = Draws()
        travelled = pickle.loads(pickle.dumps(augmentor))
        assert drawn(augmentor) != drawn(travelled)
        fix_rng_seed(3)
        augmentor.reset_state()
        expected = drawn(augmentor)
        fix_rng_seed(3)
        assert expected == drawn(pickle.loads(pickle.dumps(augmentor)))

    def test_assigned_generator(self):
        """A generator assigned to `rng` is used."""
        augmentor = Draws()
        augmentor.rng = np.random.RandomState(0)
        assert drawn(augmentor) == pytest.approx(np.random.RandomState(0).uniform(0, 100))

    @pytest.mark.parametrize(
        ("arguments", "low", "high"), [((), 0, 1), ((3,), 0, 3), ((2, 5), 2, 5), ((-1, 1, (50,)), -1, 1)]
    )
    def test_rand_range(self, arguments, low, high):
        """A single argument is the upper bound; the type is float32; a size gives an array."""
        values = np.array([ImageAugmentor()._rand_range(*arguments) for _ in range(200)])
        assert np.float32 == values.dtype
        assert low <= values.min() < low + 0.1 * (high - low)
        assert high - 0.1 * (high - low) < values.max() <= high
        assert (200,) + (arguments[2] if len(arguments) > 2 else ()) == values.shape


class TestImageAugmentor:
    def test_old_name(self):
        """`Augmentor` is another name of `ImageAugmentor`."""
        assert ImageAugmentor is Augmentor is imgaug.Augmentor

    def test_nothing_defined(self):
        """An augmentor without `get_transform` raises NotImplementedError, which names the missing method."""
        with pytest.raises(NotImplementedError, match=r"Augmentor: does not define get_transform\(img\)"):
            ImageAugmentor().augment(IMAGE)
        with pytest.raises(NotImplementedError, match=r"PhotometricAugmentor: does not define _augment\(img, params\)"):
            PhotometricAugmentor().augment(IMAGE)

    def test_repr(self):
        """The repr omits arguments that have their default value."""
        assert "imgaug.LegacyFlip()" == repr(LegacyFlip())
        assert "imgaug.LegacyFlip(prob=1)" == str(LegacyFlip(1))
        assert "imgaug.Draws()" == repr(Draws())

    def test_repr_without_attributes(self, caplog):
        """An augmentor that does not store its arguments has Python's default repr, with one warning."""

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
        """`_get_augment_params`, `_augment` and `_augment_coords` make a transform."""
        tfm = LegacyFlip(prob=1).get_transform(IMAGE)
        np.testing.assert_array_equal(IMAGE[:, ::-1], tfm.apply_image(IMAGE))
        np.testing.assert_array_equal([[6, 0], [0, 4]], tfm.apply_coords(POINTS))
        assert "imgaug.Transform(imgaug.LegacyFlip(prob=1))" == repr(tfm)

    def test_public(self):
        """`get_augment_params` and `augment_coords`, the oldest names, make a transform."""
        tfm = OlderFlip().get_transform(IMAGE)
        np.testing.assert_array_equal(IMAGE[:, ::-1], tfm.apply_image(IMAGE))
        np.testing.assert_array_equal([[6, 0], [0, 4]], tfm.apply_coords(POINTS))

    def test_only_augment(self):
        """An augmentor with only `_augment` gets None as parameters and does not change coordinates."""
        np.testing.assert_array_equal(IMAGE + 1, OnlyAugment().augment(IMAGE))
        assert POINTS is OnlyAugment().get_transform(IMAGE).apply_coords(POINTS)

    @pytest.mark.parametrize("augmentor", [LegacyFlip(), imgaug.Flip(horiz=True), AugmentorList([LegacyFlip()])])
    def test_deprecated_methods(self, augmentor):
        """`augment_return_params`, `augment_with_params` and `augment_coords` work."""
        augmented, params = augmentor.augment_return_params(IMAGE)
        np.testing.assert_array_equal(augmented, augmentor.augment_with_params(IMAGE, params))
        moved = augmentor.augment_coords(POINTS, params)
        flipped = augmented[0, 0] != IMAGE[0, 0]
        np.testing.assert_array_equal([[6, 0], [0, 4]] if flipped else POINTS, moved)

    def test_deprecated_methods_warn_three_times(self, log_lines):
        """Deprecated methods log three warnings and then none, because they are often called in loops."""
        develop._warning_numbers.cache_clear()
        for _ in range(5):
            OnlyAugment().augment_return_params(IMAGE)
        assert 3 == len(log_lines)
        assert "Use get_transform and apply_image" in log_lines[0]

    def test_params_are_a_transform(self):
        """`_get_augment_params` of a TransformAugmentorBase returns the transform."""

        class Corner(TransformAugmentorBase):
            def _get_augment_params(self, img):
                return CropTransform(0, 0, 2, 2)

        np.testing.assert_array_equal(IMAGE[:2, :2], Corner().augment(IMAGE))
        assert imgaug.transform.TransformAugmentorBase is TransformAugmentorBase
        assert imgaug.geometry.TransformAugmentorBase is TransformAugmentorBase


class TestAugmentorList:
    def test_each_augmentor_draws_for_its_input(self):
        """A crop of 5 and then a center crop of 3 fit a 6x4 image only if each augmentor draws for its input."""
        tfm = AugmentorList([imgaug.CenterCrop((4, 4)), imgaug.CenterCrop((2, 2))]).get_transform(IMAGE)
        np.testing.assert_array_equal(IMAGE[1:3, 2:4], tfm.apply_image(IMAGE))
        np.testing.assert_array_equal([[-2, -1], [4, 3]], tfm.apply_coords(POINTS))

    def test_coordinates_before_the_image(self):
        """Transforming coordinates before an image raises RuntimeError."""
        tfm = AugmentorList([imgaug.RandomCrop(3), imgaug.RandomCrop(2)]).get_transform(IMAGE)
        with pytest.raises(RuntimeError, match=r"Call apply_image\(img\) first"):
            tfm.apply_coords(POINTS)

    def test_second_image_of_another_size(self, cv2):
        """A resize that was drawn for one image rejects an image of another size."""
        tfm = AugmentorList([imgaug.Identity(), imgaug.Resize(8)]).get_transform(IMAGE)
        tfm.apply_image(IMAGE)
        with pytest.raises(ValueError, match="ResizeTransform: expected an image of 4x6"):
            tfm.apply_image(IMAGE.T)

    def test_nested(self):
        """A list at the start of another list is flattened; elsewhere it is drawn later."""
        inner = AugmentorList([imgaug.CenterCrop((3, 5)), imgaug.CenterCrop((3, 3))])
        tfm = AugmentorList([inner, AugmentorList([imgaug.CenterCrop(1)])]).get_transform(IMAGE)
        assert [CropTransform, LazyTransform, LazyTransform] == [type(each) for each in tfm.tfms]
        np.testing.assert_array_equal([[IMAGE[1, 2]]], tfm.apply_image(IMAGE))

    def test_empty(self):
        """An empty list changes nothing."""
        np.testing.assert_array_equal(IMAGE, AugmentorList([]).augment(IMAGE))
        assert isinstance(AugmentorList([]).get_transform(IMAGE), TransformList)

    def test_reset_state(self):
        """`reset_state` also resets the augmentors in nested lists."""
        augs = AugmentorList([AugmentorList([Draws()]), Draws()])
        fix_rng_seed(2)
        augs.reset_state()
        first = drawn(augs)
        fix_rng_seed(2)
        augs.reset_state()
        assert first == drawn(augs)
