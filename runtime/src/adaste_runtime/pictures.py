"""Images from files, as a network takes them."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def read_images(path: Path, shape: tuple[int, int, int]) -> NDArray[Any]:
    """The images in a file: a .npy array of one or many, or a picture, which is scaled to the size of the input."""
    return _array(path, shape) if path.suffix == ".npy" else _picture(path, shape)


def _array(path: Path, shape: tuple[int, int, int]) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is no array: {error}") from None
    return array[None] if array.ndim == len(shape) else array


def _picture(path: Path, shape: tuple[int, int, int]) -> NDArray[Any]:
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise ValueError(
            f"pictures need Pillow (pip install adaste-runtime[images]); without it {path} must be .npy"
        ) from None
    channels, height, width = shape
    modes = {1: "L", 3: "RGB"}
    if channels not in modes:
        raise ValueError(f"the network takes images of {channels} channels, pictures have 1 or 3: use .npy")
    try:
        with Image.open(path) as picture:
            scaled = picture.convert(modes[channels]).resize((width, height), Image.Resampling.BILINEAR)
    except (UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise ValueError(f"{path} is no picture that can be read: {error}") from None
    return np.asarray(scaled, np.uint8).reshape(1, height, width, channels)
