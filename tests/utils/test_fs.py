"""Directories, paths, downloads (from file:// and from a server in this process)."""

from __future__ import annotations

import hashlib
import http.server
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from tensorpack_lite.utils import fs
from tensorpack_lite.utils.argtools import log_once
from tensorpack_lite.utils.fs import download, get_dataset_path, mkdir_p, normpath, recursive_walk, write_npz

CONTENT = b"some data\n" * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
MD5 = hashlib.md5(CONTENT).hexdigest()


@pytest.fixture
def source(tmp_path):
    """A file on the "internet"."""
    path = tmp_path / "internet" / "data.bin"
    path.parent.mkdir()
    path.write_bytes(CONTENT)
    return path


@pytest.fixture
def target(tmp_path):
    return str(tmp_path / "new" / "directory")


class TestMkdirP:
    def test_makes_parents(self, tmp_path):
        """All that is missing is made; a second time nothing happens."""
        path = str(tmp_path / "a" / "b")
        mkdir_p(path)
        mkdir_p(path)

        assert os.path.isdir(path)

    def test_empty_is_nothing(self):
        """The directory of a bare file name is the empty string."""
        mkdir_p("")

    def test_path_objects(self, tmp_path):
        """pathlib's paths are paths."""
        mkdir_p(tmp_path / "a")

        assert (tmp_path / "a").is_dir()

    def test_none(self):
        """None is no path."""
        with pytest.raises(TypeError, match="mkdir_p: takes a path, got NoneType"):
            mkdir_p(None)

    def test_a_file_is_in_the_way(self, source):
        """A file of that name is the operating system's error."""
        with pytest.raises(FileExistsError):
            mkdir_p(str(source))


class TestDownload:
    def test_gets_the_file(self, source, target):
        """The path is returned; name by the URL; nothing else is left in the directory."""
        path = download(source.as_uri(), target)

        assert os.path.join(target, "data.bin") == path
        assert Path(path).read_bytes() == CONTENT
        assert ["data.bin"] == os.listdir(target)

    def test_filename(self, source, target):
        """Another name can be given."""
        assert ["other"] == os.listdir(os.path.dirname(download(source.as_uri(), target, filename="other")))

    @pytest.mark.parametrize(
        "checks",
        [
            {"sha256": SHA256},
            {"md5": MD5.upper()},
            {"sha256": SHA256, "md5": MD5, "expect_size": len(CONTENT)},
        ],
    )
    def test_right_checksums(self, source, target, checks):
        """A file that agrees is kept, the second time without a download."""
        download(source.as_uri(), target, **checks)
        source.unlink()

        assert Path(download(source.as_uri(), target, **checks)).read_bytes() == CONTENT

    @pytest.mark.parametrize("algorithm", ["sha256", "md5"])
    def test_wrong_checksum(self, source, target, algorithm):
        """The wrong file is thrown away, and the error names both checksums."""
        got = {"sha256": SHA256, "md5": MD5}[algorithm]
        with pytest.raises(
            OSError, match=f"file whose {algorithm} is {got}, wanted 0123. It was thrown away"
        ):
            download(source.as_uri(), target, **{algorithm: "0123"})

        assert [] == os.listdir(target)

    def test_a_broken_file_is_replaced(self, source, target):
        """A file with a wrong checksum, e.g. half a download, is downloaded again."""
        os.makedirs(target)
        (Path(target) / "data.bin").write_bytes(CONTENT[:50])

        assert Path(download(source.as_uri(), target, md5=MD5)).read_bytes() == CONTENT

    def test_a_failure_keeps_the_old_file(self, source, target):
        """When the new download fails, what was there before is untouched."""
        os.makedirs(target)
        (Path(target) / "data.bin").write_bytes(b"old")
        with pytest.raises(OSError, match="wanted 0123"):
            download(source.as_uri(), target, sha256="0123")

        assert b"old" == (Path(target) / "data.bin").read_bytes()

    def test_nothing_expected_downloads_again(self, source, target):
        """Without a size or a checksum nothing says that the file is still right."""
        download(source.as_uri(), target)
        source.write_bytes(b"new")

        assert b"new" == Path(download(source.as_uri(), target)).read_bytes()

    def test_right_size_is_kept(self, source, target, capsys):
        """A file of the expected size is not downloaded again."""
        download(source.as_uri(), target, expect_size=len(CONTENT))
        source.unlink()
        download(source.as_uri(), target, expect_size=len(CONTENT))

        assert "File data.bin exists! Skip download." in capsys.readouterr().out

    def test_wrong_size_is_logged(self, source, target, capsys):
        """A size that is not the expected one is an error in the log, not an exception."""
        path = download(source.as_uri(), target, expect_size=5)

        assert os.path.isfile(path)
        assert "ERR download" in capsys.readouterr().out

    def test_missing(self, source, target):
        """What does not exist is an OSError that says where to put the file by hand."""
        with pytest.raises(
            OSError, match=r"download: cannot get file://.*missing.*put the file at .*directory/missing"
        ):
            download(source.as_uri().replace("data.bin", "missing"), target)
        assert [] == os.listdir(target)

    def test_empty(self, source, target):
        """An empty file is refused."""
        source.write_bytes(b"")
        with pytest.raises(OSError, match="gave an empty file"):
            download(source.as_uri(), target)
        assert [] == os.listdir(target)

    def test_offline(self, target):
        """No server: the same clear error."""
        with pytest.raises(
            OSError, match=r"cannot get http://127.0.0.1:1/x: .*Without network, put the file at"
        ):
            download("http://127.0.0.1:1/x", target)


