"""The TF1-style module for every TensorFlow, and the switch to graph mode."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from unittest import mock

import pytest

import tensorpack_lite
from tensorpack_lite import compat
from tensorpack_lite.compat import ensure_graph_mode, tfv1

HOME = os.path.dirname(os.path.dirname(os.path.abspath(tensorpack_lite.__file__)))


def python(code, *args):
    """Run code in a new interpreter, in which TensorFlow is unchanged. Return the finished process."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": HOME},
        text=True,
        timeout=120,
    )


class TestNames:
    def test_tfv1_is_tensorflows_own(self):
        """`tfv1` is TensorFlow's own module `compat.v1`, without a wrapper."""
        # `import tensorflow.compat.v1` creates another object with the same names
        theirs = compat.tensorflow.compat.v1
        assert (theirs.Session, theirs.get_variable) == (tfv1.Session, tfv1.get_variable)
        assert compat.tensorflow.TensorSpec is compat.TensorSpec

    def test_version_is_two_numbers(self):
        """`TF_VERSION` can be compared with a tuple."""
        assert [int(part) for part in tfv1.__version__.split(".")[:2]] == list(compat.TF_VERSION)
        assert compat.TF_VERSION >= (1, 15)

    @pytest.mark.parametrize(
        ("text", "expected"),
        [("1.15.5", (1, 15)), ("2.21.0-rc1", (2, 21)), ("2.9", (2, 9)), ("2.16.1+nv24.05", (2, 16))],
    )
    def test_every_form_of_version(self, text, expected):
        """The version of a release candidate or a vendor's build is parsed."""
        assert expected == compat._parse_version(text)

    def test_is_tfv2_is_about_the_switch(self):
        """`is_tfv2` follows TensorFlow's own switch."""
        with mock.patch.object(compat.private, "_tf2") as switch:
            for answer in (True, False):
                switch.enabled.return_value = answer
                assert answer is compat.is_tfv2()


class TestMinimumVersion:
    CODE = """
        import sys, tensorflow
        tensorflow.__version__ = sys.argv[1]
        import tensorpack_lite.compat
        print("IMPORTED")
    """

    @pytest.mark.slow
    def test_too_old(self):
        """Importing with a TensorFlow older than 1.15 raises an error with the command that installs a newer one."""
        process = python(self.CODE, "1.14.0")
        assert 0 != process.returncode
        last = process.stdout.strip().splitlines()[-1]
        assert last.startswith("ImportError: tensorpack_lite needs TensorFlow 1.15 or newer, got 1.14.0."), last
        assert 'pip install "tensorpack_lite[tf]"' in last

    @pytest.mark.slow
    def test_old_enough(self):
        """The oldest supported version is accepted."""
        process = python(self.CODE, "1.15.0")
        assert "IMPORTED" in process.stdout, process.stdout


class TestGarbage:
    @pytest.mark.slow
    @pytest.mark.parametrize("switch", ["enable", "disable"])
    def test_collections_are_as_before(self, switch):
        """The import has no full collection, freezes nothing, and keeps the collector's switch."""
        process = python(
            """
            import gc, sys
            getattr(gc, sys.argv[1])()
            full = []
            gc.callbacks.append(lambda phase, info: full.append(phase) if info["generation"] == 2 else None)
            import tensorpack_lite.compat
            assert gc.isenabled() == (sys.argv[1] == "enable")
            assert gc.get_freeze_count() == 0
            assert not full
            print("IMPORTED")
            """,
            switch,
        )
        assert process.stdout.splitlines()[-1:] == ["IMPORTED"], process.stdout


class TestKeras:
    @pytest.mark.slow
    def test_imported_at_its_first_use(self):
        """The library imports TensorFlow without Keras, and `tf.keras` still works, also in graph mode."""
        process = python(
            """
            import sys
            from tensorpack_lite.compat import TF_VERSION, ensure_graph_mode, tfv1 as tf
            assert not {"keras", "keras.src.optimizers", "sklearn"} & set(sys.modules)
            ensure_graph_mode()
            assert tf.keras.optimizers.Adam.__name__ == "Adam"
            if TF_VERSION >= (2,):
                from tensorflow.keras import layers
                import tensorflow
                assert layers.Dense and tensorflow.optimizers.Adam and sys.modules["keras.src.optimizers"]
            print("USED")
            """
        )
        assert process.stdout.splitlines()[-1:] == ["USED"], process.stdout

    @pytest.mark.slow
    def test_of_a_script_that_imports_tensorflow_first(self):
        """If TensorFlow is imported first, Keras and the objects of the script are not touched."""
        process = python(
            """
            import gc, sys, tensorflow
            before = gc.get_freeze_count(), sys.modules.get("keras.src.optimizers", "no Keras")
            import tensorpack_lite.compat
            assert before == (gc.get_freeze_count(), sys.modules.get("keras.src.optimizers", "no Keras"))
            print("KEPT")
            """
        )
        assert process.stdout.splitlines()[-1:] == ["KEPT"], process.stdout


class TestGraphMode:
    @pytest.mark.slow
    def test_import_switches_nothing(self):
        """Importing the library does not change TensorFlow; the first entry point that builds a graph does."""
        process = python(
            """
            import os
            import tensorflow as tf
            before = (tf.compat.v1.executing_eagerly(), dict(os.environ))
            import tensorpack_lite
            assert before == (tf.compat.v1.executing_eagerly(), dict(os.environ))
            tensorpack_lite.compat.ensure_graph_mode()
            assert not tf.compat.v1.executing_eagerly()
            print("SWITCHED")
            """
        )
        assert process.stdout.splitlines()[-1:] == ["SWITCHED"], process.stdout

    @pytest.mark.slow
    def test_after_eager_work_and_in_threads(self):
        """Graph mode can be entered after eager computation, and from another thread."""
        process = python(
            """
            import threading
            from tensorpack_lite.compat import ensure_graph_mode, is_tfv2, tfv1 as tf
            if is_tfv2():
                assert 3 == int(tf.add(1, 2))
            answers = []
            def work():
                ensure_graph_mode()
                answers.append(tf.executing_eagerly())
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            ensure_graph_mode()
            answers.append(tf.executing_eagerly())
            print(answers, tf.placeholder(tf.float32, name="x").name)
            """
        )
        assert process.stdout.splitlines()[-1:] == ["[False, False] x:0"], process.stdout

    def test_inside_a_graph_nothing_is_touched(self):
        """Inside a graph, nothing is switched."""
        with mock.patch.object(tfv1, "disable_eager_execution") as switch:
            ensure_graph_mode()
        switch.assert_not_called()

    @pytest.mark.parametrize("failure", [ValueError("must be called at program startup"), None])
    def test_too_late(self, failure):
        """If eager execution cannot be disabled, the error has the two lines that the script needs."""
        eager = mock.patch.object(tfv1, "executing_eagerly", return_value=True)
        switch = mock.patch.object(tfv1, "disable_eager_execution", side_effect=failure)
        with eager, switch, pytest.raises(RuntimeError, match="can no longer be disabled") as raised:
            ensure_graph_mode()
        lines = str(raised.value).splitlines()[-2:]
        assert ["from tensorpack_lite import tfv1", "tfv1.disable_eager_execution()"] == [
            line.strip() for line in lines
        ]
        assert failure is raised.value.__cause__
