"""Image files to square arrays of bytes, many at a time.

Decoding runs in a few threads. Pillow gives up the interpreter lock inside its decoders and resizing, so that two
threads decode photographs of 320 pixels twice as fast (as two processes do). Pictures of 64 pixels take 0.3 ms and gain
nothing, and many threads would only wait for each other. Two processes would halve that, but they would ask every
script that loads data for a main guard, and all this happens once.
"""

import os
import struct
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image

from adaste.data.messages import DataError, bar

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
FORMATS = ("PNG", "JPEG", "BMP", "WEBP")
AT_A_TIME = 64
MOST_THREADS = 4

DECODING = 2
"""Part of the digest of all data sets of image files: to be raised when the same files become other pixels.

2: images are turned upright.
"""

TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""What makes an image upright, by the orientation in its EXIF data; 1 is upright."""

T = TypeVar("T")


def fill_squares(paths: Sequence[Path], side: int, progress: bool, images: NDArray[np.uint8]) -> None:
    """Decode every file into its row of `images`, (n, side, side, 3)."""

    def decode(start: int) -> int:
        for place, path in enumerate(paths[start : start + AT_A_TIME], start):
            images[place] = read_square(path, side)
        return min(AT_A_TIME, len(paths) - start)

    with bar("decoding images", len(paths), shown=progress) as show:
        done = 0
        for count in _map_in_threads(decode, range(0, len(paths), AT_A_TIME)):
            done += count
            show(done)


def read_square(path: Path, side: int) -> NDArray[np.uint8]:
    """Return an image as (side, side, 3) bytes: upright, the shorter side resized, the middle of the longer one kept."""
    with _open_image(path) as image:
        colour = _to_bytes(_turn_upright(image)).convert("RGB")
        width, height = colour.size
        if (width, height) != (side, side):
            scale = side / min(width, height)
            size = (max(side, round(width * scale)), max(side, round(height * scale)))
            left, top = (size[0] - side) // 2, (size[1] - side) // 2
            colour = colour.resize(size, Image.Resampling.BILINEAR).crop((left, top, left + side, top + side))
        return np.asarray(colour)


def common_square(paths: Sequence[Path]) -> int | None:
    """Return the side of all images if they are squares of one size, else None."""

    def sizes(start: int) -> set[tuple[int, int]]:
        return {_size(path) for path in paths[start : start + AT_A_TIME]}

    found = set().union(*_map_in_threads(sizes, range(0, len(paths), AT_A_TIME)))
    width, height = found.pop() if len(found) == 1 else (0, -1)
    return width if width == height else None


def _turn_upright(image: Image.Image) -> Image.Image:
    """Turned as its EXIF data say, if they can be read.

    ImageOps.exif_transpose also writes these data anew, and fails where they hold something odd.
    """
    image.load()  # damaged pixels are an error, damaged EXIF data none
    try:
        turn = TURNS.get(image.getexif().get(ExifTags.Base.Orientation, 1))
    except (SyntaxError, struct.error):
        return image
    return image if turn is None else image.transpose(turn)


def _to_bytes(image: Image.Image) -> Image.Image:
    """Turn grey of 16 bits into 8: Pillow would make all above 255 white. (In colour it takes the upper 8 itself.)"""
    if image.mode.startswith("I"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    return image


def _size(path: Path) -> tuple[int, int]:
    with _open_image(path) as image:
        return image.size


@contextmanager
def _open_image(path: Path) -> Iterator[Image.Image]:
    """Open an image file; every error of Pillow about damage becomes one that names the file."""
    try:
        with Image.open(path, formats=FORMATS) as image:
            yield image
    except FileNotFoundError:
        raise DataError(f"{path} is missing") from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"{path} is not a readable image ({', '.join(FORMATS)} were tried): {error}") from error


def _map_in_threads(work: Callable[[int], T], starts: Sequence[int]) -> Iterator[T]:
    """Yield the results of `work`, in threads, as they are done. The first error cancels all that has not begun."""
    with ThreadPoolExecutor(max_workers=min(MOST_THREADS, os.cpu_count() or 1)) as pool:
        pending = [pool.submit(work, start) for start in starts]
        try:
            for future in as_completed(pending):
                yield future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
