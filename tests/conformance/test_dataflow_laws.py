"""What holds for every public DataFlow; `dataflow_rows.py` has a row for each."""

from __future__ import annotations

import copy
import inspect
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

from tensorpack_lite import dataflow
from tensorpack_lite.dataflow.base import NotResetError
from tensorpack_lite.utils.utils import fix_rng_seed

TEN = 10
ROWS = [*dataflow_rows.ROWS, *DATASET_ROWS, *IMAGE_ROWS, *FORMAT_ROWS]
FINITE = [row for row in ROWS if not row.infinite]
WRAPPERS = [row for row in ROWS if not row.leaf]


def rows(chosen, **kwargs):
    """Parametrise a law over rows, and call each case by the row's name."""
    return pytest.mark.parametrize("row", chosen, ids=str, **kwargs)


@pytest.fixture(autouse=True)
def needs_packages(request):
    """Rows of data sets are left out where a package that reads their files is not installed."""
    row = str(request.node.callspec.params.get("row")) if hasattr(request.node, "callspec") else ""
    for package in {**NEEDS, **FORMAT_NEEDS}.get(row.split("dataset.")[-1], []):
        pytest.importorskip(package, reason=f"{row} needs it")


def ready(row, form=list, seed=7):
    """A DataFlow after its reset, and the source behind it."""
    fix_rng_seed(seed)
    source = Source(form)
    flow = row.build(source)
    flow.reset_state()
    return flow, source


def test_every_public_dataflow_has_a_row():
    """No row, no merge."""
    public = {
        getattr(dataflow, name).__name__  # an old name of a class is no class of its own
        for name in dataflow.__all__
        if inspect.isclass(getattr(dataflow, name))
        and issubclass(getattr(dataflow, name), dataflow.DataFlow)
        and not inspect.isabstract(getattr(dataflow, name))
    }
    assert set() == public - {row.name for row in ROWS}


def test_every_data_set_has_a_row():
    """No row, no merge."""
    public = {
        f"dataset.{name}"
        for name in dataflow.dataset.__all__
        if issubclass(getattr(dataflow.dataset, name), dataflow.DataFlow)
    }
    assert public == {row.name for row in DATASET_ROWS}


@rows(FINITE)
def test_it_can_be_iterated_again(row):
    """After a pass ended there is another one, of the same length unless its end is drawn."""
    flow, _ = ready(row)
    first, second = list(iter(flow)), list(iter(flow))
    assert len(first) > 0
    assert len(second) > 0
    if row.length is not None:
        assert len(first) == len(second)


@rows(ROWS)
def test_a_loop_left_early_can_be_started_again(row):
    """`break`, then another `for`: the first datapoint comes, and nothing is held."""
    flow, _ = ready(row)
    for _ in flow:
        break
    for datapoint in flow:
        assert isinstance(datapoint, (list, dict))
        break


@rows(ROWS)
def test_len_is_as_claimed(row):
    """A number, or NotImplementedError and nothing else."""
    flow, _ = ready(row)
    if row.length is None:
        with pytest.raises(NotImplementedError):
            len(flow)
    else:
        assert row.length == len(flow)


@rows([row for row in FINITE if row.length is not None])
def test_len_is_true(row):
    """A pass has as many datapoints as `len` says."""
    flow, _ = ready(row)
    assert len(flow) == len(list(iter(flow)))


@rows(ROWS)
def test_the_old_names_are_the_same(row):
    """`get_data()` and `size()`, as old scripts call them."""
    new, _ = ready(row)
    old, _ = ready(row)
    assert numbers([next(iter(new))]) == numbers([next(old.get_data())])
    if row.length is not None:
        assert row.length == old.size()


@rows([row for row in WRAPPERS if not row.elsewhere])
def test_reset_state_reaches_the_source_once(row):
    """Building does not reset, resetting does it once (also when the source is used twice), iterating never."""
    source = Source()
    flow = row.build(source)
    assert 0 == source.resets
    flow.reset_state()
    assert 1 == source.resets
    take(flow, TEN)
    assert 1 == source.resets


@rows(ROWS)
def test_it_can_be_pickled_before_reset(row):
    """The copy yields what the original would have."""
    flow, _ = ready(row)
    fix_rng_seed(7)
    travelled = pickle.loads(pickle.dumps(row.build(Source())))
    travelled.reset_state()
    assert numbers(take(flow, TEN)) == numbers(take(travelled, TEN))


@rows(DATASET_ROWS)
def test_a_data_set_can_be_read_in_a_forked_process(row):
    """Built here and reset there, as runners do: the same datapoints in the same order."""
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
    """In the child."""
    fix_rng_seed(7)
    flow.reset_state()
    there.send(numbers(take(flow, TEN)))
    there.close()


@rows(DATASET_ROWS)
def test_lists_of_a_data_set_are_fresh(row):
    """What is done to a datapoint's list is not done to the data set."""
    flow, _ = ready(row)
    for datapoint in flow:
        datapoint.clear()
    assert row.length == len([dp for dp in iter(flow) if len(dp) == 2])


@rows(WRAPPERS)
@pytest.mark.parametrize("form", [list, dict])
def test_lists_stay_lists_and_dicts_stay_dicts(row, form):
    """The form of the source's datapoints goes through, with the same numbers in it."""
    flow, _ = ready(row, form)
    datapoints = take(flow, TEN)
    wanted = list if row.gives_lists else form
    assert {wanted} == {type(dp) for dp in datapoints}
    assert numbers(take(ready(row, list)[0], TEN)) == numbers(datapoints)


@rows(WRAPPERS)
@pytest.mark.parametrize("form", [list, dict])
def test_datapoints_of_the_source_are_not_changed(row, form):
    """Neither their components nor their arrays."""
    flow, source = ready(row, form)
    before = copy.deepcopy(source.datapoints)
    for datapoint in take(flow, TEN):
        assert datapoint is not None
    np.testing.assert_equal(source.datapoints, before)


@rows(ROWS)
def test_same_seed_same_order(row):
    """The order under seed 7 is the one written down: on every machine, Python and NumPy."""
    flow, _ = ready(row)
    assert list(row.seed_7) == numbers(take(flow, TEN))


@rows([row for row in ROWS if row.random])
def test_another_seed_another_order(row):
    """The seed is really used."""
    seen = {str(numbers(take(ready(row, seed=seed)[0], 2 * TEN))) for seed in range(7, 12)}
    assert len(seen) > 1


@rows([row for row in ROWS if row.random])
def test_random_ones_refuse_to_run_without_reset(row):
    """A clear error, and never the global random numbers."""
    flow = row.build(Source())
    with pytest.raises(NotResetError, match=r"reset_state\(\) was not called"):
        take(flow, 2 * TEN)


@rows(ROWS)
def test_nothing_is_left_running(row):
    """No thread and no child process, after two passes and the last reference."""
    threads = set(threading.enumerate())
    flow, _ = ready(row)
    take(flow, TEN)
    del flow
    left = [t for t in threading.enumerate() if t not in threads and type(t).__name__ != "TMonitor"]
    assert [] == left + multiprocessing.active_children()
