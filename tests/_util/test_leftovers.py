"""Folders of killed processes are removed by the next one, those of live ones never."""

import errno
import fcntl
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from adaste._util.files import BOOT, atomic_folder, stale_folders, temporary_folder
from adaste.data import load
from adaste.data.loading import CACHE
from support.archives import write_cifar10

pytestmark = pytest.mark.skipif(not BOOT.exists(), reason="this kernel does not name its starts")

WRITER = """
import sys
from pathlib import Path
from adaste._util.files import atomic_folder
with atomic_folder(Path(sys.argv[1])) as folder:
    (folder / "half").write_bytes(b"half")
    print(folder, flush=True)
    sys.stdin.read()
"""


@contextmanager
def writer_of(path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process at work in a folder beside `path`."""
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


def killed(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_the_next_writer_removes_what_a_killed_one_has_left_and_nothing_of_a_live_one(tmp_path: Path) -> None:
    with writer_of(tmp_path / "a") as (dying, left), writer_of(tmp_path / "b") as (_, live):
        killed(dying)
        assert (left / "half").exists()
        with atomic_folder(tmp_path / "c") as own, atomic_folder(tmp_path / "c") as second:
            assert not left.exists()
            assert (live / "half").exists()
            assert own.is_dir() and second.is_dir()


def test_a_cache_is_cleared_of_what_a_killed_writer_has_left_when_it_is_written(tmp_path: Path) -> None:
    write_cifar10(tmp_path)
    (tmp_path / CACHE).mkdir()
    with writer_of(tmp_path / CACHE / "0123abcd") as (process, left):
        killed(process)
        assert left.parent == tmp_path / CACHE
        load("cifar10", tmp_path)
        assert not list((tmp_path / CACHE).glob(".*"))


def test_names_that_are_not_of_this_kernel_or_no_folders_are_left_alone(tmp_path: Path) -> None:
    kernel = BOOT.read_text().replace("-", "")[:12]
    others = [
        ".a.0123456789ab.12.0123abcd.tmp",
        ".a.12.0123abcd.tmp",
        f".a.{kernel}.12.tmp",
        f"a.{kernel}.1.0123abcd.tmp",
    ]
    for name in others:
        (tmp_path / name).mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f".link.{kernel}.12.0123abcd.tmp").symlink_to(tmp_path / "elsewhere")
    (tmp_path / f".file.{kernel}.12.0123abcd.tmp").write_bytes(b"")
    before = sorted(tmp_path.iterdir())
    assert not list(stale_folders(tmp_path, "."))
    with atomic_folder(tmp_path / "a"):
        pass
    (tmp_path / "a").rmdir()
    assert sorted(tmp_path.iterdir()) == before


def test_a_folder_taken_for_left_over_before_it_was_held_is_given_up_for_another(tmp_path: Path, monkeypatch) -> None:
    flock, taken = fcntl.flock, []

    def sweeping_first(lock: int, operation: int) -> None:
        if not taken:
            taken.append(True)
            for path in tmp_path.iterdir():
                path.rmdir()
        flock(lock, operation)

    monkeypatch.setattr(fcntl, "flock", sweeping_first)
    with temporary_folder(tmp_path, ".a.") as folder:
        assert folder.is_dir()
        assert not list(stale_folders(tmp_path, "."))
    assert not list(tmp_path.iterdir())


def test_where_there_are_no_locks_nothing_is_ever_taken_for_stale_folders(tmp_path: Path, monkeypatch) -> None:
    def unsupported(lock: int, operation: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", unsupported)
        temporary = temporary_folder(tmp_path, ".a.")
        folder = temporary.__enter__()
    assert folder.is_dir()
    assert not list(stale_folders(tmp_path, ".")), "locks may have become possible since"
    temporary.__exit__(None, None, None)
    assert not list(tmp_path.iterdir())


def test_many_writers_and_sweepers_at_once_never_lose_a_folder(tmp_path: Path) -> None:
    lost = []

    def write() -> None:
        for number in range(40):
            with atomic_folder(tmp_path / "a") as folder:
                (folder / "file").write_bytes(b"")
                if not (folder / "file").exists():
                    lost.append(number)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not lost
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_system_without_locks_of_this_kind_writes_all_the_same(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)  # as on Windows, which has no such file either
    monkeypatch.setattr("adaste._util.files.BOOT", tmp_path / "no such file")
    with atomic_folder(tmp_path / "data") as folder:
        (folder / "content").touch()
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
