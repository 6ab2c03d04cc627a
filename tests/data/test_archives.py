"""Archives are extracted whole or not at all, and never outside of their folder."""

import gzip
import io
import shutil
import stat
import tarfile
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaste._util.files import NotWrittenError
from adaste.data import DataError, load
from adaste.data.download import Bounds, extract
from support.archives import pack, write_cifar10, write_tiny_imagenet


def tar(path, *members):
    """A .tar.gz of (name, content) pairs, or of TarInfo objects."""
    with tarfile.open(path, "w:gz") as file:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                file.addfile(member)
            else:
                name, content = member
                info = tarfile.TarInfo(name)
                info.size = len(content)
                file.addfile(info, io.BytesIO(content))
    return path


def zipped(path, *members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members:
            file.writestr(name, content)
    return path


PACKERS = {"a.tar.gz": tar, "a.tgz": tar, "a.zip": zipped}


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("name", PACKERS)
def test_files_come_out_as_they_went_in(tmp_path, name):
    archive = PACKERS[name](tmp_path / name, ("root/a", b"first"), ("root/deep/b", b"second"))
    root = extract(archive, "root", tmp_path)
    assert root == tmp_path / "root"
    assert (root / "a").read_bytes() == b"first" and (root / "deep" / "b").read_bytes() == b"second"
    assert names(tmp_path) == sorted([name, "root"])


@pytest.mark.parametrize("name", PACKERS)
@pytest.mark.parametrize(
    "evil", ["/etc/x", "../x", "root/../../x", "root/..", "..", "root\\..\\..\\x", "C:x", "root/../../../../usr/x"]
)
def test_no_member_leaves_its_folder(tmp_path, name, evil):
    inside = tmp_path / "inside"
    inside.mkdir()
    archive = PACKERS[name](inside / name, ("root/a", b"fine"), (evil, b"evil"))
    with pytest.raises(DataError, match=r"a\..* was not extracted: .* would lie outside of its folder"):
        extract(archive, "root", inside)
    assert names(inside) == [name] and names(tmp_path) == ["inside"]


def folder_entry(name):
    info = tarfile.TarInfo(name)
    info.type = tarfile.DIRTYPE
    return info


def test_an_archive_of_its_own_top_is_no_danger(tmp_path):
    archive = tar(tmp_path / "a.tgz", folder_entry("."), folder_entry("./top"), ("./top/a", b"first"))
    assert (extract(archive, "top", tmp_path) / "a").read_bytes() == b"first"


def test_a_file_cannot_be_the_top(tmp_path):
    archive = tar(tmp_path / "a.tgz", ("root/a", b"first"), (".", b"evil"))
    with pytest.raises(DataError, match=r"was not extracted: '\.' is the name of a folder"):
        extract(archive, "root", tmp_path)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions_in_a_zip_are_refused(tmp_path, method):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", method) as file:
        file.writestr("root/a", b"first")
    with pytest.raises(DataError, match="another method than deflate"):
        extract(tmp_path / "a.zip", "root", tmp_path)


def test_names_in_a_zip_that_are_no_text_are_damage(tmp_path):
    archive = zipped(tmp_path / "a.zip", ("root/\N{LATIN SMALL LETTER A WITH DIAERESIS}", b"first"))
    archive.write_bytes(archive.read_bytes().replace(b"\xc3\xa4", b"\xc3\x04"))
    with pytest.raises(DataError, match="truncated or damaged"):
        extract(archive, "root", tmp_path)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_in_a_tar_are_refused(tmp_path, kind):
    member = tarfile.TarInfo("root/link")
    member.type, member.linkname = kind, "/etc/passwd"
    archive = tar(tmp_path / "a.tar.gz", ("root/a", b"fine"), member, ("root/link/x", b"evil"))
    with pytest.raises(DataError, match="'root/link' is a link or a device"):
        extract(archive, "root", tmp_path)
    assert names(tmp_path) == ["a.tar.gz"]


def test_links_and_encrypted_files_in_a_zip_are_refused(tmp_path):
    link = zipfile.ZipInfo("root/link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with pytest.raises(DataError, match="'root/link' is a link or a device"):
        extract(zipped(tmp_path / "a.zip", (link, b"/etc/passwd")), "root", tmp_path)
    content = bytearray(zipped(tmp_path / "b.zip", ("root/a", b"secret")).read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "b.zip").write_bytes(content)
    with pytest.raises(DataError, match="'root/a' is encrypted"):
        extract(tmp_path / "b.zip", "root", tmp_path)


@pytest.mark.parametrize("name", PACKERS)
@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        (Bounds(entries=2), "more than 2 entries"),
        (Bounds(file_bytes=999), "has 1,000 bytes, more than 999"),
        (Bounds(total_bytes=2_500), "more than 2,500 bytes"),
        (Bounds(ratio=1.5, free_bytes=100), "too much for an archive of its size"),
    ],
)
def test_numbers_and_sizes_are_bounded(tmp_path, name, bounds, message):
    archive = PACKERS[name](tmp_path / name, *((f"root/{number}", bytes(1_000)) for number in range(3)))
    with pytest.raises(DataError, match=f"was not extracted: .*{message}"):
        extract(archive, "root", tmp_path, bounds=bounds)
    assert names(tmp_path) == [name]


