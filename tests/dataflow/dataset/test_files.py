"""Finding, downloading and unpacking the files of data sets."""

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
    """A data set, for messages."""


@pytest.fixture
def web(tmp_path, monkeypatch):
    """A server that has `data.bin` in `/good/`; its URL and what it was asked for."""
    monkeypatch.setenv("no_proxy", "*")
    (tmp_path / "web" / "good").mkdir(parents=True)
    (tmp_path / "web" / "good" / "data.bin").write_bytes(CONTENT)
    with serving(tmp_path / "web") as (url, asked):
        yield url, asked


@pytest.fixture
def here(tmp_path):
    """The directory of the data set; it does not exist yet."""
    return tmp_path / "stars_data"


class TestFindFile:
    def test_what_is_there_is_used(self, web, here):
        """As it is, also when it is not the published file."""
        url, asked = web
        here.mkdir()
        (here / "data.bin").write_bytes(b"my own")
        path = find_file(Stars(), Origin("data.bin", (url + "good/",), MD5), str(here))
        assert (str(here / "data.bin"), []) == (path, asked)

    def test_downloads_what_is_absent(self, web, here):
        """Into the directory, once."""
        url, asked = web
        for _ in range(2):
            path = find_file(Stars(), Origin("data.bin", (url + "good/",), MD5), str(here))
            assert CONTENT == (here / "data.bin").read_bytes()
        assert (str(here / "data.bin"), ["/good/data.bin"]) == (path, asked)

    def test_the_next_mirror(self, web, here):
        """When one has no such file, the next is asked."""
        url, asked = web
        find_file(Stars(), Origin("data.bin", (url + "bad/", url + "good/"), MD5), str(here))
        assert ["/bad/data.bin", "/good/data.bin"] == asked

    def test_a_wrong_checksum(self, web, here):
        """Nothing is kept; the error says which one came and which was wanted."""
        url, _ = web
        with pytest.raises(OSError, match=f"md5 is {MD5}, wanted {'0' * 32}"):
            find_file(Stars(), Origin("data.bin", (url + "good/",), "0" * 32), str(here))
        assert [] == os.listdir(str(here))

    def test_the_message(self, web, here):
        """Which file, where it was looked for, where to get it, what to say, and what was tried."""
        url, _ = web
        with pytest.raises(OSError, match="Stars: nothing.mat is not in .*stars_data and could not") as info:
            find_file(Stars(), Origin("nothing.mat", (url,)), str(here), argument="data_dir")
        for part in (f"Put nothing.mat (from {url}) into", "Stars(..., data_dir=...)", "File not found"):
            assert part in str(info.value)

    def test_all_files_that_are_needed(self, web, here):
        """A data set of two files names both at once."""
        url, _ = web
        with pytest.raises(OSError, match=r"Put nothing and more \(from"):
            find_file(Stars(), Origin("nothing", (url,)), str(here), needed=("nothing", "more"))


def member(name, kind=tarfile.REGTYPE, content=b"", **attributes):
    """What is put into an archive."""
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
    """All files below a directory, hidden ones too."""
    return sorted(p.relative_to(directory).as_posix() for p in directory.rglob("*") if p.is_file())


class TestUnpackTar:
    @pytest.mark.parametrize("mode", ["w:gz", "w:bz2", "w:xz", "w"])
    def test_files_and_folders(self, pack, here, mode):
        """With and without entries for the folders, in all compressions; nothing else is left."""
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
        """The archive is refused, and nothing of it is kept: not what was good, not outside."""
        here.mkdir()
        path = pack(*GOOD, bad)
        before = below(tmp_path)
        with pytest.raises(ValueError, match=f"is refused, nothing of it was unpacked: its member .*{match}"):
            unpack_tar(path, str(here))
        assert before == below(tmp_path)
        assert [] == os.listdir(str(here))
        assert not os.path.lexists("/tmp/evil")

    def test_no_way_through_a_link(self, pack, here, tmp_path):
        """A link to a folder outside, then a file in it."""
        outside = tmp_path / "outside"
        outside.mkdir()
        path = pack(member("door", tarfile.SYMTYPE, linkname=str(outside)), member("door/evil", content=b"x"))
        with pytest.raises(ValueError, match="'door' is a link"):
            unpack_tar(path, str(here))
        assert [] == list(outside.iterdir())

    def test_permissions_are_those_of_new_files(self, pack, here):
        """Neither executable nor set-user-id, whatever the archive says."""
        unpack_tar(pack(member("a", content=b"a", mode=0o6777, uid=0)), str(here))
        umask = os.umask(0)
        os.umask(umask)
        assert 0o666 & ~umask == (here / "a").stat().st_mode & 0o7777

    def test_what_is_there_stays(self, pack, here):
        """A file of one's own is not overwritten, nor a folder."""
        (here / "folder").mkdir(parents=True)
        (here / "c").write_bytes(b"mine")
        unpack_tar(pack(*GOOD), str(here))
        assert b"mine" == (here / "c").read_bytes()
        assert ["c"] == below(here)

    @pytest.mark.parametrize("size", [0, 5, 60, -30])
    def test_cut_off(self, pack, here, size):
        """Half an archive is none: what to do is said, and nothing is kept."""
        path = pack(*GOOD, member("noise", content=os.urandom(5000)))
        with open(path, "r+b") as file:
            file.truncate(size if size >= 0 else os.path.getsize(path) + size - 3000)
        with pytest.raises(ValueError, match="data.tar.gz cannot be read as a tar archive: .*Delete it"):
            unpack_tar(path, str(here))
        assert [] == os.listdir(str(here))

    @pytest.mark.parametrize(
        "content", [b"<html>not found</html>", gzip.compress(b"no archive" * 100)], ids=["page", "gzip"]
    )
    def test_not_an_archive(self, pack, here, content):
        """Somebody's error page."""
        path = pack()
        with open(path, "wb") as file:
            file.write(content)
        with pytest.raises(ValueError, match="cannot be read as a tar archive"):
            unpack_tar(path, str(here))

    def test_a_bit_that_fell(self, pack, here):
        """The checksum inside gzip is looked at."""
        path = pack(member("noise", content=os.urandom(50000)))
        with open(path, "r+b") as file:
            file.seek(30000)
            byte = file.read(1)
            file.seek(30000)
            file.write(bytes([byte[0] ^ 1]))
        with pytest.raises(ValueError, match="cannot be read as a tar archive"):
            unpack_tar(path, str(here))
        assert [] == os.listdir(str(here))

    def test_a_damaged_head(self, pack, here):
        """A damaged head in the middle is an error, and not the end of the archive."""
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
    def test_names_that_no_file_can_have(self, pack, here, bad):
        """A file in the place of a folder, a folder in the place of a file and a long name are refused."""
        with pytest.raises(DamagedFileError, match="is refused, nothing of it was unpacked: its member"):
            unpack_tar(pack(*GOOD, *bad), str(here))
        assert [] == os.listdir(str(here))

    def test_a_full_disk_is_no_damage(self, pack, here, monkeypatch):
        """The operating system's errors come as they are; nothing is kept."""

        path = pack(*GOOD)

        def full(source, target):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(files.shutil, "copyfileobj", full)
        with pytest.raises(OSError, match="No space left"):
            unpack_tar(path, str(here))
        assert [] == os.listdir(str(here))

    def test_absent(self, here):
        """A file that is not there."""
        with pytest.raises(FileNotFoundError):
            unpack_tar(str(here / "nothing.tar"), str(here))
