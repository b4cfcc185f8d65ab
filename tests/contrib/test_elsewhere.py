"""Data of other libraries: with their interfaces in any environment, and with the libraries where they are installed."""

from __future__ import annotations

import io
import itertools
import tarfile

import numpy as np
import pytest
from fakes.elsewhere import SIZE, Batches, Frame, Loader, MapStyle, Rows
from fakes.positions import check_cuts, restored

from tensorpack_lite.contrib.table import DataFromTable
from tensorpack_lite.dataflow import BatchData, DataFromGenerator, DataFromIterable, DataFromList, MapData
from tensorpack_lite.utils.errors import DamagedFileError
from tensorpack_lite.utils.utils import fix_rng_seed


def importorskip(package, module):
    """Import a package and one of its modules. A directory that only has the package's name counts as absent."""
    pytest.importorskip(f"{package}.{module}")
    return __import__(package)


def a_pass(flow, limit=1000):
    """Reset a DataFlow and return the datapoints of a pass; fail if it does not end."""
    flow.reset_state()
    found = list(itertools.islice(flow, limit))
    assert len(found) < limit, "the pass does not end"
    return found


def columns():
    """Return a table as a dict of arrays."""
    return {"a": np.arange(5) * 1.0, "b": np.arange(5) * -1.0, "label": np.arange(5)}


SOURCES = {
    "torch Dataset": lambda shuffle: DataFromList(MapStyle(), shuffle),
    "Hugging Face Dataset": lambda shuffle: DataFromList(Rows(), shuffle),
    "Keras Sequence": lambda shuffle: DataFromList(Batches(), shuffle),
    "pandas": lambda shuffle: DataFromTable(Frame(), [["a", "b"], "label"], shuffle),
    "dict": lambda shuffle: DataFromTable(columns(), ["a", "label"], shuffle),
}


class TestByIndex:
    @pytest.mark.parametrize("name", SOURCES)
    def test_order(self, name):
        """In order, a pass yields each element once and ends; shuffled, it yields the same ones in another order."""
        fix_rng_seed(3)
        ordered, shuffled = a_pass(SOURCES[name](False)), a_pass(SOURCES[name](True))
        assert len(SOURCES[name](False)) == len(ordered)
        numbers = [np.ravel(list(dp.values() if isinstance(dp, dict) else dp)[1])[0] for dp in ordered]
        others = [np.ravel(list(dp.values() if isinstance(dp, dict) else dp)[1])[0] for dp in shuffled]
        assert list(range(len(numbers))) == numbers == sorted(others)
        assert others != numbers

    @pytest.mark.parametrize("name", SOURCES)
    @pytest.mark.parametrize("shuffle", [False, True])
    def test_resume(self, name, shuffle):
        """After a cut anywhere, a new pipeline yields the datapoints that were due, of this pass and of later ones."""
        fix_rng_seed(5)
        check_cuts(lambda: SOURCES[name](shuffle), num=18)

    @pytest.mark.parametrize("shuffle", [False, True])
    def test_a_resume_reads_only_what_is_due(self, shuffle):
        """A restored pipeline continues by index: it does not read the elements before the position."""
        fix_rng_seed(1)
        flow = restored(lambda: DataFromList(MapStyle(), shuffle), None)
        datapoints = iter(flow)
        first = [next(datapoints) for _ in range(5)]
        state = flow.get_state()
        data = MapStyle()
        rest = list(restored(lambda: DataFromList(data, shuffle), state))
        assert SIZE - 5 == len(rest) == len(data.asked)
        assert set(range(SIZE)) == {number for _, number in [*first, *rest]}

    def test_batches(self):
        """Tuples and dicts are batched; a dict keeps its keys."""
        images, labels = a_pass(BatchData(DataFromList(MapStyle(), shuffle=False), 3))[1]
        np.testing.assert_array_equal([[3, -3], [4, -4], [5, -5]], images)
        np.testing.assert_array_equal([3, 4, 5], labels)
        rows = MapData(DataFromList(Rows(), shuffle=False), lambda row: [np.float32(row["x"]), row["y"]])
        np.testing.assert_array_equal([[0, 0], [1, 0], [2, 0]], a_pass(BatchData(rows, 3))[0][0])

    @pytest.mark.parametrize("wrap", [DataFromList, DataFromIterable])
    def test_a_table_is_refused(self, wrap):
        """A table indexed by column raises TypeError, which names DataFromTable."""
        with pytest.raises(TypeError, match=rf"{wrap.__name__}: expected .*, got Frame.*DataFromTable"):
            wrap(Frame())


