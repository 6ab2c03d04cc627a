"""Decoded images are kept, found again, and made again when they are damaged."""

import errno
import json
import logging
import os
import threading

import numpy as np
import pytest

from adaste._util.files import NotWrittenError
from adaste.data import DataError, load
from adaste.data.folders import DECODING
from adaste.data.loading import CACHE, MANIFEST
from support.archives import write_cifar10, write_class_folders, write_imagenette, write_mnist, write_tiny_imagenet

ARRAYS = ["test-images.npy", "test-labels.npy", "train-images.npy", "train-labels.npy"]


@pytest.fixture
def folder(tmp_path):
    write_cifar10(tmp_path)
    return tmp_path


def entry(folder):
    return folder / CACHE / load("cifar10", folder).digest


def test_an_entry_is_four_arrays_and_a_manifest(folder):
    assert sorted(path.name for path in entry(folder).iterdir()) == sorted([*ARRAYS, MANIFEST])
    assert isinstance(np.load(entry(folder) / "train-images.npy", mmap_mode="r"), np.memmap)


def test_images_are_decoded_once(folder, monkeypatch):
    load("cifar10", folder)
    monkeypatch.setattr("adaste.data.cifar.CifarBinary.read", lambda *_, **__: pytest.fail("read again"))
    assert len(load("cifar10", folder).train) == 200


def test_files_are_hashed_once_as_long_as_they_do_not_change(folder, monkeypatch):
    first = load("cifar10", folder)
    with monkeypatch.context() as patched:
        patched.setattr("adaste.data.loading._file_hash", lambda path: pytest.fail("hashed again"))
        assert load("cifar10", folder).digest == first.digest
    path = folder / "cifar-10-batches-bin" / "data_batch_1.bin"
    os.utime(path, ns=(0, 0))
    assert load("cifar10", folder).digest == first.digest
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    changed = load("cifar10", folder)
    assert changed.digest != first.digest
    assert not np.array_equal(changed.train.images, first.train.images)


def test_another_size_of_own_images_is_another_entry(tmp_path):
    write_class_folders(tmp_path)
    assert len({load(name, tmp_path).digest for name in ("folder", "folder:32", "folder:64")}) == 3


@pytest.mark.parametrize(
    ("name", "write", "renewed"),
    [
        ("folder", write_class_folders, True),
        ("imagenette", write_imagenette, True),
        ("tiny-imagenet", write_tiny_imagenet, True),
        ("cifar10", write_cifar10, False),
        ("mnist", write_mnist, False),
    ],
)
def test_another_decoding_of_image_files_is_another_entry(tmp_path, monkeypatch, name, write, renewed):
    write(tmp_path)
    before = load(name, tmp_path).digest
    monkeypatch.setattr("adaste.data.folders.DECODING", DECODING - 1)
    assert (load(name, tmp_path).digest != before) == renewed


def truncate(path):
    path.write_bytes(path.read_bytes()[:-1])


def alter_and_keep_the_time(path):
    found = path.stat()
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


DAMAGES = [truncate, alter_and_keep_the_time, lambda path: path.unlink(), lambda path: path.write_bytes(b"")]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", [*ARRAYS, MANIFEST])
def test_a_damaged_entry_is_made_again_with_one_line_that_says_so(folder, caplog, damage, name):
    first = np.array(load("cifar10", folder).train.images)
    damage(entry(folder) / name)
    caplog.clear()
    with caplog.at_level(logging.WARNING, "adaste.data"):
        dataset = load("cifar10", folder)
    assert np.array_equal(dataset.train.images, first)
    assert len(caplog.records) == 1
    line = caplog.text
    assert "is damaged" in line and "made again" in line and line.count("\n") == 1
    caplog.clear()
    load("cifar10", folder)
    assert not caplog.records


