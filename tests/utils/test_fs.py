"""Directories, paths, and downloads from files and from a server in this process."""

from __future__ import annotations

import hashlib
import http.server
import os
import threading
import time
from pathlib import Path

import pytest

from tensorpack_lite.utils.argtools import log_once
from tensorpack_lite.utils.fs import download, get_dataset_path, mkdir_p, normpath, recursive_walk

CONTENT = b"some data\n" * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
MD5 = hashlib.md5(CONTENT).hexdigest()


@pytest.fixture
def source(tmp_path):
    """A file to download."""
    path = tmp_path / "internet" / "data.bin"
    path.parent.mkdir()
    path.write_bytes(CONTENT)
    return path


@pytest.fixture
def target(tmp_path):
    return str(tmp_path / "new" / "directory")


class TestMkdirP:
    def test_creates_parents(self, tmp_path):
        """Missing parents are created. A second call does nothing."""
        path = str(tmp_path / "a" / "b")
        mkdir_p(path)
        mkdir_p(path)

        assert os.path.isdir(path)

    def test_empty_string(self):
        """The empty string, the directory of a bare file name, does nothing."""
        mkdir_p("")

    def test_none(self):
        """None raises a TypeError."""
        with pytest.raises(TypeError, match=r"mkdir_p: dirname has the wrong type \(expected a path, got NoneType\)"):
            mkdir_p(None)

    def test_a_file_is_in_the_way(self, source):
        """A file with that name raises a FileExistsError."""
        with pytest.raises(FileExistsError):
            mkdir_p(str(source))