class TestByIteration:
    @pytest.mark.parametrize(
        "make",
        [lambda: DataFromIterable(Loader()), lambda: DataFromGenerator(Loader), lambda: BatchData(DataFromIterable(Loader()), 2)],
    )  # fmt: skip
    def test_resume(self, make):
        """After a cut, the iterable is replayed from the beginning of the pass, and yields the datapoints that were due."""
        check_cuts(make, num=18)

    def test_level(self):
        """The report of resume says that an iterable is replayed, and that a running generator cannot be."""
        levels = [
            restored(lambda s=s: DataFromIterable(s), None).resume_report()[0].level for s in (Loader(), iter([1]))
        ]
        assert ["replay", "none"] == levels


class TestDataFromTable:
    def test_components(self):
        """A name is one component, and a list of names an array of their values."""
        both, label = a_pass(DataFromTable(columns(), [["a", "b"], "label"], shuffle=False))[3]
        np.testing.assert_array_equal([3, -3], both)
        assert 3 == label

    def test_one_name(self):
        """A string is the name of one column."""
        assert [[0], [1], [2], [3], [4]] == a_pass(DataFromTable(columns(), "label", shuffle=False))

    @pytest.mark.parametrize("kind", [int, np.int64])
    def test_integers_as_names(self, kind):
        """Integers are names of columns, as in a DataFrame without a header, alone, in the list and in a group."""
        table = {kind(number): np.arange(3) + 10 * number for number in range(3)}
        both, last = a_pass(DataFromTable(table, [[kind(0), kind(1)], kind(2)], shuffle=False))[1]
        np.testing.assert_array_equal([1, 11], both)
        assert 21 == last
        assert [[10], [11], [12]] == a_pass(DataFromTable(table, kind(1), shuffle=False))
        with pytest.raises(KeyError, match="no column 7"):
            DataFromTable(table, [7])

    @pytest.mark.parametrize(
        ("table", "names", "error", "text"),
        [
            (columns(), ["c"], KeyError, "no column 'c'"),
            (columns(), [["a", "c"]], KeyError, "no column 'c'"),
            (columns(), [], ValueError, "columns is empty"),
            ({"a": [1], "b": [1, 2]}, ["a", "b"], ValueError, "different lengths: {'a': 1, 'b': 2}"),
            ({"a": [1], "b": [1, 2]}, [["a", "b"]], ValueError, "different lengths: {'a': 1, 'b': 2}"),
            (
                [[1]],
                ["a"],
                TypeError,
                "expected a table with named columns, got list. For rows, use DataFromList",
            ),
            (3, ["a"], TypeError, "expected a table with named columns, got int"),
        ],
    )
    def test_mistakes(self, table, names, error, text):
        """A missing column, no column, columns of different lengths and other objects raise clear errors."""
        with pytest.raises(error, match=text):
            DataFromTable(table, names)

    def test_without_pyarrow(self, monkeypatch):
        """Without pyarrow, the path of a Parquet file raises ImportError with the command that installs it."""
        monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
        monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
        with pytest.raises(
            ImportError, match=r'DataFromTable: needs pyarrow.*pip install "tensorpack_lite\[parquet\]"'
        ):
            DataFromTable("a.parquet", ["a"])


