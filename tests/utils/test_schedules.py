"""utils/schedules.py, against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tensorpack_lite.utils import schedules

pytestmark = pytest.mark.any_tensorflow


def values(schedule, num):
    """Return the values at the points 0 .. num - 1."""
    return [schedule(point) for point in range(num)]


ALL = {
    "constant": lambda **k: schedules.constant(0.4, **k),
    "step": lambda **k: schedules.step(0.4, [30, 60], **k),
    "cosine": lambda **k: schedules.cosine(0.4, 90, **k),
    "cosine_restarts": lambda **k: schedules.cosine_restarts(0.4, 10, 2, **k),
    "polynomial": lambda **k: schedules.polynomial(0.4, 90, **k),
    "inverse_sqrt": lambda **k: schedules.inverse_sqrt(0.4, **k),
}


@pytest.mark.parametrize("name", ALL)
def test_warm_up(name):
    """Each schedule with a warm-up of 4 rises in equal steps, from a quarter to the value; the first value is not 0."""
    np.testing.assert_allclose(values(ALL[name](warmup=4), 4), [0.1, 0.2, 0.3, 0.4])


@pytest.mark.parametrize("warmup", [0.5, 1, 2.5])
@pytest.mark.parametrize("name", ALL)
def test_a_warm_up_of_any_length(name, warmup):
    """The values rise to the highest one without exceeding it, also if the length of the warm-up is a fraction."""
    schedule = ALL[name](warmup=warmup)
    rising = values(schedule, math.ceil(warmup))
    np.testing.assert_allclose(rising, [0.4 * min(1, (point + 1) / warmup) for point in range(len(rising))])
    assert max(values(schedule, 90)) == pytest.approx(0.4)


@pytest.mark.parametrize("schedule", [*(ALL[name](warmup=2) for name in ALL), schedules.one_cycle(0.4, 90)])
def test_a_negative_point(schedule):
    """A negative point is an error, which names it."""
    with pytest.raises(ValueError, match=r"schedules\.\w+: point.*-1"):
        schedule(-1)


def test_constant():
    """Without a warm-up, the value is constant."""
    assert [0.1] * 5 == values(schedules.constant(0.1), 5)


def test_step():
    """The value is multiplied at each boundary, which counts from the beginning, whatever the order of the boundaries is."""
    assert [1, 1, 0.5, 0.5, 0.25] == values(schedules.step(1, [4, 2], 0.5), 5)
    assert [0.5, 1, 0.5, 0.5, 0.25] == values(schedules.step(1, [2, 4], 0.5, warmup=2), 5)


def test_cosine():
    """The value is end + (value - end) * (1 + cos(pi * p)) / 2 after the warm-up, and stays at the end."""
    schedule = schedules.cosine(1.0, 12, end=0.2, warmup=2)
    for point in range(2, 12):
        expected = 0.2 + 0.8 * (1 + math.cos(math.pi * (point - 2) / 10)) / 2
        assert expected == pytest.approx(schedule(point))
    assert [pytest.approx(0.2)] * 2 == [schedule(12), schedule(1000)]
    assert 0.6 == pytest.approx(schedule(7))


def test_cosine_restarts():
    """The falls have the lengths 3, 6, 12 with growth 2, and each begins with the value."""
    schedule = schedules.cosine_restarts(1.0, 3, growth=2)
    starts = [point for point in range(40) if schedule(point) == 1.0]
    assert [0, 3, 9, 21] == starts
    assert (1 + math.cos(math.pi * 4 / 6)) / 2 == pytest.approx(schedule(3 + 4))
    assert [0, 5, 10] == [p for p in range(15) if schedules.cosine_restarts(0.3, 5)(p) == 0.3]


@pytest.mark.parametrize("power", [0.5, 1, 2])
def test_polynomial(power):
    """The value is end + (value - end) * (1 - p) ** power."""
    schedule = schedules.polynomial(1.0, 10, end=0.1, power=power)
    progress = np.arange(10) / 10
    np.testing.assert_allclose(values(schedule, 10), 0.1 + 0.9 * (1 - progress) ** power)
    assert 0.1 == schedule(10) == schedule(99)


def test_one_cycle():
    """The value rises from start to the highest one until 30 % of the training, and falls to the end."""
    schedule = schedules.one_cycle(1.0, 100)
    assert [0.04, 1.0, 4e-6] == pytest.approx([schedule(0), schedule(30), schedule(100)])
    assert (0.04 + 1.0) / 2 == pytest.approx(schedule(15))
    assert (1.0 + 4e-6) / 2 == pytest.approx(schedule(65))
    assert schedule(100) == schedule(500)


def test_one_cycle_of_momentum():
    """With start and end above the highest rate, the schedule falls and rises again, as momentum does in one cycle."""
    schedule = schedules.one_cycle(0.85, 10, rise=0.5, start=0.95, end=0.95)
    assert [0.95, 0.9, 0.85, 0.9, 0.95] == pytest.approx([schedule(p) for p in (0, 2.5, 5, 7.5, 10)])


def test_one_cycle_without_a_rise():
    """With rise=0, the schedule only falls, and with rise=1, it only rises."""
    assert 1.0 == schedules.one_cycle(1.0, 10, rise=0)(0)
    assert 1.0 == pytest.approx(schedules.one_cycle(1.0, 10, rise=1)(10))


def test_inverse_sqrt():
    """The schedule is that of "Attention Is All You Need", with step_num = point + 1."""
    schedule = schedules.inverse_sqrt(512**-0.5 * 40**-0.5, 40)
    steps = np.arange(1, 200)
    np.testing.assert_allclose(
        values(schedule, 199), 512**-0.5 * np.minimum(steps**-0.5, steps * 40.0**-1.5), rtol=1e-12
    )


def test_the_current_value_does_not_matter():
    """HyperParamSetterWithFunc passes the current value, which all schedules ignore."""
    for make in ALL.values():
        schedule = make(warmup=3)
        assert schedule(7) == schedule(7, 123.0)
    assert schedules.one_cycle(1, 9)(3, 5.0) == schedules.one_cycle(1, 9)(3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: schedules.constant(1, warmup=-1), r"schedules.constant: warmup"),
        (lambda: schedules.cosine(1, 5, warmup=5), r"schedules.cosine: length is too small \(expected more"),
        (lambda: schedules.polynomial(1, 5, warmup=6), r"schedules.polynomial: length is too small"),
        (lambda: schedules.polynomial(1, 5, power=0), r"schedules.polynomial: power"),
        (lambda: schedules.cosine_restarts(1, 0), r"schedules.cosine_restarts: length"),
        (lambda: schedules.cosine_restarts(1, 3, growth=0.5), r"schedules.cosine_restarts: growth"),
        (lambda: schedules.one_cycle(1, 10, rise=2), r"schedules.one_cycle: rise"),
        (lambda: schedules.inverse_sqrt(1, 0), r"schedules.inverse_sqrt: warmup"),
    ],
)
def test_wrong_arguments(make, message):
    """A schedule that makes no sense raises ValueError when it is created, not during training."""
    with pytest.raises(ValueError, match=message):
        make()
