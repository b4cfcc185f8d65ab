"""Tests of finding, downloading and unpacking the files of datasets."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile

import pytest
from fakes.web import serving

from tensorpack_lite.dataflow.dataset import files
from tensorpack_lite.dataflow.dataset.files import Origin, find_file, unpack_tar
from tensorpack_lite.utils.errors import DamagedFileError

CONTENT = b"the data" * 100
MD5 = hashlib.md5(CONTENT).hexdigest()


class Stars:
    """A dataset, for messages."""


@pytest.fixture
def web(tmp_path, monkeypatch):
    """Serve `data.bin` in `/good/`; return the URL and the list of requests."""
    monkeypatch.setenv("no_proxy", "*")
    (tmp_path / "web" / "good").mkdir(parents=True)
    (tmp_path / "web" / "good" / "data.bin").write_bytes(CONTENT)
    with serving(tmp_path / "web") as (url, asked):
        yield url, asked


@pytest.fixture
def here(tmp_path):
    """Return the directory of the dataset, which does not exist yet."""
    return tmp_path / "stars_data"


class TestFindFile:
    def test_existing_file(self, web, here):
        """An existing file is used without a checksum."""
        url, asked = web
        here.mkdir()
        (here / "data.bin").write_bytes(b"my own")
        path = find_file(Stars(), Origin("data.bin", (url + "good/",), MD5), str(here))
        assert (str(here / "data.bin"), []) == (path, asked)

    def test_missing_file_is_downloaded(self, web, here):
        """A missing file is downloaded to the directory once."""
        url, asked = web
        for _ in range(2):
            path = find_file(Stars(), Origin("data.bin", (url + "good/",), MD5), str(here))
            assert CONTENT == (here / "data.bin").read_bytes()
        assert (str(here / "data.bin"), ["/good/data.bin"]) == (path, asked)

    def test_the_next_mirror(self, web, here):
        """If a mirror does not have the file, the next one is tried."""
        url, asked = web
        find_file(Stars(), Origin("data.bin", (url + "bad/", url + "good/"), MD5), str(here))
        assert ["/bad/data.bin", "/good/data.bin"] == asked

    def test_the_message(self, web, here):
        """The error names the file, the directory, the source, the argument and the failures."""
        url, _ = web
        with pytest.raises(OSError, match="Stars: nothing.mat is not in .*stars_data and could not") as info:
            find_file(Stars(), Origin("nothing.mat", (url,)), str(here), argument="data_dir")
        for part in (f"Put nothing.mat (from {url}) into", "Stars(..., data_dir=...)", "File not found"):
            assert part in str(info.value)

    def test_all_files_that_are_needed(self, web, here):
        """The error names all files that the split needs."""
        url, _ = web
        with pytest.raises(OSError, match=r"Put nothing and more \(from"):
            find_file(Stars(), Origin("nothing", (url,)), str(here), needed=("nothing", "more"))


def member(name, kind=tarfile.REGTYPE, content=b"", **attributes):
    """Return a member of an archive."""
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, len(content)
    for key, value in attributes.items():
        setattr(info, key, value)
    return info, content


@pytest.fixture
def pack(tmp_path):
    """Write an archive of members."""

    def pack(*members, mode="w:gz"):
        path = str(tmp_path / "data.tar.gz")
        with tarfile.open(path, mode) as archive:
            for info, content in members:
                archive.addfile(info, io.BytesIO(content))
        return path

    return pack


GOOD = (
    member("folder", tarfile.DIRTYPE, mode=0o777),
    member("folder/a", content=CONTENT),
    member("folder/deep/er/b", content=b"b"),
    member("./c", content=b"c"),
)


def below(directory) -> list:
    """Return all files below a directory, including hidden ones."""
    return sorted(p.relative_to(directory).as_posix() for p in directory.rglob("*") if p.is_file())


class TestUnpackTar:
    @pytest.mark.parametrize("mode", ["w:gz", "w:bz2", "w:xz", "w"])
    def test_files_and_folders(self, pack, here, mode):
        """Archives with and without folder entries, in all compressions, are unpacked without leaving temporary files."""
        unpack_tar(pack(*GOOD, mode=mode), str(here))
        assert ["c", "folder/a", "folder/deep/er/b"] == below(here)
        assert CONTENT == (here / "folder" / "a").read_bytes()
        assert ["c", "folder"] == sorted(os.listdir(str(here)))

    @pytest.mark.parametrize(
        ("bad", "match"),
        [
            (member("/tmp/evil", content=b"x"), "'/tmp/evil' has an absolute path"),
            (member("../evil", content=b"x"), "'../evil' leads out of its folder"),
            (member("folder/../../evil", content=b"x"), "leads out of its folder"),
            (member("folder\\..\\..\\evil", content=b"x"), "leads out of its folder"),
            (member("..", tarfile.DIRTYPE), "leads out of its folder"),
            (member("evil", tarfile.SYMTYPE, linkname="/etc"), "'evil' is a link, a device"),
            (member("evil", tarfile.SYMTYPE, linkname="folder/a"), "is a link"),
            (member("evil", tarfile.LNKTYPE, linkname="/etc/passwd"), "is a link"),
            (member("evil", tarfile.CHRTYPE, devmajor=1, devminor=3), "a device"),
            (member("evil", tarfile.BLKTYPE), "a device"),
            (member("evil", tarfile.FIFOTYPE), "a device"),
        ],
    )
    def test_hostile_members(self, pack, here, tmp_path, bad, match):
        """An archive with a hostile member raises an error, and nothing is unpacked."""
        here.mkdir()
        path = pack(*GOOD, bad)
        before = below(tmp_path)
        with pytest.raises(ValueError, match=f"was not unpacked: its member .*{match}"):
            unpack_tar(path, str(here))
        assert before == below(tmp_path)
        assert [] == os.listdir(str(here))
        assert not os.path.lexists("/tmp/evil")

    def test_permissions_are_those_of_new_files(self, pack, here):
        """Unpacked files have the permissions of new files, not those in the archive."""
        unpack_tar(pack(member("a", content=b"a", mode=0o6777, uid=0)), str(here))
        umask = os.umask(0)
        os.umask(umask)
        assert 0o666 & ~umask == (here / "a").stat().st_mode & 0o7777

    def test_existing_files_stay(self, pack, here):
        """Existing files and folders are not overwritten."""
        (here / "folder").mkdir(parents=True)
        (here / "c").write_bytes(b"mine")
        unpack_tar(pack(*GOOD), str(here))
        assert b"mine" == (here / "c").read_bytes()
        assert ["c"] == below(here)

    @pytest.mark.parametrize(
        "content", [b"<html>not found</html>", gzip.compress(b"no archive" * 100)], ids=["page", "gzip"]
    )
    def test_not_an_archive(self, pack, here, content):
        """An HTML error page raises an error."""
        path = pack()
        with open(path, "wb") as file:
            file.write(content)
        with pytest.raises(ValueError, match="cannot be read as a tar archive"):
            unpack_tar(path, str(here))

    def test_damaged_header(self, pack, here):
        """A damaged header in the middle raises an error instead of ending the archive."""
        path = pack(*GOOD, mode="w")
        with open(path, "r+b") as file:
            place = file.read().index(b"folder/deep/er/b")
            file.seek(place)
            file.write(b"F")
        with pytest.raises(DamagedFileError, match=f"at byte {place}: bad checksum"):
            unpack_tar(path, str(here))
        assert [] == os.listdir(str(here))

    @pytest.mark.parametrize(
        "bad",
        [(member("folder", content=b"x"),), (member("folder/a/b", content=b"x"),), (member("x" * 300),)],
    )
    def test_invalid_names(self, pack, here, bad):
        """Members that cannot be written because of their names raise DamagedFileError."""
        with pytest.raises(DamagedFileError, match="was not unpacked: its member"):
            unpack_tar(pack(*GOOD, *bad), str(here))
        assert [] == os.listdir(str(here))

    def test_full_disk(self, pack, here, monkeypatch):
        """Errors of the file system are not changed, and nothing is unpacked."""

        path = pack(*GOOD)

        def full(source, target):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(files.shutil, "copyfileobj", full)
        with pytest.raises(OSError, match="No space left"):
            unpack_tar(path, str(here))
        assert [] == os.listdir(str(here))