class TestInstalled:
    """The libraries themselves."""

    def test_torch(self):
        """A PyTorch Dataset continues by index, its tensors are batched as arrays, and a DataLoader is replayed."""
        torch = importorskip("torch", "utils.data")
        data = torch.utils.data.TensorDataset(torch.arange(14.0).reshape(7, 2), torch.arange(7))
        x, y = a_pass(BatchData(DataFromList(data, shuffle=False), 3))[1]
        np.testing.assert_array_equal([[6, 7], [8, 9], [10, 11]], x)
        assert (np.ndarray, np.float32, np.int64) == (type(x), x.dtype, y.dtype)
        check_cuts(lambda: DataFromList(data), num=18)
        check_cuts(lambda: DataFromIterable(torch.utils.data.DataLoader(data, 3)), num=8)

    def test_training_with_a_loader(self):
        """The tensors of a DataLoader reach the model: two steps on threes end at 2.25."""
        torch = importorskip("torch", "utils.data")
        pytest.importorskip("tensorflow")
        from fakes.models import FinalW, Mean

        from tensorpack_lite.compat import tfv1 as tf
        from tensorpack_lite.input_source import FeedInput, QueueInput
        from tensorpack_lite.train import SimpleTrainer, TrainConfig, launch_train_with_config

        data = torch.utils.data.TensorDataset(torch.full((8,), 3.0))
        for source in (FeedInput, QueueInput):
            read = FinalW()
            loader = DataFromIterable(torch.utils.data.DataLoader(data, 4))
            with tf.Graph().as_default():
                config = TrainConfig(model=Mean(), data=source(loader), callbacks=[read], monitors=[], max_epoch=1)
                launch_train_with_config(config, SimpleTrainer())
            assert 2.25 == read.w

    def test_a_shuffled_loader(self):
        """A shuffling DataLoader whose generator has a fixed seed is exact. With torch's global generator, it is not."""
        torch = importorskip("torch", "utils.data")
        data = torch.utils.data.TensorDataset(torch.arange(100))

        def load(generator=None):
            return torch.utils.data.DataLoader(data, 10, shuffle=True, generator=generator)

        check_cuts(lambda: DataFromGenerator(lambda: load(torch.Generator().manual_seed(1))), num=12)
        with pytest.raises(AssertionError, match="after"):
            check_cuts(lambda: DataFromIterable(load()), num=12, cuts=[3])

    def test_hugging_face(self):
        """A Dataset continues by index, in arrays after `with_format`, and an IterableDataset is replayed."""
        datasets = pytest.importorskip("datasets")
        data = datasets.Dataset.from_dict({"x": [[k, -k] for k in range(7)], "y": list(range(7))})
        batch = a_pass(BatchData(DataFromList(data.with_format("numpy"), shuffle=False), 3))[1]
        np.testing.assert_array_equal([[3, -3], [4, -4], [5, -5]], batch["x"])
        check_cuts(lambda: DataFromList(data), num=18)
        check_cuts(lambda: DataFromIterable(data.to_iterable_dataset().shuffle(seed=1)), num=10)

    def test_pandas_and_arrow(self, tmp_path):
        """A DataFrame, an Arrow table and a Parquet file yield the same rows, and a DataFrame is refused elsewhere."""
        pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        frame = pandas.DataFrame({"a": [1.0, 2.0, 3.0], "name": ["x", "y", "z"], "unused": [0, 0, 0]})
        table = pyarrow.table(frame)
        parquet.write_table(table, str(tmp_path / "a.parquet"))
        for source in (frame, table, tmp_path / "a.parquet"):
            assert [[1, "x"], [2, "y"], [3, "z"]] == a_pass(DataFromTable(source, ["a", "name"], False))
            check_cuts(lambda source=source: DataFromTable(source, ["a", "name"]), num=9)
            with pytest.raises(KeyError, match="DataFromTable: the table has no column 'b'"):
                DataFromTable(source, ["b"])
        (tmp_path / "damaged.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:-9])
        with pytest.raises(DamagedFileError, match=r"damaged.parquet cannot be read as a Parquet file"):
            DataFromTable(tmp_path / "damaged.parquet", ["a"])
        with pytest.raises(FileNotFoundError):
            DataFromTable(tmp_path / "missing.parquet", ["a"])
        for wrap, source in itertools.product([DataFromList, DataFromIterable], [frame, table]):
            with pytest.raises(TypeError, match="DataFromTable"):
                wrap(source)

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # it closes no shard of a cut pass
    def test_webdataset(self, tmp_path):
        """The shards of a WebDataset are read in order and replayed."""
        webdataset = pytest.importorskip("webdataset")
        for shard in range(2):
            with tarfile.open(str(tmp_path / f"shard-{shard}.tar"), "w") as tar:
                for k in range(3):
                    name = tarfile.TarInfo(f"{k:03}.cls")
                    text = str(3 * shard + k).encode()
                    name.size = len(text)
                    tar.addfile(name, io.BytesIO(text))
        url = str(tmp_path / "shard-{0..1}.tar")
        shards = webdataset.WebDataset(url, shardshuffle=False).decode().to_tuple("cls")
        assert [0, 1, 2, 3, 4, 5] == [label for (label,) in a_pass(DataFromIterable(shards))]
        check_cuts(lambda: DataFromIterable(shards), num=14)

    def test_keras(self):
        """The batches of a Keras Sequence or PyDataset are datapoints, by index."""
        keras = pytest.importorskip("keras")
        base = getattr(keras.utils, "PyDataset", None) or keras.utils.Sequence
        data = type("Data", (Batches, base), {})()
        assert [0, 1, 2, 3, 4, 5, 6] == [y[0] for _, y in a_pass(DataFromList(data, shuffle=False))]
        check_cuts(lambda: DataFromList(data), num=9)
