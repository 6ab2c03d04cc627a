"""Every data set, from the files of its publisher to arrays."""

import logging
import shutil
import struct
from functools import partial

import numpy as np
import pytest
from PIL import Image

from adaste.data import SOURCES, DataError, available, data_folder, find_source, load, subset
from adaste.data.folders import read_square
from adaste.data.loading import CACHE
from support.archives import (
    CIFAR10_NAMES,
    CIFAR100_NAMES,
    images_and_labels,
    write_cifar10,
    write_cifar100,
    write_class_folders,
    write_image,
    write_imagenette,
    write_mnist,
    write_tiny_imagenet,
)

WRITERS = {
    "cifar10": partial(write_cifar10, train=50, test=20),
    "cifar100": partial(write_cifar100, train=50, test=20),
    "tiny-imagenet": write_tiny_imagenet,
    "imagenette": write_imagenette,
    "mnist": write_mnist,
    "fashion-mnist": partial(write_mnist, name="fashion-mnist"),
    "folder": write_class_folders,
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_data_set_keeps_the_promises_of_its_types(name, tmp_path):
    if name in WRITERS:
        WRITERS[name](tmp_path)
    dataset = load(name, tmp_path)
    assert dataset.name == name
    for split in (dataset.train, dataset.test):
        assert split.images.dtype == np.uint8 and split.labels.dtype == np.int64
        assert len(split) == len(split.images) == len(split.labels) > 0
        assert not split.images.flags.writeable and not split.labels.flags.writeable
        assert split.labels.min() >= 0 and split.labels.max() < len(dataset.classes)
    source = SOURCES[name]
    assert source.size in (None, dataset.train.images.shape[1:])
    assert len(dataset.mean) == len(dataset.std) == dataset.train.images.shape[-1]
    assert all(0 <= value <= 1 for value in (*dataset.mean, *dataset.std))
    assert source.mean in (None, dataset.mean)
    assert (tmp_path / CACHE / dataset.digest).is_dir()


@pytest.mark.parametrize("layout", ["binary", "python"])
@pytest.mark.parametrize("archive", [False, True])
@pytest.mark.parametrize(
    ("name", "write", "classes"),
    [("cifar10", write_cifar10, CIFAR10_NAMES), ("cifar100", write_cifar100, CIFAR100_NAMES)],
)
def test_cifar_is_read_alike_from_both_layouts_packed_or_not(tmp_path, name, write, classes, layout, archive):
    images, labels = write(tmp_path, layout=layout, archive=archive)
    dataset = load(name, tmp_path)
    assert np.array_equal(dataset.train.images, images)
    assert np.array_equal(dataset.train.labels, labels)
    assert dataset.classes == classes
    assert len(dataset.test) == 100


def test_the_digest_is_that_of_the_content_not_of_its_place_or_time(tmp_path):
    write_cifar10(tmp_path / "a")
    write_cifar10(tmp_path / "b", archive=True)
    write_cifar10(tmp_path / "c", train=100)
    digests = [load("cifar10", tmp_path / folder).digest for folder in "abc"]
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_idx_files_are_read_compressed_or_not(tmp_path, name, zipped):
    images, labels = write_mnist(tmp_path, name=name, zipped=zipped)
    dataset = load(name, tmp_path)
    assert np.array_equal(dataset.train.images, images) and dataset.train.images.shape[1:] == (28, 28, 1)
    assert np.array_equal(dataset.train.labels, labels)


def test_mnist_lies_also_where_torchvision_puts_it(tmp_path):
    write_mnist(tmp_path)
    (tmp_path / "MNIST").mkdir()
    (tmp_path / "mnist").rename(tmp_path / "MNIST" / "raw")
    assert len(load("mnist", tmp_path).train) == 200
    with pytest.raises(DataError, match="fashion-mnist was not found"):
        load("fashion-mnist", tmp_path)


@pytest.mark.parametrize("archive", [False, True])
def test_tiny_imagenet_tests_with_val_and_turns_grey_into_colour(tmp_path, archive):
    write_tiny_imagenet(tmp_path, archive=archive)
    dataset = load("tiny-imagenet", tmp_path)
    assert dataset.classes == tuple(f"word n{number:08d}" for number in range(3))
    assert dataset.train.labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert sorted(dataset.test.labels.tolist()) == [0, 0, 1, 1, 2, 2]
    grey = dataset.train.images[0]
    assert np.array_equal(grey[..., 0], grey[..., 1]) and np.array_equal(grey[..., 0], grey[..., 2])
    # Classes differ by colour: the label of a test image is that of the nearest class of training.
    colours = np.stack(
        [dataset.train.images[dataset.train.labels == label][1:].mean(axis=(0, 1, 2)) for label in range(3)]
    )
    nearest = np.abs(dataset.test.images.mean(axis=(1, 2))[:, None] - colours).sum(axis=2).argmin(axis=1)
    assert np.array_equal(nearest, dataset.test.labels)


@pytest.mark.parametrize("size", ["imagenette2", "imagenette2-160", "imagenette2-320"])
@pytest.mark.parametrize("archive", [False, True])
def test_imagenette_of_any_size_becomes_squares_of_256(tmp_path, size, archive):
    write_imagenette(tmp_path, name=size, archive=archive)
    dataset = load("imagenette", tmp_path)
    assert dataset.train.images.shape == (8, 256, 256, 3)
    assert dataset.classes == ("tench", "parachute")


def test_digits_are_split_as_the_demonstration_splits_them(tmp_path):
    datasets = pytest.importorskip("sklearn.datasets")
    from sklearn.model_selection import train_test_split

    images, labels = datasets.load_digits(return_X_y=True)
    train, test, train_labels, test_labels = train_test_split(
        images, labels, test_size=500, stratify=labels, random_state=0
    )
    dataset = load("digits", tmp_path)
    for split, pixels, expected in ((dataset.train, train, train_labels), (dataset.test, test, test_labels)):
        assert np.array_equal(split.labels, expected)
        assert np.array_equal(np.round(split.images / 255 * 16).reshape(len(pixels), -1), pixels)
    values = dataset.train.images / 255
    assert dataset.mean == pytest.approx((values.mean(),)) and dataset.std == pytest.approx((values.std(),))


def test_digits_without_scikit_learn_say_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DataError, match=r"scikit-learn.*pip install '\.\[demo\]' in a checkout"):
        load("digits", tmp_path)


