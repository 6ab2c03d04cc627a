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
