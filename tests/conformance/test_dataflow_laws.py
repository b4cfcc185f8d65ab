"""Tests that every public DataFlow must pass. `dataflow_rows.py` describes each DataFlow in a row."""

from __future__ import annotations

import copy
import inspect
import itertools
import multiprocessing
import pickle
import threading

import numpy as np
import pytest
from conformance import dataflow_rows
from conformance.dataflow_rows import Source, numbers, take
from conformance.dataset_rows import DATASET_ROWS, NEEDS
from conformance.format_rows import FORMAT_NEEDS, FORMAT_ROWS
from conformance.image_rows import IMAGE_ROWS
from fakes.positions import text

from tensorpack_lite import dataflow
from tensorpack_lite.dataflow.base import NotResetError
from tensorpack_lite.utils.utils import fix_rng_seed

pytestmark = pytest.mark.law

TEN = 10
ROWS = [*dataflow_rows.ROWS, *DATASET_ROWS, *IMAGE_ROWS, *FORMAT_ROWS]
FINITE = [row for row in ROWS if not row.infinite]
WRAPPERS = [row for row in ROWS if not row.leaf]


def rows(chosen, **kwargs):
    """Parametrize a test over rows, with the name of a row as its id."""
    return pytest.mark.parametrize("row", chosen, ids=str, **kwargs)


@pytest.fixture(autouse=True)
def needs_packages(request):
    """Skip rows of datasets and formats whose package is not installed."""
    row = str(request.node.callspec.params.get("row")) if hasattr(request.node, "callspec") else ""
    for package in {**NEEDS, **FORMAT_NEEDS}.get(row.split("dataset.")[-1], []):
        pytest.importorskip(package, reason=f"{row} needs it")


def ready(row, form=list, seed=7):
    """Build and reset a DataFlow, and return it with its source."""
    fix_rng_seed(seed)
    source = Source(form)
    flow = row.build(source)
    flow.reset_state()
    return flow, source


def test_every_public_dataflow_has_a_row():
    """Each public DataFlow is described by a row."""
    public = {
        getattr(dataflow, name).__name__  # old names refer to the same classes
        for name in dataflow.__all__
        if inspect.isclass(getattr(dataflow, name))
        and issubclass(getattr(dataflow, name), dataflow.DataFlow)
        and not inspect.isabstract(getattr(dataflow, name))
    }
    missing = public - {row.name for row in ROWS}
    assert not missing, f"Add rows for {missing} to ROWS in tests/conformance/dataflow_rows.py."


def test_every_data_set_has_a_row():
    """Each public dataset is described by a row; the base classes are not datasets."""
    public = {
        f"dataset.{name}"
        for name in set(dataflow.dataset.__all__) - {"IndexedData", "LabelledFiles", "StoredPairs"}
        if issubclass(getattr(dataflow.dataset, name), dataflow.DataFlow)
    }
    assert public == {row.name for row in DATASET_ROWS}


@rows(FINITE)
def test_it_can_be_iterated_again(row):
    """A pass, and one after it, yield as many datapoints as `len` returns."""
    flow, _ = ready(row)
    first, second = len(list(iter(flow))), len(list(iter(flow)))
    assert 0 < first == (row.length or first)
    assert 0 < second == (row.length or second)


@rows(ROWS)
def test_a_loop_left_early_can_be_started_again(row):
    """After `break`, the DataFlow can be iterated again."""
    flow, _ = ready(row)
    for _ in flow:
        break
    for datapoint in flow:
        assert isinstance(datapoint, (list, dict))
        break


@rows([row for row in FINITE if row.length is not None and not row.alone])
def test_a_second_pass_meanwhile(row):
    """A whole pass in the middle of another one takes nothing from it."""
    flow, _ = ready(row)
    first = iter(flow)
    next(first)
    assert row.length == len(list(iter(flow)))
    assert row.length == 1 + len(list(first))


@rows([row for row in ROWS if row.alone])
def test_a_second_iterator_is_refused(row):
    """If two iterators would share a buffer or a position, the second one raises RuntimeError until the first one is deleted."""
    flow, _ = ready(row)
    first = iter(flow)
    next(first)
    with pytest.raises(RuntimeError, match="is already being iterated"):
        next(iter(flow))
    del first
    next(iter(flow))


@rows(ROWS)
def test_len_is_as_claimed(row):
    """`len` returns the claimed length, or raises NotImplementedError."""
    flow, _ = ready(row)
    if row.length is None:
        with pytest.raises(NotImplementedError):
            len(flow)
    else:
        assert row.length == len(flow)


@rows(ROWS)
def test_the_old_names_are_the_same(row):
    """`get_data()` and `size()` behave like `__iter__` and `__len__`."""
    new, _ = ready(row)
    old, _ = ready(row)
    assert numbers([next(iter(new))]) == numbers([next(old.get_data())])
    assert callable(old.size), f"{row.name}: rename the attribute `size`, which hides the method `size()` of DataFlow."
    if row.length is not None:
        assert row.length == old.size()


