"""Damaged data: every error names the file and says what was expected."""

import gzip
import pickle
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaste.data import DataError, Dataset, Split, load
from adaste.data.cifar import read_dictionary
from adaste.data.mnist import read_idx
from support.archives import (
    write_cifar10,
    write_cifar100,
    write_class_folders,
    write_idx,
    write_mnist,
    write_tiny_imagenet,
)


@pytest.fixture
def binary(tmp_path):
    write_cifar10(tmp_path)
    return tmp_path / "cifar-10-batches-bin"


def test_a_binary_batch_that_is_cut_off_is_named(binary):
    path = binary / "data_batch_3.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"data_batch_3.bin must consist of records of 3073 bytes.*122,919 bytes"):
        load("cifar10", binary.parent)


def test_an_empty_batch_is_named(binary):
    (binary / "test_batch.bin").write_bytes(b"")
    with pytest.raises(DataError, match=r"test_batch.bin.*0 bytes"):
        load("cifar10", binary.parent)


def test_a_label_that_is_no_class_is_named(binary):
    path = binary / "data_batch_1.bin"
    path.write_bytes(b"\x0b" + path.read_bytes()[1:])
    with pytest.raises(DataError, match=r"data_batch_1.bin: labels must be 0 to 9 .*found 11"):
        load("cifar10", binary.parent)


def test_a_missing_batch_is_named_with_what_is_there(binary):
    (binary / "data_batch_2.bin").unlink()
    with pytest.raises(DataError, match=r"lacks data_batch_2.bin; found: batches.meta.txt, data_batch_1.bin"):
        load("cifar10", binary.parent)


def test_a_list_of_too_few_classes_is_named(binary):
    (binary / "batches.meta.txt").write_text("cat\ndog\n")
    with pytest.raises(DataError, match=r"batches.meta.txt must name 10 classes, found 2: cat, dog"):
        load("cifar10", binary.parent)


@pytest.fixture
def pickled(tmp_path):
    write_cifar100(tmp_path, layout="python")
    return tmp_path / "cifar-100-python" / "train"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": np.zeros((3, 5), np.uint8)}, r"'data' must be bytes of the shape \(n, 3072\), found \(3, 5\)"),
        ({"data": "text"}, "'data' must be bytes of the shape .*found str"),
        ({"data": np.zeros((200, 3072))}, "not of uint8"),
        ({"fine_labels": [1, 2]}, "one label per image is needed, found 2 for 200"),
        ({"fine_labels": [100] * 200}, "labels must be 0 to 99"),
        ({"fine_labels": [0.5] * 200}, "labels must be a list of whole numbers"),
        ({"fine_labels": [[1], [1, 2]]}, "not a list of whole numbers"),
        ({"fine_labels": None}, "labels must be a list of whole numbers"),
    ],
)
def test_pickles_with_other_content_are_named(pickled, change, message):
    content = {**read_dictionary(pickled), **change}
    pickled.write_bytes(pickle.dumps(content, protocol=2))
    with pytest.raises(DataError, match=f"train.*{message}"):
        load("cifar100", pickled.parent.parent)


def test_pickles_that_are_no_dictionaries_or_cannot_be_read_are_named(pickled):
    pickled.write_bytes(pickle.dumps([1, 2], protocol=2))
    with pytest.raises(DataError, match="train must hold a dictionary, found list"):
        load("cifar100", pickled.parent.parent)
    with pytest.raises(FileNotFoundError, match="nothing"):
        read_dictionary(pickled.with_name("nothing"))


def test_class_names_that_are_no_list_are_named(pickled):
    pickled.with_name("meta").write_bytes(pickle.dumps({"fine_label_names": "names"}, protocol=2))
    with pytest.raises(DataError, match="meta: 'fine_label_names' must be a list, found str"):
        load("cifar100", pickled.parent.parent)


def test_a_pickle_without_labels_lists_what_it_has(pickled):
    pickled.write_bytes(pickle.dumps({"data": np.zeros((1, 3072), np.uint8)}, protocol=2))
    with pytest.raises(DataError, match="has no entry 'fine_labels'; found: data"):
        load("cifar100", pickled.parent.parent)


@pytest.fixture
def idx(tmp_path):
    write_mnist(tmp_path, zipped=False)
    return tmp_path / "mnist"


