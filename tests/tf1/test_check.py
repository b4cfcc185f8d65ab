"""`tensorpack-lite run --check` lists missing names."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest
from tf1.command import run


class TestCheck:
    @pytest.mark.slow
    def test_report(self, write, tmp_path):
        """Each missing name has its file and line, in the script's own modules too; the script does not run."""
        write(
            "train.py",
            """
            import tensorflow as tf
            from tensorpack import *
            from tensorpack import TrainConfg
            from tensorpack.utils import nothing
            import package.model
            tf.train.AdamOptimizr
            tf.train.Saver.anything
            raise SystemExit("it ran")
            """,
        )
        write("package/__init__.py", "")
        write("package/model.py", "from . import parts\n")
        write("package/parts.py", "import tensorflow as t\nnn = t.nn\nnn.relu\nnn.conv\n")
        result = run("--check", "train.py", "--gpu", "0", cwd=tmp_path)
        lines = [line.split(": ")[:2] for line in result.stdout.splitlines()]
        assert lines == [
            ["package/parts.py:4", "tensorflow.nn.conv"],
            ["train.py:4", "tensorpack.TrainConfg"],
            ["train.py:5", "tensorpack.utils.nothing"],
            ["train.py:7", "tensorflow.train.AdamOptimizr"],
            ["train.py", "4 missing names"],
        ]
        assert result.returncode == 1
        assert "it ran" not in result.stderr

    @pytest.mark.slow
    def test_star_names(self, write, tmp_path):
        """A name that only a star import could give is reported if it does not exist or cannot be used."""
        write(
            "train.py",
            """
            from tensorpack import *
            import drawing, helpers

            change_gpu(0), symbolic_functions.accuracy, dftools
            QueueInputTrainerBase
            SimpleTrainr(), xrange(3), __file__

            def train(model, *args, **kwargs):
                try:
                    unicode, tqdm_notebook
                except NameError as error:
                    print(error, [i for i, _ in enumerate(args)], lambda other: other)
            """,
        )
        write("drawing.py", "from tensorpack import *\nfrom shapes import *\nrect(0), lut\n")
        write("shapes.py", "from boxes import *\n")
        write("boxes.py", "def rect(x):\n    return x\n")
        write("helpers.py", "from tensorpack import *\nfrom library import *\nfrom_library, PlasmaGetData\n")
        result = run("--check", "train.py", cwd=tmp_path)
        lines = [line.split(": ")[:2] for line in result.stdout.splitlines()[:-1]]
        assert lines == [
            ["drawing.py:3", "tensorpack.lut"],
            ["helpers.py:3", "tensorpack.PlasmaGetData"],
            ["train.py:6", "tensorpack.QueueInputTrainerBase"],
            ["train.py:7", "tensorpack.SimpleTrainr"],
            ["train.py:7", "xrange"],
        ], result.stderr

    @pytest.mark.matrix
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("script", "message"),
        [("broken.py", "invalid syntax (broken.py, line 1)"), ("app.zip", "app.zip is a zip file")],
    )
    @pytest.mark.any_tensorflow
    def test_unreadable(self, write, tmp_path, script, message):
        """A script that cannot be read is an error of one line, with the exit code 2."""
        write("broken.py", "if if:\n")
        with zipfile.ZipFile(str(tmp_path / "app.zip"), "w") as archive:
            archive.writestr("__main__.py", "")
        result = run("--check", script, cwd=tmp_path)
        assert result.stderr.splitlines()[-1].startswith(f"tensorpack-lite run --check: {message}")
        assert result.returncode == 2

    @pytest.mark.nightly
    @pytest.mark.slow
    @pytest.mark.any_tensorflow
    def test_folder_and_package(self, write, tmp_path):
        """For a folder and for a package, the report is that of `__main__.py`."""
        write("package/__init__.py", "")
        write("package/__main__.py", "import tensorflow as tf\ntf.nothing\n")
        for arguments in (["package"], ["-m", "package"]):
            result = run("--check", *arguments, cwd=tmp_path)
            assert "__main__.py:2: tensorflow.nothing" in result.stdout, result.stderr

    @pytest.mark.slow
    @pytest.mark.any_tensorflow
    def test_no_false_reports(self, write, tmp_path):
        """Other values with the name of a module, and names that the script tests itself, are not reported."""
        write(
            "train.py",
            """
            import tensorflow as tf
            from tensorpack import dataset
            try:
                from tensorflow.nothing import x
                tf.nothing_else
            except ImportError:
                import optional
            try:
                tf.nothing_tried
            except (KeyError, AttributeError):
                pass
            if hasattr(tf, "nothing_tested"):
                tf.nothing_tested.below
            relu = tf.nn.nothing_got if getattr(tf.nn, "nothing_got", None) else tf.nn.relu
            getattr(tf, "nothing" + relu)
            def first(dataset, *, train):
                dataset.reset_state(), train.nothing
            def second(tf1=tf):
                image = tf.image
                for image in []:
                    image.shape
                tf.mine = 1
            """,
        )
        write("optional.py", "print(if")
        result = run("--check", str(tmp_path / "train.py"), cwd=tmp_path)
        first, last = result.stdout.splitlines()
        assert first.startswith("optional.py:1: SyntaxError: ")
        assert last.endswith("train.py: 1 missing name")

    @pytest.mark.slow
    @pytest.mark.any_tensorflow
    def test_names_of_the_script(self, write, tmp_path):
        """A module of the script with the name of one of tensorpack, and names that it tests by other means, are not reported."""
        write(
            "train.py",
            """
            import tensorflow as tf
            from tensorpack.dataflow import dataset
            from dataset import Mine
            if "nothing_listed" in dir(tf):
                tf.nothing_listed
            try:
                tf.concat
            except AttributeError:
                tf.nothing_else
            dataset.Mnist
            """,
        )
        write("dataset.py", "Mine = 1\n")
        result = run("--check", "train.py", cwd=tmp_path)
        assert (result.stdout, result.returncode) == ("train.py: 0 missing names\n", 0), result.stderr

    @pytest.mark.slow
    def test_removed_names(self, write, tmp_path):
        """Names that other libraries have removed, and Python 2, are listed with what `run` does; they do not count as missing."""
        write(
            "train.py",
            """
            import numpy as np
            import cPickle, yaml
            import model
            from sklearn.externals import joblib
            a = np.asscalar(np.zeros(1))
            np.product, np.dot
            {}.iteritems(), xrange(2), open("a", "rU")
            """,
        )
        write("model.py", "print np.float\n")
        result = run("--check", "train.py", cwd=tmp_path)
        lines = [line.split(": ")[:2] for line in result.stdout.splitlines()]
        for line in (
            ["model.py:1", "Python 2"],
            ["train.py:3", "cPickle"],
            ["train.py:8", ".iteritems"],
            ["train.py:8", "xrange"],
        ):
            assert line in lines
        assert "train.py:3: cPickle: the module cPickle was removed. Under run, it is pickle." in result.stdout
        assert (["train.py:6", "numpy.asscalar"] in lines) == (not hasattr(np, "asscalar"))
        assert "np.dot" not in result.stdout
        assert lines[-1][1].startswith("0 missing names, ")
        assert result.returncode == 0, result.stderr

    @pytest.mark.slow
    def test_calls(self, write, tmp_path):
        """Calls whose arguments have changed are listed, whether their libraries are installed or not; other calls are not."""
        write(
            "train.py",
            """
            import numpy as np, pyarrow, yaml
            from yaml import load_all as read
            np.fromstring(b"a", np.uint8), np.fromstring("1 2", sep=" ")
            yaml.load("a"), read("a"), yaml.load("a", Loader=yaml.FullLoader)
            pyarrow.serialize(3)
            weights = np.load("weights.npy")
            weights.item(), np.load("w.npy", encoding="latin1"), np.load("w.npy")[()]
            images = np.load("images.npy")
            np.load("w.npy", allow_pickle=True).item(), np.load("a.npz")["a"], images
            {}.keys() + [1], range(2) + [3], len(map(str, [])), [].sort(max)
            """,
        )
        result = run("--check", "train.py", cwd=tmp_path)
        lines = [":".join(line.split(":")[1:3]) for line in result.stdout.splitlines()]
        bytes_are_removed = tuple(int(part) for part in np.__version__.split(".")[:2]) >= (2, 3)
        assert lines[:-1] == [
            *["4: numpy.fromstring"] * bytes_are_removed,
            "5: yaml.load",
            "5: yaml.load_all",
            "6: pyarrow.serialize",
            "7: numpy.load",
            "8: numpy.load",
            "11: .keys()",
            "11: map()",
            "11: range()",
            "11: sort(cmp)",
        ]
        assert result.returncode == 1

    @pytest.mark.slow
    def test_other_meanings(self, write, tmp_path):
        """Code that a module runs only as a program, functions such as np.sort, and old submodules of Keras are not listed."""
        write(
            "train.py",
            """
            import keras, model, numpy as np
            from keras.layers.merge import Concatenate, Nothing
            from tensorflow.python.pywrap_tensorflow import NewCheckpointReader, NothingElse
            order = np.argsort(np.zeros(2))
            np.sort(order)
            keras.engine.topology.Layer, keras.layers.recurrent.NothingHere
            """,
        )
        write(
            "model.py",
            """
            import tensorflow as tf
            tf.nothing_there
            if __name__ == "__main__":
                from tensorpack import nothing
                tf.nothing_at_all
            """,
        )
        result = run("--check", "train.py", cwd=tmp_path)
        lines = [line.split(": ")[:2] for line in result.stdout.splitlines() if "Under run" not in line]
        assert lines[:-1] == [
            ["model.py:3", "tensorflow.nothing_there"],
            ["train.py:3", "keras.layers.merge.Nothing"],
            ["train.py:4", "tensorflow.python.pywrap_tensorflow.NothingElse"],
            ["train.py:7", "keras.layers.recurrent.NothingHere"],
        ], result.stderr
        assert lines[-1][1].startswith("4 missing names")

    @pytest.mark.slow
    def test_names_that_nothing_provides(self, write, tmp_path):
        """A name that NumPy never had, and one of tensorpack whose import raises an error, are missing."""
        write(
            "train.py",
            "import numpy as np\nfrom tensorpack.utils.loadcaffe import get_caffe_pb\nnp.nonsense\n",
        )
        result = run("--check", "train.py", cwd=tmp_path)
        lines = [line.split(": ")[:2] for line in result.stdout.splitlines()]
        assert lines == [
            ["train.py:2", "tensorpack.utils.loadcaffe.get_caffe_pb"],
            ["train.py:3", "numpy.nonsense"],
            ["train.py", "2 missing names"],
        ]
        assert result.returncode == 1

    @pytest.mark.nightly
    @pytest.mark.slow
    @pytest.mark.any_tensorflow
    def test_nothing_missing(self, write, tmp_path):
        """The exit code is 0 if no name is missing; a module is named by `-m`."""
        write("train.py", "import tensorflow as tf\ntf.train.Saver\ntf.nn.static_rnn\n")
        result = run("--check", "-m", "train", cwd=tmp_path)
        assert (result.stdout, result.returncode) == ("train.py: 0 missing names\n", 0), result.stderr