def test_digits_need_no_data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    dataset = load("digits", tmp_path / "none")
    assert (tmp_path / "cache" / "adaste" / dataset.digest).is_dir()
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("given", "size", "side"), [("folder", (40, 30), 64), ("folder", (48, 48), 48), ("folder:96", (48, 48), 96)]
)
def test_own_images_keep_a_common_square_or_become_the_chosen_one(tmp_path, given, size, side):
    write_class_folders(tmp_path, size=size)
    dataset = load(given, tmp_path)
    assert dataset.train.images.shape == (8, side, side, 3)
    assert dataset.classes == ("cat", "dog")
    values = dataset.train.images / 255
    assert dataset.mean == pytest.approx(values.mean(axis=(0, 1, 2)))
    assert dataset.std == pytest.approx(values.std(axis=(0, 1, 2)))


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".jpeg", ".bmp", ".webp", ".PNG"])
def test_own_images_may_be_of_any_common_kind_and_test_with_test(tmp_path, suffix):
    write_class_folders(tmp_path, suffix=suffix, test_folder="test")
    (tmp_path / "train" / "cat" / ".hidden").write_bytes(b"")
    assert len(load("folder", tmp_path).test) == 4


def test_square_images_of_their_own_size_are_kept_pixel_by_pixel(tmp_path):
    write_class_folders(tmp_path, size=(32, 32))
    images, labels = images_and_labels(8, 2, 32, seed=4)
    dataset = load("folder", tmp_path)
    assert np.array_equal(dataset.train.images, images[np.argsort(labels, kind="stable")])


