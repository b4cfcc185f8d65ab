"""Rule D04 of lint, against counts that are known."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.diagnostics.data_check.repeats import CommonSamples, RepeatedSamples, sample_digests


def repeats(samples, num_in_pass, batch=10):
    """Feed samples in batches. Return the first remark and the number of samples until then, or None."""
    rule = RepeatedSamples("image", num_in_pass)
    for start in range(0, len(samples), batch):
        remark = rule.feed(samples[start : start + batch])
        if remark is not None:
            return remark, start + batch
    return None


def test_workers_in_lockstep():
    """Two workers with the same order have a remark after a quarter of the pass."""
    remark, number = repeats([k // 2 for k in range(8000)], 4000)
    assert ("D04", "image", 1000) == (remark.rule, remark.name, number)
    assert "500 of the first 1000 samples of the pass are copies of earlier ones." == remark.text


@pytest.mark.parametrize("seed", range(5))
def test_samples_that_may_repeat(seed):
    """Permutations, draws with replacement, two shuffled workers, and a rare class that is drawn 5 times have no remark."""
    rng = np.random.RandomState(seed)
    several = np.stack([rng.permutation(4000) for _ in range(2)], axis=1).ravel()
    rare = np.where(rng.rand(4000) < 0.5, rng.randint(0, 400, 4000), rng.randint(400, 4000, 4000))
    for samples in (rng.permutation(4000), rng.randint(0, 4000, 4000), several, rare):
        assert repeats(samples.tolist(), 4000) is None


def test_short_passes():
    """Passes of less than 2,000 samples are not examined."""
    assert repeats([0] * 1999, 1999) is None
    assert repeats([0] * 2000, 2000)


def test_common_samples():
    """Twenty common samples have a remark as soon as 500 of training and of validation are known; nineteen have none."""
    training = set(range(1000))
    for common, expected in ((20, True), (19, False)):
        validation = list(range(1000 - common, 1500))
        rule = CommonSamples("image", training)
        assert rule.feed(validation[:499]) is None
        remark = rule.feed(validation[499:])
        assert expected is (remark is not None)
        assert expected is rule.is_done
        if remark is not None:
            text = f"20 of {len(validation)} samples of validation are also among 1000 samples of training."
            assert ("D04", text) == (remark.rule, remark.text)
    assert CommonSamples("image", set(range(499))).feed(range(1000)) is None
    rule = CommonSamples("image", set())
    for samples, is_done in ((range(9999), False), ([-1], True)):  # after 10,000, it needs no more
        rule.feed(samples)
        assert is_done is rule.is_done


def test_digests():
    """Equal images have equal digests, others do not; constant images, vectors and single color images have none."""
    batch = np.random.RandomState(0).rand(3, 40, 40, 3).astype("float32")
    batch[2] = batch[0]
    first, second, third = sample_digests(batch)
    assert first == third != second
    assert [second] == sample_digests(np.stack([np.ones([40, 40, 3], "float32"), batch[1]]))
    assert 3 == len(sample_digests(batch[..., 0]))
    for other in (batch[0], batch[0, 0], np.zeros([0, 40, 40, 3]), np.array([["text"]] * 3, object)):
        assert [] == sample_digests(other)
