"""`tensorpack-lite run`: a script runs as in plain Python, but imports TensorFlow 1 and tensorpack."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import pytest
from tf1.command import PACKAGES, STARTUP, python, run, without_first_line

from tensorpack_lite import cli


class TestAsInPlainPython:
    """A script that imports neither library notices no difference."""

    SCRIPT = """
        import json, sys
        import helper
        print(json.dumps([sys.argv, sys.path[0], __name__, __file__, __spec__ is None, helper.__file__]))
        """

    @pytest.mark.slow
    def test_arguments_and_folder(self, write, tmp_path):
        """`sys.argv`, `sys.path`, `__main__` and the modules in the script's directory are those of plain Python."""
        write("project/train.py", self.SCRIPT)
        write("project/helper.py", "")
        options = ("project/train.py", "--check", "-m", "--gpu", "0", "--", "-x")
        expected = python(*options, cwd=tmp_path)
        assert expected.stdout
        assert expected.stdout == run(*options, cwd=tmp_path).stdout

    @pytest.mark.slow
    def test_module(self, write, tmp_path):
        """`-m` runs a module as Python does."""
        write("project/__init__.py", "")
        write("project/train.py", "import sys; print(sys.argv, __name__, __package__, __spec__.name)")
        expected = python("-m", "project.train", "--lr", "1", cwd=tmp_path)
        assert "project.train" in expected.stdout
        assert expected.stdout == run("-m", "project.train", "--lr", "1", cwd=tmp_path).stdout

    @pytest.mark.slow
    def test_traceback(self, write, tmp_path):
        """The traceback of an error is the same, also through imports and for chained errors."""
        write("train.py", "import helper\n")
        write(
            "helper.py",
            """
            try:
                import json.nothing
            except ImportError as error:
                raise RuntimeError("chained") from error
            """,
        )
        expected = python("train.py", cwd=tmp_path)
        actual = run("train.py", cwd=tmp_path)
        assert "json.nothing" in expected.stderr
        assert "chained" in expected.stderr
        assert expected.stderr == without_first_line(actual.stderr)
        assert actual.returncode == 1

    @pytest.mark.slow
    def test_handled_errors_and_warnings(self, write, tmp_path):
        """Tracebacks that a script or a thread prints, and warnings about the importing line, show no other lines either."""
        write("helper.py", "import warnings\nwarnings.warn('old', stacklevel=2)\n")
        write("broken.py", "1 / 0\n")
        write(
            "train.py",
            """
            import threading, traceback
            import helper
            try:
                import broken
            except ZeroDivisionError:
                traceback.print_exc()
            thread = threading.Thread(target=lambda: __import__("json") and exec("import broken"))
            thread.start()
            thread.join()
            """,
        )
        expected = python("train.py", cwd=tmp_path).stderr
        assert "train.py:3: UserWarning: old" in expected
        assert 2 == expected.count("ZeroDivisionError: ")
        assert expected == without_first_line(run("train.py", cwd=tmp_path).stderr)

    @pytest.mark.parametrize(
        ("statement", "code"),
        [("sys.exit(3)", 3), ("sys.exit('bye')", 1), ("os.kill(os.getpid(), 9)", -9), ("pass", 0)],
    )
    def test_exit_code(self, write, tmp_path, statement, code):
        """The exit code is that of the script, also when a signal ends it."""
        write("train.py", f"import os, sys\n{statement}\n")
        assert code == run("train.py", cwd=tmp_path).returncode

    def test_signal(self, write, tmp_path):
        """A signal to the command's process reaches the script."""
        write(
            "train.py",
            """
            import signal, sys, time
            signal.signal(signal.SIGTERM, lambda *args: sys.exit(7))
            open("ready", "w").close()
            time.sleep(60)
            """,
        )
        command = [sys.executable, "-m", "tensorpack_lite", "run", "train.py"]
        process = subprocess.Popen(command, cwd=tmp_path, env=dict(os.environ, PYTHONPATH=PACKAGES))
        deadline = time.monotonic() + 60
        while not (tmp_path / "ready").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 7

    @pytest.mark.slow
    def test_other_sitecustomize(self, write, tmp_path):
        """The `sitecustomize` that Python would have imported is still imported."""
        write("mine/sitecustomize.py", "import sys; sys.mine = True")
        write("train.py", "import sys, sitecustomize; print(sys.mine, sitecustomize.__file__)")
        result = run("train.py", cwd=tmp_path, path=[tmp_path / "mine", PACKAGES])
        assert result.stdout == f"True {tmp_path / 'mine' / 'sitecustomize.py'}\n"

    @pytest.mark.nightly
    @pytest.mark.slow
    def test_folder_and_stdin(self, write, tmp_path):
        """A folder runs its `__main__.py`, and `-` runs what comes from stdin."""
        write("project/__main__.py", "import tensorflow as tf; print(tf.placeholder.__name__)")
        result = run("project", cwd=tmp_path)
        assert result.stdout == "placeholder\n", result.stderr
        output = subprocess.check_output(
            [sys.executable, "-m", "tensorpack_lite", "run", "-", "--gpu", "0"],
            cwd=tmp_path,
            env=dict(os.environ, PYTHONPATH=PACKAGES),
            input="import sys; print(sys.argv)",
            universal_newlines=True,
        )
        assert output == "['-', '--gpu', '0']\n"

    @pytest.mark.slow
    def test_interrupt(self, write, tmp_path):
        """SIGINT ends the script with KeyboardInterrupt and the exit code of plain Python."""
        script = [
            "import os, signal",
            "signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores SIGINT",
            "os.kill(os.getpid(), signal.SIGINT)",
            "while True: pass",
        ]
        write("train.py", "\n".join(script))
        expected = python("train.py", cwd=tmp_path)
        actual = run("train.py", cwd=tmp_path)
        assert "KeyboardInterrupt" in expected.stderr
        assert expected.stderr == without_first_line(actual.stderr)
        assert expected.returncode == actual.returncode

    @pytest.mark.slow
    def test_options_of_the_script(self, write, tmp_path):
        """Options after the script or module are its own, `--` included; `-mMODULE` is `-m MODULE`."""
        write("argv.py", "import sys; print(sys.argv[1:])")
        for program in (["argv.py"], ["-m", "argv"], ["-margv"]):
            arguments = [*program, "a", "--", "--help", "--cpu-layout", "x"]
            expected = python(*arguments, cwd=tmp_path)
            assert expected.stdout == "['a', '--', '--help', '--cpu-layout', 'x']\n"
            assert expected.stdout == run("--cpu-layout", "off", *arguments, cwd=tmp_path).stdout
        assert run("--", "argv.py", cwd=tmp_path).stdout == "[]\n"

    @pytest.mark.parametrize(("prefix", "found"), [(sys.prefix, "True\n"), ("/another", "False\n")])
    def test_another_python(self, write, tmp_path, prefix, found):
        """A child process of another installation of Python is left alone."""
        write("train.py", "import builtins; print(type(builtins.__import__).__name__ == '_Importer')")
        environment = {"TENSORPACK_LITE_RUN": "1", "TENSORPACK_LITE_PREFIX": prefix}
        assert found == python("train.py", cwd=tmp_path, path=[STARTUP], **environment).stdout

    def test_missing_script(self, tmp_path, capsys, monkeypatch):
        """A script that does not exist is an error of one line."""
        monkeypatch.chdir(tmp_path)
        assert cli.main(["run", "nothing.py"]) == 2
        assert "nothing.py does not exist" in capsys.readouterr().err
        assert cli.main(["run"]) == 2
        assert "expected a script" in capsys.readouterr().err

    @pytest.mark.slow
    @pytest.mark.parametrize("flag", ["-E", "-I"])
    def test_ignored_environment(self, write, tmp_path, flag):
        """Python that ignores PYTHONPATH cannot run a script, and the error names the reason."""
        write("train.py", "")
        start = f"import sys; sys.path.append({PACKAGES!r}); from tensorpack_lite import cli; "
        result = python(flag, "-c", start + "sys.exit(cli.main(['run', 'train.py']))", cwd=tmp_path)
        assert "python -E and -I ignore PYTHONPATH" in result.stderr
        assert result.returncode == 2


