"""Files that are whole or not there."""

import errno
import io
import os
import stat
import threading
from pathlib import Path

import pytest

from adaste._util.files import NotWrittenError, atomic_folder, remove_folder, remove_unfinished, write_atomically

FULL = Path("/dev/full")


def _names(folder):
    return [path.name for path in folder.iterdir()]


def test_bytes_and_writers_give_the_same_file(tmp_path):
    write_atomically(tmp_path / "a", b"content")
    write_atomically(tmp_path / "b", lambda file: file.write(b"content"))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == b"content"


def test_a_new_file_replaces_the_old_one_and_leaves_nothing_else(tmp_path):
    write_atomically(tmp_path / "a", b"old")
    write_atomically(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"
    assert _names(tmp_path) == ["a"]


def test_nothing_is_seen_at_the_place_until_all_is_written(tmp_path):
    place = tmp_path / "a"

    def look(file):
        file.write(b"half")
        assert not place.exists()
        file.write(b" and half")

    write_atomically(place, look)
    assert place.read_bytes() == b"half and half"


def test_a_full_disk_says_what_was_not_written_and_keeps_the_old_file(tmp_path):
    write_atomically(tmp_path / "a", b"old")

    def full(file):
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(NotWrittenError, match=r"could not write .*a \(No space left on device\).*is intact") as caught:
        write_atomically(tmp_path / "a", full)
    assert caught.value.errno == errno.ENOSPC
    assert (tmp_path / "a").read_bytes() == b"old"
    assert _names(tmp_path) == ["a"]


@pytest.mark.skipif(not FULL.exists(), reason="no device that is always full")
def test_a_disk_that_is_really_full_is_reported_the_same_way(tmp_path, monkeypatch):
    monkeypatch.setattr("adaste._util.files._sibling", lambda path: tmp_path / "full")
    monkeypatch.setattr("pathlib.Path.open", lambda path, mode: io.FileIO(FULL, "w"))
    with pytest.raises(NotWrittenError, match=r"No space left on device.*nothing was left"):
        write_atomically(tmp_path / "a", b"x" * 100_000)


@pytest.mark.parametrize("target", ["there", "not yet", "elsewhere/there"])
def test_a_link_stays_and_what_it_leads_to_is_written(tmp_path, target):
    (tmp_path / "elsewhere").mkdir()
    for name in ("there", "elsewhere/there"):
        (tmp_path / name).write_bytes(b"old")
    link, again = tmp_path / "link", tmp_path / "again"
    link.symlink_to(target)
    again.symlink_to(link)
    write_atomically(again, b"new")
    assert link.is_symlink() and again.is_symlink()
    assert (tmp_path / target).read_bytes() == b"new"
    assert not list(tmp_path.rglob("*.tmp"))


def test_links_that_lead_nowhere_are_told_and_stay(tmp_path):
    circle, nowhere = tmp_path / "circle", tmp_path / "nowhere"
    circle.symlink_to("circle")
    nowhere.symlink_to("missing/file")
    with pytest.raises(NotWrittenError, match=r"could not write .*circle \(Too many levels of symbolic links\)"):
        write_atomically(circle, b"new")
    with pytest.raises(NotWrittenError, match=r"nowhere, which leads to .*missing/file, \(No such file"):
        write_atomically(nowhere, b"new")
    assert circle.is_symlink() and nowhere.is_symlink()


def test_a_pipe_stays_and_its_reader_gets_all(tmp_path):
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write_atomically(pipe, b"content" * 100_000)
    reader.join(timeout=30)
    assert read == [b"content" * 100_000]
    assert pipe.is_fifo()
    assert _names(tmp_path) == ["pipe"]


@pytest.mark.skipif(not FULL.exists(), reason="no device that is always full")
def test_a_device_that_takes_nothing_says_so_and_stays(tmp_path):
    (tmp_path / "link").symlink_to(FULL)  # should this test fail, it costs a link and not the device
    with pytest.raises(NotWrittenError, match=r"could not write into .*link \(No space left on device\)"):
        write_atomically(tmp_path / "link", b"x" * 100_000)
    assert FULL.is_char_device() and (tmp_path / "link").is_symlink()


def test_other_errors_pass_and_remove_the_unfinished_file(tmp_path):
    def broken(file):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "a", broken)
    assert _names(tmp_path) == []


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(NotWrittenError, match=r"could not write .*missing/a"):
        write_atomically(tmp_path / "missing" / "a", b"")


def test_files_get_the_permissions_of_every_other_file(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    write_atomically(tmp_path / "a", b"")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


def test_a_folder_is_there_whole_or_not_at_all(tmp_path):
    with pytest.raises(ValueError), atomic_folder(tmp_path / "a") as folder:
        (folder / "file").write_bytes(b"")
        raise ValueError
    assert _names(tmp_path) == []
    with atomic_folder(tmp_path / "a") as folder:
        (folder / "file").write_bytes(b"")
        assert not (tmp_path / "a").exists()
    assert _names(tmp_path) == ["a"] and _names(tmp_path / "a") == ["file"]


def test_a_part_of_what_was_written_can_take_the_place(tmp_path):
    with atomic_folder(tmp_path / "a", "inner") as folder:
        (folder / "inner" / "deep").mkdir(parents=True)
        (folder / "other").mkdir()
    assert _names(tmp_path) == ["a"] and _names(tmp_path / "a") == ["deep"]
    with pytest.raises(FileNotFoundError), atomic_folder(tmp_path / "b", "inner"):
        pass
    assert _names(tmp_path) == ["a"]


def test_of_two_folders_for_one_place_the_first_stays(tmp_path):
    with atomic_folder(tmp_path / "a") as slow:
        (slow / "slow").write_bytes(b"")
        with atomic_folder(tmp_path / "a") as fast:
            (fast / "fast").write_bytes(b"")
    assert _names(tmp_path) == ["a"] and _names(tmp_path / "a") == ["fast"]


def test_a_folder_is_removed_with_all_that_is_in_it_and_may_be_gone(tmp_path):
    (tmp_path / "a" / "deep").mkdir(parents=True)
    remove_folder(tmp_path / "a")
    remove_folder(tmp_path / "a")
    assert _names(tmp_path) == []


def test_what_a_killed_process_left_unfinished_is_removed_and_nothing_else(tmp_path):
    def killed(file):
        raise SystemExit

    others = [".mine.tmp", ".a.12.tmp", "a.12.0123abcd.tmp", "sub/.a.12.0123abcd.tmp", ".folder.12.0123abcd.tmp/b"]
    for name in others:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    seen = []
    with pytest.raises(SystemExit):
        write_atomically(tmp_path / "a", lambda file: (seen.append(Path(file.name).name), killed(file)))
    (tmp_path / seen[0]).write_bytes(b"half")
    remove_unfinished(tmp_path)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == set(others)