@pytest.mark.parametrize(
    "change",
    [
        {"format": 0},
        {"name": "mnist"},
        {"arrays": {}},
        {"arrays": None},
        {"mean": [0.5]},
        {"arrays": {"../x": {"bytes": 1, "sha256": ""}}},
        {"classes": None},
    ],
)
def test_a_manifest_that_says_something_else_is_damage(folder, caplog, change):
    path = entry(folder) / MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    assert len(load("cifar10", folder).train) == 200
    assert "made again" in caplog.text


def test_a_damaged_memory_of_digests_is_not_believed(folder):
    digest = load("cifar10", folder).digest
    for note in (folder / CACHE).glob("*.digest"):
        note.write_bytes(b"\xff../../elsewhere")
    assert load("cifar10", folder).digest == digest


def test_a_folder_that_is_not_writable_is_cached_in_the_users_directory(folder, tmp_path_factory, monkeypatch):
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    (folder / CACHE).write_text("a file in the place of the cache")
    dataset = load("cifar10", folder)
    assert (home / "adaste" / dataset.digest / MANIFEST).is_file()


def test_a_cache_that_cannot_be_written_is_used_as_long_as_it_is_whole(folder, tmp_path_factory, monkeypatch):
    first = load("cifar10", folder)
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    monkeypatch.setattr("os.access", lambda path, mode: folder not in (path, *path.parents))
    with monkeypatch.context() as patched:
        patched.setattr("adaste.data.cifar.CifarBinary.read", lambda *_, **__: pytest.fail("read again"))
        assert load("cifar10", folder).digest == first.digest
    assert not list((home / "adaste").glob("*/"))
    alter_and_keep_the_time(folder / CACHE / first.digest / "train-images.npy")
    assert len(load("cifar10", folder).train) == 200
    assert (home / "adaste" / first.digest / MANIFEST).is_file()
    assert (folder / CACHE / first.digest / MANIFEST).is_file(), "it is not ours to remove"


def test_where_nothing_can_be_written_it_is_said_what_to_set(folder, tmp_path, monkeypatch):
    (folder / CACHE).write_text("a file in the place of the cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / CACHE))
    with pytest.raises(DataError, match=r"\.adaste-cache cannot be written, .*Not a directory.*set XDG_CACHE_HOME"):
        load("cifar10", folder)

    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr("pathlib.Path.home", homeless)
    with pytest.raises(DataError, match=r"Could not determine home.*set XDG_CACHE_HOME"):
        load("cifar10", folder)


def test_a_full_disk_is_an_error_and_leaves_nothing_behind(folder, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.posix_fallocate", full)
        with pytest.raises(NotWrittenError, match=r"could not write the cache .*\(No space left on device\)"):
            load("cifar10", folder)
    assert {path.suffix for path in (folder / CACHE).iterdir()} == {".digest"}
    assert len(load("cifar10", folder).train) == 200


def test_a_disk_that_does_not_keep_what_is_written_is_an_error(folder, monkeypatch):
    monkeypatch.setattr("adaste.data.loading.array_hash", lambda path: os.urandom(4).hex())
    with pytest.raises(DataError, match="read back differently"):
        load("cifar10", folder)


def test_many_readers_at_once_make_one_entry(folder):
    results = []
    threads = [threading.Thread(target=lambda: results.append(load("cifar10", folder))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({result.digest for result in results}) == 1 and len(results) == 6
    assert all(np.array_equal(result.train.images, results[0].train.images) for result in results)
    assert not list((folder / CACHE).glob(".*"))


def test_images_cannot_be_written_to(folder):
    dataset = load("cifar10", folder)
    with pytest.raises(ValueError, match="read-only"):
        dataset.train.images[0] = 0
    with pytest.raises(ValueError, match="read-only"):
        dataset.train.labels[0] = 0


def test_images_of_one_colour_have_a_deviation_one_can_divide_by(tmp_path):
    from support.archives import write_image

    for place in ("train/a", "train/b", "val/a", "val/b"):
        write_image(tmp_path / place / "1.png", np.full((8, 8, 3), 51, np.uint8))
    dataset = load("folder", tmp_path)
    assert dataset.mean == pytest.approx((0.2, 0.2, 0.2)) and dataset.std == (1.0, 1.0, 1.0)