class TestTensorpack:
    """`tensorpack` is tensorpack_lite."""

    @pytest.mark.slow
    def test_same_modules(self, write, tmp_path):
        """Its modules are the same objects, their specs are unchanged, and TensorFlow is not imported for data."""
        write(
            "train.py",
            """
            import sys
            import tensorpack, tensorpack.dataflow.common as common
            from tensorpack.utils import logger
            from tensorpack.dataflow import BatchData
            import tensorpack_lite as lite
            assert tensorpack is lite and sys.modules["tensorpack"] is lite
            assert common is lite.dataflow.common and logger is lite.utils.logger
            assert lite.__spec__.name == "tensorpack_lite", lite.__spec__
            assert common.__spec__.name == "tensorpack_lite.dataflow.common"
            assert "tensorflow" not in sys.modules
            print("done")
            """,
        )
        result = run("train.py", cwd=tmp_path)
        assert (result.stdout, result.returncode) == ("done\n", 0), result.stderr

    @pytest.mark.slow
    def test_a_copy_beside_the_script(self, write, tmp_path):
        """A copy of tensorpack in the script's folder is not used, and the first line warns about it."""
        write("tensorpack/__init__.py", "raise ImportError('the old one')")
        write("train.py", "import tensorpack; print(tensorpack.__name__)")
        result = run("train.py", cwd=tmp_path)
        assert result.stdout == "tensorpack_lite\n"
        assert "the installed tensorpack is not used" in result.stderr

    @pytest.mark.slow
    def test_spawned_processes_and_pickles(self, write, tmp_path):
        """Spawned processes, those of dataflows too, import `tensorpack`; pickles with its names can be loaded."""
        write(
            "train.py",
            """
            import multiprocessing as mp
            import pickle
            from tensorpack.dataflow import DataFromList, MultiProcessMapData

            def double(datapoint):
                import tensorpack
                assert tensorpack.__name__ == "tensorpack_lite"
                return [datapoint[0] * 2]

            if __name__ == "__main__":
                mp.set_start_method("spawn")
                with mp.Pool(1) as pool:
                    print(pool.map(double, [[1], [2]]))
                ds = MultiProcessMapData(DataFromList([[3]]), 1, double, buffer_size=1, strict=True)
                ds.reset_state()
                print(list(ds))
                old = pickle.dumps(DataFromList([[5]]), 0).replace(b"tensorpack_lite.", b"tensorpack.")
                assert b"tensorpack." in old
                loaded = pickle.loads(old)
                loaded.reset_state()
                print(list(loaded))
            """,
        )
        result = run("train.py", cwd=tmp_path)
        assert result.stdout == "[[2], [4]]\n[[6]]\n[[5]]\n", result.stderr

    @pytest.mark.slow
    def test_m(self, tmp_path):
        """`-m` runs a module of tensorpack, a package with `__main__`, and names a module that does not exist."""
        expected = python("-m", "tensorpack_lite.launch", "--help", cwd=tmp_path).stdout
        assert "Start the ranks" in expected
        assert expected == run("-m", "tensorpack.launch", "--help", cwd=tmp_path).stdout
        assert "tensorpack_lite" in run("-m", "tensorpack", "--version", cwd=tmp_path).stdout
        assert "No module named tensorpack.nothing" in run("-m", "tensorpack.nothing", cwd=tmp_path).stderr

    @pytest.mark.slow
    def test_missing_module(self, write, tmp_path):
        """The error for a module that does not exist names it as the script does."""
        write("train.py", "import tensorpack.nothing")
        result = run("train.py", cwd=tmp_path)
        assert result.returncode == 1
        assert re.search(r"ModuleNotFoundError: .*tensorpack\.nothing", result.stderr)
        assert "old_tensorpack" not in result.stderr


@pytest.mark.slow
def test_keras_is_imported_when_it_is_used(write, tmp_path):
    """`import tensorflow` does not import tf_keras, which takes a second; its layers and cells work."""
    script = """
        import sys
        import tensorflow as tf
        print([name for name in sys.modules if name.split(".")[0] in ("keras", "tf_keras")])
        y = tf.layers.dense(tf.placeholder(tf.float32, [None, 4]), 3)
        tf.nn.rnn_cell.GRUCell(4), tf.keras.layers.Dense
        print(y.shape.as_list())
        """
    write("train.py", script)
    result = run("train.py", cwd=tmp_path)
    assert "[]\n[None, 3]\n" == result.stdout, result.stderr


@pytest.mark.slow
@pytest.mark.any_tensorflow
def test_a_script_without_tensorflow(write, tmp_path):
    """The command imports neither NumPy nor TensorFlow before the script does, so that it starts in a fraction of a second."""
    write(
        "train.py",
        "import sys; print([name for name in ('numpy', 'tensorflow', 'psutil') if name in sys.modules])",
    )
    result = run("train.py", cwd=tmp_path)
    assert "[]\n" == result.stdout, result.stderr
