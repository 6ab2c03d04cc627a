import struct

import numpy as np
import pytest
from adaste_runtime.pictures import read_images

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def picture(tmp_path):
    """The path of an array that was saved as a picture."""

    def saved(array, name="picture.png"):
        Image.fromarray(array).save(tmp_path / name)
        return tmp_path / name

    return saved


def test_grey_of_16_bits_is_the_same_as_of_8(picture):
    grey = np.arange(48, dtype=np.uint8).reshape(6, 8) * 5
    for shape in ((1, 6, 8), (3, 6, 8)):
        found = read_images(picture(grey.astype(np.uint16) * 257), shape)
        np.testing.assert_array_equal(found, read_images(picture(grey), shape))
        np.testing.assert_array_equal(found[0, :, :, 0], grey)


@pytest.mark.parametrize("size", [(8, 8), (8, 20), (20, 8)])
def test_the_middle_is_kept_and_nothing_is_squeezed(picture, size):
    grey = np.zeros(size, np.uint8)
    top, left = (size[0] - 8) // 2, (size[1] - 8) // 2
    middle = np.arange(64, dtype=np.uint8).reshape(8, 8) * 3
    grey[top : top + 8, left : left + 8] = middle
    np.testing.assert_array_equal(read_images(picture(grey), (1, 8, 8))[0, :, :, 0], middle)


@pytest.mark.parametrize("shape", [(3, 5, 9), (3, 9, 5), (1, 7, 7)])
@pytest.mark.parametrize("size", [(3, 11), (11, 3), (1, 1), (40, 23)])
def test_pictures_of_all_sizes_get_that_of_the_input(picture, shape, size):
    found = read_images(picture(np.full((*size, 3), 200, np.uint8)), shape)
    np.testing.assert_array_equal(found, np.full((1, *shape[1:], shape[0]), 200))


UPRIGHT = {
    1: lambda grey: grey,
    2: np.fliplr,
    3: lambda grey: np.rot90(grey, 2),
    4: np.flipud,
    5: np.transpose,
    6: lambda grey: np.rot90(grey, -1),
    7: lambda grey: np.rot90(grey, 2).T,
    8: np.rot90,
}
"""What is done with the pixels of a file whose EXIF data say this orientation."""


@pytest.mark.parametrize("suffix", [".png", ".webp", ".tiff"])
@pytest.mark.parametrize("orientation", UPRIGHT)
def test_pictures_are_turned_upright_as_their_exif_data_say(tmp_path, suffix, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    grey = np.arange(24, dtype=np.uint8).reshape(4, 6) * 10
    path = tmp_path / f"picture{suffix}"
    options = {".webp": {"lossless": True}, ".tiff": {"compression": "tiff_lzw"}}.get(suffix, {})
    Image.fromarray(grey).save(path, exif=exif, **options)
    expected = UPRIGHT[orientation](grey)
    np.testing.assert_array_equal(read_images(path, (1, *expected.shape))[0, :, :, 0], expected)


def test_grey_of_16_bits_is_turned_too(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    grey = np.arange(24, dtype=np.uint8).reshape(4, 6) * 10
    Image.fromarray(grey.astype(np.uint16) * 257).save(tmp_path / "picture.png", exif=exif)
    found = read_images(tmp_path / "picture.png", (1, 6, 4))
    np.testing.assert_array_equal(found[0, :, :, 0], UPRIGHT[6](grey))


@pytest.mark.parametrize("exif", [b"Exif\0\0no TIFF", b"Exif\0\0MM\0*\0\0\0"], ids=["nonsense", "cut off"])
def test_exif_data_that_cannot_be_read_turn_nothing(tmp_path, exif):
    grey = np.arange(24, dtype=np.uint8).reshape(4, 6) * 10
    Image.fromarray(grey).save(tmp_path / "picture.png", exif=exif)
    np.testing.assert_array_equal(read_images(tmp_path / "picture.png", (1, 4, 6))[0, :, :, 0], grey)


def test_odd_values_elsewhere_in_the_exif_data_do_not_matter(tmp_path):
    orientation = struct.pack(">HHIHH", 0x0112, 3, 1, 6, 0)
    unit = struct.pack(">HHI4s", 0x0128, 2, 2, b"x")  # a text where a number belongs
    exif = b"Exif\0\0MM\0*" + struct.pack(">IH", 8, 2) + orientation + unit + bytes(4)
    grey = np.arange(24, dtype=np.uint8).reshape(4, 6) * 10
    Image.fromarray(grey).save(tmp_path / "picture.png", exif=exif)
    found = read_images(tmp_path / "picture.png", (1, 6, 4))
    np.testing.assert_array_equal(found[0, :, :, 0], UPRIGHT[6](grey))


def test_real_pixels_are_refused(picture):
    with pytest.raises(ValueError, match=r"real\.tiff is no picture that can be read: its pixels are real numbers"):
        read_images(picture(np.ones((4, 4), np.float32), "real.tiff"), (1, 4, 4))


@pytest.mark.parametrize("name", ["cut.png", "cut.jpg"])
def test_a_picture_that_is_cut_off_is_named(picture, name):
    path = picture(np.random.default_rng(0).integers(0, 256, (40, 40, 3), np.uint8), name)
    path.write_bytes(path.read_bytes()[:700])
    with pytest.raises(ValueError, match=f"{name} is no picture that can be read"):
        read_images(path, (3, 40, 40))


@pytest.mark.parametrize(
    "error, reason",
    [(RuntimeError("Decoding of color planes failed"), "Decoding of color"), (MemoryError(), "MemoryError")],
)
def test_whatever_a_decoder_raises_the_picture_is_named(picture, monkeypatch, error, reason):
    def fail(*_):
        raise error

    monkeypatch.setattr(Image.Image, "convert", fail)
    with pytest.raises(ValueError, match=rf"picture\.png is no picture that can be read: {reason}"):
        read_images(picture(np.zeros((4, 4, 3), np.uint8)), (3, 4, 4))


def test_pictures_have_one_or_three_channels(picture):
    with pytest.raises(
        ValueError, match=r"picture\.png: the network takes images of 4 channels, pictures have 1 or 3: use \.npy"
    ):
        read_images(picture(np.zeros((4, 4, 4), np.uint8)), (4, 4, 4))
