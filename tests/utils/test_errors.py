"""Messages of errors, and the error for damaged files."""

from __future__ import annotations

import errno
import pickle
import zipfile
import zlib

import pytest

from tensorpack_lite.dataflow.raw import how_to_wrap
from tensorpack_lite.utils.checks import check_type
from tensorpack_lite.utils.errors import DamagedFileError, parsing, rebuild_error, type_error


class OwnError(Exception):
    """An error whose constructor takes two arguments."""

    def __init__(self, a, b):
        super().__init__(f"{a} and {b}")


class TestTypeError:
    def test_sentence(self):
        """The message has the caller, the expected type, the given type and the advice."""
        error = type_error("QueueInput", "a DataFlow", [1], "Wrap it.")

        assert isinstance(error, TypeError)
        assert "QueueInput: expected a DataFlow, got list. Wrap it." == str(error)

    def test_a_class(self):
        """A class in the place of its object is named, with the call that creates the object; a built-in class is only named."""
        error = type_error("f", "an error", OwnError)
        assert "f: expected an error, got the class OwnError; write OwnError()." == str(error)
        assert "f: expected a path, got the class str." == str(type_error("f", "a path", str))

    def test_an_object_of_keras(self):
        """The type of an object of Keras is named with its module, because the library has classes of the same names."""
        stopping = type("EarlyStopping", (), {"__module__": "keras.src.callbacks"})()
        error = type_error("f", "a Callback", stopping)
        assert "f: expected a Callback, got keras.src.callbacks.EarlyStopping." == str(error)

    @pytest.mark.parametrize("package", ["keras", "tf_keras", "tensorflow.python.keras"])
    def test_a_model_of_keras(self, package):
        """For a Keras model, also for one of a class of the user, the error names what trains it, wherever it was passed."""
        base = type("Model", (), {"__module__": f"{package}.engine.training", "__call__": lambda self, x: x})
        model = type("Mine", (base,), {})()
        advice = "To train a Keras model, use tensorpack_lite.contrib.keras.KerasModel."
        assert str(type_error("f", "a Callback", model)).endswith(advice)
        assert advice == how_to_wrap(model)
        with pytest.raises(TypeError, match=advice):
            check_type("PredictConfig: model", model, int)


class TestRebuildError:
    @pytest.mark.parametrize("kind", [ValueError, RuntimeError, KeyError, AssertionError, ZeroDivisionError])
    def test_keeps_the_type_and_names_the_stage(self, kind):
        """The new error has the same type, and the stage before the text."""
        error = rebuild_error(kind("bad"), "MapData")

        assert type(error) is kind
        assert ("MapData: bad",) == error.args

    def test_without_text(self):
        """An error without a text gets the name of its type as its text."""
        assert "MapData: ValueError" == str(rebuild_error(ValueError(), "MapData"))

    @pytest.mark.parametrize(
        "error",
        [
            OSError(2, "no such file"),
            UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"),
            OwnError(1, 2),
            ValueError(3),
        ],
        ids=lambda error: type(error).__name__,
    )
    def test_other_errors_are_returned(self, error):
        """Errors with other arguments than one text are returned unchanged."""
        assert rebuild_error(error, "MapData") is error


class TestParsing:
    @pytest.mark.parametrize(
        "error",
        [
            IndexError("list index out of range"),
            KeyError("data"),
            MemoryError(),
            OverflowError("too large"),
            RecursionError("too deep"),
            OSError("Not a gzipped file"),
            OSError(errno.EINVAL, "Invalid argument"),
            ModuleNotFoundError("No module named 'nunpy'"),
            UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
            zipfile.BadZipFile("Bad CRC-32"),
            zlib.error("Error -3"),
        ],
        ids=lambda error: type(error).__name__,
    )
    def test_any_error_of_a_parser_becomes_one_type(self, error):
        """Any error of a parser becomes a DamagedFileError with the path and the type, and has the original as its cause."""
        name = type(error).__name__
        with pytest.raises(
            DamagedFileError,
            match=rf"^dir/x\.npz cannot be read as an npz file: .*\({name}\)\. Copy it again\.$",
        ) as info:
            with parsing("dir/x.npz", "an npz file", "Copy it again."):
                raise error
        assert info.value.__cause__ is error
        assert isinstance(info.value, ValueError)

    def test_the_reason_is_one_line(self):
        """Only the first line of a long message is used."""
        with pytest.raises(DamagedFileError) as info, parsing("f", "a table"):
            raise ValueError("row 3 is short:\n  1 2\n  3")
        assert "f cannot be read as a table: row 3 is short." == str(info.value)

    @pytest.mark.parametrize(
        "error",
        [
            FileNotFoundError(errno.ENOENT, "No such file"),
            PermissionError(errno.EACCES, "Permission denied"),
            OSError(errno.EIO, "Input/output error"),
            ImportError("HDF5Data: needs h5py"),
            DamagedFileError("record 3 is damaged"),
            KeyboardInterrupt(),
        ],
        ids=lambda error: type(error).__name__,
    )
    def test_other_errors_pass(self, error):
        """Errors of the file system, missing packages, Ctrl-C and a DamagedFileError are not changed."""
        with pytest.raises(type(error)) as info, parsing("f", "a table"):
            raise error
        assert info.value is error

    def test_pickle(self):
        """A pickled DamagedFileError keeps its type and text."""
        error = pickle.loads(pickle.dumps(DamagedFileError("f cannot be read")))
        assert (DamagedFileError, "f cannot be read") == (type(error), str(error))
