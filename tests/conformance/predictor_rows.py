"""One row for each public predictor: how to create it from a config, and how to pass it datapoints."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Callable, Iterator, List, NamedTuple

import numpy as np

from tensorpack_lite import predict
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.input_source.feed import FeedInput

__all__ = ["NO_ROW", "ROWS", "Row"]

Datapoints = List[List[np.ndarray]]


class Row(NamedTuple):
    """
    A public predictor.

    Args:
        name: the public name.
        run: takes a PredictConfig and all datapoints, each `[array [1, ...], ...]`. Returns a context manager that yields a
            function, which returns the outputs of each datapoint in order, as lists of arrays.
        returns_input: whether `return_input=True` is allowed.
    """

    name: str
    run: Callable[..., Any]
    returns_input: bool = True

    def __str__(self) -> str:
        return self.name


@contextmanager
def _one_by_one(predictor: Any, datapoints: Datapoints) -> Iterator[Any]:
    """Run a predictor that takes one datapoint per call and owns its session."""
    try:
        yield lambda: [predictor(*datapoint) for datapoint in datapoints]
    finally:
        predictor.sess.close()


def _offline(config: Any, datapoints: Datapoints) -> Any:
    return _one_by_one(predict.OfflinePredictor(config), datapoints)


def _online(config: Any, datapoints: Datapoints) -> Any:
    """Create the predictor as a trainer does, in an existing graph and session."""
    other = predict.OfflinePredictor(config)
    predictor = predict.OnlinePredictor(other.input_tensors, other.output_tensors, config.return_input, sess=other.sess)
    return _one_by_one(predictor, datapoints)


def _many_towers(config: Any, datapoints: Datapoints) -> Any:
    return _one_by_one(predict.MultiTowerOfflinePredictor(config, [-1, 0]), datapoints)


@contextmanager
def _data_parallel(config: Any, datapoints: Datapoints) -> Iterator[Any]:
    """Pass two datapoints per call. The first datapoint fills up an odd number."""
    predictor = predict.DataParallelOfflinePredictor(config, [-1, 0])

    def call() -> list:
        results: list = []
        for start in range(0, len(datapoints), 2):
            first, second = (datapoints + datapoints[:1])[start : start + 2]
            outputs = predictor(*first, *second)
            results += [outputs[: len(outputs) // 2], outputs[len(outputs) // 2 :]]
        return results[: len(datapoints)]

    try:
        yield call
    finally:
        predictor.sess.close()


@contextmanager
def _feedfree(config: Any, datapoints: Datapoints) -> Iterator[Any]:
    predictor = predict.FeedfreePredictor(config, FeedInput(DataFromList(datapoints, shuffle=False)))
    try:
        yield lambda: [predictor() for _ in datapoints]
    finally:
        predictor.close()


@contextmanager
def _threads(config: Any, datapoints: Datapoints) -> Iterator[Any]:
    """Pass single datapoints: the predictor adds the batch axis."""
    source = predict.OfflinePredictor(config)
    predictor = predict.MultiThreadAsyncPredictor([source], batch_size=2)
    predictor.start()

    def call() -> list:
        futures = [predictor.put_task([component[0] for component in dp]) for dp in datapoints]
        return [[np.asarray(output)[np.newaxis] for output in future.result(60)] for future in futures]

    try:
        yield call
    finally:
        predictor.stop()
        source.sess.close()


@contextmanager
def _whole_dataflow(config: Any, datapoints: Datapoints) -> Iterator[Any]:
    predictor = predict.SimpleDatasetPredictor(config, DataFromList(datapoints, shuffle=False))
    try:
        yield predictor.get_all_result
    finally:
        predictor.predictor.sess.close()


ROWS = [
    Row("OfflinePredictor", _offline),
    Row("OnlinePredictor", _online),
    Row("MultiTowerOfflinePredictor", _many_towers),
    Row("DataParallelOfflinePredictor", _data_parallel),
    Row("FeedfreePredictor", _feedfree, returns_input=False),
    Row("MultiThreadAsyncPredictor", _threads, returns_input=False),
    Row("SimpleDatasetPredictor", _whole_dataflow),
]

NO_ROW = {
    "DatasetPredictorBase": "abstract; its subclasses predict",
    "MultiProcessDatasetPredictor": "forks, which fails after a session has run, so tests/predict/test_dataset.py runs scripts",
    "PredictConfig": "not a predictor; each law creates one",
    "PredictorBase": "abstract; its subclasses predict",
}
"""Public names of `tensorpack_lite.predict` without a row, with the reason."""
