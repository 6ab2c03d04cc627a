"""Images from files, as a network takes them."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

MODES = {1: "L", 3: "RGB"}
"""What pictures are for networks of so many channels."""

TURNS = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
"""What makes a picture upright, by the orientation in its EXIF data; 1 is upright."""

DAMAGE = (OSError, SyntaxError, ValueError, RuntimeError, MemoryError)
"""What Pillow raises for files that are damaged; its decoders do not agree on one."""


def read_images(path: Path, shape: tuple[int, int, int]) -> NDArray[Any]:
    """The images in a file: a .npy array of one or many, or a picture, brought to the size of the input.

    A picture is treated as `adaste` treats those of a folder it trains on: turned upright as its EXIF data say, scaled
    so that it just covers the input, and its middle kept.
    """
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file")
    return _array(path, shape) if path.suffix == ".npy" else _picture(path, shape)


def _array(path: Path, shape: tuple[int, int, int]) -> NDArray[Any]:
    try:
        with path.open("rb") as file:
            array: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
    except (ValueError, EOFError, MemoryError) as error:
        raise ValueError(f"{path} is no array that can be read: {error}") from None
    return array[None] if array.ndim == len(shape) else array


def _picture(path: Path, shape: tuple[int, int, int]) -> NDArray[Any]:
    try:
        from PIL import Image
    except ImportError:
        raise ValueError(
            f"pictures need Pillow (pip install 'adaste-runtime[images]'); without it {path} must be .npy"
        ) from None
    channels, height, width = shape
    if channels not in MODES:
        raise ValueError(f"{path}: the network takes images of {channels} channels, pictures have 1 or 3: use .npy")
    try:
        with Image.open(path) as picture:
            scaled = _covering(_of_bytes(_upright(picture)).convert(MODES[channels]), width, height)
    except (*DAMAGE, Image.DecompressionBombError) as error:
        raise ValueError(f"{path} is no picture that can be read: {str(error) or type(error).__name__}") from None
    return np.asarray(scaled, np.uint8).reshape(1, height, width, channels)


def _upright(picture: Picture) -> Picture:
    """Turned as its EXIF data say, if they can be read.

    ImageOps.exif_transpose also writes these data anew, and fails where they hold something odd.
    """
    from PIL import ExifTags, Image

    picture.load()  # damaged pixels are an error, damaged EXIF data none; TIFF is turned by this, and is 1 then
    try:
        turn = TURNS.get(picture.getexif().get(ExifTags.Base.Orientation, 1))
    except (SyntaxError, struct.error):
        return picture
    return picture.transpose(Image.Transpose[turn]) if turn else picture


def _of_bytes(picture: Picture) -> Picture:
    """Grey of 16 bits as 8: Pillow would make everything above 255 white. (In colour it takes the upper 8 itself.)"""
    from PIL import Image

    if picture.mode == "F":
        raise ValueError("its pixels are real numbers, of which nobody knows what is white; use .npy")
    if not picture.mode.startswith("I"):
        return picture
    return Image.fromarray((np.asarray(picture) >> 8).clip(0, 255).astype(np.uint8))


def _covering(picture: Picture, width: int, height: int) -> Picture:
    """The middle of the picture, which is scaled so that it just covers this size."""
    from PIL import Image

    if picture.size == (width, height):
        return picture
    scale = max(width / picture.width, height / picture.height)
    size = max(width, round(picture.width * scale)), max(height, round(picture.height * scale))
    left, top = (size[0] - width) // 2, (size[1] - height) // 2
    return picture.resize(size, Image.Resampling.BILINEAR).crop((left, top, left + width, top + height))