def test_grey_of_16_bits_keeps_its_upper_8(tmp_path):
    levels = np.arange(64, dtype=np.uint16).reshape(8, 8) * 1000
    for place in ("train/a", "train/b", "val/a", "val/b"):
        write_image(tmp_path / place / "1.png", levels)
    images = load("folder", tmp_path).train.images
    assert np.array_equal(images[0], np.repeat((levels // 256)[..., np.newaxis], 3, axis=-1))


UPRIGHT = {
    1: lambda image: image,
    2: np.fliplr,
    3: lambda image: np.rot90(image, 2),
    4: np.flipud,
    5: lambda image: image.swapaxes(0, 1),
    6: lambda image: np.rot90(image, -1),
    7: lambda image: np.rot90(image, 2).swapaxes(0, 1),
    8: np.rot90,
    9: lambda image: image,
}
"""What is done with the pixels of a file whose EXIF data say this orientation."""


@pytest.mark.parametrize("orientation", UPRIGHT)
def test_images_are_turned_upright_as_their_exif_data_say(tmp_path, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    image = images_and_labels(1, 1, 8)[0][0]
    Image.fromarray(image).save(tmp_path / "image.png", exif=exif)
    assert np.array_equal(read_square(tmp_path / "image.png", 8), UPRIGHT[orientation](image))


def test_exif_data_that_cannot_be_read_turn_nothing(tmp_path):
    image = images_and_labels(1, 1, 8)[0][0]
    for exif in (b"Exif\0\0no TIFF", b"Exif\0\0MM\0*\0\0\0"):
        Image.fromarray(image).save(tmp_path / "image.png", exif=exif)
        assert np.array_equal(read_square(tmp_path / "image.png", 8), image)


def test_odd_values_elsewhere_in_the_exif_data_do_not_matter(tmp_path):
    orientation = struct.pack(">HHIHH", 0x0112, 3, 1, 6, 0)
    unit = struct.pack(">HHI4s", 0x0128, 2, 2, b"x")  # a text where a number belongs
    exif = b"Exif\0\0MM\0*" + struct.pack(">IH", 8, 2) + orientation + unit + bytes(4)
    image = images_and_labels(1, 1, 8)[0][0]
    Image.fromarray(image).save(tmp_path / "image.png", exif=exif)
    assert np.array_equal(read_square(tmp_path / "image.png", 8), UPRIGHT[6](image))


def test_the_folder_may_be_that_of_the_data_set_itself(tmp_path):
    write_cifar10(tmp_path)
    assert len(load("cifar10", tmp_path / "cifar-10-batches-bin").train) == 200


def test_the_folder_comes_from_the_argument_the_environment_or_is_data(tmp_path, monkeypatch):
    monkeypatch.delenv("ADASTE_DATA", raising=False)
    assert data_folder().as_posix() == "data"
    monkeypatch.setenv("ADASTE_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    assert data_folder(tmp_path / "other") == tmp_path / "other"
    write_cifar10(tmp_path)
    assert len(load("cifar10").train) == 200


def test_available_tells_folders_archives_and_nothing_apart(tmp_path):
    write_cifar10(tmp_path, archive=True)
    write_mnist(tmp_path)
    found = {source.name: place for source, place in available(tmp_path)}
    assert list(found) == list(SOURCES)
    assert found["cifar10"] == tmp_path / "cifar-10-binary.tar.gz"
    assert found["mnist"] == tmp_path / "mnist"
    assert found["cifar100"] is None and found["folder"] is None
    assert [source for source, _ in available(tmp_path / "none")] == list(SOURCES.values())


def test_an_empty_folder_as_a_failed_download_leaves_it_is_not_taken_for_the_data(tmp_path):
    (tmp_path / "mnist").mkdir()
    assert {source.name: place for source, place in available(tmp_path)}["mnist"] is None
    with pytest.raises(DataError, match=r"mnist was not found in .*data get mnist"):
        load("mnist", tmp_path)


def test_the_numbers_of_images_are_reported(tmp_path, caplog, capsys):
    write_cifar10(tmp_path)
    with caplog.at_level(logging.INFO, "adaste.data"):
        load("cifar10", tmp_path, progress=True)
    line = (
        "cifar10: 200 (published: 50,000) training and 100 (published: 10,000) test images of 32 x 32 x 3, 10 classes"
    )
    assert line in caplog.text
    assert line in capsys.readouterr().err.replace("\n", " ").replace("  ", " ")


def test_missing_data_says_what_is_expected_what_is_there_and_how_to_get_it(tmp_path):
    (tmp_path / "something").mkdir()
    with pytest.raises(
        DataError, match=r"cifar-10-batches-bin/ or cifar-10-binary.tar.gz.*something/.*data get cifar10"
    ):
        load("cifar10", tmp_path)
    with pytest.raises(DataError, match="no such folder"):
        load("cifar10", tmp_path / "none")


@pytest.mark.parametrize("name", ["cifar", "folder:", "folder:x", "folder:4", "folder:99999", "cifar10:96"])
def test_other_names_are_refused(name, tmp_path):
    with pytest.raises(DataError, match=name):
        find_source(name)


def test_a_subset_has_the_chosen_images_and_is_a_copy(tmp_path):
    write_cifar10(tmp_path)
    train = load("cifar10", tmp_path).train
    chosen = subset(train, [5, 3])
    assert np.array_equal(chosen.images, train.images[[5, 3]]) and chosen.labels.tolist() == [5, 3]
    assert len(subset(train, train.labels == 2)) == 20
    shutil.rmtree(tmp_path)
    assert chosen.images.sum() > 0