@pytest.mark.slow
@pytest.mark.parametrize("name", PACKERS)
def test_a_bomb_is_stopped_by_its_ratio_long_before_its_end(tmp_path, name):
    archive = PACKERS[name](tmp_path / name, ("root/bomb", bytes(100 << 20)))
    with pytest.raises(DataError, match="more than 67,108,864 bytes"):
        extract(archive, "root", tmp_path)


def test_a_bomb_in_the_header_of_a_tar_is_stopped_as_well(tmp_path):
    member = tarfile.TarInfo("root/a")
    member.pax_headers = {"comment": "x" * (2 << 20)}
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as file:
        file.addfile(member)
    with pytest.raises(DataError, match="too much for an archive of its size"):
        extract(tmp_path / "a.tar.gz", "root", tmp_path, bounds=Bounds(free_bytes=1 << 20))


@pytest.mark.parametrize("name", PACKERS)
def test_a_file_that_is_there_twice_is_refused(tmp_path, name, recwarn):
    archive = PACKERS[name](tmp_path / name, ("root/a", b"first"), ("root/a", b"second"))
    with pytest.raises(DataError, match="'root/a' is in it twice"):
        extract(archive, "root", tmp_path)


@pytest.mark.parametrize("name", PACKERS)
def test_an_archive_without_the_expected_folder_lists_what_it_has(tmp_path, name):
    archive = PACKERS[name](tmp_path / name, ("other/a", b""))
    with pytest.raises(DataError, match=rf"{name} must hold the folder root/; found: other/"):
        extract(archive, "root", tmp_path)


def test_truncated_archives_are_named_wherever_they_end(tmp_path):
    write_cifar10(tmp_path, train=10, test=5, archive=True)
    archive = tmp_path / "cifar-10-binary.tar.gz"
    content = archive.read_bytes()
    for end in (0, 1, 9, 100, len(content) // 2, len(content) - 9, len(content) - 1):
        archive.write_bytes(content[:end])
        with pytest.raises(DataError, match=r"cifar-10-binary\.tar\.gz is truncated or damaged"):
            load("cifar10", tmp_path)
        assert names(tmp_path) == [archive.name]
    archive.write_bytes(content)
    assert len(load("cifar10", tmp_path).train) == 10


def test_a_tar_that_ends_inside_whole_compression_is_truncated(tmp_path):
    plain = gzip.decompress(tar(tmp_path / "a.tar.gz", ("root/a", bytes(5_000))).read_bytes())
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(plain[:2_000]))
    with pytest.raises(DataError, match="is truncated or damaged"):
        extract(tmp_path / "a.tar.gz", "root", tmp_path)