def test_another_magic_number_is_named(idx):
    (idx / "train-images-idx3-ubyte").write_bytes(b"\x00\x00\x0d\x03" + bytes(100))
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte must begin with 0 0 8 3 .*found 0 0 13 3"):
        load("mnist", idx.parent)


def test_idx_files_that_are_too_short_or_too_long_are_named(idx):
    path = idx / "t10k-labels-idx1-ubyte"
    content = path.read_bytes()
    for changed, found in ((content[:-1], "99"), (content + b"x", "more"), (content[:4] + b"\xff" * 4, "0")):
        path.write_bytes(changed)
        with pytest.raises(DataError, match=f"t10k-labels-idx1-ubyte must hold .* found {found}"):
            load("mnist", idx.parent)


def test_a_wrong_number_of_labels_is_named(idx):
    write_idx(idx / "train-labels-idx1-ubyte", np.zeros(7), zipped=False)
    with pytest.raises(DataError, match=r"train-labels-idx1-ubyte has 7 labels, but .* has 200 images"):
        load("mnist", idx.parent)


def test_images_of_another_size_are_named(idx):
    write_idx(idx / "train-images-idx3-ubyte", np.zeros((200, 20, 20)), zipped=False)
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte must hold images of \(28, 28\), found \(20, 20\)"):
        load("mnist", idx.parent)


def test_truncated_and_false_compression_is_named(tmp_path):
    write_mnist(tmp_path)
    path = tmp_path / "mnist" / "train-images-idx3-ubyte.gz"
    for content in (path.read_bytes()[:500], b"not compressed", gzip.compress(b"")):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"train-images-idx3-ubyte.gz"):
            load("mnist", tmp_path)


def test_a_missing_idx_file_is_named(idx):
    (idx / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(
        DataError, match=r"lacks t10k-labels-idx1-ubyte or t10k-labels-idx1-ubyte.gz; found: t10k-images"
    ):
        load("mnist", idx.parent)


@settings(deadline=None, derandomize=True, max_examples=100)
@given(st.lists(st.integers(0, 5), min_size=3, max_size=3), st.booleans(), st.binary(max_size=3))
def test_idx_files_say_exactly_what_they_hold(tmp_path_factory, shape, zipped, extra):
    path = tmp_path_factory.mktemp("idx") / "file"
    values = np.arange(np.prod(shape)).reshape(shape)
    write_idx(path, values, zipped)
    path = path.with_name("file.gz") if zipped else path
    assert np.array_equal(read_idx(path, 3), values)
    if extra and not zipped:
        path.write_bytes(path.read_bytes() + extra)
        with pytest.raises(DataError):
            read_idx(path, 3)


@pytest.mark.parametrize(
    "damage", [lambda content: content[:150], lambda content: b"not an image", lambda content: b""]
)
@pytest.mark.parametrize("suffix", [".png", ".jpg", ".bmp", ".webp"])
def test_an_image_that_cannot_be_read_is_named_and_leaves_no_cache(tmp_path, damage, suffix):
    write_class_folders(tmp_path, suffix=suffix)
    path = tmp_path / "train" / "dog" / f"3{suffix}"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=f"train/dog/3{suffix} is not a readable image"):
        load("folder:32", tmp_path)
    assert {path.suffix for path in (tmp_path / ".adaste-cache").iterdir()} == {".digest"}


def test_own_images_in_another_layout_are_refused(tmp_path):
    write_class_folders(tmp_path)
    (tmp_path / "train" / "cat" / "notes.txt").write_text("")
    with pytest.raises(DataError, match=r"train/cat must hold images \(.png, .*found: notes.txt"):
        load("folder", tmp_path)
    (tmp_path / "train" / "cat" / "notes.txt").unlink()
    write_class_folders(tmp_path, classes=("bird",), train=0)
    with pytest.raises(DataError, match="classes to test that train/ does not have: bird"):
        load("folder", tmp_path)
    (tmp_path / "val").rename(tmp_path / "elsewhere")
    with pytest.raises(DataError, match=r"folder was not found .*val/<class>/.*found: .*train/"):
        load("folder", tmp_path)


