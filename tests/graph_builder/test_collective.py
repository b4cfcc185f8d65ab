"""Tests of graph_builder/collective.py with real processes. tests/train/test_collective.py trains with it."""

from __future__ import annotations

import json

import pytest
from fakes.launching import TESTS, launch

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.graph_builder.collective import RankGroup, _buckets, allreduce_rank_grads


class TestAlone:
    def test_gradients(self):
        """Gradients of a single process are unchanged."""
        grads = [(tf.constant(1.0), None)]
        assert grads is allreduce_rank_grads(grads, RankGroup(0, 1))


class TestBuckets:
    def test_by_dtype(self):
        """Tensors of one dtype share a buffer, whatever their order."""
        tensors = [tf.zeros([2]), tf.zeros([2], tf.float64), tf.zeros([3])]
        assert [[0, 2], [1]] == _buckets(tensors)

    def test_by_size(self, monkeypatch):
        """A buffer has a maximum size, and a larger tensor has a buffer to itself."""
        monkeypatch.setattr("tensorpack_lite.graph_builder.collective._BUFFER_BYTES", 16)
        tensors = [tf.zeros([2]), tf.zeros([2]), tf.zeros([1]), tf.zeros([9]), tf.zeros([1])]
        assert [[0, 1], [2], [3], [4]] == _buckets(tensors)


@pytest.fixture(scope="module")
def results():
    """The results of three ranks. The gradients of rank r are r + 1 times the same numbers."""
    ended = launch(3, str(TESTS / "fakes" / "collective_script.py"))
    assert 0 == ended.code, ended.out + ended.err
    found = [json.loads(line.partition("RESULT ")[2]) for line in ended.out.splitlines() if "RESULT" in line]
    return sorted(found, key=lambda result: result["rank"])


@pytest.mark.slow
class TestThreeRanks:
    def test_ranks_are_equal(self, results):
        """All ranks have the same results, bit for bit."""
        without_rank = [{**result, "rank": 0} for result in results]
        assert without_rank[0] == without_rank[1] == without_rank[2]

    def test_sum_and_mean(self, results):
        """The sum and mean of dense gradients are right, and keep the dtype."""
        assert [[6.0, 12.0], [18.0, 24.0]] == results[0]["sum"]["dense"]
        assert [3.0, 1.5] == results[0]["sum"]["double"]
        assert [6.0, 6.0, 6.0] == results[0]["sum"]["unknown"]
        assert [6.0, 12.0] == results[0]["sum"]["half"]
        assert [[2.0, 4.0], [6.0, 8.0]] == [[round(x, 5) for x in row] for row in results[0]["mean"]["dense"]]

    def test_slices(self, results):
        """Slices of all ranks are in the order of ranks, although their number differs by rank and step."""
        first, again = results[0]["sum"]["slices"], results[0]["again"]["slices"]
        assert [0, 0, 1, 0, 1, 2] == first["indices"]
        assert [1, 2, 2, 3, 3, 3] == [row[0] for row in first["values"]]
        assert [0, 1, 2, 0, 1, 0] == again["indices"]

    @pytest.mark.any_tensorflow
    def test_fp16(self, results):
        """Compression to float16 returns exact results for numbers that float16 represents."""
        assert [2.0, 2.0, 2.0] == [round(x, 5) for x in results[0]["fp16"]["unknown"]]
        assert [[2.0, 4.0], [6.0, 8.0]] == [[round(x, 5) for x in row] for row in results[0]["fp16"]["dense"]]

    def test_variables(self, results):
        """Each variable has the value of rank 0 and keeps its dtype."""
        assert {
            "float": 1.5,
            "half": 0.5,
            "flag": True,
            "step": 2**40,
            "byte": 200,
            "double": 0.1,
        } == results[2]["variables"]
