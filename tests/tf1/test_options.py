"""The options of `tensorpack-lite run` for machines without a GPU and for installed packages."""

from __future__ import annotations

import os

import pytest
from tf1.command import PACKAGES, run

from tensorpack_lite.compat import TF_VERSION
from tensorpack_lite.tf1.startup import sitecustomize
from tensorpack_lite.utils import gpu

NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}
HINT = "let it compute on the CPU: tensorpack-lite run --pretend-gpu train.py"


class TestHint:
    """A script that requires a GPU, on a machine without one."""

    @pytest.mark.slow
    @pytest.mark.parametrize("line", ["assert num_gpu > 0", "raise RuntimeError('no GPU')"])
    def test_errors_about_gpus(self, write, tmp_path, line):
        """An error whose line or message mentions GPUs ends with a hint."""
        write("train.py", f"num_gpu = 0\n{line}\n")
        result = run("train.py", cwd=tmp_path, **NO_GPU)
        assert result.returncode == 1
        assert HINT in result.stderr.splitlines()[-1]

    @pytest.mark.slow
    def test_other_errors(self, write, tmp_path):
        """Other errors, and exits, have no hint."""
        write("train.py", "raise ValueError('no')\n")
        assert HINT not in run("train.py", cwd=tmp_path, **NO_GPU).stderr
        write("train.py", "from GAN import MultiGPUGANTrainer\n")
        assert HINT not in run("train.py", cwd=tmp_path, **NO_GPU).stderr
        write("train.py", "import sys; sys.exit('gpu')\n")
        assert HINT not in run("train.py", cwd=tmp_path, **NO_GPU).stderr


class TestPretendGPU:
    SCRIPT = """
        import tensorflow as tf
        from tensorflow.python.client import device_lib
        from tensorpack.utils.gpu import get_num_gpu

        assert tf.test.is_gpu_available()
        assert get_num_gpu() == 2
        assert len([d for d in device_lib.list_local_devices() if d.device_type == "GPU"]) == 2
        with tf.device("/gpu:1"):
            x = tf.constant(1.0) + 1.0
        print(tf.Session().run(x), tf.Session(config=tf.ConfigProto(log_device_placement=False)).run(x))
        """

    @pytest.mark.slow
    def test_script(self, write, tmp_path):
        """With `--pretend-gpu=2`, a script counts two GPUs, and operations on them run on the CPU."""
        write("train.py", self.SCRIPT)
        result = run("--pretend-gpu=2", "train.py", cwd=tmp_path, **NO_GPU)
        assert "2.0 2.0" == result.stdout.strip(), result.stderr
        assert "it seems to have 2 GPUs" in result.stderr

    @pytest.mark.parametrize(("variable", "expected"), [("3", 3), ("", 0)])
    def test_number(self, monkeypatch, variable, expected):
        """`get_num_gpu` returns the number that was passed, whatever CUDA_VISIBLE_DEVICES is."""
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
        monkeypatch.setenv("TENSORPACK_LITE_PRETEND_GPU", variable)
        assert expected == gpu.get_num_gpu()

    def test_default_number(self, write, tmp_path):
        """`--pretend-gpu` without a number is one GPU; the script's name is not taken for the number."""
        write("train.py", "import os; print(os.environ['TENSORPACK_LITE_PRETEND_GPU'])")
        assert "1\n" == run("--pretend-gpu", "train.py", cwd=tmp_path).stdout

    @pytest.mark.slow
    def test_negative_number(self, write, tmp_path):
        """A negative number is an error."""
        write("train.py", "")
        assert "expected a number of GPUs, got -1" in run("--pretend-gpu=-1", "train.py", cwd=tmp_path).stderr


class TestPackages:
    """`--tf1-packages`"""

    @pytest.fixture
    def user_site(self, tmp_path):
        """A folder of installed packages, with the module `old_single` and the package `old_package`."""
        folder = tmp_path / "site-packages"
        (folder / "old_package").mkdir(parents=True)
        (folder / "old_package" / "__init__.py").write_text("from . import inner\n", encoding="utf-8")
        (folder / "old_package" / "inner.py").write_text("import tensorflow as tf\n", encoding="utf-8")
        (folder / "old_single.py").write_text("import tensorflow as tf\n", encoding="utf-8")
        return str(folder)

    def test_files(self, user_site, monkeypatch):
        """The files of these packages count as files of the script; those of others do not."""
        monkeypatch.syspath_prepend(user_site)
        monkeypatch.setenv("TENSORPACK_LITE_TF1_PACKAGES", "old_package,old_single")
        for cached in (sitecustomize.is_library_file, sitecustomize._tf1_packages):
            cached.cache_clear()
        try:
            files = ["old_package/inner.py", "old_package/__init__.py", "old_single.py", "old_package2/a.py"]
            found = [sitecustomize.is_library_file(os.path.join(user_site, *f.split("/"))) for f in files]
            assert [False, False, False, True] == found
        finally:
            for cached in (sitecustomize.is_library_file, sitecustomize._tf1_packages):
                cached.cache_clear()

    @pytest.mark.slow
    def test_missing_package(self, write, tmp_path):
        """A package that is not installed is an error."""
        write("train.py", "")
        result = run("--tf1-packages", "no_such_package", "train.py", cwd=tmp_path)
        assert "--tf1-packages: the package no_such_package is not installed." in result.stderr
        assert result.returncode == 2

    @pytest.mark.slow
    def test_script(self, user_site, write, tmp_path):
        """The package gets TensorFlow 1, and another package the real TensorFlow."""
        write(
            "train.py",
            """
            import old_package, old_single
            import tensorflow as tf
            print(old_package.inner.tf is tf, old_single.tf is tf, hasattr(tf, "mul"))
            """,
        )
        result = run("--tf1-packages", "old_package", "train.py", cwd=tmp_path, path=[PACKAGES, user_site])
        is_tf1 = TF_VERSION < (2, 0)  # there is only one module then
        assert f"True {is_tf1} True" == result.stdout.strip(), result.stderr