class Handler(http.server.BaseHTTPRequestHandler):
    """/data.bin, /short (the connection breaks), and nothing else."""

    def do_GET(self):
        if self.path not in ("/data.bin", "/short"):
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT if self.path == "/data.bin" else CONTENT[:100])

    def log_message(self, *args):
        pass


class TestDownloadByHttp:
    @pytest.fixture
    def url(self, monkeypatch):
        monkeypatch.setenv("no_proxy", "*")
        server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
        server.server_close()

    def test_gets_the_file(self, url, target):
        """The same over HTTP."""
        assert Path(download(url + "/data.bin", target, sha256=SHA256)).read_bytes() == CONTENT

    def test_not_found(self, url, target):
        """The server's answer is in the error."""
        with pytest.raises(OSError, match="cannot get .*nothing: Not Found"):
            download(url + "/nothing", target)

    def test_a_broken_connection(self, url, target):
        """Half a file is an error, and leaves nothing."""
        with pytest.raises(OSError, match="cannot get .*short: .*ended after 100 of 10000 bytes"):
            download(url + "/short", target)
        assert [] == os.listdir(target)


class TestGetDatasetPath:
    def test_variable(self, tmp_path, monkeypatch):
        """Below $TENSORPACK_DATASET."""
        monkeypatch.setenv("TENSORPACK_DATASET", str(tmp_path))

        assert str(tmp_path / "mnist_data" / "x") == get_dataset_path("mnist_data", "x")

    def test_variable_is_not_a_directory(self, tmp_path, monkeypatch):
        """A directory that is named must exist."""
        monkeypatch.setenv("TENSORPACK_DATASET", str(tmp_path / "missing"))
        with pytest.raises(ValueError, match=r"\$TENSORPACK_DATASET is .*missing'.*not a directory. Make it"):
            get_dataset_path("mnist_data")

    def test_default(self, tmp_path, monkeypatch, capsys):
        """~/tensorpack_data is made, and mentioned once."""
        log_once.cache_clear()
        monkeypatch.delenv("TENSORPACK_DATASET", raising=False)
        monkeypatch.setenv("HOME", str(tmp_path))
        paths = [get_dataset_path("a"), get_dataset_path("a")]

        assert [str(tmp_path / "tensorpack_data" / "a")] * 2 == paths
        assert (tmp_path / "tensorpack_data").is_dir()
        assert 1 == capsys.readouterr().out.count("WRN $TENSORPACK_DATASET not set")


class TestPaths:
    def test_recursive_walk(self, tmp_path):
        """All files in all directories, in order."""
        for name in ("b/2", "b/1", "a/x/3", "c"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text("")

        assert [str(tmp_path / name) for name in ("c", "a/x/3", "b/1", "b/2")] == list(
            recursive_walk(str(tmp_path))
        )

    @pytest.mark.parametrize(
        ("path", "normal"),
        [("a//b/../c/", "a/c"), ("gs://bucket//a/../b", "gs://bucket//a/../b"), (".", ".")],
    )
    def test_normpath(self, path, normal):
        """Paths are normalised, URLs are not."""
        assert normal == normpath(path)


def test_network_errors_are_not_all_os_errors():
    """A full disk is not explained as a missing network."""
    assert OSError not in fs._NETWORK_ERRORS


@pytest.mark.parametrize("compress", [False, True])
def test_write_npz(tmp_path, compress):
    """NumPy reads the file; every name is possible, and a file that is open is written to."""
    arrays = {"file": np.arange(3), "allow_pickle": np.float32(1.5), "fc/W:0": np.zeros([2, 0])}
    path = tmp_path / "a.npz"
    write_npz(str(path), arrays, compress)
    with open(str(tmp_path / "b.npz"), "wb") as file:
        write_npz(file, arrays, compress)
    for written in (path, tmp_path / "b.npz"):
        with np.load(str(written)) as archive:
            assert set(arrays) == set(archive.files)
            for name, array in arrays.items():
                np.testing.assert_array_equal(array, archive[name])