class TestDownload:
    def test_downloads_a_file(self, source, target):
        """The file has the name of the URL, and the directory contains nothing else."""
        path = download(source.as_uri(), target)

        assert os.path.join(target, "data.bin") == path
        assert Path(path).read_bytes() == CONTENT
        assert ["data.bin"] == os.listdir(target)

    def test_filename(self, source, target):
        """`filename` replaces the name."""
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
        """A file with the right checksums is not downloaded again."""
        download(source.as_uri(), target, **checks)
        source.unlink()

        assert Path(download(source.as_uri(), target, **checks)).read_bytes() == CONTENT

    @pytest.mark.parametrize("algorithm", ["sha256", "md5"])
    def test_wrong_checksum(self, source, target, algorithm):
        """A wrong checksum raises an OSError with both checksums, and the file is removed."""
        got = {"sha256": SHA256, "md5": MD5}[algorithm]
        with pytest.raises(OSError, match=rf"has the wrong {algorithm} \(expected 0123, got {got}\) and was removed"):
            download(source.as_uri(), target, **{algorithm: "0123"})

        assert [] == os.listdir(target)

    def test_a_broken_file_is_replaced(self, source, target):
        """An existing file with a wrong checksum is downloaded again."""
        os.makedirs(target)
        (Path(target) / "data.bin").write_bytes(CONTENT[:50])

        assert Path(download(source.as_uri(), target, md5=MD5)).read_bytes() == CONTENT

    def test_a_failure_keeps_the_old_file(self, source, target):
        """If the download fails, an existing file is kept."""
        os.makedirs(target)
        (Path(target) / "data.bin").write_bytes(b"old")
        with pytest.raises(OSError, match="expected 0123"):
            download(source.as_uri(), target, sha256="0123")

        assert b"old" == (Path(target) / "data.bin").read_bytes()

    def test_without_checks(self, source, target):
        """Without a size or a checksum, an existing file is downloaded again."""
        download(source.as_uri(), target)
        source.write_bytes(b"new")

        assert b"new" == Path(download(source.as_uri(), target)).read_bytes()

    def test_right_size_is_kept(self, source, target, capsys):
        """A file of the expected size is not downloaded again."""
        download(source.as_uri(), target, expect_size=len(CONTENT))
        source.unlink()
        download(source.as_uri(), target, expect_size=len(CONTENT))

        assert "Skipping the download of data.bin, which exists." in capsys.readouterr().out

    def test_wrong_size_is_logged(self, source, target, capsys):
        """A wrong size is logged as an error and does not raise."""
        path = download(source.as_uri(), target, expect_size=5)

        assert os.path.isfile(path)
        assert "ERR download" in capsys.readouterr().out

    def test_abandoned_parts_are_removed(self, source, target):
        """An hour-old `.part` file of a killed download is removed, one of a running download is kept."""
        os.makedirs(target)
        for name, seconds in (("data.bin.1.part", 4000), ("data.bin.2.part", 60), ("other.1.part", 4000)):
            path = os.path.join(target, name)
            Path(path).write_bytes(CONTENT[:50])
            os.utime(path, (time.time() - seconds,) * 2)
        for _ in range(2):  # a call that downloads, and one that finds the file
            download(source.as_uri(), target, sha256=SHA256)

            assert ["data.bin", "data.bin.2.part", "other.1.part"] == sorted(os.listdir(target))

    def test_missing(self, source, target):
        """A missing file raises an OSError that names the path at which to put the file."""
        with pytest.raises(
            OSError, match=r"download: cannot get file://.*missing.*put the file at .*directory/missing"
        ):
            download(source.as_uri().replace("data.bin", "missing"), target)
        assert [] == os.listdir(target)

    def test_empty(self, source, target):
        """An empty file raises an OSError."""
        source.write_bytes(b"")
        with pytest.raises(OSError, match="is an empty file"):
            download(source.as_uri(), target)
        assert [] == os.listdir(target)

    def test_offline(self, target):
        """Without a network, an OSError names the path at which to put the file."""
        with pytest.raises(OSError, match=r"cannot get http://127.0.0.1:1/x: .*Without a network, put the file at"):
            download("http://127.0.0.1:1/x", target)


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves /data.bin, and /short, where the connection breaks."""

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

    def test_not_found(self, url, target):
        """The server's answer is in the error's message."""
        with pytest.raises(OSError, match="cannot get .*nothing: Not Found"):
            download(url + "/nothing", target)

    def test_a_broken_connection(self, url, target):
        """A broken connection raises an OSError, and the incomplete file is removed."""
        with pytest.raises(OSError, match="cannot get .*short: .*ended after 100 of 10000 bytes"):
            download(url + "/short", target)
        assert [] == os.listdir(target)

    def test_gets_the_file(self, url, target):
        """A file is downloaded over HTTP."""
        assert Path(download(url + "/data.bin", target, sha256=SHA256)).read_bytes() == CONTENT


class TestGetDatasetPath:
    def test_variable(self, tmp_path, monkeypatch):
        """Paths are in `$TENSORPACK_DATASET`."""
        monkeypatch.setenv("TENSORPACK_DATASET", str(tmp_path))

        assert str(tmp_path / "mnist_data" / "x") == get_dataset_path("mnist_data", "x")

    def test_variable_is_not_a_directory(self, tmp_path, monkeypatch):
        """A directory in the variable that does not exist raises a ValueError."""
        monkeypatch.setenv("TENSORPACK_DATASET", str(tmp_path / "missing"))
        with pytest.raises(ValueError, match=r"\$TENSORPACK_DATASET is .*missing'.*not a directory. Create it"):
            get_dataset_path("mnist_data")

    def test_default(self, tmp_path, monkeypatch, capsys):
        """Without the variable, `~/tensorpack_data` is created and one warning is logged."""
        log_once.cache_clear()
        monkeypatch.delenv("TENSORPACK_DATASET", raising=False)
        monkeypatch.setenv("HOME", str(tmp_path))
        paths = [get_dataset_path("a"), get_dataset_path("a")]

        assert [str(tmp_path / "tensorpack_data" / "a")] * 2 == paths
        assert (tmp_path / "tensorpack_data").is_dir()
        assert 1 == capsys.readouterr().out.count("WRN $TENSORPACK_DATASET not set")


class TestPaths:
    def test_recursive_walk(self, tmp_path):
        """The files of all directories are yielded in order."""
        for name in ("b/2", "b/1", "a/x/3", "c"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text("")

        assert [str(tmp_path / name) for name in ("c", "a/x/3", "b/1", "b/2")] == list(recursive_walk(str(tmp_path)))

    @pytest.mark.parametrize(
        ("path", "normal"),
        [("a//b/../c/", "a/c"), ("gs://bucket//a/../b", "gs://bucket//a/../b"), (".", ".")],
    )
    def test_normpath(self, path, normal):
        """Paths are normalized, URLs are not."""
        assert normal == normpath(path)