@rows([row for row in WRAPPERS if not row.elsewhere])
def test_reset_state_reaches_the_source_once(row):
    """`reset_state` resets the source once, also if it is used twice; building and iterating do not reset it."""
    source = Source()
    flow = row.build(source)
    assert 0 == source.resets
    flow.reset_state()
    assert 1 == source.resets
    take(flow, TEN)
    assert 1 == source.resets


@rows(ROWS)
def test_it_can_be_pickled_before_reset(row):
    """A pickled copy yields the same datapoints."""
    flow, _ = ready(row)
    fix_rng_seed(7)
    travelled = pickle.loads(pickle.dumps(row.build(Source())))
    travelled.reset_state()
    assert numbers(take(flow, TEN)) == numbers(take(travelled, TEN))


@rows(DATASET_ROWS)
def test_a_data_set_can_be_read_in_a_forked_process(row):
    """A dataset that is built here and reset in a forked process yields the expected datapoints."""
    flow = row.build(Source())
    here, there = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=_send_numbers, args=(flow, there))
    child.start()
    there.close()
    try:
        assert list(row.seed_7) == here.recv()
    finally:
        child.join()
        here.close()


def _send_numbers(flow, there):
    """Run in the child process."""
    fix_rng_seed(7)
    flow.reset_state()
    there.send(numbers(take(flow, TEN)))
    there.close()


@rows(DATASET_ROWS)
def test_lists_of_a_data_set_are_fresh(row):
    """Changing the list of a datapoint does not change the dataset."""
    flow, _ = ready(row)
    for datapoint in flow:
        datapoint.clear()
    assert row.length == len([dp for dp in iter(flow) if len(dp) == 2])


@rows(WRAPPERS)
@pytest.mark.parametrize("form", [list, dict])
def test_lists_stay_lists_and_dicts_stay_dicts(row, form):
    """Datapoints keep the type list or dict of the source, with the same numbers."""
    flow, _ = ready(row, form)
    datapoints = take(flow, TEN)
    expected = list if row.gives_lists else form
    assert {expected} == {type(dp) for dp in datapoints}
    assert numbers(take(ready(row, list)[0], TEN)) == numbers(datapoints)


@rows(WRAPPERS)
@pytest.mark.parametrize("form", [list, dict])
def test_datapoints_of_the_source_are_not_changed(row, form):
    """Neither the datapoints of the source nor their arrays are changed."""
    flow, source = ready(row, form)
    before = copy.deepcopy(source.datapoints)
    for datapoint in take(flow, TEN):
        assert datapoint is not None
    np.testing.assert_equal(source.datapoints, before)


@rows(ROWS)
def test_same_seed_same_order(row):
    """With seed 7, the order is the recorded one, on every machine and version."""
    flow, _ = ready(row)
    assert list(row.seed_7) == numbers(take(flow, TEN))


@rows([row for row in ROWS if row.random])
def test_another_seed_another_order(row):
    """Another seed yields another order."""
    seen = {str(numbers(take(ready(row, seed=seed)[0], 2 * TEN))) for seed in range(7, 12)}
    assert len(seen) > 1


@rows([row for row in ROWS if row.random or row.needs_reset])
def test_random_ones_and_workers_need_a_reset(row):
    """A DataFlow that is random or has workers raises NotResetError before `reset_state`."""
    flow = row.build(Source())
    with pytest.raises(NotResetError, match=r"reset_state\(\) was not called. Call it once"):
        take(flow, 2 * TEN)


@rows([row for row in ROWS if row.resets_once])
def test_a_second_reset_is_refused(row):
    """A DataFlow whose workers cannot begin again raises RuntimeError at the second `reset_state`."""
    flow, _ = ready(row)
    with pytest.raises(RuntimeError, match=r"reset_state\(\) was called twice"):
        flow.reset_state()


class Large(Source):
    """A source whose arrays have 200 kB."""

    def make(self, k):
        return [np.full(50_000, k, np.float32), k]


@rows([row for row in dataflow_rows.ROWS if not row.leaf and row.name != "TestDataSpeed"])  # it resets itself
def test_a_state_has_numbers_instead_of_datapoints(row):
    """The saved state of a stage over large datapoints has at most 40 kB, whatever the stage holds back."""
    flow = row.build(Large())
    flow.set_state(None)
    flow.reset_state()
    datapoints = itertools.chain.from_iterable(itertools.repeat(flow))
    for _ in itertools.islice(datapoints, 2 * TEN):
        assert len(text(flow.get_state())) < 40_000


@rows(ROWS)
def test_nothing_is_left_running(row):
    """After the DataFlow is deleted, none of its threads and child processes is running."""
    threads = set(threading.enumerate())
    flow, _ = ready(row)
    take(flow, TEN)
    del flow
    left = [t for t in threading.enumerate() if t not in threads and type(t).__name__ != "TMonitor"]
    assert [] == left + multiprocessing.active_children()