def test_truncated_and_altered_zips_are_named(tmp_path):
    write_tiny_imagenet(tmp_path, archive=True)
    archive = tmp_path / "tiny-imagenet-200.zip"
    content = archive.read_bytes()
    altered = bytearray(content)
    altered[200:260] = bytes(60)
    for damaged in (b"", content[:100], content[: len(content) // 2], content[:-1], bytes(altered)):
        archive.write_bytes(damaged)
        with pytest.raises(DataError, match=r"tiny-imagenet-200\.zip is truncated or damaged"):
            load("tiny-imagenet", tmp_path)


CONTENT = (("root/a", b"first" * 50), ("root/deep/b", b"second" * 50), ("root/c", b"third"))


def extracted_or_refused(archive, content):
    """What a damaged archive gives: all files as they were, or DataError and nothing written."""
    archive.write_bytes(content)
    try:
        root = extract(archive, "root", archive.parent)
    except DataError as error:
        assert str(archive) in str(error)
        assert names(archive.parent) == [archive.name]
    else:
        found = {
            path.relative_to(root.parent).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()
        }
        assert found == dict(CONTENT)


@pytest.mark.slow
@settings(deadline=None, derandomize=True, max_examples=150)
@given(st.sampled_from(sorted(PACKERS)), st.data())
def test_damaged_archives_give_one_kind_of_error_or_the_right_content(tmp_path_factory, name, data):
    archive = PACKERS[name](tmp_path_factory.mktemp("archive") / name, *CONTENT)
    content = bytearray(archive.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    extracted_or_refused(archive, content)


def in_zip64(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as file:
        for name, content in CONTENT:
            with file.open(name, "w", force_zip64=True) as member:
                member.write(content)
    return path


RECORDS = {b"PK\1\2": 46, b"PK\3\4": 30, b"PK\5\6": 22}
"""How the entries of the directory, the headers of files and the end of a zip begin, and how long they are at least."""

NUMBERS = st.sampled_from([0, 1, 9, 12, 99, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFE, 0xFFFFFFFF]) | st.integers(
    0, 1 << 64
)


@pytest.mark.slow
@settings(deadline=None, derandomize=True, max_examples=250)
@given(st.sampled_from([lambda path: zipped(path, *CONTENT), in_zip64]), st.data())
def test_no_nonsense_in_the_records_of_a_zip_gives_another_error(tmp_path_factory, packed, data):
    archive = packed(tmp_path_factory.mktemp("archive") / "a.zip")
    content = bytearray(archive.read_bytes())
    for _ in range(data.draw(st.integers(1, 2))):
        record = data.draw(st.sampled_from(sorted(RECORDS)))
        places = [at for at in range(len(content)) if content.startswith(record, at)]
        place = data.draw(st.sampled_from(places)) + 2 * data.draw(st.integers(2, RECORDS[record] // 2 - 1))
        width = data.draw(st.sampled_from([2, 4, 8]))
        content[place : place + width] = (data.draw(NUMBERS) % (1 << (8 * width))).to_bytes(width, "little")
    end = data.draw(st.just(len(content)) | st.integers(0, len(content)))
    extracted_or_refused(archive, content[:end])


def altered(archive, record, offset, new):
    """The archive with bytes of its first record of a kind replaced."""
    content = bytearray(archive.read_bytes())
    place = content.index(record) + offset
    content[place : place + len(new)] = new
    archive.write_bytes(content)
    return archive


@pytest.mark.parametrize(
    ("record", "offset", "new", "message"),
    [
        (b"PK\5\6", 12, b"\xff\xff\xff\x7f", "damaged"),  # the directory would begin before the file
        (b"PK\1\2", 42, b"\xff\xff\xff\x7f", "damaged"),  # a file's header would be behind the end
        (b"PK\1\2", 28, b"\0\0\0\0\6\0", "damaged.* a file without a name"),  # the name is taken for a comment
        (b"PK\1\2", 32, b"\x39\0", "directory shows 2 of 3 entries"),  # a comment that covers the next entry
        (b"PK\1\2", 8, b"\x20", "damaged"),  # patched data
        (b"PK\1\2", 16, b"\0\0\0\0", "damaged.* Bad CRC-32"),
    ],
)
def test_each_kind_of_damage_to_a_zip_is_named(tmp_path, record, offset, new, message):
    archive = altered(zipped(tmp_path / "a.zip", *CONTENT), record, offset, new)
    with pytest.raises(DataError, match=message):
        extract(archive, "root", tmp_path)
    assert names(tmp_path) == ["a.zip"]


def test_the_entries_of_a_zip_are_counted_by_the_end_that_zip64_adds(tmp_path, monkeypatch):
    monkeypatch.setattr("zipfile.ZIP_FILECOUNT_LIMIT", 2)
    archive = altered(zipped(tmp_path / "a.zip", *CONTENT), b"PK\5\6", 8, b"\xff\xff\xff\xff")
    shutil.rmtree(extract(archive, "root", tmp_path))
    with pytest.raises(DataError, match="directory shows 3 of 4 entries"):
        extract(altered(archive, b"PK\6\6", 32, b"\4"), "root", tmp_path)


@pytest.mark.slow
def test_a_zip_may_have_more_entries_than_its_end_can_count(tmp_path):
    """Programs that knew no zip64 wrote the last 16 bits of the number."""
    archive, count = zipped(tmp_path / "a.zip", ("root/", b"")), (1 << 16) + 1
    content = archive.read_bytes()
    directory, end = content.index(b"PK\1\2"), content.index(b"PK\5\6")
    entries = content[directory:end] * count
    archive.write_bytes(content[:directory] + entries + content[end:])
    altered(archive, b"PK\5\6", 12, len(entries).to_bytes(4, "little"))
    assert extract(archive, "root", tmp_path).is_dir()


@pytest.mark.parametrize("name", PACKERS)
@pytest.mark.parametrize("again", ["root/a/b", "root/a/b/c"])
def test_a_file_that_is_also_a_folder_is_refused(tmp_path, name, again):
    archive = PACKERS[name](tmp_path / name, ("root/a", b"first"), (again, b"second"))
    with pytest.raises(DataError, match=f"'{again}' needs a folder where it has a file"):
        extract(archive, "root", tmp_path)


@pytest.mark.parametrize("name", PACKERS)
@pytest.mark.parametrize("long", ["a" * 256, "a/" * 501])
def test_names_that_no_file_system_takes_are_refused(tmp_path, name, long):
    archive = PACKERS[name](tmp_path / name, (f"root/{long}", b""))
    with pytest.raises(DataError, match=r"was not extracted: the name 'root/a.* is too long"):
        extract(archive, "root", tmp_path)


def test_a_folder_that_is_there_is_not_touched(tmp_path):
    archive = tar(tmp_path / "a.tar.gz", ("root/a", b"new"))
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "mine").write_bytes(b"")
    extract(archive, "root", tmp_path)
    assert names(tmp_path / "root") == ["mine"]


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    archive = tar(tmp_path / "a.tar.gz", ("root/a", b"new"))
    with pytest.raises(NotWrittenError, match=r"could not extract .*a\.tar\.gz to .*missing/root"):
        extract(archive, "root", tmp_path / "missing")


def test_archives_in_a_folder_that_is_not_writable_go_to_the_users_cache(tmp_path, monkeypatch):
    data = tmp_path / "data"
    write_cifar10(data, archive=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("os.access", lambda path, mode: data not in (path, *path.parents))
    first = load("cifar10", data)
    assert load("cifar10", data).digest == first.digest
    assert [name for name in names(data) if not name.startswith(".")] == ["cifar-10-binary.tar.gz"]
    # Another archive at the same place is not taken for the first.
    (data / "cifar-10-binary.tar.gz").unlink()
    write_cifar10(data, train=50)
    pack(data / "cifar-10-batches-bin", data / "cifar-10-binary.tar.gz")
    assert len(load("cifar10", data).train) == 50