def test_class_folders_without_classes_or_images_are_refused(tmp_path):
    (tmp_path / "train").mkdir()
    (tmp_path / "val").mkdir()
    with pytest.raises(DataError, match=r"train must hold one folder per class, two or more, .*; found: nothing"):
        load("folder", tmp_path)
    (tmp_path / "train" / "cat").mkdir()
    with pytest.raises(DataError, match=r"train must hold one folder per class, two or more, .*; found: cat/$"):
        load("folder", tmp_path)
    (tmp_path / "train" / "dog").mkdir()
    with pytest.raises(DataError, match="train/cat must hold images"):
        load("folder", tmp_path)
    write_class_folders(tmp_path, test=0)
    with pytest.raises(DataError, match="val must hold one folder per class; found: nothing"):
        load("folder", tmp_path)


def test_classes_of_ones_own_that_are_not_tested_are_named(tmp_path, caplog):
    write_class_folders(tmp_path, classes=("cat", "dog", "emu"))
    load("folder", tmp_path)
    assert not caplog.records
    shutil.rmtree(tmp_path / "val" / "cat")
    shutil.rmtree(tmp_path / "val" / "emu")
    for _ in range(2):  # also where the images were decoded before
        caplog.clear()
        load("folder", tmp_path)
        assert caplog.messages == [f"{tmp_path} has no images to test these classes with: cat, emu"]


@pytest.fixture
def tiny(tmp_path):
    return write_tiny_imagenet(tmp_path)


def test_test_images_and_their_labels_must_agree(tiny):
    annotations = tiny / "val" / "val_annotations.txt"
    annotations.write_text("".join(annotations.read_text().splitlines(keepends=True)[1:]))
    with pytest.raises(DataError, match=r"val_annotations.txt must label every image.*5 labels, 6 images.*val_12.JPEG"):
        load("tiny-imagenet", tiny.parent)


@pytest.mark.parametrize("line", ["val_12.JPEG\tn77777777\t0", "val_12.JPEG"])
def test_labels_of_no_class_are_named_with_their_line(tiny, line):
    annotations = tiny / "val" / "val_annotations.txt"
    annotations.write_text(annotations.read_text() + line + "\n")
    with pytest.raises(DataError, match=r"val_annotations.txt, line 7: expected .* got 'val_12.JPEG"):
        load("tiny-imagenet", tiny.parent)


def test_a_missing_class_or_list_is_named(tiny):
    (tiny / "train" / "n00000001").rename(tiny / "elsewhere")
    with pytest.raises(DataError, match=r"n00000001/images is missing"):
        load("tiny-imagenet", tiny.parent)
    (tiny / "wnids.txt").write_text("")
    with pytest.raises(DataError, match=r"wnids.txt must list the classes"):
        load("tiny-imagenet", tiny.parent)
    (tiny / "words.txt").unlink()
    with pytest.raises(DataError, match=r"lacks words.txt; found: .*train/"):
        load("tiny-imagenet", tiny.parent)


def test_splits_and_data_sets_are_checked_when_made():
    images, labels = np.zeros((2, 4, 4, 3), np.uint8), np.zeros(2, np.int64)
    split = Split(images, labels)
    with pytest.raises(ValueError, match="images must be uint8"):
        Split(images.astype(float), labels)
    with pytest.raises(ValueError, match="labels must be int64, one for each of 2 images"):
        Split(images, labels[:1])
    with pytest.raises(ValueError, match="must have one shape"):
        Dataset("a", ("x",), split, Split(np.zeros((2, 5, 5, 3), np.uint8), labels), (0,) * 3, (1,) * 3, "")
    with pytest.raises(ValueError, match="one value for each of 3 channels"):
        Dataset("a", ("x",), split, split, (0.0,), (1.0,), "")
    with pytest.raises(ValueError, match=r"labels of test must be 0 to 1 \(2 classes\), got 0 to 2"):
        Dataset("a", ("x", "y"), split, Split(images, np.array([0, 2])), (0.0,) * 3, (1.0,) * 3, "")
    with pytest.raises(ValueError, match=r"labels of train must be 0 to 1 \(2 classes\), got -1 to 1"):
        Dataset("a", ("x", "y"), Split(images, np.array([1, -1])), split, (0.0,) * 3, (1.0,) * 3, "")
    with pytest.raises(ValueError, match="test must hold at least one image"):
        Dataset("a", ("x",), split, Split(images[:0], labels[:0]), (0.0,) * 3, (1.0,) * 3, "")
